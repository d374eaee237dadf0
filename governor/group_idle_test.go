package governor_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// withAdaptive runs fn with a Group whose governors have an Adaptive each.
func withAdaptive(t *testing.T, cfg limiter.AdaptiveConfig, fn func(t *testing.T, g *governor.Group[string, struct{}])) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			a, err := limiter.NewAdaptive(cfg)
			return governor.PlainConfig{Vendor: governortest.Vendor{}, MaxWait: -1, Limits: []governor.Limit{{Limiter: a}}}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		fn(t, g)
	})
}

func TestEvictionWaitsForTheWindowOfAnAdaptive(t *testing.T) {
	withAdaptive(t, limiter.AdaptiveConfig{Window: time.Hour, Max: 100.0 / 3600}, func(t *testing.T, g *governor.Group[string, struct{}]) {
		var starts []time.Time
		for start := time.Now(); time.Since(start) < 3*time.Hour; time.Sleep(7 * time.Minute) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := governor.Do(ctx, get(t, g, "a").With(governor.Ask{Cost: 50}), "", sleep(0)); err == nil {
				starts = append(starts, time.Now())
			}
			cancel()
		}
		if len(starts) < 6 {
			t.Errorf("%d calls of 50 in three hours, the quota has 6", len(starts))
		}
		for i := 2; i < len(starts); i++ {
			if d := starts[i].Sub(starts[i-2]); d < time.Hour {
				t.Errorf("150 permits in %v, the quota is 100 an hour", d)
			}
		}
		time.Sleep(2 * time.Hour)
		if alive(g) != "" {
			t.Error("it is not evicted when nothing counts any more")
		}
	})
}

func TestEvictionWaitsForWhatAnAdaptiveIsOwed(t *testing.T) {
	withAdaptive(t, limiter.AdaptiveConfig{Start: 1, Max: 1}, func(t *testing.T, g *governor.Group[string, struct{}]) {
		h, start := get(t, g, "a"), time.Now()
		governor.Do(t.Context(), h, "", governor.Func(func(ctx context.Context) (int, error) { return 0, governor.Settle(ctx, 3600) }))
		time.Sleep(10 * time.Minute)
		governor.Do(t.Context(), h, "", sleep(0))
		if d := time.Since(start); d < 59*time.Minute {
			t.Errorf("the next after %v, 3600 permits at 1/s were owed", d)
		}
		time.Sleep(9 * time.Minute)
		if alive(g) != "" {
			t.Error("it is not evicted when nothing is owed")
		}
	})
}

func TestIdleTimeBeginsWhenTheLastCallHasEnded(t *testing.T) {
	for name, busy := range map[string]func(t *testing.T, h *governor.Plain){
		"Do": func(t *testing.T, h *governor.Plain) { governor.Do(t.Context(), h, "", sleep(20*time.Minute)) },
		"Do that had to wait": func(t *testing.T, h *governor.Plain) {
			governor.Do(t.Context(), h.With(governor.Ask{KeepConn: true}), "", sleep(20*time.Minute))
		},
		"Stream": func(t *testing.T, h *governor.Plain) {
			for range governor.Stream(t.Context(), h, "", items(1)) {
				time.Sleep(20 * time.Minute)
			}
		},
		"Hold": func(t *testing.T, h *governor.Plain) {
			var release func(error)
			governor.Do(t.Context(), h, "", governor.Func(func(ctx context.Context) (int, error) {
				release = governor.Hold(ctx)
				return 0, nil
			}))
			time.Sleep(20 * time.Minute)
			release(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, nil, func(t *testing.T, g *plainGroup, _ *atomic.Int64) { // of 5 min
				busy(t, get(t, g, "a"))
				ended := time.Now()
				for alive(g) == "a" {
					time.Sleep(time.Second)
				}
				if d := time.Since(ended); d < 5*time.Minute || d > 6*time.Minute+16*time.Second {
					t.Errorf("evicted after %v", d)
				}
			})
		})
	}
}

func TestWhatAnEvictedGovernorWasToldOutlastsAConfigThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := false
		g, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			if fails {
				return governor.PlainConfig{}, errors.New("no secrets")
			}
			return governor.PlainConfig{Vendor: governortest.Vendor{}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		governor.Do(t.Context(), get(t, g, "a"), "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, governor.Report(ctx, throttle.Quota{Limit: 100, Remaining: 3, Reset: time.Now().Add(3 * time.Hour), Cost: -1})
		}))
		time.Sleep(10 * time.Minute)
		fails = true
		if _, err := g.Get("a"); err == nil {
			t.Fatal("there is a governor whose Config failed")
		}
		fails = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		for ; n < 20; n++ {
			if _, err := governor.Do(ctx, get(t, g, "a"), "", sleep(0)); err != nil {
				break
			}
		}
		if n != 3 {
			t.Errorf("%d calls, the vendor said that 3 are left", n)
		}
	})
}

