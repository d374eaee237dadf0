package store_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// claims has an owner of limit, which is a Claimer with OnChange, make calls until end:
// call is told when a permit was claimed, and gives it back by done, under the owner's
// lock.
func claims(wg *sync.WaitGroup, limit limiter.Claimer, end time.Time, call func(done func(func()))) {
	var mu sync.Mutex
	wake := make(chan struct{}, 1)
	kick := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	limit.(limiter.Notifier).OnChange(kick)
	wg.Go(func() {
		for now := time.Now(); now.Before(end); now = time.Now() {
			mu.Lock()
			wait := limit.Wait(now, "", 1)
			mu.Unlock()
			runtime.Gosched() // as owners do much else between the two
			mu.Lock()
			if wait == 0 {
				wait = limit.Claim(now, "", 1)
			}
			mu.Unlock()
			if wait == 0 {
				call(func(back func()) {
					mu.Lock()
					back()
					mu.Unlock()
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

func TestSharesOfOneNameInOneProcessKeepToOneLimit(t *testing.T) {
	for kind, least := range map[store.Kind]int64{store.Sliding: 950, store.Bucket: 850, store.Window: 990} {
		synctest.Test(t, func(t *testing.T) {
			l := store.Limit{Kind: kind, Quota: 100, Per: time.Second}
			s := syncer(t, store.SyncerConfig{Store: memory(t)})
			defer s.Close()
			var h storetest.History
			var wg sync.WaitGroup
			start := time.Now()
			var each [4]atomic.Int64
			for i := range each {
				claims(&wg, share(t, s, l), start.Add(11*time.Second), func(func(func())) {
					h.Use(time.Now(), 1)
					each[i].Add(1)
				})
			}
			wg.Wait()
			if err := h.Check(l); err != nil {
				t.Errorf("%v: %v", kind, err)
			}
			if used := h.Total(start.Add(time.Second), start.Add(11*time.Second)); used < least {
				t.Errorf("%v: %d calls in ten seconds, want %d of 1000 at least", kind, used, least)
			}
			for i := range each {
				if each[i].Load() == 0 {
					t.Errorf("%v: owner %d had none", kind, i)
				}
			}
		})
	}
}

// Where permits come one by one, nobody is the first to take them always.
func TestGovernorsOfOneNameInOneProcessHaveAboutTheSamePart(t *testing.T) {
	for _, perSecond := range []int{3, 10, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return time.Millisecond }}})
			defer s.Close()
			ctx, stop := context.WithCancel(t.Context())
			var made [2]atomic.Int64
			for i := range made {
				g, err := governor.New(governor.PlainConfig{
					Name: "acme", NoPace: true, Store: s,
					Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: perSecond, Per: time.Second}}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				for range 20 {
					go func() {
						for ctx.Err() == nil {
							_, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
							if err == nil {
								made[i].Add(1)
							}
						}
					}()
				}
			}
			time.Sleep(5 * time.Minute)
			stop()
			synctest.Wait()
			all := made[0].Load() + made[1].Load()
			if least := min(made[0].Load(), made[1].Load()); least*10 < all*4 {
				t.Errorf("%d a second: one made %d of %d calls, want 40 %% at least", perSecond, least, all)
			}
		})
	}
}

func TestSlotsOfOneNameInOneProcessAreTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		var all []*store.Slots
		for _, most := range []int{5, 3, 8} {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: most})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		run := func(want int64, owners ...*store.Slots) {
			t.Helper()
			var wg sync.WaitGroup
			var running, most, calls atomic.Int64
			for i, l := range owners {
				claims(&wg, l, time.Now().Add(10*time.Second), func(done func(func())) {
					calls.Add(1)
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.AfterFunc(time.Duration(90+i)*time.Millisecond, func() {
						running.Add(-1)
						done(func() { l.Release(time.Now(), "", 1) })
					})
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
			if most.Load() != want {
				t.Errorf("%d calls at once, want %d", most.Load(), want)
			}
			if least := want * 100; calls.Load() < least { // of some 108 each
				t.Errorf("%d calls in ten seconds, want %d", calls.Load(), least)
			}
		}
		run(3, all...)
		if err := all[1].SetMax(4); err != nil {
			t.Fatal(err)
		}
		run(4, all...)
		all[1].Close()
		run(5, all[0], all[2])
		all[0].Close()
		run(8, all[2])
		all[2].Close()
		time.Sleep(20 * time.Minute)
		if n := s.Cells(); n != 0 {
			t.Errorf("%d keys are kept of what nobody uses", n)
		}
		again, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		run(2, again)
	})
}

