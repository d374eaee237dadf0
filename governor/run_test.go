package governor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

func TestPanicIsTheRequestsErrorAndFreesTheSlot(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		for _, v := range []any{"boom", errors.New("boom"), nil} {
			_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { panic(v) }))
			pe, ok := errors.AsType[*governor.PanicError](err)
			if !ok || !strings.Contains(string(pe.Stack), "run_test.go") {
				t.Fatalf("panic(%v): got %v, want a *PanicError with the stack", v, err)
			}
			if e, ok := v.(error); ok && !errors.Is(err, e) {
				t.Errorf("%v does not match the error it panicked with", err)
			}
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

func TestClosureLearnsWhichAttemptItIs(t *testing.T) {
	set := func(c *governor.PlainConfig) {
		c.Retry = &retry.Config{Attempts: 3, Backoff: backoff.Constant(time.Second)}
	}
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		steps := []error{governortest.Limited(5 * time.Second), errors.New("broken"), nil}
		type key struct{}
		var seen []retry.Info
		_, err := governor.Do(context.WithValue(t.Context(), key{}, "kept"), g, "", governor.Func(func(ctx context.Context) (int, error) {
			info, ok := retry.FromContext(ctx)
			if !ok || ctx.Value(key{}) != "kept" {
				t.Errorf("attempt %d: told %v, the caller's value is %v", len(seen)+1, ok, ctx.Value(key{}))
			}
			seen = append(seen, info)
			time.Sleep(time.Second)
			return 0, steps[len(seen)-1]
		}))
		if err != nil || len(seen) != 3 {
			t.Fatal(err, seen)
		}
		for i, want := range []retry.Info{
			{Attempt: 1, Started: start},
			{Attempt: 2, Last: steps[0], Started: start.Add(6 * time.Second)},
			{Attempt: 3, Last: steps[1], Started: start.Add(8 * time.Second)},
		} {
			if seen[i] != want {
				t.Errorf("attempt %d: %+v, want %+v", i+1, seen[i], want)
			}
		}
	})
}

func TestGoexitCompletesTheRequestAndFreesTheSlot(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		for range 3 {
			_, err := do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }))
			if err != governor.ErrGoexit {
				t.Fatalf("got %v, want ErrGoexit", err)
			}
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

func TestAdapterThatExitsTheGoroutineLosesNothing(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1; c.Vendor = exitVendor{} }, func(t *testing.T, g *governor.Plain) {
		boom := errors.New("boom")
		if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(boom).Call); err != boom {
			t.Errorf("got %v, want the closure's error", err)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

type exitVendor struct{}

func (exitVendor) DelayError(error) (time.Duration, bool) { runtime.Goexit(); return 0, false }

func TestCancelledWhileRunningCompletesWhenTheClosureReturns(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		r := governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // cleaning up
			return 42, nil
		}))
		time.Sleep(time.Second)
		r.Cancel()
		v, err := r.Result(t.Context())
		since(t, "completion", start, time.Now(), 2*time.Second)
		if v != 42 || err != nil {
			t.Errorf("got %d, %v; want what the closure returned", v, err)
		}
	})
}

func TestSubmittersContextReachesTheClosure(t *testing.T) {
	type key struct{}
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		defer cancel()
		v, err := governor.Do(ctx, g, "", governor.Func(func(ctx context.Context) (string, error) {
			d, ok := ctx.Deadline()
			return fmt.Sprint(ctx.Value(key{}), " ", ok, " ", time.Until(d)), nil
		}))
		if v != "value true 1m0s" || err != nil {
			t.Errorf("got %q, %v", v, err)
		}
	})
}

func TestResultMayBeLeftAndTakenAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		r := governor.Submit(t.Context(), g, "", sleep(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("left early: %v", err)
		}
		if r.State() != governor.Running {
			t.Errorf("state %v, want running: leaving cancels nothing", r.State())
		}
		results := make(chan error, 10)
		for range 10 {
			go func() { _, err := r.Result(t.Context()); results <- err }()
		}
		for range 10 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if v, err := r.Result(ctx); v != 1 || err != nil { // ctx has ended; the result is there
			t.Errorf("got %d, %v; want the result", v, err)
		}
		<-r.Done()
		if r.State() != governor.Done {
			t.Errorf("state %v, want done", r.State())
		}
	})
}

