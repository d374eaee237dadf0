package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

func TestBreakerInAChainCountsWhatPassesIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cfg    breaker.Config
		call   func(ctx context.Context, p *policy.Pipeline)
		failed int
		calls  int
	}{
		{"success", breaker.Config{}, func(ctx context.Context, p *policy.Pipeline) {
			_ = policy.Run(ctx, p, func(context.Context) error { return nil })
		}, 0, 1},
		{"error", breaker.Config{}, func(ctx context.Context, p *policy.Pipeline) {
			_ = policy.Run(ctx, p, func(context.Context) error { return errDown })
		}, 1, 1},
		{"ignored error", breaker.Config{Ignore: func(err error) bool { return err == errDown }}, func(ctx context.Context, p *policy.Pipeline) {
			_ = policy.Run(ctx, p, func(context.Context) error { return errDown })
		}, 0, 0},
		{"bad result", breaker.Config{FailureOnResult: policy.OnResult(func(n int) bool { return n < 0 })}, func(ctx context.Context, p *policy.Pipeline) {
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return -1, nil })
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return 1, nil })
			_, _ = policy.Do(ctx, p, func(context.Context) (string, error) { return "another type", nil })
		}, 1, 3},
		{"ignored result", breaker.Config{IgnoreOnResult: policy.OnResult(func(n int) bool { return n < 0 })}, func(ctx context.Context, p *policy.Pipeline) {
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return -1, nil })
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return 1, nil })
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return -1, errDown })
		}, 1, 2},
		{"result that is bad and ignored", breaker.Config{
			IgnoreOnResult:  policy.OnResult(func(n int) bool { return n < 0 }),
			FailureOnResult: policy.OnResult(func(n int) bool { return n < 1 }),
		}, func(ctx context.Context, p *policy.Pipeline) {
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return -1, nil })
			_, _ = policy.Do(ctx, p, func(context.Context) (int, error) { return 0, nil })
		}, 1, 1},
		{"panic", breaker.Config{}, func(ctx context.Context, p *policy.Pipeline) {
			defer func() { _ = recover() }()
			_ = policy.Run(ctx, p, func(context.Context) error { panic("x") })
		}, 1, 1},
		{"Goexit", breaker.Config{}, func(ctx context.Context, p *policy.Pipeline) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = policy.Run(ctx, p, func(context.Context) error { runtime.Goexit(); return nil })
			}()
			<-done
		}, 1, 1},
		{"caller's cancellation", breaker.Config{}, func(ctx context.Context, p *policy.Pipeline) {
			ctx, cancel := context.WithCancel(ctx)
			_ = policy.Run(ctx, p, func(ctx context.Context) error { cancel(); return ctx.Err() })
			_ = policy.Run(ctx, p, func(context.Context) error { panic("not called: the context has ended") })
		}, 0, 0},
	} {
		b := newBreaker(t, tt.cfg)
		tt.call(t.Context(), policy.Chain(b))
		if s := b.Stats(); s.Failed != tt.failed || s.Calls != tt.calls {
			t.Errorf("%s: %d of %d calls failed, want %d of %d", tt.name, s.Failed, s.Calls, tt.failed, tt.calls)
		}
	}
}

func TestOpenBreakerInAChainRefusesUntilItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 2, HalfOpenCalls: 1, OnError: func(err error) error { return fmt.Errorf("guarded: %w", err) }})
		p, calls := policy.Chain(b), 0
		call := func(err error) error {
			return policy.Run(t.Context(), p, func(context.Context) error { calls++; return err })
		}
		start := time.Now()
		for range 2 {
			if err := call(errDown); !errors.Is(err, errDown) || err == errDown {
				t.Errorf("got %v, want it from OnError", err)
			}
		}
		if e, ok := errors.AsType[*breaker.OpenError](call(nil)); !ok || !e.Until.Equal(start.Add(time.Minute)) || calls != 2 {
			t.Errorf("open: %v after %d calls", e, calls)
		}
		time.Sleep(time.Minute)
		if err := call(nil); err != nil || b.State() != breaker.Closed {
			t.Errorf("trial: %v, then %v", err, b.State())
		}
	})
}

// Waiting is never counted as slowness, and a breaker asks for the time as it is,
// when a cache further out has waited for another call.
func TestBreakerKnowsTheTimeAfterAWaitInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 1, SlowCall: 10 * time.Second})
		cache, err := policy.NewCache(policy.CacheConfig[string, int]{})
		if err != nil {
			t.Fatal(err)
		}
		p := policy.Stack(cache, b)
		for name, open := range map[string]bool{"slowness": false, "open": true} {
			key := policy.WithKey(t.Context(), name)
			ctx, cancel := context.WithTimeout(key, 90*time.Second)
			go func() {
				defer cancel()
				_, _ = policy.Do(ctx, p, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			}()
			synctest.Wait()
			if open {
				transition(t, b, breaker.Open) // for 1 min
			}
			if _, err := policy.Do(key, p, returns(nil)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if s := b.Stats(); s.Slow > 0 {
				t.Errorf("%s: a call of no time at all is slow", name)
			}
		}
	})
}

func TestEndedContextInAChainIsRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := policy.Do(ctx, policy.Chain(newBreaker(t, breaker.Config{})), returns(nil))
	if !errors.Is(err, context.Canceled) || !errtree.Refused(err) {
		t.Error(err)
	}
}

func TestHealthyCallThroughAChainedBreakerAllocatesNothing(t *testing.T) {
	for _, cfg := range []breaker.Config{{}, {Consecutive: 5}, {WindowTime: 10 * time.Second}} {
		p, ctx := policy.Chain(newBreaker(t, cfg)), t.Context()
		fn := func(context.Context) (int, error) { return 1, nil }
		if n := testing.AllocsPerRun(100, func() { _, _ = policy.Do(ctx, p, fn) }); n != 0 {
			t.Errorf("%v: %v allocations", p, n)
		}
	}
}

func TestBreakerDescribesItself(t *testing.T) {
	for want, cfg := range map[string]breaker.Config{
		"breaker(0.5 of 100 calls)":         {},
		"breaker acme(0.2 of calls in 30s)": {Name: "acme", FailureRate: 0.2, WindowTime: 30 * time.Second},
		"breaker(3 failures in a row)":      {Consecutive: 3},
	} {
		if b := newBreaker(t, cfg); b.String() != want || b.Layer() != policy.BreakerLayer {
			t.Errorf("%v in layer %d, want %s", b, b.Layer(), want)
		}
	}
}

// In a chain a breaker can judge results, too.
func ExampleBreaker_Wrap() {
	b, err := breaker.New(breaker.Config{
		Consecutive:     2,
		FailureOnResult: policy.OnResult(func(rows []string) bool { return len(rows) == 0 }),
	})
	if err != nil {
		log.Fatal(err)
	}
	p := policy.Stack(b)
	for range 3 {
		_, err := policy.Do(context.Background(), p, func(context.Context) ([]string, error) { return nil, nil })
		fmt.Println(b.State(), errors.Is(err, breaker.ErrOpen))
	}
	// Output:
	// closed false
	// open false
	// open true
}
