package browsertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

type gov = governor.Governor[string, int]

func newGovernor(t *testing.T, cfg governor.Config[string, int]) *gov {
	t.Helper()
	cfg.Vendor = governortest.Vendor{}
	g, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// traffic calls g until ctx is done or the test ends: so many at once, as tenants in turn.
func traffic(ctx context.Context, t *testing.T, g *gov, workers, tenants int, latency time.Duration, fails float64) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); g.Close(); all.Wait() })
	for w := range workers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				who := governor.Ask{Tenant: fmt.Sprintf("customer %d", 1001+(w*7+n)%tenants)}
				sel := []string{"reports", "mutate"}[w%2]
				_, err := governor.Do(ctx, g.With(who), sel, func(ctx context.Context, _ int) (int, error) {
					time.Sleep(time.Duration(float64(latency) * (0.5 + rand.ExpFloat64()/2)))
					if rand.Float64() < fails {
						return 0, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
					}
					return 0, nil
				})
				if err != nil {
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
}

func conns(most int) *pool.Config[string, int] {
	return &pool.Config[string, int]{Open: func(context.Context, string) (int, error) { return 0, nil }, Max: most}
}

func bucket(rate float64) []governor.Limit {
	return []governor.Limit{{Per: throttle.Host, Limiter: must(limiter.NewBucket(limiter.BucketConfig{Rate: rate, Burst: 10}))}}
}

// scene is a process as one would meet it, some vendors well, some not, and calls of all
// until ctx is done.
func scene(ctx context.Context, t *testing.T) (all []governor.Handle, by map[string]*gov) {
	by = map[string]*gov{}
	add := func(g *gov) *gov { all = append(all, g); by[g.Name()] = g; return g }
	ads := add(newGovernor(t, governor.Config[string, int]{Name: "googleads", Workers: 16, Pool: conns(16), Limits: bucket(250), Retry: &retry.Config{Attempts: 3}}))
	traffic(ctx, t, ads, 160, 40, 30*time.Millisecond, .01)
	hub := add(newGovernor(t, governor.Config[string, int]{Name: "api.github.com", Workers: 8, Pool: conns(8), Limits: bucket(80)}))
	traffic(ctx, t, hub, 12, 4, 60*time.Millisecond, 0)
	ai := add(newGovernor(t, governor.Config[string, int]{Name: "openai", Workers: 32, Limits: bucket(60)}))
	traffic(ctx, t, ai, 48, 12, 400*time.Millisecond, 0)
	meta := add(newGovernor(t, governor.Config[string, int]{Name: "graph.facebook.com", Workers: 8, Limits: bucket(40), Breaker: must(breaker.New(breaker.Config{Failures: 5, OpenFor: backoff.Constant(time.Minute)}))}))
	traffic(ctx, t, meta, 6, 3, 20*time.Millisecond, 1)
	slack := add(newGovernor(t, governor.Config[string, int]{Name: "slack", Workers: 4, Limits: bucket(20)}))
	traffic(ctx, t, slack, 9, 5, 40*time.Millisecond, 0)
	shop := add(newGovernor(t, governor.Config[string, int]{Name: "shopify", Workers: 8, Limits: bucket(40)}))
	traffic(ctx, t, shop, 6, 3, 90*time.Millisecond, 0)
	add(newGovernor(t, governor.Config[string, int]{Name: "stripe", Workers: 8}))
	return all, by
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func refused(scope throttle.Scope, kind throttle.Kind, d time.Duration, source string) throttle.Signal {
	return throttle.Signal{Kind: kind, Scope: scope, Delay: d, Source: source}
}
