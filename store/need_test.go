package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// What is left is for whoever needs no more, though another call waits, or has waited, that
// costs more: as where the limit is in the process.
func TestALargeCallDelaysNoSmallOne(t *testing.T) {
	largeBefore := func(t *testing.T, name string, givenUp bool) {
		t.Run(fmt.Sprintf("%s, given up %t", name, givenUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Millisecond }}})
				defer s.Close()
				cfg := governor.PlainConfig{Name: "acme", NoPace: true}
				mk := func() *governor.Plain {
					switch name {
					case "window":
						cfg.Limits = []governor.Limit{{Limiter: share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour})}}
					default:
						cfg.Store = s
						fallthrough
					case "no store":
						cfg.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 10, Per: time.Hour}}}
					}
					g, err := governor.New(cfg)
					if err != nil {
						t.Fatal(err)
					}
					return g
				}
				g := mk()
				defer g.Close()
				other := g
				if name == "two governors" {
					other = mk()
					defer other.Close()
				}
				nothing := governor.Func(func(context.Context) (int, error) { return 0, nil })
				if name == "no store" {
					governor.Do(t.Context(), g.With(governor.Ask{Cost: 8}), "", nothing)
				} else { // of another process
					o := syncer(t, store.SyncerConfig{Store: m})
					kind := store.Sliding
					if name == "window" {
						kind = store.Window
					}
					elsewhere := share(t, o, store.Limit{Kind: kind, Quota: 10, Per: time.Hour})
					for elsewhere.Claim(time.Now(), "", 8) != 0 {
						time.Sleep(time.Millisecond)
					}
					o.Close()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				governor.Submit(ctx, g.With(governor.Ask{Cost: 3, Tenant: "a"}), "", nothing)
				time.Sleep(time.Second)
				if givenUp {
					cancel()
					time.Sleep(time.Second)
				}
				start := time.Now()
				_, err := governor.Do(t.Context(), other.With(governor.Ask{Tenant: "b"}), "", nothing)
				if d := time.Since(start); err != nil || d > 2*time.Second {
					t.Errorf("a call of 1 of 2 free permits began after %v: %v", d, err)
				}
			})
		})
	}
	for _, name := range []string{"window", "sliding", "two governors", "no store"} {
		largeBefore(t, name, false)
		largeBefore(t, name, true)
	}
}

// Somebody wanted more than is left, and gave up. What is left is for who wants less.
func TestWhatIsLeftIsForWhoNeedsLess(t *testing.T) {
	for _, owners := range []int{1, 2} {
		for _, kind := range []store.Kind{store.Window, store.Sliding} {
			t.Run(kind.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := memory(t)
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Millisecond }}})
					defer s.Close()
					o := syncer(t, store.SyncerConfig{Store: m})
					defer o.Close()
					l := store.Limit{Kind: kind, Quota: 10, Per: time.Hour}
					time.Sleep(time.Hour - time.Duration(time.Now().UnixNano()%int64(time.Hour)) + time.Minute)
					a := share(t, s, l)
					b := a
					if owners == 2 {
						b = share(t, s, l)
					}
					elsewhere := share(t, o, l)
					for elsewhere.Claim(time.Now(), "", 8) != 0 {
						time.Sleep(time.Millisecond)
					}
					start := time.Now()
					for time.Since(start) < time.Second { // a call that costs 3, and is given up
						if a.Wait(time.Now(), "", 3) == 0 {
							t.Fatal("there are 2")
						}
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(time.Minute)
					start = time.Now()
					for b.Claim(time.Now(), "", 1) != 0 && time.Since(start) < time.Hour {
						time.Sleep(100 * time.Millisecond)
					}
					d := time.Since(start)
					if d > time.Second {
						t.Errorf("%d owners, %v: one of 2 that are left after %v", owners, kind, d)
					}
				})
			})
		}
	}
}

// A small need after a large one of another owner, that was served, is served, too.
func TestASmallNeedAfterALargeOneIsHeard(t *testing.T) {
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return time.Millisecond }}})
				defer s.Close()
				l := store.Limit{Kind: kind, Quota: 1000, Per: time.Hour}
				large, small := share(t, s, l), share(t, s, l)
				heard := make(chan struct{}, 9)
				small.OnChange(func() { heard <- struct{}{} })
				for large.Claim(time.Now(), "", 3) != 0 {
					time.Sleep(time.Millisecond)
				}
				large.Settle(time.Now(), "", 3, 3)
				time.Sleep(50 * time.Millisecond)
				for len(heard) > 0 {
					<-heard
				}
				for {
					wait := small.Claim(time.Now(), "", 1)
					if wait == 0 {
						break
					}
					select {
					case <-heard:
					case <-time.After(min(wait, time.Minute)):
						t.Errorf("it was told to wait for %v, and heard nothing for a minute; 997 of 1000 permits are free", wait)
					}
				}
			})
		})
	}
}