func TestAttemptTimeoutCountsFromTheStartOfTheClosure(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.AttemptTimeout = time.Second; c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g, "", sleep(900*time.Millisecond))
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}))
		since(t, "timeout", start, time.Now(), 1900*time.Millisecond)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
}

func TestRetryWaitsWithoutSlotAndRepeats(t *testing.T) {
	cfg := &retry.Config{Attempts: 3, Backoff: backoff.Constant(10 * time.Second)}
	bubble(t, func(c *governor.PlainConfig) { c.Retry = cfg; c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		rec := governortest.Record(g, event.Retry, event.Recovered, event.GaveUp)
		boom := errors.New("boom")
		s := governortest.NewScript(boom, boom)
		r := governor.Submit(t.Context(), g, "", s.Call)
		synctest.Wait()
		if r.State() != governor.Waiting {
			t.Errorf("state %v, want waiting", r.State())
		}
		var other time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&other)).Done()
		since(t, "its lane's next", start, other, 0)
		if n, err := r.Result(t.Context()); n != 3 || err != nil {
			t.Errorf("attempt %d, %v; want the third to succeed", n, err)
		}
		since(t, "third attempt", start, s.Starts()[2], 20*time.Second)

		_, err := governor.Do(t.Context(), g, "", governortest.NewScript(boom, boom, boom).Call)
		ge, ok := errors.AsType[*governor.GaveUpError](err)
		if !ok || ge.Attempts != 3 || ge.Waited != 20*time.Second || !errors.Is(err, boom) || governor.IsRefused(err) {
			t.Errorf("got %v, want to give up after 3 attempts and 20s", err)
		}
		if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(retry.Permanent(boom)).Call); errors.Is(err, governor.ErrGaveUp) || !errors.Is(err, boom) {
			t.Errorf("permanent: %v, want the error itself", err)
		}
		synctest.Wait()
		if got := fmt.Sprint(rec.Kinds()); got != "[retry retry recovered retry retry gave up]" {
			t.Errorf("events %s", got)
		}
	})
}

func TestCancelDuringBackoffKeepsBothErrors(t *testing.T) {
	cfg := &retry.Config{Backoff: backoff.Constant(time.Minute)}
	bubble(t, func(c *governor.PlainConfig) { c.Retry = cfg }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		boom := errors.New("boom")
		r := governor.Submit(t.Context(), g, "", governortest.NewScript(boom).Call)
		time.Sleep(time.Second)
		r.Cancel()
		_, err := r.Result(t.Context())
		since(t, "end", start, time.Now(), time.Second)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, boom) || governor.IsRefused(err) {
			t.Errorf("got %v, want both errors, and not refused: it was sent", err)
		}
	})
}

func TestReentrantCallsThatCouldDeadlockAreRefused(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		inner := func(ctx context.Context) (int, error) { return governor.Do(ctx, g, "", sleep(time.Second)) }
		if v, err := governor.Do(t.Context(), g, "", governor.Func(inner)); v != 1 || err != nil {
			t.Errorf("with a spare slot: %d, %v", v, err)
		}
		both := func(ctx context.Context) (int, error) {
			time.Sleep(time.Second) // until every slot is taken by one like it
			return inner(ctx)
		}
		a := governor.Submit(t.Context(), g, "", governor.Func(both))
		b := governor.Submit(t.Context(), g, "", governor.Func(both))
		_, errA := a.Result(t.Context())
		_, errB := b.Result(t.Context())
		if first := errors.Join(errA, errB); !errors.Is(first, governor.ErrReentrant) {
			t.Errorf("with none: %v; want ErrReentrant for the first", first)
		}
		// Fire and forget is allowed, waiting for it inside is not.
		var forgotten *governor.Request[int]
		busy := governor.Submit(t.Context(), g, "", sleep(time.Minute))
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			forgotten = governor.Submit(context.WithoutCancel(ctx), g, "", sleep(0))
			return forgotten.Result(ctx)
		}))
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("Result inside: %v, want ErrReentrant", err)
		}
		if _, err := forgotten.Result(t.Context()); err != nil {
			t.Errorf("forgotten: %v", err)
		}
		<-busy.Done()
	})
}

