package store_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/flyball-go/flyball/throttle"
)

// A store that misses no hint is not asked for what they would tell.
func TestAnAttentiveStoreIsNotAskedForNews(t *testing.T) {
	for _, tc := range []struct {
		name        string
		heard       func() time.Time
		cools       bool  // a tenant does, and the store may have lost that
		least, most int64 // exchanges of one process in a minute
	}{
		{"it hears all", nil, false, 0, 2},
		{"it hears all, and something cools", nil, true, 55, 65},
		{"it learns so three times in two seconds", func() time.Time { return time.Now().Truncate(750 * time.Millisecond).Add(-100 * time.Millisecond) }, false, 0, 2},
		{"it knows nothing", func() time.Time { return time.Time{} }, false, 55, 65},
		{"what it knows is old", func() time.Time { return time.Now().Add(-time.Second) }, false, 55, 65},
		{"it knows the future", func() time.Time { return time.Now().Add(time.Hour) }, false, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var count counting
				all, _ := processes(t, 1, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
					s.Store.(*faulty).heard, s.Store.(*faulty).count = tc.heard, &count.n
				})
				defer end(t, all)
				if tc.cools {
					all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: time.Hour})
				}
				time.Sleep(time.Second)
				before := count.n.Load()
				time.Sleep(time.Minute)
				if n := count.n.Load() - before; n < tc.least || n > tc.most {
					t.Errorf("%d exchanges a minute, want %d to %d", n, tc.least, tc.most)
				}
			})
		})
	}
}

// At whatever moment a store begins to miss hints, a cooldown is heard of in time, as
// long as it does not say that it has heard all; and one that says so, wrongly, is
// caught by this test.
func TestAHintThatIsMissedIsMadeUpFor(t *testing.T) {
	const within = 1100 * time.Millisecond
	worst := func(t *testing.T, wrong bool, limits []governor.Limit) (worst time.Duration) {
		steps := effort.Times(8)
		for step := range steps {
			synctest.Test(t, func(t *testing.T) {
				var muted atomic.Int64
				all, _ := processes(t, 2, func(cfg *governor.PlainConfig, s *store.SyncerConfig) {
					cfg.Limits = limits
					f := s.Store.(*faulty)
					f.delay = func() time.Duration { return time.Millisecond }
					f.heard = func() time.Time { // it learns of it some time later
						if at := muted.Load(); at > 0 && !wrong {
							return time.Unix(0, at).Truncate(700 * time.Millisecond)
						}
						return time.Now().Truncate(700 * time.Millisecond)
					}
				})
				defer end(t, all)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if limits != nil { // somebody waits for permits all the time
					governor.Submit(ctx, all[1].With(governor.Ask{Cost: 10}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
					governor.Submit(ctx, all[1].Plain, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
				}
				time.Sleep(10*time.Second + 1240*time.Millisecond*time.Duration(step)/time.Duration(steps))
				all[1].net.mute.Store(true)
				start := time.Now()
				muted.Store(start.UnixNano())
				var took atomic.Int64
				all[1].Listen(func(e event.Event) { took.Store(int64(e.Time.Sub(start))) }, event.Cooling)
				all[0].Learn(throttle.Signal{Delay: time.Hour})
				time.Sleep(10 * time.Second)
				took.CompareAndSwap(0, int64(time.Minute)) // if at all
				worst = max(worst, time.Duration(took.Load()))
			})
		}
		return worst
	}
	waiting := []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 10, Per: time.Hour}}}
	for name, limits := range map[string][]governor.Limit{"idle": nil, "waiting": waiting} {
		t.Run(name, func(t *testing.T) {
			if d := worst(t, false, limits); d > within {
				t.Errorf("a cooldown was heard of after %v, want at most %v", d, within)
			}
			if d := worst(t, true, limits); d <= within {
				t.Errorf("without hints, and without asking, it is heard of within %v", d)
			}
		})
	}
}

// An answer that says nothing has not told what the hint was about.
func TestWhoGetsNoAnswerAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 2, nil)
		defer end(t, all)
		time.Sleep(10 * time.Second)
		all[1].net.stale.Store(true)
		all[0].Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(1100 * time.Millisecond)
		if all[1].net.stale.Load() {
			t.Error("it has not asked")
		}
		if cools := all[1].Stats().Cooldowns; len(cools) != 1 {
			t.Errorf("it knows of %+v, want one of an hour", cools)
		}
	})
}

// A hint that is being given was not heard yet.
func TestWhatIsBeingToldIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		block := make(chan struct{})
		stop, err := m.Watch(t.Context(), func(store.Hint) { <-block })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		begun := time.Now()
		go m.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: "k", Seq: 1, Cool: []store.Cool{{For: time.Hour}}}})
		time.Sleep(time.Second)
		if got := m.HeardUntil(); got.After(begun) {
			t.Errorf("it has heard of what was done until %v after the exchange of which a hint is under way", got.Sub(begun))
		}
		close(block)
		synctest.Wait()
		if got := m.HeardUntil(); !got.Equal(time.Now()) {
			t.Errorf("when it is given, it has heard until %v ago", time.Since(got))
		}
	})
}

