package governor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
	"github.com/flyball-go/flyball/vendors"
)

// refused is how a call of g ends whose vendor refuses it, for the tenant it is for.
func refused(ctx context.Context, g *governor.Plain, a governor.Ask, pause time.Duration) error {
	a.Tenant = "inner"
	_, err := governor.Do(ctx, g.With(a), "", governor.Func(func(context.Context) (int, error) {
		return 0, governortest.Limited(pause, throttle.Scope{Level: throttle.Tenant})
	}))
	return err
}

// another returns a further governor.
func another(t *testing.T, cfg governor.PlainConfig) *governor.Plain {
	t.Helper()
	cfg.Name = "other"
	g, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// impatient is a governor whose calls end where a refusal takes long.
func impatient(t *testing.T) *governor.Plain {
	t.Helper()
	return another(t, governor.PlainConfig{Vendor: governortest.Vendor{}, MaxWait: time.Second})
}

// tripsAtOnce is a breaker that opens with the first failure.
func tripsAtOnce(t *testing.T) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(breaker.Config{Consecutive: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
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
				other := another(t, governor.PlainConfig{Retry: &retry.Config{Attempts: 2}})
				_, err := governor.Do(t.Context(), forTenant(g, "outer"), "", governor.Func(func(ctx context.Context) (int, error) {
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
			b := tripsAtOnce(t)
			bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
				other := another(t, governor.PlainConfig{Retry: &retry.Config{Attempts: attempts}})
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
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
				other := impatient(t)
				n, start := 0, time.Now()
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
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

// laterVendor takes whatever says when to come back for a rate limit.
type laterVendor struct{}

func (laterVendor) DelayError(err error) (time.Duration, bool) {
	var e interface{ RetryAfter() time.Duration }
	if errors.As(err, &e) {
		return e.RetryAfter(), true
	}
	return 0, false
}

// What keeps an inner call from being repeated says nothing of the outer one.
func TestTheCooldownOfAnInnerCallIsNoneOfTheOuter(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprint(wrapped), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Vendor = laterVendor{} }, func(t *testing.T, g *governor.Plain) {
				other := another(t, governor.PlainConfig{Vendor: governortest.Vendor{}, Retry: &retry.Config{}})
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
					_, err := governor.Do(ctx, forTenant(other, "inner"), "", governor.Func(func(context.Context) (int, error) {
						other.Learn(throttle.Signal{Scope: tenant("inner"), Delay: time.Hour}) // a sibling's refusal
						return 0, errors.New("503")
					}))
					if wrapped {
						err = fmt.Errorf("step two: %w", err)
					}
					return 0, err
				}))
				if s := g.Stats(); s.Limited != 0 || len(s.Cooldowns) != 0 {
					t.Errorf("limited %d, %v: %v", s.Limited, s.Cooldowns, err)
				}
			})
		})
	}
}

// The breaker hears of the closure's own failure.
func TestAFailureBesideTheRefusalOfAnInnerCallIsOne(t *testing.T) {
	b := tripsAtOnce(t)
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		other := impatient(t)
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, errors.Join(errors.New("own: 503"), refused(ctx, other, governor.Ask{}, time.Hour))
		}))
		if s := b.State(); s != breaker.Open {
			t.Errorf("the breaker is %v after %v", s, err)
		}
	})
}

// An error is whole when listeners have it.
func TestAListenerMayReturnTheErrorOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "test", Vendor: governortest.Vendor{}, LimitedAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		other := another(t, governor.PlainConfig{Vendor: governortest.Vendor{}})
		limited := -1
		stop := g.Listen(func(e event.Event) {
			governor.Do(context.Background(), other.With(governor.Ask{NoRetry: true}), "", governor.Func(func(context.Context) (int, error) { return 0, e.Err }))
			limited = int(other.Stats().Limited)
		}, event.GaveUp)
		defer stop()
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, governortest.Limited(time.Minute) }))
		synctest.Wait()
		if limited != 0 {
			t.Errorf("limited %d", limited)
		}
	})
}

// quotaErr is a failure that says what is left.
type quotaErr struct{}

func (quotaErr) Error() string { return "500, nothing left" }

// quotaVendor reads quotas from failures, too.
type quotaVendor struct{ governortest.Vendor }

func (quotaVendor) Quotas(err error, at time.Time) []throttle.Quota {
	if _, is := errors.AsType[quotaErr](err); is {
		return []throttle.Quota{{Scope: throttle.Scope{Level: throttle.Tenant}, Limit: 10, Remaining: 0, Reset: at.Add(10 * time.Minute)}}
	}
	return nil
}

// Quotas that an inner call has learned of are not learned once more.
func TestTheQuotaOfAnInnerCallIsNoneOfTheOuter(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Vendor, c.Retry = quotaVendor{}, &retry.Config{Attempts: 1}
	}, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g.With(governor.Ask{Tenant: "outer", NoRetry: true}), "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, forTenant(g, "inner"), "", governor.Func(func(context.Context) (int, error) { return 0, quotaErr{} }))
		}))
		cools := g.Stats().Cooldowns
		if len(cools) != 1 || cools[0].Scope != tenant("inner") {
			t.Errorf("what cools is %v", cools)
		}
	})
}

