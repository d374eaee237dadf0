package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// fast is a quota that nobody here uses up.
var fast = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 1000, Per: time.Second}}}

// A probe that takes longer than the store leaves it to its process is over when it
// has run for ProbePatience.
func TestALongProbeEndsTheCooldown(t *testing.T) {
	for name, limits := range map[string][]governor.Limit{"a gate": nil, "a limit": fast} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, m := processes(t, 4, func(c *governor.PlainConfig, _ *store.SyncerConfig) { c.Limits = limits })
				time.Sleep(2 * time.Second)
				all[0].refuse(10 * time.Second)
				start := time.Now()
				time.Sleep(time.Second)
				var early, first atomic.Int64
				var reqs []*governor.Request[int]
				for _, p := range all {
					for range 5 {
						reqs = append(reqs, governor.Submit(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) {
							first.CompareAndSwap(0, int64(time.Since(start)))
							if time.Since(start) < time.Duration(first.Load())+4900*time.Millisecond {
								early.Add(1)
							}
							time.Sleep(3 * m.TTL())
							return 1, nil
						})))
					}
				}
				for _, r := range reqs {
					if _, err := r.Result(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if n := early.Load(); n != 1 {
					t.Errorf("%d calls in the first five seconds after the cooldown, want the probe", n)
				}
				if d := time.Since(start); d > 75*time.Second {
					t.Errorf("all were through after %v, want some seconds more than the cooldown and a call", d)
				}
				end(t, all)
			})
		})
	}
}

// A stream that goes on for minutes is a probe, too.
func TestAStreamThatIsTheProbeHoldsNobodyBack(t *testing.T) {
	for name, limits := range map[string][]governor.Limit{"a gate": nil, "a limit": fast} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := processes(t, 2, func(c *governor.PlainConfig, _ *store.SyncerConfig) { c.Limits = limits })
				time.Sleep(2 * time.Second)
				all[0].refuse(10 * time.Second)
				time.Sleep(time.Second)
				streamed := make(chan int)
				began := make(chan struct{})
				go func() {
					n := 0
					items := func(context.Context, struct{}) iter.Seq2[int, error] {
						return func(yield func(int, error) bool) {
							close(began)
							for i := range 300 {
								if !yield(i, nil) {
									return
								}
								time.Sleep(time.Second)
							}
						}
					}
					for _, err := range governor.Stream(t.Context(), all[0].Plain, "", items) {
						if err != nil {
							t.Error(err)
						}
						n++
					}
					streamed <- n
				}()
				<-began
				for i, p := range all {
					start := time.Now()
					_, err := governor.Do(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
					if d := time.Since(start); err != nil || d > 7*time.Second {
						t.Errorf("process %d: %v, after %v beside a stream that flows", i, err, d)
					}
				}
				if n := <-streamed; n != 300 {
					t.Errorf("%d items", n)
				}
				end(t, all)
			})
		})
	}
}

// What was sent before the cooldown, and ends in the probe, is not the probe.
func TestAnOldCallThatEndsIsNotTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh := share(t, s, store.Limit{Quota: 1000, Per: time.Second})
		g := quiet(t, "acme")
		defer g.Close()
		defer s.Join(g)()
		permit := func() bool {
			for range 100 {
				if sh.Wait(time.Now(), "", 1) == 0 {
					return true
				}
				time.Sleep(10 * time.Millisecond)
			}
			return false
		}
		if !permit() {
			t.Fatal("nothing was granted")
		}
		sh.Take(time.Now(), "", 1)
		g.Learn(throttle.Signal{Delay: 2 * time.Second})
		time.Sleep(2 * time.Second)
		if !permit() {
			t.Fatal("no probe")
		}
		sh.Take(time.Now(), "", 1)
		sh.Settle(time.Now(), "", 1, 1) // the old one
		if permit() {
			t.Error("a second probe beside the first")
		}
		sh.Settle(time.Now(), "", 1, 1) // the probe failed
		if !permit() {
			t.Error("no second probe after the first")
		}
	})
}