// What is cooling when a governor joins it hears at once, though the store knows that
// this process has heard of it before, and what is under way was asked for by others.
func TestWhoJoinsDuringAnExchangeHearsAll(t *testing.T) {
	steps := effort.Times(10)
	for step := range steps {
		synctest.Test(t, func(t *testing.T) {
			all, _ := processes(t, 1, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
				s.Store.(*faulty).delay = func() time.Duration { return 200 * time.Millisecond }
			})
			defer end(t, all)
			scope := throttle.Scope{Level: throttle.Tenant, Key: "a"}
			all[0].Learn(throttle.Signal{Scope: scope, Delay: time.Hour})
			time.Sleep(10*time.Second + 1240*time.Millisecond*time.Duration(step)/time.Duration(steps))
			g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}, Store: all[0].sync})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			time.Sleep(500 * time.Millisecond)
			if cools := g.Stats().Cooldowns; len(cools) != 1 {
				t.Errorf("step %d: it knows of %+v, want one of an hour", step, cools)
			}
		})
	}
}

// A request that is repeated is answered by what was so when it was executed first. What
// was hinted at since is asked for by another one.
func TestARepeatedAnswerIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var swallows atomic.Bool
		all, m := processes(t, 2, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
			s.Store.(*faulty).fate = func() fate {
				if swallows.Load() {
					return swallowed
				}
				return arrives
			}
		})
		defer end(t, all)
		time.Sleep(10 * time.Second)
		swallows.Store(true)
		key, over := store.KeyFor("acme", throttle.Scope{}.String()), []store.Cool{{Scope: "tenant:a", For: time.Millisecond}}
		if _, err := m.Exchange(t.Context(), store.NewNode(), []store.Item{{Key: key, Seq: 1, Cool: over}}); err != nil {
			t.Fatal(err) // of which they are hinted, and ask
		}
		time.Sleep(10 * time.Millisecond)
		all[0].Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(240 * time.Millisecond)
		swallows.Store(false)
		time.Sleep(1100 * time.Millisecond)
		if cools := all[1].Stats().Cooldowns; len(cools) == 0 || cools[0].Scope != (throttle.Scope{}) {
			t.Errorf("it knows of %+v, want one of an hour", cools)
		}
	})
}

// Of a key that was not used for so long that the store has forgotten it, a process may
// know more changes than there were since.
func TestACooldownOfAForgottenKeyIsHeardOf(t *testing.T) {
	steps := effort.Times(3)
	for step := range steps {
		synctest.Test(t, func(t *testing.T) {
			all, m := processes(t, 2, nil)
			defer end(t, all)
			scope := throttle.Scope{Level: throttle.Tenant, Key: "a"}
			for range 5 {
				all[0].Learn(throttle.Signal{Scope: scope, Delay: time.Second})
				time.Sleep(2 * time.Second)
			}
			time.Sleep(3*time.Minute + time.Minute*time.Duration(step)/time.Duration(steps)) // each asks once a minute now
			for i := range 20 {
				it := store.Item{Key: store.KeyFor("other", fmt.Sprint(i)), Seq: 1}
				if _, err := m.Exchange(t.Context(), store.NewNode(), []store.Item{it}); err != nil {
					t.Fatal(err)
				}
			}
			all[0].Learn(throttle.Signal{Scope: scope, Delay: time.Hour})
			time.Sleep(1100 * time.Millisecond)
			if cools := all[1].Stats().Cooldowns; len(cools) != 1 || time.Until(cools[0].Until) < time.Minute {
				t.Errorf("step %d: the other process knows of %+v, want one of an hour", step, cools)
			}
		})
	}
}

// Governors, and all that their processes ask the store for, stay within the bounds
// for permits alone.
func TestGovernorsMakeFewRoundTrips(t *testing.T) {
	for _, l := range []struct {
		quota int
		per   time.Duration
		most  float64
	}{
		{100, time.Second, 0.4},
		{1000, time.Second, 0.06},
		{10_000, time.Minute, 0.012},
	} {
		for _, deaf := range []bool{false, true} {
			if deaf && l.quota > 100 && effort.Usual() {
				continue
			}
			name := fmt.Sprintf("%d in %v, deaf %v", l.quota, l.per, deaf)
			t.Run(name, func(t *testing.T) { governorsMake(t, l.quota, l.per, l.most, deaf) })
		}
	}
}