// How an inner poll ended is read by nobody else.
func TestTheLastPollOfAnInnerCallIsNoneOfTheOuter(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		other := impatient(t)
		governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governor.Func(func(ctx context.Context) (int, error) {
			_, err := governor.Do(ctx, other, "", governor.Func(func(context.Context) (int, error) {
				return 0, fmt.Errorf("%w: %w", governor.Again(time.Minute), governortest.Limited(time.Hour))
			}))
			e, _ := errors.AsType[*governor.GaveUpError](err)
			return 0, e.Err
		}))
		if s := g.Stats(); s.Limited != 0 {
			t.Errorf("limited %d %v", s.Limited, s.Cooldowns)
		}
	})
}

// Nor are several in one error.
func TestAListOfInnerCallsIsNoneOfTheOuter(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = 1 }, func(t *testing.T, g *governor.Plain) {
		other := another(t, governor.PlainConfig{Vendor: governortest.Vendor{}, MaxWait: time.Second, Retry: &retry.Config{Attempts: 2}})
		governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			_, failed := governor.Do(ctx, other, "", governor.Func(func(context.Context) (int, error) { return 0, errors.New("503") }))
			return 0, listed{errors.Join(failed, refused(ctx, other, governor.Ask{}, time.Hour)), errors.New("x")}
		}))
		if s := g.Stats(); s.Limited != 0 {
			t.Errorf("limited %d %v", s.Limited, s.Cooldowns)
		}
	})
}

// The adapters of package vendors find an answer that wraps one of another call.
func TestShippedAdaptersFindWhatWrapsTheRefusalOfAnInnerCall(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Vendor = vendors.GitHub(); c.LimitedAttempts = 1 }, func(t *testing.T, g *governor.Plain) {
		other := impatient(t)
		own := func(cause error) error {
			return &vendors.ResponseError{Response: vendors.Response{Status: 429, Header: http.Header{"Retry-After": {"20"}}}, Err: cause}
		}
		governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, own(refused(ctx, other, governor.Ask{}, time.Hour))
		}))
		if s := g.Stats(); s.Limited != 1 {
			t.Errorf("limited %d, %v", s.Limited, s.Cooldowns)
		}
	})
}

func TestAFailureBesideTheEndOfAnInnerCallIsOne(t *testing.T) {
	b := tripsAtOnce(t)
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			_, job := governor.Do(ctx, g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}), "", governor.Func(func(context.Context) (int, error) {
				return 0, governor.Again(time.Minute)
			}))
			return 0, errors.Join(errors.New("own: 503"), job)
		}))
		if s := b.State(); s != breaker.Open {
			t.Errorf("the breaker is %v after %v", s, err)
		}
	})
}

// Nor is the breaker open for as long.
func TestTheBreakerIsNotOpenForTheCooldownOfAnInnerCall(t *testing.T) {
	b := tripsAtOnce(t)
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		other := another(t, governor.PlainConfig{Vendor: governortest.Vendor{}, Retry: &retry.Config{}})
		governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, forTenant(other, "inner"), "", governor.Func(func(context.Context) (int, error) {
				other.Learn(throttle.Signal{Scope: tenant("inner"), Delay: 10 * time.Hour})
				return 0, errors.New("503")
			}))
		}))
		err := b.Ready(time.Now())
		if o, ok := errors.AsType[*breaker.OpenError](err); ok && time.Until(o.Until) > time.Minute {
			t.Errorf("open for %v: %v", time.Until(o.Until), err)
		}
	})
}

// circuit says by one and the same error that it is open.
type circuit struct {
	err  error
	mu   sync.Mutex
	open bool
}

func (c *circuit) Ready(time.Time) error { return nil }

func (c *circuit) Acquire(time.Time) (breaker.Permit, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open {
		return 0, c.err
	}
	return 0, nil
}

func (c *circuit) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
}

// An error that is not the governor's is left alone.
func TestAnErrorOfABreakerMayBeSharedByRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &governor.CooldownError{Until: time.Now().Add(time.Hour), Err: breaker.ErrOpen}
		g, err := governor.New(governor.PlainConfig{Name: "test", Breaker: &circuit{err: shared}, Retry: &retry.Config{}, Workers: 8})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, errors.New("503") }))
			})
		}
		wg.Wait()
	})
}

// embedding is an error of its own that has the methods of another.
type embedding struct {
	*governor.CooldownError
	own error
}

func (e embedding) Unwrap() error { return e.own }

func TestAnErrorThatEmbedsTheEndOfACallIsNone(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = 1 }, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			return 0, embedding{&governor.CooldownError{}, governortest.Limited(time.Second)}
		}))
		if s := g.Stats(); s.Limited != 1 {
			t.Errorf("limited %d", s.Limited)
		}
	})
}

// Whoever wraps how an inner call ended, nothing has failed for the breaker.
func TestTheBreakerHearsNothingOfWrappedEndsOfInnerCalls(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"fmt": func(e error) error { return fmt.Errorf("x: %w", e) }, "permanent": retry.Permanent, "of the user's": func(e error) error { return &busy{e} },
	} {
		t.Run(name, func(t *testing.T) {
			b := tripsAtOnce(t)
			bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
				other := impatient(t)
				governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
					return 0, wrap(refused(ctx, other, governor.Ask{}, time.Hour))
				}))
				if s := b.State(); s != breaker.Closed {
					t.Errorf("the breaker is %v", s)
				}
			})
		})
	}
}