// Nor does its end keep the others waiting who follow a probe that runs for long.
func TestAnOldCallThatEndsIsNotTheProbeOfAGovernor(t *testing.T) {
	for _, old := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
				b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1000, Burst: 1000}) // so that the gate is asked
				if err != nil {
					t.Fatal(err)
				}
				c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: b}}
			})
			defer func() { end(t, all) }()
			time.Sleep(10 * time.Second)
			if old {
				governor.Submit(t.Context(), all[0].Plain, "", governor.Func(func(context.Context) (int, error) {
					time.Sleep(3 * time.Second)
					return 0, nil
				}))
				time.Sleep(time.Millisecond)
			}
			all[0].refuse(time.Second)
			time.Sleep(500 * time.Millisecond)
			probe := governor.Submit(t.Context(), all[0].Plain, "", governor.Func(func(context.Context) (time.Time, error) {
				began := time.Now()
				time.Sleep(time.Minute)
				return began, nil
			}))
			time.Sleep(600 * time.Millisecond)
			at, err := governor.Do(t.Context(), all[1].Plain, "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
			began, _ := probe.Result(t.Context())
			if after := at.Sub(began); err != nil || after < 5*time.Second || after > 5100*time.Millisecond {
				t.Errorf("old %t: the other followed after %v, %v, want 5s", old, after, err)
			}
		})
	}
}

// However long nobody has called after a cooldown.
func TestOneProcessProbesAfterAWhile(t *testing.T) {
	for _, paused := range []bool{false, true} {
		for _, idle := range []time.Duration{time.Second, 14 * time.Minute, 16 * time.Minute, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				all, _ := processes(t, 4, func(c *governor.PlainConfig, s *store.SyncerConfig) {
					s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
				})
				defer func() { end(t, all) }()
				time.Sleep(10 * time.Second)
				each := func(fn func(context.Context) (int, error)) {
					var wg sync.WaitGroup
					for _, p := range all {
						for range 3 {
							wg.Go(func() {
								if _, err := governor.Do(t.Context(), p.Plain, "", governor.Func(fn)); err != nil {
									t.Error(err)
								}
							})
						}
					}
					wg.Wait()
				}
				each(func(context.Context) (int, error) { return 0, nil }) // so that they know that all may pass
				if paused {
					for _, p := range all {
						p.Pause()
					}
					all[0].Learn(throttle.Signal{Delay: 10 * time.Second})
				} else {
					all[0].refuse(10 * time.Second)
				}
				time.Sleep(10*time.Second + idle)
				for _, p := range all {
					p.Resume()
				}
				start, first := time.Now(), atomic.Int64{}
				each(func(context.Context) (int, error) {
					if time.Since(start) < 500*time.Millisecond {
						first.Add(1)
					}
					time.Sleep(time.Second)
					return 0, nil
				})
				if n := first.Load(); n != 1 {
					t.Errorf("paused %t, idle for %v: %d calls are first, want one", paused, idle, n)
				}
			})
		}
	}
}

