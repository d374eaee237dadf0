package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// holder makes calls that hold n slots for some time, one after the other, as many beside
// each other as limit lets, in the way of a governor.
type holder struct {
	n      int
	holds  time.Duration
	made   atomic.Int64
	waited atomic.Int64 // the longest time without a call that began
	seen   *atomic.Int64
	most   *atomic.Int64
}

func (h *holder) run(wg *sync.WaitGroup, limit *store.Slots, end time.Time) {
	var mu sync.Mutex
	wake := make(chan struct{}, 1)
	kick := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	limit.OnChange(kick)
	wg.Go(func() {
		last := time.Now()
		for now := last; now.Before(end); now = time.Now() {
			mu.Lock()
			wait := limit.Wait(now, "", h.n)
			if wait == 0 {
				limit.Take(now, "", h.n)
			}
			mu.Unlock()
			h.waited.Store(max(h.waited.Load(), int64(now.Sub(last))))
			if wait == 0 {
				h.made.Add(1)
				last = now
				for n, old := h.seen.Add(int64(h.n)), h.most.Load(); n > old && !h.most.CompareAndSwap(old, n); old = h.most.Load() {
				}
				time.AfterFunc(h.holds, func() {
					h.seen.Add(-int64(h.n))
					mu.Lock()
					defer mu.Unlock()
					limit.Release(time.Now(), "", h.n)
					kick()
				})
				continue
			}
			select {
			case <-wake:
			case <-time.After(min(wait, end.Sub(now))):
			}
		}
	})
}

// Nodes whose calls take more slots than their part take turns, and nobody asks again and
// again for what there is not.
func TestCallsOfSeveralSlotsTakeTurns(t *testing.T) {
	for _, tt := range []struct {
		most   int
		each   []int // slots of a call, by node
		calls  int64 // all of a node in ten seconds of calls of 20 ms, at least
		trips  int64 // exchanges per call, and 30 per node: where turns are taken each is heard of by all
		waited time.Duration
	}{
		{10, []int{6, 6}, 150, 7, 500 * time.Millisecond},
		{10, []int{3, 3}, 400, 0, 500 * time.Millisecond},
		{10, []int{2, 2}, 900, 0, 500 * time.Millisecond},
		{10, []int{1, 1}, 2000, 0, 500 * time.Millisecond},
		{10, []int{6, 1}, 100, 4, 1500 * time.Millisecond},
		{10, []int{10, 1}, 50, 4, 1500 * time.Millisecond},
		{10, []int{10, 10, 1, 3}, 25, 7, 2 * time.Second},
		{10, []int{6, 6, 6, 6, 6, 6, 6, 6}, 35, 20, time.Second},
		{10, []int{2, 2, 2, 2, 2, 2, 2, 2}, 150, 20, time.Second},
		{10, []int{10, 6, 4, 3, 2, 1, 1, 1}, 10, 12, 3 * time.Second},
	} {
		t.Run(fmt.Sprint(tt.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var count counting
				var seen, most atomic.Int64
				var wg sync.WaitGroup
				m := memory(t)
				end := time.Now().Add(10 * time.Second)
				var all []*holder
				for _, n := range tt.each {
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, count: &count.n, delay: func() time.Duration { return time.Millisecond }}})
					defer s.Close()
					l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: tt.most})
					if err != nil {
						t.Fatal(err)
					}
					h := &holder{n: n, holds: 20 * time.Millisecond, seen: &seen, most: &most}
					all = append(all, h)
					h.run(&wg, l, end)
				}
				wg.Wait()
				sum := int64(0)
				for i, h := range all {
					sum += h.made.Load()
					if d := time.Duration(h.waited.Load()); h.made.Load() < tt.calls || d > tt.waited {
						t.Errorf("node %d has made %d calls of %d, and waited %v for one; want %d and %v", i, h.made.Load(), h.n, d, tt.calls, tt.waited)
					}
				}
				if most.Load() > int64(tt.most) {
					t.Errorf("%d slots of %d were used at once", most.Load(), tt.most)
				}
				if n := count.n.Load(); n > tt.trips*sum+30*int64(len(all)) {
					t.Errorf("%d exchanges for %d calls", n, sum)
				}
				t.Logf("%d calls, %d exchanges", sum, count.n.Load())
			})
		})
	}
}

// A node that dies when it has the turn keeps it no longer than the TTL.
func TestTheTurnOfADeadNodeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var dead atomic.Bool
		var seen, most atomic.Int64
		var wg sync.WaitGroup
		end := time.Now().Add(30 * time.Second)
		var all []*holder
		for i := range 3 {
			net := &faulty{Store: m, delay: func() time.Duration { return time.Millisecond }}
			if i == 0 {
				net.fate = func() fate {
					if dead.Load() {
						return lost
					}
					return arrives
				}
			}
			s := syncer(t, store.SyncerConfig{Store: net})
			defer s.Close()
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 10})
			if err != nil {
				t.Fatal(err)
			}
			h := &holder{n: 6, holds: 20 * time.Millisecond, seen: &seen, most: &most}
			all = append(all, h)
			h.run(&wg, l, end)
		}
		time.Sleep(time.Second)
		dead.Store(true)
		time.Sleep(m.TTL() + time.Second)
		var before [3]int64
		for i, h := range all {
			before[i] = h.made.Load()
		}
		time.Sleep(time.Second)
		for i, h := range all[1:] {
			if n := h.made.Load() - before[i+1]; n < 20 {
				t.Errorf("node %d makes %d calls in a second after the TTL of a dead one", i+1, n)
			}
		}
		if n := all[0].made.Load() - before[0]; n > 0 {
			t.Errorf("a node without a store makes %d calls", n)
		}
		wg.Wait()
	})
}

// Who was told that there is a slot, and asks for more before he takes it, as a governor
// does that opens connections, is told when they have come; but it is no call that waits.
func TestWhoLooksAheadIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		var woken atomic.Int64
		l.OnChange(func() { woken.Add(1) })
		l.Wait(time.Now(), "", 1)
		for n := 2; n <= 6; n++ {
			time.Sleep(50 * time.Millisecond)
			if wait := l.Wait(time.Now(), "", n-1); wait != 0 {
				t.Fatalf("no %d slots of 10, but in %v", n-1, wait)
			}
			was := woken.Load()
			if wait := l.Wait(time.Now(), "", n); wait != 0 {
				if time.Sleep(50 * time.Millisecond); woken.Load() == was {
					t.Fatalf("who looks ahead at %d slots is not woken", n)
				}
			}
		}
	})
}
