package governor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// What calls truly cost is known only when the tenant's next ones have begun.
func TestTenantsShareByWhatCallsTrulyCostWhenTheyEndLate(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Bucket} {
		for _, tt := range []struct{ ask, cost int }{{10, 1}, {1, 10}, {1, 1}} {
			for _, took := range []time.Duration{time.Second, 1500 * time.Millisecond, 5 * time.Second} {
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.Limits = true, []governor.Limit{{Per: per, Limiter: newBucket(t, 10, 10)}}
				}, func(t *testing.T, g *governor.Plain) {
					var odd, even atomic.Int64
					run := func(name string, n *atomic.Int64, ask, cost int) {
						for range 500 {
							governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Bucket: "b", Cost: ask}), "", governor.Func(func(ctx context.Context) (int, error) {
								n.Add(int64(cost))
								time.Sleep(took)
								return 0, governor.Settle(ctx, cost)
							}))
						}
					}
					g.Pause()
					run("odd", &odd, tt.ask, tt.cost)
					run("even", &even, 1, 1)
					g.Resume()
					for odd.Load()+even.Load() < 400 {
						time.Sleep(time.Second)
						synctest.Wait()
					}
					if a, b := odd.Load(), even.Load(); a < b*2/3 || b < a*2/3 {
						t.Errorf("%v, %d asked, %d spent after %v: tenants got %d and %d, want about the same", per, tt.ask, tt.cost, took, a, b)
					}
				})
			}
		}
	}
}

// What starts cost before anybody had to wait in line is no debt there.
func TestOnlyTheLastStartBeforeALineIsPaidThere(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.Limits = true, 1, []governor.Limit{{Per: throttle.Bucket, Limiter: unsettled{newBucket(t, 1, 10)}}}
	}, func(t *testing.T, g *governor.Plain) {
		var a, before atomic.Int64
		for range 12 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Bucket: "b"}), "", governor.Func(func(ctx context.Context) (int, error) {
				a.Add(1)
				return 0, governor.Settle(ctx, 100)
			}))
		}
		synctest.Wait() // ten have started at once
		for range 300 {
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b", Bucket: "b"}), "", governor.Func(func(context.Context) (int, error) {
				if a.Load() < 12 {
					before.Add(1)
				}
				return 0, nil
			}))
		}
		time.Sleep(time.Hour)
		if n := before.Load(); n < 50 || n > 220 {
			t.Errorf("%d of b's started before the last two of a, want about 100 or 200", n)
		}
	})
}
