package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/flyball-go/flyball/store/storetest"
	"github.com/flyball-go/flyball/throttle"
)

// process is one of several that share a vendor.
type process struct {
	*governor.Plain
	sync *store.Syncer
	net  *faulty
}

// processes starts n over one Memory.
func processes(t *testing.T, n int, set func(*governor.PlainConfig, *store.SyncerConfig)) (all []*process, m *store.Memory) {
	t.Helper()
	m = memory(t)
	for range n {
		p := &process{net: &faulty{Store: m}}
		sc := store.SyncerConfig{Store: p.net}
		cfg := governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}, Workers: 8, NoPace: true}
		if set != nil {
			set(&cfg, &sc)
		}
		p.sync = syncer(t, sc)
		cfg.Store = p.sync
		g, err := governor.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Plain = g
		all = append(all, p)
	}
	return all, m
}

func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.sync.Close(); err != nil {
		t.Error(err)
	}
}

func end(t *testing.T, all []*process) {
	for _, p := range all {
		p.end(t)
	}
}

// refuse has p's vendor ask to be left alone for d.
func (p *process) refuse(d time.Duration, scope ...throttle.Scope) {
	s := governortest.NewScript(governortest.Limited(d, scope...))
	governor.Submit(context.Background(), p.With(governor.Ask{NoRetry: true}), "", s.Call)
}

func TestACooldownOfOneProcessPausesAll(t *testing.T) {
	for _, tc := range []struct {
		name   string
		deaf   bool
		within time.Duration
	}{{"by a hint", false, 3 * time.Millisecond}, {"without hints", true, 1100 * time.Millisecond}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, _ := processes(t, 4, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
					s.Store.(*faulty).deaf = tc.deaf
					s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
				})
				defer func() { end(t, all) }()
				time.Sleep(10 * time.Second)
				var mu sync.Mutex
				var heard []time.Duration
				start := time.Now()
				for _, p := range all[1:] {
					p.Listen(func(e event.Event) {
						mu.Lock()
						defer mu.Unlock()
						heard = append(heard, e.Time.Sub(start))
						if left := e.Until.Sub(start); left < time.Minute || left > time.Minute+tc.within {
							t.Errorf("another process waits until %v, want a minute", left)
						}
					}, event.Cooling)
				}
				all[0].refuse(time.Minute)
				time.Sleep(5 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if len(heard) != 3 {
					t.Fatalf("%d of 3 other processes heard", len(heard))
				}
				for _, d := range heard {
					if d > tc.within {
						t.Errorf("another process heard after %v, want at most %v", d, tc.within)
					}
				}
			})
		})
	}
}

func TestACooldownIsNotToldAroundForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count counting
		all, _ := processes(t, 3, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
			s.Store.(*faulty).count = &count.n
			s.Store.(*faulty).delay = func() time.Duration { return 3 * time.Millisecond }
		})
		defer func() { end(t, all) }()
		var extended atomic.Int64
		for _, p := range all {
			p.Listen(func(event.Event) { extended.Add(1) }, event.Extended)
		}
		all[0].refuse(50 * time.Millisecond) // less than the least that a governor waits
		all[0].refuse(10*time.Second, throttle.Scope{Level: throttle.Tenant, Key: "a:b"})
		before := count.n.Load()
		time.Sleep(9 * time.Second)
		if n := extended.Load(); n != 0 {
			t.Errorf("it was extended %d times", n)
		}
		if n := count.n.Load() - before; n > 3*(9+8) {
			t.Errorf("%d exchanges in nine seconds, want one a second and process, and few more", n)
		}
		for i, p := range all {
			cools := p.Stats().Cooldowns
			if len(cools) == 0 {
				t.Errorf("process %d knows of no cooldown", i)
			}
		}
	})
}

func TestOneProcessProbesForAll(t *testing.T) {
	for _, limits := range [][]governor.Limit{nil, {{Quota: limiter.QuotaConfig{Limit: 1000, Per: time.Second}}}} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := processes(t, 4, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				c.Limits = limits
				s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
			})
			time.Sleep(2 * time.Second)
			all[0].refuse(10 * time.Second)
			time.Sleep(time.Second)
			var running, most, calls atomic.Int64
			var passed atomic.Bool
			var reqs []*governor.Request[int]
			for _, p := range all {
				for range 5 {
					reqs = append(reqs, governor.Submit(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) {
						calls.Add(1)
						if n := running.Add(1); !passed.Load() {
							most.Store(max(most.Load(), n))
						}
						time.Sleep(300 * time.Millisecond)
						running.Add(-1)
						passed.Store(true)
						return 1, nil
					})))
				}
			}
			start := time.Now()
			for _, r := range reqs {
				if _, err := r.Result(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if most.Load() != 1 || calls.Load() != 20 {
				t.Errorf("%d at once before one had passed, %d calls in all, want 1 and 20", most.Load(), calls.Load())
			}
			if d := time.Since(start); d > 15*time.Second {
				t.Errorf("all were through after %v", d)
			}
			end(t, all)
		})
	}
}

func TestAClearOfOneProcessIsOneOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := processes(t, 3, nil)
		defer func() { end(t, all) }()
		all[0].refuse(time.Hour)
		time.Sleep(2 * time.Second)
		all[1].Clear(throttle.Scope{})
		time.Sleep(2 * time.Second)
		for i, p := range all {
			if cools := p.Stats().Cooldowns; len(cools) != 0 {
				t.Errorf("process %d still has %+v", i, cools)
			}
			if _, err := governor.Do(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err != nil {
				t.Error(err)
			}
		}
	})
}

// Governors whose callers know nothing of each other keep to one quota.
func TestGovernorsKeepToOneQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := limiter.QuotaConfig{Limit: 100, Per: time.Second}
		tenants := limiter.QuotaConfig{Limit: 30, Per: time.Second}
		all, _ := processes(t, 4, func(c *governor.PlainConfig, _ *store.SyncerConfig) {
			c.Limits = []governor.Limit{{Quota: quota}, {Quota: limiter.QuotaConfig{Limit: 5000, Per: time.Minute}}, {Per: throttle.Tenant, Quota: tenants}}
		})
		var h, one storetest.History
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		start := time.Now()
		for _, p := range all {
			for i := range 8 {
				g := p.With(governor.Ask{Tenant: string(rune('a' + i%4))})
				wg.Go(func() {
					for ctx.Err() == nil {
						_, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) {
							h.Use(time.Now(), 1)
							if i%4 == 0 {
								one.Use(time.Now(), 1)
							}
							return 1, nil
						}))
						if err != nil {
							return // the end is near
						}
					}
				})
			}
		}
		wg.Wait()
		if err := h.Check(store.Limit{Quota: 100, Per: time.Second}); err != nil {
			t.Error(err)
		}
		if err := one.Check(store.Limit{Quota: 30, Per: time.Second}); err != nil {
			t.Error(err)
		}
		if used := h.Total(start.Add(time.Second), start.Add(9*time.Second)); used < 8*94 {
			t.Errorf("%d calls in eight seconds, want 94%% of 100 a second: a 33rd is what it costs, and a part waits for two limits", used)
		}
		end(t, all)
	})
}

// What is made again goes on with the same shares.
func TestGovernorsOfOneNameInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		open := func(limit int) (*governor.Plain, error) {
			return governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}, Store: s,
				Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: limit, Per: time.Minute}}}})
		}
		a, err := open(10)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(20); err == nil {
			t.Error("another limit of the same name is taken")
		}
		var calls atomic.Int64
		for range 10 {
			for _, g := range []*governor.Plain{a, b} {
				governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { calls.Add(1); return 1, nil }))
			}
		}
		time.Sleep(30 * time.Second)
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls in half a minute, want 10", n)
		}
		governor.Submit(t.Context(), b, "", governortest.NewScript(governortest.Limited(time.Minute)).Call)
		a.Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(time.Second)
		if cools := b.Stats().Cooldowns; len(cools) != 1 || time.Until(cools[0].Until) < 59*time.Minute {
			t.Errorf("the other governor has %+v, want an hour", cools)
		}
		a.Close()
		b.Close()
		c, err := open(20)
		if err != nil {
			t.Errorf("when all are closed, the limit may be another: %v", err)
		} else {
			c.Close()
		}
	})
}