// An exchange that is under way when slots are wanted is not the one that brings them, and
// the next does not come by itself for a second.
func TestSlotsWantedDuringAnExchangeAreAskedForAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return 10 * time.Millisecond }}})
		defer s.Close()
		l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan struct{}, 99)
		l.OnChange(func() { heard <- struct{}{} })
		for l.Claim(time.Now(), "", 1) != 0 {
			<-heard
		}
		l.Release(time.Now(), "", 1)
		time.Sleep(4 * time.Second) // what is not used goes back
		for len(heard) > 0 {
			<-heard
		}
		if err := l.SetMax(3); err != nil { // there is an exchange
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		start := time.Now()
		for l.Claim(time.Now(), "", 1) != 0 {
			<-heard
		}
		if d := time.Since(start); d != 15*time.Millisecond {
			t.Errorf("a slot after %v, want 15ms: the end of one exchange, and another", d)
		}
		l.Release(time.Now(), "", 1)
	})
}

// Nobody waits for what another owner in the process has given back.
func TestWhatOneOwnerGivesBackAnotherHearsOfAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		slots := func() limiter.Claimer {
			l, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		window := store.Limit{Kind: store.Window, Quota: 1, Per: time.Hour}
		for _, pair := range [][2]limiter.Claimer{{share(t, s, window), share(t, s, window)}, {slots(), slots()}} {
			one, other := pair[0], pair[1]
			for one.Claim(time.Now(), "", 1) != 0 {
				time.Sleep(time.Millisecond)
			}
			heard := make(chan time.Time, 9)
			other.(limiter.Notifier).OnChange(func() { heard <- time.Now() })
			if wait := other.Claim(time.Now(), "", 1); wait == 0 {
				t.Fatalf("%T: two claimed what there is once", one)
			}
			synctest.Wait()
			for len(heard) > 0 {
				<-heard
			}
			back := time.Now()
			if r, ok := one.(limiter.Releaser); ok {
				r.Release(back, "", 1)
			} else {
				one.Settle(back, "", 1, 0)
			}
			synctest.Wait()
			if len(heard) != 1 {
				t.Errorf("%T: the other owner heard %d times at once, want once", one, len(heard))
			}
			if wait := other.Claim(time.Now(), "", 1); wait != 0 {
				t.Errorf("%T: the other owner waits %v for what was given back", one, wait)
			}
		}
	})
}

// A need of many that was served, or that nobody has any more, is forgotten while others
// go on asking for less: it would have the process fetch so many each time.
func TestALargeNeedIsForgottenBesideSmallOnes(t *testing.T) {
	for name, tt := range map[string]struct{ before, beside func(large *store.Share) }{
		"served": {before: func(large *store.Share) {
			for large.Claim(time.Now(), "", 100) != 0 {
				time.Sleep(time.Millisecond)
			}
		}},
		"gone": {beside: func(large *store.Share) {
			time.Sleep(500 * time.Millisecond)
			large.Wait(time.Now(), "", 100)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := store.Limit{Kind: store.Sliding, Quota: 100, Per: time.Second}
				m := memory(t)
				s1, s2 := syncer(t, store.SyncerConfig{Store: m}), syncer(t, store.SyncerConfig{Store: m})
				defer s1.Close()
				defer s2.Close()
				large, small, other := share(t, s1, l), share(t, s1, l), share(t, s2, l)
				if tt.before != nil {
					tt.before(large)
				}
				var wg sync.WaitGroup
				var calls atomic.Int64
				end := time.Now().Add(35 * time.Second)
				claims(&wg, small, end, func(func(func())) { calls.Add(1); time.Sleep(20 * time.Millisecond) })
				claims(&wg, other, end, func(func(func())) { calls.Add(1) })
				if tt.beside != nil {
					tt.beside(large)
				}
				time.Sleep(time.Second)
				for range 3 {
					before := calls.Load()
					time.Sleep(10 * time.Second)
					if n := calls.Load() - before; n < 800 {
						t.Errorf("%d of 1000 calls", n)
					}
				}
				wg.Wait()
			})
		})
	}
}