// growing makes calls of who for d, as fast as they pass.
func growing(t *testing.T, g *plainGroup, who string, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := governor.Do(t.Context(), forTenant(get(t, g, "a"), who), "", sleep(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheNextGovernorGoesOnWithWhatNeverWasRefused(t *testing.T) {
	withAdaptive(t, limiter.AdaptiveConfig{Start: 2, Max: 1e4}, func(t *testing.T, g *plainGroup) {
		growing(t, g, "", 3*time.Second)
		rate := get(t, g, "a").Stats().Limits[0].Rate
		if rate < 10 {
			t.Fatalf("it has grown to %v from 2", rate)
		}
		evicted(t, g)
		if next := get(t, g, "a").Stats().Limits[0].Rate; next != rate {
			t.Errorf("it goes on with %v, want %v", next, rate)
		}
	})
}

func TestTheNextGovernorKnowsTheRateOfEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			adaptive := func() limiter.Limiter {
				a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 2, Max: 1e4})
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			within := byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"ann": adaptive()}, Others: adaptive()})
			l := byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"bob": adaptive(), "": adaptive(), "joe": within}, Others: within})
			return governor.PlainConfig{NoPace: true, Limits: []governor.Limit{{Per: throttle.Tenant, Limiter: l}}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		growing(t, g, "bob", 700*time.Millisecond)
		growing(t, g, "ann", time.Second)
		growing(t, g, "eve", 1300*time.Millisecond)
		rates := func() map[string]float64 {
			all := make(map[string]float64)
			for _, r := range get(t, g, "a").Export().Rates {
				name := r.Key
				if !r.ByKey {
					name = "others"
				}
				all[name] = r.Rate
			}
			return all
		}
		before := rates()
		if before[""] != 2 || before["bob"] < 4 || before["ann"] < 2*before["bob"] || before["others"] < 2*before["ann"] || before["joe"] != before["others"] {
			t.Fatalf("rates %v", before)
		}
		evicted(t, g)
		if after := rates(); !maps.Equal(before, after) {
			t.Errorf("the next governor has %v, want %v", after, before)
		}
	})
}

// restoring runs fn with a Group whose Config has a Restore with a cooldown of ten hours, by a
// clock that is ahead so far, which export makes anew. cooling asks whether "a" has it.
func restoring(t *testing.T, fn func(t *testing.T, g *plainGroup, export func(ahead time.Duration), cooling func() bool)) {
	t.Helper()
	var saved governor.Learned
	inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
		c.Config = func(string) (governor.PlainConfig, error) {
			each.Restore = saved
			return *each, nil
		}
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		export := func(ahead time.Duration) {
			when := time.Now().Add(ahead)
			saved = governor.Learned{When: when, Cooldowns: []governor.LearnedCooldown{{Until: when.Add(10 * time.Hour)}}}
		}
		export(0)
		fn(t, g, export, func() bool { return len(get(t, g, "a").Stats().Cooldowns) == 1 })
	})
}

func TestAGroupRestoresACooldownOnce(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second, 24 * time.Hour} {
		restoring(t, func(t *testing.T, g *plainGroup, export func(time.Duration), cooling func() bool) {
			if export(ahead); !cooling() {
				t.Fatalf("ahead by %v: it is not restored", ahead)
			}
			for range 3 {
				get(t, g, "a").Clear(throttle.Scope{})
				if evicted(t, g); cooling() {
					t.Fatalf("ahead by %v: it is back after Clear", ahead)
				}
			}
			evicted(t, g)
			if export(0); !cooling() {
				t.Errorf("ahead by %v: what was exported later is not restored", ahead)
			}
		})
	}
}

func TestACooldownIsRestoredAgainForAGovernorThatWasClosedByHand(t *testing.T) {
	restoring(t, func(t *testing.T, g *plainGroup, _ func(time.Duration), cooling func() bool) {
		if get(t, g, "a").Close(); !cooling() {
			t.Error("the next governor does not know of it")
		}
	})
}