// Nobody makes the probe in the name of a call that is gone.
func TestTheProbeIsForWhoStillCalls(t *testing.T) {
	for _, how := range []string{"cancelled", "paused", "late", "closed"} {
		for _, limits := range [][]governor.Limit{nil, fast} {
			synctest.Test(t, func(t *testing.T) {
				all, _ := processes(t, 2, func(c *governor.PlainConfig, _ *store.SyncerConfig) { c.Limits = limits })
				defer func() { end(t, all) }()
				goes, other := all[0], all[1]
				time.Sleep(3 * time.Minute)
				start := time.Now()
				other.Learn(throttle.Signal{Delay: 20 * time.Second})
				s := governortest.NewScript(governortest.Limited(30 * time.Second))
				s.Latency = 3 * time.Second
				time.Sleep(20*time.Second + time.Millisecond)
				governor.Submit(context.Background(), other.With(governor.Ask{NoRetry: true}), "", s.Call) // a probe, refused after 23 s
				time.Sleep(time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ask := governor.Ask{}
				if how == "late" {
					ask.StartBy = time.Now().Add(time.Second)
				}
				governor.Submit(ctx, goes.With(ask), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
				time.Sleep(1500 * time.Millisecond)
				switch how {
				case "cancelled":
					cancel()
				case "closed":
					goes.Close()
				case "paused":
					goes.Pause()
				}
				time.Sleep(time.Until(start.Add(53*time.Second + 50*time.Millisecond))) // the pause is over
				if n := len(s.Starts()); n != 1 {
					t.Fatalf("%d calls, want the probe alone", n)
				}
				began := time.Now()
				at, err := governor.Do(t.Context(), other.Plain, "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
				if d := at.Sub(began); err != nil || d > time.Second {
					t.Errorf("%s, %d limits: the other waits for %v, %v", how, len(limits), d, err)
				}
			})
		}
	}
}

// Processes that waited for another's probe, and whose callers have gone meanwhile, do not have
// it one after the other: who calls now has it when the one that runs is over.
func TestTheProbeIsNotForWhoWaitedForAnothers(t *testing.T) {
	for _, limits := range [][]governor.Limit{nil, fast} {
		t.Run(fmt.Sprint(len(limits)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := processes(t, 8, func(c *governor.PlainConfig, _ *store.SyncerConfig) { c.Limits = limits })
				defer end(t, all)
				time.Sleep(2 * time.Second)
				all[0].refuse(5 * time.Second)
				start := time.Now()
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
				defer cancel()
				for _, p := range all[1:] { // one has the probe, which the vendor does not accept
					governor.Submit(ctx, p.With(governor.Ask{NoRetry: true}), "", governor.Func(func(context.Context) (int, error) {
						return 0, errors.New("503")
					}))
				}
				time.Sleep(7 * time.Second) // nobody waits any more
				at, err := governor.Do(t.Context(), all[0].Plain, "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
				if d := at.Sub(start); err != nil || d > 16*time.Second {
					t.Errorf("who calls now begins after %v, %v, want the cooldown and a TTL, 15s", d, err)
				}
			})
		})
	}
}

// A process whose calls another limit of its own keeps back, and to which new ones come all the
// time, has the probe once: a TTL later it is another's, who can make it.
func TestWhoCannotProbeHasTheProbeOnce(t *testing.T) {
	for _, trip := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own, n := &opens{}, 0
				own.at.Store(time.Now().Add(time.Hour).UnixNano())
				all, _ := processes(t, 2, func(cfg *governor.PlainConfig, sc *store.SyncerConfig) {
					sc.Store.(*faulty).delay = func() time.Duration { return trip }
					if n++; n == 1 {
						cfg.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: own}}
					}
				})
				defer end(t, all)
				time.Sleep(time.Second)
				all[0].Learn(throttle.Signal{Delay: 5 * time.Second})
				over := time.Now().Add(5 * time.Second)
				call := func(p *process, tenant string, began func()) {
					governor.Submit(t.Context(), p.With(governor.Ask{Tenant: tenant}), "", governor.Func(func(context.Context) (int, error) {
						began()
						return 0, nil
					}))
				}
				waited := time.Minute
				for i := range 600 {
					call(all[0], fmt.Sprint(i), func() {})
					if i == 55 { // half a second after the pause
						call(all[1], "free", func() { waited = time.Since(over) })
					}
					time.Sleep(100 * time.Millisecond)
				}
				if waited > 11*time.Second {
					t.Errorf("the other's call began %v after the pause, want a TTL, 10s", waited)
				}
			})
		})
	}
}

