package governor_test

import (
	"context"
	"slices"
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

// What is given back counted only up to the price of the tenant's next start. It counts
// for more, but not if nobody waited while it was charged.
func TestRefundIsForAsManyStartsAsOthersHadForIt(t *testing.T) {
	for _, tt := range []struct {
		alone bool
		want  int // of the next hundred starts
	}{{false, 99}, {true, 51}} {
		bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
			var order []string
			submit := func(name string, n, cost, truly int) {
				for range n {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: name, Cost: cost}), "", governor.Func(func(ctx context.Context) (int, error) {
						order = append(order, name)
						time.Sleep(time.Second)
						return 0, governor.Settle(ctx, truly)
					}))
				}
			}
			g.Pause()
			if tt.alone {
				submit("light", 1, 1, 1) // there are two tenants, but only one that wants anything
			}
			submit("heavy", 1, 100, 1)
			submit("heavy", 300, 1, 1)
			if !tt.alone {
				submit("light", 500, 1, 1)
			}
			g.Resume()
			if tt.alone {
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				if got := order[len(order)-1]; got != "heavy" {
					t.Fatalf("%v, want the heavy one to run", order)
				}
				submit("light", 500, 1, 1)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			first := slices.Index(order, "heavy")
			if !tt.alone && first != 100 && first != 99 {
				t.Errorf("the heavy one was number %d, want it after 100 of the others", first)
			}
			n := 0
			for _, name := range order[first+1 : first+101] {
				if name == "heavy" {
					n++
				}
			}
			if n < tt.want-1 || n > tt.want+1 {
				t.Errorf("alone %v: after it %d of 100 were its tenant's, want %d", tt.alone, n, tt.want)
			}
		})
	}
}