// An owner that asks for little and for much of a window that is used up, each time it is
// woken, does not have the store asked for the one and the other in turn without a pause.
func TestNeedsThatDifferAreNotAskedForInTurn(t *testing.T) {
	for _, needs := range [][]int{{1, 8}, {8, 1}, {1, 2, 3, 4, 5, 6, 7, 8}} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			var exchanges atomic.Int64
			s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, count: &exchanges, delay: func() time.Duration { return 2 * time.Millisecond }}})
			defer s.Close()
			l := store.Limit{Kind: store.Window, Quota: 10, Per: 10 * time.Minute}
			sh := share(t, s, l)
			woken := make(chan struct{}, 1)
			sh.OnChange(func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			other := syncer(t, store.SyncerConfig{Store: m})
			defer other.Close()
			use := share(t, other, l)
			for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
				use.Claim(time.Now(), "", 1)
			}
			exchanges.Store(0)
			asks := 0
			for start := time.Now(); time.Since(start) < 20*time.Second; {
				next := 20 * time.Second
				for _, n := range needs {
					asks++
					if wait := sh.Wait(time.Now(), "", n); wait == 0 {
						t.Fatal("there is more than the quota")
					} else {
						next = min(next, wait)
					}
				}
				select {
				case <-woken:
				case <-time.After(next):
				}
			}
			if n := exchanges.Load(); n > 20 || asks > 20*len(needs) {
				t.Errorf("%d: %d exchanges, and it was asked %d times, in 20 s", needs, n, asks)
			}
		})
	}
}

// A small call that comes while the store is asked for a large one has what there is, also
// where the larger is refused for a moment only, again and again.
func TestASmallNeedHearsThatALargeOneIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const per = 4 * time.Second
		m := memory(t)
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return 2 * time.Millisecond }}})
		defer s.Close()
		l := store.Limit{Kind: store.Window, Quota: 10, Per: per}
		g, err := governor.New(governor.PlainConfig{Name: "acme", MaxWait: -1, Limits: []governor.Limit{{Limiter: share(t, s, l)}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		call := governor.Func(func(context.Context) (int, error) { return 1, nil })
		if _, err := governor.Do(t.Context(), g, "", call); err != nil {
			t.Fatal(err)
		}
		seq := uint64(0)
		use := func() { // what leaves too little for the large one
			seq++
			if _, err := m.Exchange(t.Context(), "other", []store.Item{{
				Key: store.KeyFor("acme", throttle.Scope{}.String()), Seq: seq, Limits: []store.Limit{l}, Version: 1, Want: 3, Least: 3,
			}}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(per - time.Duration(time.Now().UnixNano())%per + time.Millisecond)
		use()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				time.Sleep(per)
				use()
			}
		}()
		governor.Submit(ctx, g.With(governor.Ask{Cost: 8}), "", call)
		time.Sleep(time.Millisecond)
		start := time.Now()
		_, err = governor.Do(ctx, g.With(governor.Ask{Priority: 5}), "", call)
		if d := time.Since(start); err != nil || d > per {
			t.Errorf("it has nothing for %v (%v), with 7 of 10 permits there in each %v", d, err, per)
		}
		cancel()
		time.Sleep(2 * per)
	})
}

// What somebody waits for nobody is asked for when he has closed his Share: of the others each
// asks anew.
func TestAClosedShareNeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return 10 * time.Millisecond }}})
		defer s.Close()
		l := store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour}
		first, second := share(t, s, l), share(t, s, l)
		var woken atomic.Int64
		second.OnChange(func() { woken.Add(1) })
		for first.Claim(time.Now(), "", 10) != 0 {
			time.Sleep(time.Millisecond)
		}
		first.Wait(time.Now(), "", 5)
		second.Wait(time.Now(), "", 2)
		woken.Store(0)
		first.Close()
		synctest.Wait()
		if n := second.Needs(""); n != 0 || woken.Load() == 0 {
			t.Errorf("%d permits are needed, the other owner was woken %d times", n, woken.Load())
		}
		second.Wait(time.Now(), "", 2)
		if n := second.Needs(""); n != 2 {
			t.Errorf("%d permits are needed, of 2", n)
		}
		second.Close()
		if n := second.Needs(""); n != 0 {
			t.Errorf("%d permits are needed by nobody", n)
		}
	})
}