// Who waits for permits when a cooldown begins asks again when it is over, though nobody
// pauses for it.
func TestWhoWaitsForAShareGetsItAfterACooldown(t *testing.T) {
	whoWaits := func(t *testing.T, own bool, used int, sooner time.Duration) { // than the cooldown he waits
		synctest.Test(t, func(t *testing.T) {
			m, slow := memory(t), func() time.Duration { return 20 * time.Millisecond }
			s, o := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: slow}}), syncer(t, store.SyncerConfig{Store: m})
			defer s.Close()
			defer o.Close()
			g, og := quiet(t, "acme"), quiet(t, "acme")
			defer g.Close()
			defer og.Close()
			defer s.Join(g)()
			defer o.Join(og)()
			sh := share(t, s, store.Limit{Kind: store.Window, Quota: 5, Per: 10 * time.Second, Transit: -1})
			woken := make(chan struct{}, 1)
			sh.OnChange(func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			next := func() time.Time { // as an owner takes one
				for {
					now := time.Now()
					wait := sh.Wait(now, "", 1)
					if wait == 0 {
						sh.Take(now, "", 1)
						return now
					}
					timer := time.NewTimer(min(wait, time.Hour))
					select {
					case <-woken:
					case <-timer.C:
					}
					timer.Stop()
				}
			}
			for range used {
				next()
				sh.Settle(time.Now(), "", 1, 1)
			}
			if used < 5 {
				time.Sleep(time.Minute) // what was fetched beyond that has gone back
			}
			got := make(chan time.Time, 1)
			go func() { got <- next() }()
			time.Sleep(sooner)
			start := time.Now()
			if own {
				og = g
			}
			og.Learn(throttle.Signal{Delay: 30 * time.Second})
			if d := (<-got).Sub(start); d < 30*time.Second || d > 41*time.Second {
				t.Errorf("own %t, %d used, after %v: a permit after %v, want 30s", own, used, sooner, d)
			}
		})
	}
	for _, own := range []bool{false, true} {
		whoWaits(t, own, 1, 5*time.Millisecond) // while the request is on its way, and its answer
		whoWaits(t, own, 1, 15*time.Millisecond)
		whoWaits(t, own, 5, 5*time.Millisecond) // and where there is none
		whoWaits(t, own, 5, time.Second)
	}
}

// quiet is a governor without a store.
func quiet(t *testing.T, name string) *governor.Plain {
	t.Helper()
	g, err := governor.New(governor.PlainConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An outage with Open, or SafeShare, does not keep for ever what a cooldown does.
func TestACooldownEndsInAnOutage(t *testing.T) {
	for _, policy := range []store.Outage{store.Closed, store.SafeShare, store.Open} {
		for name, before := range map[string]struct {
			wait time.Duration // from the loss to the refusal
			long bool          // another process makes the probe when the store goes
		}{"before it": {wait: -5 * time.Second}, "in it": {wait: 5 * time.Second}, "that another probes": {long: true}} {
			t.Run(policy.String()+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var down atomic.Bool
					var unguarded atomic.Int64
					all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
						c.Limits = fast
						s.Outage, s.Nodes = policy, 2
						s.OnEvent = func(e event.Event) {
							if e.Kind == event.Unguarded {
								unguarded.Add(1)
							}
						}
						s.Store.(*faulty).fate = func() fate {
							if down.Load() {
								return lost
							}
							return arrives
						}
					})
					defer end(t, all)
					time.Sleep(2 * time.Second)
					switch {
					case before.long:
						all[1].refuse(2 * time.Second)
						time.Sleep(500 * time.Millisecond)
						governor.Submit(t.Context(), all[1].Plain, "", governor.Func(func(context.Context) (int, error) {
							time.Sleep(time.Minute)
							return 0, nil
						}))
						time.Sleep(2 * time.Second)
						down.Store(true)
					case before.wait < 0:
						all[0].refuse(10 * time.Second)
						time.Sleep(-before.wait)
						down.Store(true)
					default:
						down.Store(true)
						time.Sleep(before.wait)
						all[0].refuse(10 * time.Second)
						time.Sleep(3 * time.Second) // until the refused call has passed
					}
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					var passed, early atomic.Int64
					for range 10 {
						r := governor.Submit(ctx, all[0].Plain, "", governor.Func(func(context.Context) (int, error) {
							passed.Add(1)
							if !before.long && time.Since(start) < 4900*time.Millisecond {
								early.Add(1)
							}
							return 1, nil
						}))
						_ = r
					}
					time.Sleep(21 * time.Second)
					want := int64(10)
					if policy == store.Closed {
						want = 0
					}
					if n := passed.Load(); n != want || early.Load() > 0 {
						t.Errorf("%d calls of 10 in an outage, %d in the cooldown, want %d and 0", n, early.Load(), want)
					}
					if n := unguarded.Load(); (n > 0) != (policy == store.Open) {
						t.Errorf("%d events Unguarded", n)
					}
					down.Store(false)
					time.Sleep(15 * time.Second)
					for i := range 20 { // back, with a probe if the store wants one
						if _, err := governor.Do(t.Context(), all[0].Plain, "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err != nil {
							t.Fatal(i, err)
						}
					}
				})
			})
		}
	}
}

