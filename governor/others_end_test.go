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
				other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, Retry: &retry.Config{}})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
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
	b, err := breaker.New(breaker.Config{Consecutive: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
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
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
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

// quotaVendor reads quotas from failures, too.
type quotaErr struct{}

func (quotaErr) Error() string { return "500, nothing left" }

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
		_, err := governor.Do(t.Context(), forTenant(g, "outer").With(governor.Ask{Tenant: "outer", NoRetry: true}), "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, forTenant(g, "inner"), "", governor.Func(func(context.Context) (int, error) { return 0, quotaErr{} }))
		}))
		for _, cd := range g.Stats().Cooldowns {
			if cd.Scope != tenant("inner") {
				t.Errorf("%v cools: %v", cd.Scope, err)
			}
		}
		t.Logf("%T %v %v", err, err, g.Stats().Cooldowns)
	})
}

// How an inner poll ended is read by nobody else.
func TestTheLastPollOfAnInnerCallIsNoneOfTheOuter(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
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
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second, Retry: &retry.Config{Attempts: 2}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
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
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
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
	b, err := breaker.New(breaker.Config{Consecutive: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
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
	b, err := breaker.New(breaker.Config{Consecutive: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
		other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, Retry: &retry.Config{}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, forTenant(other, "inner"), "", governor.Func(func(context.Context) (int, error) {
				other.Learn(throttle.Signal{Scope: tenant("inner"), Delay: 10 * time.Hour})
				return 0, errors.New("503")
			}))
		}))
		err = b.Ready(time.Now())
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
			b, err := breaker.New(breaker.Config{Consecutive: 1})
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(c *governor.PlainConfig) { c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
				other, err := governor.New(governor.PlainConfig{Name: "other", Vendor: governortest.Vendor{}, MaxWait: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
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