func TestReentranceIsFoundThroughAnotherGovernor(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		other, err := governor.New(governor.PlainConfig{Name: "other"})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, other, "", governor.Func(func(ctx context.Context) (int, error) {
				return governor.Do(ctx, g, "", sleep(0))
			}))
		}))
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("got %v, want ErrReentrant", err)
		}
	})
}

func TestBlockedSubmitInsideAClosureIsRefused(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 1, 1 }, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			governor.Submit(t.Context(), g, "", sleep(0))
			synctest.Wait()
			r := governor.Submit(ctx, g, "", sleep(0))
			return r.Result(t.Context())
		}))
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("got %v, want ErrReentrant", err)
		}
	})
}

func TestHoldKeepsTheSlotAfterTheClosure(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1; c.StuckAfter = 10 * time.Second }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Stuck)
		start := time.Now()
		var release func(error)
		var inner context.Context
		r := governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			release, inner = governor.Hold(ctx), ctx
			return 1, nil
		}))
		<-r.Done()
		since(t, "completion", start, time.Now(), 0)
		var next time.Time
		n := governor.Submit(t.Context(), g, "", stamp(&next))
		time.Sleep(time.Minute)
		if inner.Err() != nil {
			t.Error("the context ended while it was held")
		}
		release(governortest.Limited(time.Second))
		release(nil)
		<-n.Done()
		since(t, "next start: after the hold, and what its end taught", start, next, time.Minute+time.Second)
		if inner.Err() == nil {
			t.Error("the context outlived the hold")
		}
		synctest.Wait()
		if rec.Count(event.Stuck) != 1 {
			t.Errorf("%d stuck events, want 1", rec.Count(event.Stuck))
		}
		governor.Hold(t.Context())(nil) // no closure's: nothing happens
		governor.Hold(inner)(nil)       // over
	})
}

func TestHoldOfAFailedClosureHoldsNothing(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		var release func(error)
		_, _ = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			release = governor.Hold(ctx)
			return 0, errors.New("failed")
		}))
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
		release(nil)
		if s := g.Stats(); s.InFlight != 0 {
			t.Errorf("%d in flight, want 0", s.InFlight)
		}
	})
}

func TestKeepConnKeepsItsSlotThroughACooldown(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		s := governortest.NewScript(governortest.Limited(time.Second, throttle.Scope{Level: throttle.Tenant}))
		kept := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", KeepConn: true}), "", s.Call)
		synctest.Wait()
		var other time.Time
		o := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "", stamp(&other))
		<-kept.Done()
		<-o.Done()
		since(t, "second attempt", start, s.Starts()[1], time.Second)
		since(t, "another tenant, that had no slot", start, other, time.Second)
	})
}

func TestKeepConnIsGivenBackWhenTheRequestEndsInTheQueue(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		s := governortest.NewScript(governortest.Limited(time.Minute))
		kept := governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: true}), "", s.Call)
		synctest.Wait()
		kept.Cancel()
		<-kept.Done()
		synctest.Wait()
		if st := g.Stats(); st.InFlight != 0 {
			t.Errorf("%d in flight, want 0", st.InFlight)
		}
	})
}

func TestCancelWhileAnAttemptIsJudgedEndsTheBackoffAtOnce(t *testing.T) {
	broken := errors.New("broken")
	var req *governor.Request[int]
	set := func(c *governor.PlainConfig) {
		c.Retry = &retry.Config{Backoff: backoff.Constant(10 * time.Minute), RetryIf: func(error) bool { req.Cancel(); return true }}
	}
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		start, calls := time.Now(), 0
		req = governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			time.Sleep(time.Second) // req is there when it is over
			calls++
			return 0, broken
		}))
		_, err := req.Result(t.Context())
		if !errors.Is(err, context.Canceled) || !errors.Is(err, broken) || governor.IsRefused(err) || calls != 1 {
			t.Errorf("got %v after %d calls, want one that is cancelled and says how the attempt ended", err, calls)
		}
		since(t, "ended", start, time.Now(), time.Second)
	})
}

func TestRetryPredicateThatPanicsRetriesNothing(t *testing.T) {
	set := func(c *governor.PlainConfig) {
		c.Retry = &retry.Config{RetryIf: func(error) bool { panic("bad predicate") }}
	}
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		broken := errors.New("broken")
		if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(broken, nil).Call); err != broken {
			t.Errorf("got %v, want the closure's error", err)
		}
	})
}