// Open goes for slots, too: as many as there may be at once, in each process.
func TestSlotsInAnOutage(t *testing.T) {
	for _, policy := range []store.Outage{store.Closed, store.SafeShare, store.Open} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				var unguarded, woken atomic.Int64
				m := memory(t)
				s := syncer(t, store.SyncerConfig{
					Store: &faulty{Store: m, fate: func() fate {
						if down.Load() {
							return lost
						}
						return arrives
					}},
					Outage: policy, Nodes: 2,
					OnEvent: func(e event.Event) {
						if e.Kind == event.Unguarded {
							unguarded.Add(1)
						}
					},
				})
				defer s.Close()
				slots, err := s.Slots(store.SlotsConfig{Name: "acme", Max: 3})
				if err != nil {
					t.Fatal(err)
				}
				slots.OnChange(func() { woken.Add(1) })
				take := func() (n int) {
					for slots.Wait(time.Now(), "", 1) == 0 {
						slots.Take(time.Now(), "", 1)
						n++
					}
					return n
				}
				take()
				time.Sleep(time.Second)
				take()
				slots.Release(time.Now(), "", 3)
				down.Store(true)
				before := woken.Load()
				time.Sleep(30 * time.Second)
				want := 0
				if policy == store.Open {
					want = 3
					if woken.Load() == before {
						t.Error("nobody was told that calls may pass")
					}
				}
				if n := take(); n != want {
					t.Errorf("%d slots without the store, want %d", n, want)
				}
				time.Sleep(time.Second)
				if n := unguarded.Load(); n != int64(want) {
					t.Errorf("%d events Unguarded, want %d", n, want)
				}
				down.Store(false)
				time.Sleep(5 * time.Second)
				slots.Release(time.Now(), "", want)
				take()
				time.Sleep(5 * time.Second)
				take()
				if n := 0; slots.Wait(time.Now(), "", 1) == 0 {
					t.Errorf("more than 3 slots when the store is back: %d", n)
				}
			})
		})
	}
}

// A process without limits of the host goes by none, whatever others have of the same name: it
// keeps to the pauses, and nothing is granted to it.
func TestWhoHasNoLimitTakesNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		all, _ := processes(t, 2, func(c *governor.PlainConfig, _ *store.SyncerConfig) {
			if n++; n == 1 { // a roll-out: the other one has none yet
				c.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}, Version: 2}}
			}
		})
		defer end(t, all)
		time.Sleep(10 * time.Second)
		calls := func(p *process, n int) (made int) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range n {
				if _, err := governor.Do(ctx, p.Plain, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err == nil {
					made++
				}
			}
			return made
		}
		if n := calls(all[0], 6); n != 5 {
			t.Errorf("%d calls of who has a limit of 5 an hour", n)
		}
		for _, pause := range []time.Duration{0, 5 * time.Second} {
			if pause > 0 {
				all[1].Learn(throttle.Signal{Delay: pause})
			}
			if n := calls(all[1], 20); n != 20 {
				t.Errorf("%d of 20 calls after a pause of %v, of who has no limit", n, pause)
			}
		}
	})
}
