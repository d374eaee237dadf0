package store_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// Calls of less than a tenth of the TTL never overlap with those of another process, also where
// an answer was repeated, and says how much of the TTL was left of it.
func TestShortCallsDoNotOverlapAfterARepeatedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		tenth := m.TTL() / 10
		var fated atomic.Int64
		flaky := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, fate: func() fate { return fate(fated.Load()) }}})
		defer flaky.Close()
		well := syncer(t, store.SyncerConfig{Store: m})
		defer well.Close()
		var inUse, began atomic.Int64
		stop := make(chan struct{})
		calls := func(s *store.Syncer, takes time.Duration) {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 1})
			if err != nil {
				t.Error(err)
				return
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				if l.Claim(time.Now(), "", 1) != 0 {
					time.Sleep(time.Millisecond)
					continue
				}
				if began.Add(1); inUse.Add(1) > 1 {
					t.Error("two calls use one slot")
				}
				time.Sleep(takes)
				inUse.Add(-1)
				l.Release(time.Now(), "", 1)
			}
		}
		go calls(flaky, tenth-tenth/20)
		time.Sleep(3 * time.Second)
		fated.Store(int64(swallowed))
		time.Sleep(1100 * time.Millisecond) // executed once, unheard
		fated.Store(int64(lost))
		alone := began.Load()
		go calls(well, 10*time.Millisecond) // waits for the slot
		time.Sleep(6 * time.Second)
		fated.Store(int64(arrives))
		time.Sleep(600 * time.Millisecond) // the repetition is answered
		fated.Store(int64(lost))
		time.Sleep(10 * time.Second)
		close(stop)
		if n := began.Load(); alone == 0 || n < alone+100 {
			t.Errorf("%d calls began alone, and %d in all: the other process has got no slot", alone, n)
		}
		time.Sleep(time.Second)
	})
}
