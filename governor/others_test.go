package governor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// refused is how a call of g ends whose vendor refuses it, for the tenant it is for.
func refused(ctx context.Context, g *governor.Plain, a governor.Ask, pause time.Duration) error {
	a.Tenant = "inner"
	_, err := governor.Do(ctx, g.With(a), "", governor.Func(func(context.Context) (int, error) {
		return 0, governortest.Limited(pause, throttle.Scope{Level: throttle.Tenant})
	}))
	return err
}

// What another call has ended with inside a closure is not once more what the vendor says, to
// this one: neither of the same governor, nor of another.
func TestTheRefusalOfAnInnerCallIsNoneOfTheOuter(t *testing.T) {
	for name, set := range map[string]func(*governor.PlainConfig, *governor.Ask){
		"too long": func(c *governor.PlainConfig, _ *governor.Ask) { c.MaxWait = 30 * time.Second },
		"gave up":  func(c *governor.PlainConfig, _ *governor.Ask) { c.LimitedAttempts = 1 },
		"late":     func(_ *governor.PlainConfig, a *governor.Ask) { a.StartBy = time.Now().Add(30 * time.Second) },
	} {
		for _, same := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, same %t", name, same), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var ask governor.Ask
					b, err := breaker.New(breaker.Config{Failures: 1})
					if err != nil {
						t.Fatal(err)
					}
					mk := func(name string) *governor.Plain {
						cfg := governor.PlainConfig{Name: name, Vendor: governortest.Vendor{}, NoPace: true, Breaker: b}
						set(&cfg, &ask)
						g, err := governor.New(cfg)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { g.Close() })
						return g
					}
					g := mk("one")
					other := g
					if !same {
						other = mk("two")
					}
					runs := 0
					_, err = governor.Do(t.Context(), g.With(governor.Ask{Tenant: "outer"}), "", governor.Func(func(ctx context.Context) (int, error) {
						runs++
						err := refused(ctx, other, ask, time.Minute)
						if !governor.IsRefused(err) {
							t.Errorf("the inner call ended with %v", err)
						}
						return 0, fmt.Errorf("the second step: %w", err)
					}))
					if runs != 1 || err == nil || governor.IsRefused(err) {
						t.Errorf("it ran %d times, is refused %t: %v", runs, governor.IsRefused(err), err)
					}
					if _, is := errors.AsType[*governortest.Refusal](err); !is {
						t.Errorf("what the vendor said is not in %v", err)
					}
					for _, cd := range g.Stats().Cooldowns {
						if cd.Scope != tenant("inner") || !same {
							t.Errorf("%v cools", cd.Scope)
						}
					}
					if s := b.State(); s != breaker.Closed {
						t.Errorf("the breaker is %v", s)
					}
				})
			})
		}
	}
}

// What the closure's own call was told counts all the same.
func TestARefusalBesideThatOfAnInnerCallCounts(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.LimitedAttempts = true, 1 }, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), forTenant(g, "outer"), "", governor.Func(func(ctx context.Context) (int, error) {
			err := refused(ctx, g, governor.Ask{}, time.Minute)
			own := fmt.Errorf("own: %w", governortest.Limited(20*time.Second, throttle.Scope{Level: throttle.Tenant}))
			return 0, fmt.Errorf("both: %w", errors.Join(err, own))
		}))
		ends := make(map[string]time.Duration)
		for _, cd := range g.Stats().Cooldowns {
			ends[cd.Scope.Key] = time.Until(cd.Until)
		}
		if len(ends) != 2 || ends["outer"] != 20*time.Second || ends["inner"] != time.Minute {
			t.Errorf("what cools is %v", ends)
		}
	})
}

// A poll that was refused is no poll that went well.
func TestAgainBesideARefusalWaitsForTheLonger(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 2 * time.Minute} {
		t.Run(wait.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Learned, event.Again, event.Requeued, event.AttemptEnded)
				start, n := time.Now(), 0
				v, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					if n++; n == 1 {
						return 0, fmt.Errorf("%w: %w", governor.Again(wait), governortest.Limited(time.Minute))
					}
					since(t, "the second call", start, time.Now(), max(wait, time.Minute))
					return n, nil
				}))
				if v != 2 || err != nil {
					t.Errorf("%v, %v", v, err)
				}
				synctest.Wait()
				if rec.Count(event.Learned) != 1 || rec.Count(event.Requeued) != 1 || rec.Count(event.Again) != 0 || g.Stats().Limited != 1 {
					t.Errorf("events: %v", rec.Kinds())
				}
				if ends := rec.Events()[1]; ends.Kind != event.AttemptEnded || ends.Err == nil {
					t.Errorf("the first attempt ended with %v", ends)
				}
			})
		})
	}
}

// Nor is one that goes on being refused outside all bounds.
func TestAgainBesideRefusalsIsBoundByLimitedAttempts(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.LimitedAttempts = true, 2 }, func(t *testing.T, g *governor.Plain) {
		n := 0
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			if n++; n > 10 {
				return 0, errors.New("it goes on for ever")
			}
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(time.Minute, throttle.Scope{Level: throttle.Request}))
		}))
		if e, ok := errors.AsType[*governor.GaveUpError](err); !ok || e.Attempts != 2 || n != 2 {
			t.Errorf("after %d calls: %v", n, err)
		}
	})
}

// A request that its vendor pauses alone for too long says by which word.
func TestTooLongAPauseOfARequestSaysTheSignal(t *testing.T) {
	for _, scope := range []throttle.Scope{{Level: throttle.Request}, tenant("other")} {
		t.Run(scope.String(), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				sig := throttle.Signal{Kind: throttle.KindQuota, Scope: scope, Delay: time.Hour, Source: "daily"}
				_, err := governor.Do(t.Context(), forTenant(g, "me"), "", governor.Func(func(context.Context) (int, error) {
					return 0, &governortest.Refusal{Signals: []throttle.Signal{sig}}
				}))
				e, ok := errors.AsType[*governor.CooldownError](err)
				if !ok || e.Signal.Kind != throttle.KindQuota || e.Signal.Source != "daily" || e.RetryAfter() != time.Hour {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}
