package governor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// inCallsAndTokens is a governor of so many calls, and tokens, per second.
func inCallsAndTokens(calls, tokens int) func(*governor.PlainConfig) {
	per := func(n int) limiter.QuotaConfig { return limiter.QuotaConfig{Limit: n, Per: time.Second, Margin: -1} }
	return func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Limits = []governor.Limit{{Quota: per(calls)}, {Unit: "tokens", Quota: per(tokens)}}
	}
}

// starts makes calls of the given costs that do so much for each and returns when
// they started.
func starts(t *testing.T, g *governor.Plain, do func(ctx context.Context, cost int) error, costs ...int) (at []time.Duration) {
	t.Helper()
	begin := time.Now()
	var reqs []*governor.Request[time.Duration]
	for _, cost := range costs {
		reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Cost: cost}), "", governor.Func(func(ctx context.Context) (time.Duration, error) {
			return time.Since(begin), do(ctx, cost)
		})))
	}
	for _, r := range reqs {
		d, err := r.Result(t.Context())
		if err != nil {
			t.Error(err)
		}
		at = append(at, d)
	}
	return at
}

func nothing(context.Context, int) error { return nil }

func equalTimes(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("starts at %v, want %v", got, want)
			return
		}
	}
}

func TestLimitWithAUnitTakesTheCostAndOneWithoutTakesCalls(t *testing.T) {
	bubble(t, inCallsAndTokens(3, 100), func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, nothing, 30, 30, 30, 10), 0, 0, 0, time.Second)
	})
	bubble(t, inCallsAndTokens(3, 100), func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, nothing, 60, 60), 0, time.Second)
	})
	// A call of more tokens than a second has can never be; one of more than there are
	// calls can.
	bubble(t, inCallsAndTokens(3, 100), func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 101}), "", sleep(0))
		if !governor.IsRefused(err) {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

// Each limit lets pass what it would in growth, of what it counts itself.
func TestTrafficGrowsToTheLimitsOfEachUnit(t *testing.T) {
	for _, tt := range []struct {
		calls, tokens, cost, want int
	}{
		{100, 1_000_000, 1000, 270}, // tokens are for 1,000 calls a second
		{1000, 100_000, 1000, 270},  // for 100
		{100, 1_000_000, 1, 270},
	} {
		bubble(t, inCallsAndTokens(tt.calls, tt.tokens), func(t *testing.T, g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			var n atomic.Int64
			for range 2000 {
				governor.Submit(ctx, g.With(governor.Ask{Cost: tt.cost}), "", governor.Func(func(context.Context) (int, error) { n.Add(1); return 0, nil }))
			}
			time.Sleep(time.Minute + 5*time.Second)
			if got := int(n.Load()); got < tt.want*9/10 || got > tt.want*11/10 {
				t.Errorf("%d calls, each of %d of %d tokens a second: %d in the first 5 s, want about %d", tt.calls, tt.cost, tt.tokens, got, tt.want)
			}
			cancel()
		})
	}
}

func TestSettleCorrectsOnlyTheLimitsOfAUnit(t *testing.T) {
	settle := func(ctx context.Context, cost int) error { return governor.Settle(ctx, 10) }
	bubble(t, inCallsAndTokens(4, 100), func(t *testing.T, g *governor.Plain) {
		// 90 of 100 come back at once; the fifth is one call too many.
		equalTimes(t, starts(t, g, settle, 100, 90, 80, 70, 60), 0, 0, 0, 0, time.Second)
	})
	over := func(ctx context.Context, cost int) error { return governor.Settle(ctx, 90) }
	bubble(t, inCallsAndTokens(4, 100), func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, over, 20), 0)
		equalTimes(t, starts(t, g, nothing, 20), time.Second)
	})
}

func TestCostsAndQuotasOfAUnitAreForItsLimits(t *testing.T) {
	report := func(q throttle.Quota) func(context.Context, int) error {
		return func(ctx context.Context, cost int) error { return governor.Report(ctx, q) }
	}
	said := throttle.Quota{Limit: -1, Remaining: -1, Cost: -1, Unit: "tokens"}
	cost, left := said, said
	cost.Cost, left.Remaining = 90, 5
	bubble(t, inCallsAndTokens(9, 100), func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, report(cost), 20), 0)
		equalTimes(t, starts(t, g, nothing, 20), time.Second)
	})
	bubble(t, inCallsAndTokens(9, 100), func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, report(left), 5), 0)
		equalTimes(t, starts(t, g, nothing, 5, 5), 0, time.Second)
	})
	// What is said of calls is not about tokens, nor the cost in other units.
	calls, others := left, cost
	calls.Unit, others.Unit = "", "points"
	for _, q := range []throttle.Quota{calls, others} {
		bubble(t, inCallsAndTokens(9, 100), func(t *testing.T, g *governor.Plain) {
			equalTimes(t, starts(t, g, report(q), 20), 0)
			equalTimes(t, starts(t, g, nothing, 40, 40), 0, 0)
		})
	}
}

func TestCallsThatPassUnasked(t *testing.T) {
	// An Adaptive counts calls beside a limit of a unit, whatever those cost.
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Unit: "points", Quota: limiter.QuotaConfig{Limit: 10, Per: time.Second, Margin: -1}}}
	}, func(t *testing.T, g *governor.Plain) {
		equalTimes(t, starts(t, g, nothing, 5, 5, 1), 0, 0, time.Second)
	})
}

// Requests and tokens are counted apart in a store, too.
func TestUnitsAreSharedThroughAStoreEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		syncer, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		if err != nil {
			t.Fatal(err)
		}
		defer syncer.Close()
		minute := func(n int) limiter.QuotaConfig { return limiter.QuotaConfig{Limit: n, Per: time.Minute} }
		g, err := governor.New(governor.PlainConfig{Name: "ai", Store: syncer, Limits: []governor.Limit{
			{Quota: minute(10)}, {Unit: "tokens", Quota: minute(1000)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for _, c := range []struct{ cost, calls int }{{100, 10}, {500, 2}} {
			view, n := g.With(governor.Ask{Cost: c.cost}), 0
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			for {
				if _, err := governor.Do(ctx, view, "", sleep(0)); err != nil {
					break
				}
				n++
			}
			cancel()
			if n != c.calls {
				t.Errorf("%d calls of %d tokens in half a minute, want %d", n, c.cost, c.calls)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}