// governorsMake has eight do what a Window of quota in per lets them; who is deaf asks
// for news, too, and is not held to most.
func governorsMake(t *testing.T, quota int, per time.Duration, most float64, deaf bool) {
	synctest.Test(t, func(t *testing.T) {
		var count counting
		limit := store.Limit{Kind: store.Window, Quota: int64(quota), Per: per}
		all, _ := processes(t, 8, func(cfg *governor.PlainConfig, s *store.SyncerConfig) {
			s.Store.(*faulty).count, s.Store.(*faulty).deaf = &count.n, deaf
			s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
		})
		var made atomic.Int64
		var wg sync.WaitGroup
		until := time.Now().Add(3 * per)
		for _, p := range all {
			sh, err := p.sync.Share(store.ShareConfig{Name: "acme, calls", Limits: []store.Limit{limit}})
			if err != nil {
				t.Fatal(err)
			}
			defer sh.Close()
			u := &user{limit: sh, keeps: true, every: 8 * per * 4 / time.Duration(5*quota)}
			wg.Go(func() { u.run(new(storetest.History), until); made.Add(u.made) })
		}
		wg.Wait()
		trips := float64(count.n.Load()) / float64(made.Load())
		t.Logf("%d calls, %.4f round trips each", made.Load(), trips)
		if made.Load() < 2*int64(quota) || trips > most && !deaf {
			t.Errorf("%d calls with %.4f round trips each, want at most %v", made.Load(), trips, most)
		}
		end(t, all)
	})
}

// Eight processes, of each of which 64 calls are refused in a second, tell each other of
// that with 250 requests each at most, and with fifty where those take long, and not with one
// for each refusal of any of them. Words that come one by one are not held up.
func TestABurstOfRefusalsMakesFewRoundTrips(t *testing.T) {
	for name, delay := range map[string]func(i int) time.Duration{
		"of the same time":     func(i int) time.Duration { return time.Hour - time.Duration(i)*500*time.Microsecond },
		"each of an hour":      func(int) time.Duration { return time.Hour },
		"each of a bit less":   func(i int) time.Duration { return time.Hour - time.Duration(i)*time.Millisecond },
		"each of a bit more":   func(i int) time.Duration { return time.Hour + time.Duration(i)*time.Second },
		"of many tenants' own": nil,
	} {
		for way, most := range map[time.Duration]int64{250 * time.Microsecond: 280, 5 * time.Millisecond: 75} {
			t.Run(fmt.Sprintf("%s, %v away", name, way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { burst(t, delay, way, most) })
			})
		}
	}
}

func burst(t *testing.T, delay func(i int) time.Duration, way time.Duration, most int64) {
	m := memory(t)
	const processes, refusals = 8, 256
	var counts [processes]counting
	var all []*governor.Plain
	for i := range processes {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, count: &counts[i].n, delay: func() time.Duration { return way }}})
		defer s.Close()
		g := join(t, s)
		defer g.Close()
		all = append(all, g)
	}
	time.Sleep(10 * time.Second)
	for i := range counts {
		counts[i].n.Store(0)
	}
	for i := range processes * refusals {
		sig := throttle.Signal{Delay: time.Hour}
		if delay != nil {
			sig.Delay = delay(i)
		} else {
			sig.Scope = throttle.Scope{Level: throttle.Tenant, Key: strconv.Itoa(i % 32)}
		}
		all[i%processes].Learn(sig)
		if i == 0 {
			time.Sleep(4*way + time.Millisecond)
			for _, g := range all {
				if coolsFor(g, sig.Scope) == 0 {
					t.Error("two round trips later one has not heard of the first")
				}
			}
		}
		time.Sleep(500 * time.Microsecond)
	}
	for i := range counts {
		if n := counts[i].n.Load(); n > most {
			t.Errorf("%d requests of one process in a second, want %d at most", n, most)
		}
	}
}

// Words go with what is exchanged for permits, of which there is much: neither waits for the
// other.
func TestWordsAreHeardBesideManyExchangesForPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 2, func(cfg *governor.PlainConfig, s *store.SyncerConfig) {
			cfg.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 100, Per: 100 * time.Millisecond}}}
			cfg.Workers = 64
			s.Store.(*faulty).delay = func() time.Duration { return 500 * time.Microsecond }
		})
		defer end(t, all)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls atomic.Int64
		for _, p := range all {
			for range 8 {
				go func() {
					for ctx.Err() == nil {
						governor.Do(ctx, p.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) { calls.Add(1); return 0, nil }))
					}
				}()
			}
		}
		time.Sleep(20 * time.Second)
		was := calls.Load()
		for i := range 30 {
			sc := throttle.Scope{Level: throttle.Tenant, Key: strconv.Itoa(i)}
			all[0].Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
			time.Sleep(50 * time.Millisecond)
			if coolsFor(all[1].Plain, sc) == 0 {
				t.Fatalf("the other process has not heard of cooldown %d in 50 ms", i)
			}
		}
		time.Sleep(10*time.Second - 1500*time.Millisecond)
		if n := calls.Load() - was; n < was*9/20 {
			t.Errorf("%d calls in ten seconds beside words, %d in twenty before", n, was)
		}
	})
}
