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
	"github.com/flyball-go/flyball/retry"
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

// The adapter of a governor that has none, or does not know the error, has learned nothing: then
// what the vendor said is for the outer one.
func TestWhatAnInnerCallHasNotLearnedTheOuterDoes(t *testing.T) {
	for name, ask := range map[string]governor.Ask{"gave up": {}, "late": {StartBy: time.Date(2000, 1, 1, 0, 0, 0, 1e6, time.UTC)}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = 1 }, func(t *testing.T, g *governor.Plain) {
				other, err := governor.New(governor.PlainConfig{Name: "other", Retry: &retry.Config{Attempts: 2}})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				_, err = governor.Do(t.Context(), forTenant(g, "outer"), "", governor.Func(func(ctx context.Context) (int, error) {
					return 0, refused(ctx, other, ask, time.Minute)
				}))
				if s := g.Stats(); s.Limited != 1 || len(s.Cooldowns) != 1 {
					t.Errorf("limited %d, cooldowns %v: %v", s.Limited, s.Cooldowns, err)
				}
			})
		})
	}
}

// An inner call that has failed otherwise is a failure.
func TestTheFailureOfAnInnerCallIsOneForTheBreaker(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			b, err := breaker.New(breaker.Config{Consecutive: 1})
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
				other, err := governor.New(governor.PlainConfig{Name: "other", Retry: &retry.Config{Attempts: attempts}})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
					return governor.Do(ctx, other, "", governor.Func(func(context.Context) (int, error) { return 0, errors.New("503") }))
				}))
				if s := b.State(); s != breaker.Open {
					t.Errorf("the breaker is %v after %v", s, err)
				}
			})
		})
	}
}

// listed is an error of several as some libraries have them, of which the first is found by As.
type listed []error

func (l listed) Error() string        { return l[0].Error() }
func (l listed) As(target any) bool   { return errors.As(l[0], target) }
func (l listed) Is(target error) bool { return errors.Is(l[0], target) }
func (l listed) Unwrap() (rest error) {
	if len(l) > 1 {
		rest = l[1:]
	}
	return rest
}

// busy is what a vendor says, and what it wraps.
type busy struct{ cause error }

func (e *busy) Error() string { return "busy: " + e.cause.Error() }
func (e *busy) Unwrap() error { return e.cause }

// busyVendor knows busy.
type busyVendor struct{ governortest.Vendor }

func (v busyVendor) Signals(err error, at time.Time) []throttle.Signal {
	if _, is := errors.AsType[*busy](err); is {
		return []throttle.Signal{{Delay: 20 * time.Second}}
	}
	return v.Vendor.Signals(err, at)
}

// What the vendor said to the closure is found wherever it stands in the error.
func TestARefusalAroundThatOfAnInnerCallCounts(t *testing.T) {
	own := governortest.Limited(20 * time.Second)
	for name, of := range map[string]func(inner error) error{
		"wraps it":       func(inner error) error { return &busy{inner} },
		"wrapped":        func(inner error) error { return fmt.Errorf("own: %w", &busy{fmt.Errorf("other: %w", inner)}) },
		"first of list":  func(inner error) error { return listed{own, inner} },
		"second of list": func(inner error) error { return listed{inner, own} },
		"joined":         func(inner error) error { return errors.Join(inner, own) },
		"again":          func(error) error { return &busy{governor.Again(time.Second)} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Vendor = busyVendor{} }, func(t *testing.T, g *governor.Plain) {
				other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				n, start := 0, time.Now()
				_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
					if n++; n > 1 {
						return 0, nil
					}
					return 0, of(refused(ctx, other, governor.Ask{}, time.Hour))
				}))
				if d := time.Since(start); n != 2 || d != 20*time.Second || err != nil || g.Stats().Limited != 1 {
					t.Errorf("%d calls in %v, limited %d: %v", n, d, g.Stats().Limited, err)
				}
			})
		})
	}
}

// A poll that was refused is learned from, and is a poll.
func TestAgainBesideARefusalWaitsForTheLonger(t *testing.T) {
	for _, observe := range []bool{false, true} {
		for _, wait := range []time.Duration{time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprintf("%v, observe %t", wait, observe), func(t *testing.T) {
				b, err := breaker.New(breaker.Config{Consecutive: 1})
				if err != nil {
					t.Fatal(err)
				}
				bubble(t, func(c *governor.PlainConfig) { c.Observe, c.Breaker, c.LimitedAttempts = observe, b, 2 }, func(t *testing.T, g *governor.Plain) {
					rec := governortest.Record(g, event.Learned, event.Again, event.Requeued)
					start, n := time.Now(), 0
					v, err := governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governor.Func(func(context.Context) (int, error) {
						if n++; n <= 4 { // more than LimitedAttempts
							return 7, fmt.Errorf("%w: %w", governor.Again(wait), governortest.Limited(time.Minute))
						}
						return n, nil
					}))
					each := max(wait, time.Minute)
					if observe {
						each = wait
					}
					if d := time.Since(start); v != 5 || err != nil || d != 4*each {
						t.Errorf("%v, %v after %v", v, err, d)
					}
					synctest.Wait()
					if rec.Count(event.Learned) != 4 || rec.Count(event.Requeued) != 0 || rec.Count(event.Again) != 4 || g.Stats().Limited != 4 {
						t.Errorf("events: %v", rec.Kinds())
					}
				})
			})
		}
	}
}

// One that is refused for too long was begun all the same.
func TestAgainBesideARefusalIsSent(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(time.Hour))
		}))
		if !errors.Is(err, governor.ErrAgain) || !errors.Is(err, governor.ErrCooling) || governor.IsRefused(err) {
			t.Errorf("%T %v", err, err)
		}
	})
}

// What waits out a pause of its own fails at once where it would wait too long after that.
func TestAPauseOfItsOwnHidesNoLongerOne(t *testing.T) {
	for name, say := range map[string]error{
		"again": governor.Again(14 * time.Minute),
		"alone": governortest.Limited(14*time.Minute, throttle.Scope{Level: throttle.Request}),
		"retry": retry.After(14*time.Minute, errors.New("503")),
		"both":  fmt.Errorf("%w: %w", governor.Again(14*time.Minute), governortest.Limited(2*time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Retry = &retry.Config{MaxRetryAfter: 15 * time.Minute} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					g.Learn(throttle.Signal{Delay: 2 * time.Hour})
					time.Sleep(time.Second)
					return 0, say
				}))
				if d := time.Since(start); d > time.Second || !errors.Is(err, governor.ErrCooling) {
					t.Errorf("failed after %v: %v", d, err)
				}
			})
		})
	}
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