func TestWhatConfigTellsALimitCountsBesideWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := false
		g, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 10, Window: time.Minute, Max: 1e4})
			if told {
				a.Told(time.Now(), time.Now(), throttle.Quota{Limit: 60, Remaining: 0, Reset: time.Now().Add(time.Minute), Cost: -1})
			}
			return governor.PlainConfig{MaxWait: -1, Limits: []governor.Limit{{Limiter: a}}}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		evicted(t, g)
		told = true
		start := time.Now()
		call(t, get(t, g, "a"), sleep(0))
		if r := get(t, g, "a").Stats().Limits[0].Rate; r > 1 || time.Since(start) < time.Minute {
			t.Errorf("of 60 a minute, of which none is left: %v a second, the first after %v", r, time.Since(start))
		}
	})
}

func TestARestoredRateDoesNotReplaceWhatWasLearnedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saved := governor.Learned{When: time.Now(), Rates: []governor.LearnedRate{{Learned: limiter.Learned{Rate: 1000, Pause: time.Second, When: time.Now()}}}}
		g, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			return governor.PlainConfig{Vendor: governortest.Vendor{}, Restore: saved}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var sent []time.Time
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); { // a vendor that takes 10 a second
			governor.Do(t.Context(), get(t, g, "a"), "", governor.Func(func(context.Context) (int, error) {
				now := time.Now()
				if len(sent) >= 10 && now.Sub(sent[len(sent)-10]) < time.Second {
					return 0, governortest.Limited(time.Second)
				}
				sent = append(sent, now)
				return 0, nil
			}))
		}
		rate := get(t, g, "a").Stats().Limits[0].Rate
		evicted(t, g)
		if next := get(t, g, "a").Stats().Limits[0].Rate; rate > 20 || next != rate {
			t.Errorf("the next goes on with %v, this one with %v", next, rate)
		}
	})
}

func TestTheNextGovernorKnowsALimitThatWasToldLongAgo(t *testing.T) {
	withAdaptive(t, limiter.AdaptiveConfig{Start: 1, Window: time.Minute, Max: 1e4}, func(t *testing.T, g *plainGroup) {
		governor.Do(t.Context(), get(t, g, "a"), "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, governor.Report(ctx, throttle.Quota{Limit: 120, Remaining: -1, Window: time.Minute, Cost: -1})
		}))
		evicted(t, g)
		growing(t, g, "", 30*time.Minute)
		if rate := get(t, g, "a").Stats().Limits[0].Rate; rate > 2 {
			t.Errorf("it has come to %v a second, of the 2 that the vendor said", rate)
		}
	})
}

// Who asks for a governor while a Config is called is told when the Group is closed.
func TestNobodyWaitsForAConfigOfAClosedGroup(t *testing.T) {
	slow := false
	inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
		c.Config = func(string) (governor.PlainConfig, error) {
			if slow {
				time.Sleep(time.Hour)
			}
			return *each, nil
		}
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		old := evicted(t, g)
		slow = true
		go g.Get("a")
		synctest.Wait()
		start, over := time.Now(), make(chan error)
		go func() { _, err := governor.Do(t.Context(), old, "", sleep(0)); over <- err }()
		go func() { _, err := g.Get("a"); over <- err }()
		go func() { old.Clear(throttle.Scope{}); over <- governor.ErrClosed }()
		synctest.Wait()
		g.Close()
		for range 3 {
			if err := <-over; !errors.Is(err, governor.ErrClosed) || time.Since(start) > time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestCloseDoesNotWaitForAConfig(t *testing.T) {
	for name, end := range map[string]func(context.Context, *plainGroup) error{
		"Close":    func(_ context.Context, g *plainGroup) error { return g.Close() },
		"Shutdown": func(ctx context.Context, g *plainGroup) error { return g.Shutdown(ctx) },
	} {
		inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
			each.CloseGrace = time.Second
			c.Config = func(host string) (governor.PlainConfig, error) {
				if host == "slow" {
					time.Sleep(time.Hour)
				}
				return *each, nil
			}
		}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
			start := time.Now()
			r := governor.Submit(t.Context(), get(t, g, "a"), "", sleep(10*time.Minute))
			got := make(chan error)
			for range 2 {
				go func() { _, err := g.Get("slow"); got <- err }()
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			end(ctx, g)
			if d := time.Since(start); d > 3*time.Second || r.State() != governor.Done {
				t.Errorf("%s took %v; what ran is %v", name, d, r.State())
			}
			for range 2 {
				if err := <-got; err != governor.ErrClosed {
					t.Errorf("%s: Get: %v, want ErrClosed", name, err)
				}
			}
			if strings.Contains(alive(g), "slow") {
				t.Errorf("%s: there is a governor of it", name)
			}
		})
	}
}
