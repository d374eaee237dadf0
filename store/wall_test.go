package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// A wall clock that was ahead, and is set right, brings no lease back, and does not
// put off what was planned meanwhile.
func TestAClockThatIsSetBackLengthensNothing(t *testing.T) {
	for _, l := range kindsOf(100, time.Second) {
		for _, at := range []time.Duration{0, 2 * time.Second} { // then exchanges have failed, and are put off
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				var cut atomic.Bool
				s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), fate: func() fate {
					if cut.Load() {
						return lost
					}
					return arrives
				}}})
				defer s.Close()
				s.SetWall(func() time.Duration { return time.Duration(ahead.Load()) })
				sh := share(t, s, l)
				ready := func() bool { return sh.Wait(time.Now(), "", 1) == 0 }
				ready()
				ahead.Store(int64(10 * time.Minute))
				time.Sleep(l.Per)
				ready()
				time.Sleep(l.Per / 100)
				if !ready() {
					t.Fatalf("%s: nothing was granted", l.Kind)
				}
				cut.Store(true)
				time.Sleep(at)
				ahead.Store(0)
				time.Sleep(l.Per + l.Per/100)
				if ready() {
					t.Errorf("%s, set back after %v: a permit of more than a Per ago", l.Kind, at)
				}
				cut.Store(false)
				for start := time.Now(); !ready(); time.Sleep(l.Per / 100) {
					if time.Since(start) > 5*time.Second {
						t.Fatalf("%s, set back after %v: nothing is granted any more", l.Kind, at)
					}
				}
			})
		}
	}
}

// A machine sleeps, which only the wall clock sees: also one whose wall clock had been set
// back before, or ahead by mistake and back again.
func TestNoLeaseOutlivesASleepAfterTheClockWasSet(t *testing.T) {
	for _, l := range kindsOf(100, time.Second) {
		for _, before := range [][]time.Duration{{0}, {-time.Minute}, {time.Hour, 0}} {
			t.Run(fmt.Sprint(l.Kind, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var cut atomic.Bool
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), fate: func() fate {
						if cut.Load() {
							return lost
						}
						return arrives
					}}})
					defer s.Close()
					sh := share(t, s, l)
					ready := func() bool { return sh.Wait(time.Now(), "", 1) == 0 }
					wall := time.Duration(0)
					set := func(to time.Duration) { wall = to; s.SetWall(func() time.Duration { return to }) }
					for _, to := range before {
						set(to)
						ready()
						time.Sleep(10 * time.Second)
					}
					ready()
					if synctest.Wait(); !ready() {
						t.Fatal("nothing was granted")
					}
					cut.Store(true)
					if set(wall + 30*time.Second); ready() {
						t.Error("a permit of half a minute ago")
					}
				})
			})
		}
	}
}
