package governor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
)

// A context whose own call is over speaks for nobody: not for the outer call either.
func TestContextOfACallThatIsOverSpeaksForNoOuterOne(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 0.001, Burst: 100})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, limits(bucket), func(t *testing.T, outer *governor.Plain) {
		inner, err := governor.New(governor.PlainConfig{Name: "inner"})
		if err != nil {
			t.Fatal(err)
		}
		call(t, outer, governor.Func(func(ctx context.Context) (int, error) {
			var kept context.Context
			inside(t, ctx, inner, func(in context.Context) { kept = in })
			if err := governor.Settle(kept, 50); !errors.Is(err, governor.ErrNoAttempt) {
				t.Errorf("Settle: %v, want ErrNoAttempt", err)
			}
			if err := governor.Report(kept, within(0, time.Hour)); !errors.Is(err, governor.ErrNoAttempt) {
				t.Errorf("Report: %v, want ErrNoAttempt", err)
			}
			governor.Hold(kept)
			return 0, nil
		}))
		if s := outer.Stats(); len(s.Cooldowns) != 0 || s.InFlight != 0 {
			t.Errorf("outside: cooldowns %v, %d in flight", s.Cooldowns, s.InFlight)
		}
		if n := bucket.Available(time.Now(), ""); n != 99 {
			t.Errorf("%d available, want 99", n)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
}

func inside(t *testing.T, ctx context.Context, g *governor.Plain, fn func(context.Context)) {
	t.Helper()
	if _, err := governor.Do(ctx, g, "", governor.Func(func(ctx context.Context) (int, error) { fn(ctx); return 0, nil })); err != nil {
		t.Error(err)
	}
}

// The outer call may still wait for itself, though.
func TestContextOfACallThatIsOverIsStillReentrant(t *testing.T) {
	for _, same := range []bool{true, false} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
			other, err := governor.New(governor.PlainConfig{Name: "other"})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			call(t, g, governor.Func(func(ctx context.Context) (int, error) {
				var kept context.Context
				through := other
				if same {
					through = g
				}
				inside(t, ctx, through, func(in context.Context) { kept = in })
				r := governor.Submit(t.Context(), g, "", sleep(time.Minute))
				synctest.Wait()
				if _, err := governor.Do(context.WithoutCancel(kept), g, "", sleep(0)); !errors.Is(err, governor.ErrReentrant) {
					t.Errorf("same %v: %v, want ErrReentrant", same, err)
				}
				<-r.Done()
				return 0, nil
			}))
		})
	}
}

// Calls that an open breaker refuses cost no permits: those that find it closed again
// need them.
func TestOpenBreakerBurnsNoPermits(t *testing.T) {
	for _, observe := range []bool{false, true} {
		bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 0.001, Burst: 10})
		if err != nil {
			t.Fatal(err)
		}
		b, err := breaker.New(breaker.Config{Initial: breaker.ForcedOpen})
		if err != nil {
			t.Fatal(err)
		}
		bubble(t, func(c *governor.PlainConfig) {
			limits(bucket)(c)
			c.Breaker, c.Observe = b, observe
		}, func(t *testing.T, g *governor.Plain) {
			before := bucket.Available(time.Now(), "")
			_, err := governor.Do(t.Context(), g, "", sleep(0))
			taken := before - bucket.Available(time.Now(), "")
			if observe && (err != nil || taken != 1) || !observe && (err == nil || taken != 0) {
				t.Errorf("observe %v: %v, and %d permits taken", observe, err, taken)
			}
		})
	}
}

// A request that is granted has its slot, and does not wait for itself.
func TestResultOfAGrantedRequestIsNotReentrant(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		call(t, g, governor.Func(func(ctx context.Context) (int, error) {
			r := governor.Submit(ctx, g, "", sleep(time.Second))
			_, err := r.Result(ctx)
			return 0, err
		}))
	})
}

// spied is a circuit that calls a function when it is told of a call.
type spied struct{ told func() }

func (*spied) Ready(time.Time) error                     { return nil }
func (*spied) Acquire(time.Time) (breaker.Permit, error) { return 0, nil }

func (s *spied) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) { s.told() }

func TestStatsCountACallThatEndsOnce(t *testing.T) {
	s := new(spied)
	bubble(t, func(c *governor.PlainConfig) { c.Breaker = s }, func(t *testing.T, g *governor.Plain) {
		s.told = func() { g.Stats() } // while it ends
		call(t, g, hang(0))
		if s := g.Stats(); s.Started != 1 || s.Submitted != 1 || s.Succeeded != 1 {
			t.Errorf("%d submitted, %d started, %d succeeded, want one", s.Submitted, s.Started, s.Succeeded)
		}
	})
}

// What was held and what was given up goes back when it ends, however late.
func TestHoldOutlivesAForcedClose(t *testing.T) {
	b := newBudget(t, -1, 3)
	bubble(t, func(c *governor.PlainConfig) { repeating(b)(c); c.CloseGrace = time.Second }, func(t *testing.T, g *governor.Plain) {
		var release func(error)
		inside(t, t.Context(), g, func(ctx context.Context) { release = governor.Hold(ctx) })
		n := 0
		go func() {
			_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
				if n++; n == 2 {
					time.Sleep(time.Hour)
				}
				return 0, errors.New("x")
			}))
			if err != governor.ErrAbandoned {
				t.Error(err)
			}
		}()
		time.Sleep(time.Minute)
		if err, ok := errors.AsType[*governor.ForcedError](g.Close()); !ok || err.Running != 2 {
			t.Errorf("%v", err)
		}
		release(errors.New("late"))
		time.Sleep(2 * time.Hour)
		if s := b.State(); s.Calls != 0 || s.Repetitions != 0 {
			t.Errorf("budget %+v", s)
		}
		if s := g.Stats(); s.InFlight != 0 {
			t.Errorf("%d in flight", s.InFlight)
		}
	})
}
