package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Closures say whatever a vendor may say, in time and too late, from several
// goroutines; others learn, clear, export and look. Every request completes, what
// is held is released, and cooldowns end.
func TestRandomReports(t *testing.T) {
	for seed := range uint64(effort.Times(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			atOnce, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 3})
			if err != nil {
				t.Fatal(err)
			}
			set := func(c *governor.PlainConfig) {
				c.Vendor, c.MaxWait, c.LimitedAttempts, c.MaxCooldown, c.MaxKeys = quoting{}, -1, -1, time.Minute, 100
				c.SpendEvenly, c.Observe = seed%2 == 0, seed%3 == 2
				c.Limits = []governor.Limit{
					{Per: throttle.Tenant, Limiter: atOnce},
					{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 50, Per: time.Second}},
					{Per: throttle.Bucket, Limiter: newBucket(t, 100, 10)},
				}
			}
			bubble(t, set, func(t *testing.T, g *governor.Plain) {
				var mu sync.Mutex
				rnd := rand.New(rand.NewPCG(seed, 7))
				n := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
				key := func() string { return [...]string{"", "a", "b", "c"}[n(4)] }
				numbers := []int64{-1, 0, 1, 2, 10, 100, math.MaxInt64, math.MinInt64}
				resets := []time.Duration{0, -time.Hour, 1, time.Second, time.Minute, math.MaxInt64}
				scope := func() throttle.Scope { return throttle.Scope{Level: throttle.Level(n(6)), Key: key()} }
				quota := func() throttle.Quota {
					q := throttle.Quota{Scope: scope(), Limit: numbers[n(8)], Remaining: numbers[n(8)], Cost: numbers[n(5)]}
					if i := n(7); i < 6 {
						q.Reset = time.Now().Add(resets[i])
					}
					return q
				}
				var leaked context.Context
				closure := func(ctx context.Context) (int, error) {
					for range n(3) {
						_ = governor.Report(ctx, quota(), quota())
						time.Sleep(time.Duration(n(int(time.Second))))
						_ = governor.Settle(ctx, n(20)-1)
					}
					switch n(8) {
					case 0:
						return 0, quoted{governortest.Limited(time.Duration(n(int(time.Second))), scope()), []throttle.Quota{quota()}}
					case 1:
						return 0, quoted{errors.New("failed"), []throttle.Quota{quota()}}
					case 2:
						panic("failed")
					case 3:
						release := governor.Hold(ctx)
						time.AfterFunc(time.Duration(n(int(time.Second))), func() { _ = governor.Settle(ctx, n(5)); release(nil) })
					case 4:
						go func() { _ = governor.Report(ctx, quota()) }()
					case 5:
						mu.Lock()
						leaked = ctx
						mu.Unlock()
					}
					return 0, nil
				}
				var reqs []*governor.Request[int]
				for range 400 {
					ask := governor.Ask{Tenant: key(), Bucket: key(), Cost: n(3)}
					reqs = append(reqs, governor.Submit(t.Context(), g.With(ask), key(), governor.Func(closure)))
					switch n(12) {
					case 0:
						g.Learn(throttle.Signal{Scope: scope(), Delay: time.Duration(n(int(time.Second)))})
					case 1:
						g.Clear(scope())
					case 2:
						g.Export()
					case 3:
						g.Stats()
					case 4:
						mu.Lock()
						ctx := leaked
						mu.Unlock()
						_ = governor.Report(ctx, quota())
					case 5:
						time.Sleep(time.Duration(n(int(time.Second))))
					}
				}
				for _, r := range reqs {
					if _, err := r.Result(t.Context()); errors.Is(err, governor.ErrCooling) || errors.Is(err, governor.ErrLate) {
						t.Errorf("%v", err)
					}
				}
				if err := g.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, k := range []string{"", "a", "b", "c"} {
					if got := atOnce.Available(time.Now(), k); got != 3 {
						t.Errorf("tenant %q has %d of 3 available", k, got)
					}
				}
			})
		})
	}
}
