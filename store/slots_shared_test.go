package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// No slot is left with a node that may not use it, whichever came first, and however
// seldom they ask.
func TestNoSlotIsStranded(t *testing.T) {
	for _, most := range []int{1, 2, 5, 6, 7, 8} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			var running, seen atomic.Int64
			end := time.Now().Add(20 * time.Second)
			var wg sync.WaitGroup
			var syncers []*store.Syncer
			for range 3 {
				s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Millisecond }}})
				syncers = append(syncers, s)
				slots, err := s.Slots(store.SlotsConfig{Name: "acme", Max: most})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(7 * time.Millisecond) // one after the other: the first has all
				owner(&wg, slots, end, func(done func()) {
					seen.Store(max(seen.Load(), running.Add(1)))
					time.AfterFunc(100*time.Millisecond, func() { running.Add(-1); done() })
				})
			}
			for second := range 15 {
				seen.Store(running.Load())
				time.Sleep(time.Second)
				if n := seen.Load(); n != int64(most) && second > 1 {
					t.Fatalf("in second %d at most %d of %d slots were used at once", second, n, most)
				}
			}
			wg.Wait()
			for _, s := range syncers {
				s.Close()
			}
		})
	}
}

// What was given under an earlier Max is no more than the one that counts now.
func TestSlotsMadeAnewWithASmallerMaxKeepToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		atOnce := func(most int) (n int) {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: most})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for range 100 {
				for l.Claim(time.Now(), "", 1) == 0 {
					n++
				}
				time.Sleep(5 * time.Millisecond)
			}
			for range n {
				l.Release(time.Now(), "", 1)
			}
			return n
		}
		for _, most := range []int{10, 2, 7} {
			if n := atOnce(most); n != most {
				t.Errorf("%d slots are taken of a Max of %d", n, most)
			}
		}
	})
}

// Each of three processes has a call run, one after the other, and so would keep its slot
// for ever.
func TestALoweredMaxIsKeptWhoeverHoldsTheSlots(t *testing.T) {
	for _, lowered := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			var all []*store.Slots
			for range 3 {
				s := syncer(t, store.SyncerConfig{Store: m})
				defer s.Close()
				l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 10})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				all = append(all, l)
			}
			begun := make([]time.Time, len(all))
			lower, late := time.Now().Add(10*time.Second), time.Now().Add(13*time.Second)
			calls := 0
			for end := lower.Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				now := time.Now()
				if now.Equal(lower) {
					for _, l := range all {
						if err := l.SetMax(lowered); err != nil {
							t.Fatal(err)
						}
					}
				}
				run := 0
				for i, l := range all {
					if !begun[i].IsZero() && now.Sub(begun[i]) >= 100*time.Millisecond {
						l.Release(now, "", 1)
						begun[i] = time.Time{}
						if now.After(late) {
							calls++
						}
					}
					if begun[i].IsZero() && l.Claim(now, "", 1) == 0 {
						begun[i] = now
					}
					if !begun[i].IsZero() {
						run++
					}
				}
				if now.After(late) && run > lowered {
					t.Fatalf("%d calls run at once %v after Max was lowered to %d", run, now.Sub(lower), lowered)
				}
			}
			if calls < lowered*400 {
				t.Errorf("Max %d: %d calls in the minute after that, of 0.1s", lowered, calls)
			}
		})
	}
}