// What one process has no room for pauses its host, and that of no other.
func TestWhatOneHasNoRoomForPausesNotTheHostOfOthers(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				if n++; n == 1 {
					c.MaxKeys = 1
				}
			})
			defer func() { end(t, all) }()
			time.Sleep(10 * time.Second)
			for _, key := range []string{"a", "b"} {
				all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: key}, Delay: 10 * time.Minute})
			}
			time.Sleep(time.Second) // so that it is heard
			if leaves {
				all[0].Close()
			}
			start := time.Now()
			for _, w := range []struct {
				tenant string
				long   time.Duration
			}{{"c", 0}, {"b", 10*time.Minute - time.Second}} {
				_, err := governor.Do(t.Context(), all[1].With(governor.Ask{Tenant: w.tenant}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
				if d := time.Since(start); err != nil || d < w.long-time.Second || d > w.long+time.Second {
					t.Errorf("leaves %t: %s waits %v, %v, want %v: %+v", leaves, w.tenant, d, err, w.long, all[1].Stats().Cooldowns)
				}
			}
		})
	}
}

// The rest of a pause that others have heard of is no short one of its own.
func TestWhatIsLeftOfAPauseIsNotLengthened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := processes(t, 1, nil)
		defer func() { end(t, all) }()
		time.Sleep(10 * time.Second)
		start := time.Now()
		all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "t"}, Delay: time.Minute})
		time.Sleep(58 * time.Second)
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m}})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, MinCooldown: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		at, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (time.Duration, error) { return time.Since(start), nil }))
		if err != nil || at > time.Minute+100*time.Millisecond {
			t.Errorf("starts after %v, %v, want a minute", at, err)
		}
	})
}

// The store keeps the host's permits back for as long as it was told, and so it is that
// which MaxWait is about, and not what this process would have believed.
func TestAHostsPauseIsAsLongAsAnotherProcessBelieves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
			if n++; n == 2 {
				c.MaxCooldown = time.Hour
			}
		})
		defer func() { end(t, all) }()
		time.Sleep(10 * time.Second)
		all[0].Learn(throttle.Signal{Delay: 10 * time.Hour})
		all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "t"}, Delay: 10 * time.Hour})
		until := time.Now().Add(10 * time.Hour)
		time.Sleep(time.Hour + time.Second)
		start := time.Now()
		_, err := governor.Do(t.Context(), all[1].Plain, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		cools, ok := errors.AsType[*governor.CooldownError](err)
		if !ok || time.Since(start) > 0 || cools.Until.Sub(until).Abs() > time.Second {
			t.Errorf("%v after %v, want a refusal until %v", err, time.Since(start), until)
		}
		for _, c := range all[1].Stats().Cooldowns {
			if c.Scope.Key == "t" && c.Phase == "cooling" {
				t.Errorf("%+v: it believes no more than an hour", c)
			}
		}
	})
}

// A process without room hears late of a clear, by which it knows of nothing that it was
// told since.
func TestAClearThatIsHeardLateLeavesAPauseForWantOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
			c.MaxWait = -1
			if n++; n == 1 {
				c.MaxKeys = 1
				s.Store.(*faulty).deaf = true
			}
		})
		defer func() { end(t, all) }()
		time.Sleep(10*time.Second + 50*time.Millisecond)
		all[1].Learn(throttle.Signal{Delay: time.Hour})
		time.Sleep(3 * time.Second)
		all[1].Clear(throttle.Scope{})
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "b"}, Delay: 10 * time.Minute})
		d, err := governor.Do(t.Context(), all[0].With(governor.Ask{Tenant: "b"}), "", governor.Func(func(context.Context) (time.Duration, error) { return time.Since(start), nil }))
		if err != nil || d < 10*time.Minute {
			t.Errorf("b starts after %v, %v, want 10m", d, err)
		}
	})
}

// In a burst that no listener keeps up with, what a process has no room for is a pause of
// the host for others, too, since nobody knows any more what it was.
func TestABurstOfScopesWithoutRoomIsHeardOf(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that events are dropped
	for _, keys := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				c.MaxWait = -1
				if n++; n == 1 {
					c.MaxKeys = keys
				}
			})
			defer func() { end(t, all) }()
			time.Sleep(10 * time.Second)
			for i := range 6000 {
				d, key := time.Minute, fmt.Sprint(i)
				if i == 2000 {
					key, d = "long", time.Hour
				}
				all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: key}, Delay: d})
			}
			start := time.Now()
			time.Sleep(5 * time.Second)
			d, err := governor.Do(t.Context(), all[1].With(governor.Ask{Tenant: "long"}), "", governor.Func(func(context.Context) (time.Duration, error) { return time.Since(start), nil }))
			if err != nil || d < time.Hour-time.Second {
				t.Errorf("room for %d: it starts after %v, %v, want an hour", keys, d, err)
			}
		})
	}
}
