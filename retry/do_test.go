package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/internal/wall"
	"github.com/flyball-go/flyball/policy"
)

// A script is a closure that fails so many times, and notes when it ran.
type script struct {
	start time.Time
	at    []time.Duration
	fail  int
	err   error
}

func newScript(fail int, err error) *script { return &script{start: time.Now(), fail: fail, err: err} }

func (s *script) run(context.Context) (int, error) {
	s.at = append(s.at, time.Since(s.start))
	if len(s.at) <= s.fail {
		return -len(s.at), s.err
	}
	return len(s.at), nil
}

func (s *script) ran(t *testing.T, at ...time.Duration) {
	t.Helper()
	if !slices.Equal(s.at, at) {
		t.Errorf("ran at %v, want %v", s.at, at)
	}
}

const ms, sec = time.Millisecond, time.Second

func TestDoWaitsAndSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(2, errBoom)
		if v, err := Do(t.Context(), Config{}, s.run); v != 3 || err != nil {
			t.Error(v, err)
		}
		s.ran(t, 0, 500*ms, 1500*ms)
	})
}

func TestDoGivesUp(t *testing.T) {
	for _, tt := range []struct {
		name     string
		c        Config
		err      error
		attempts int
		at       time.Duration
		why      Reason
	}{
		{"attempts", Config{}, errBoom, 3, 1500 * ms, OutOfAttempts},
		{"one attempt", Config{Attempts: 1}, errBoom, 1, 0, OutOfAttempts},
		{"schedule", Config{Attempts: -1, Backoff: backoff.And(backoff.Times(4), backoff.Constant(sec))}, errBoom, 5, 4 * sec, OutOfSchedule},
		{"time, without waiting for it", Config{Attempts: -1, Backoff: backoff.Constant(sec), MaxElapsed: 3500 * ms}, errBoom, 4, 3 * sec, OutOfTime},
		{"hint", Config{Backoff: backoff.None}, After(time.Minute, errBoom), 3, 2 * time.Minute, OutOfAttempts},
		{"hint past time", Config{MaxElapsed: time.Hour}, After(24*time.Hour, errBoom), 1, 0, OutOfTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(99, tt.err)
			v, err := Do(t.Context(), tt.c, s.run)
			e, ok := errors.AsType[*ExhaustedError](err)
			if !ok || e.Attempts != tt.attempts || e.Elapsed != tt.at || e.Reason != tt.why || e.Err != tt.err || v != -tt.attempts {
				t.Errorf("%s: %v, %#v", tt.name, v, err)
			}
			if got := time.Since(s.start); got != tt.at || len(s.at) != tt.attempts {
				t.Errorf("%s: ended at %v, ran at %v", tt.name, got, s.at)
			}
		})
	}
}

func TestDoReturnsIgnoredErrorsAsTheyAre(t *testing.T) {
	for _, want := range []error{Permanent(errBoom), context.DeadlineExceeded, context.Canceled} {
		s := newScript(99, want)
		if v, err := Do(t.Context(), Config{}, s.run); v != -1 || err != want {
			t.Error(v, err)
		}
	}
}

func TestDoTellsBackoffTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []backoff.Step
		_, _ = Do(t.Context(), Config{Backoff: backoff.Func(func(s backoff.Step) (time.Duration, bool) {
			got = append(got, s)
			return sec, true
		})}, func(context.Context) (int, error) {
			time.Sleep(100 * ms)
			return 0, After(2*sec, errBoom)
		})
		want := "[{1 0s 100ms boom} {2 2s 2.2s boom}]"
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestDoWithAnEndedContextRunsNothing(t *testing.T) {
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s := newScript(0, nil)
	for name, cfg := range map[string]Config{
		"nothing": {},
		"result":  {RetryOnResult: policy.OnResult(func(int) bool { return false })},
		"budget":  {Budget: newBudget(t)},
		"before":  {BeforeRetry: func(*policy.Call) {}},
	} {
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, one := Do(ctx, cfg, s.run)
		_, two := DoWith(ctx, r, s.run)
		_, three := policy.Do(ctx, policy.Chain(r), s.run)
		for _, err := range []error{one, two, three} {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || err.Error() != "retry: context canceled: cause before the first attempt" || !refused(err) {
				t.Errorf("%s: %v, refused: %v", name, err, refused(err))
			}
		}
		cfg.OnError = func(err error) error { return fmt.Errorf("mapped: %w", err) }
		r, _ = New(cfg)
		_, four := Do(ctx, cfg, s.run)
		_, five := DoWith(ctx, r, s.run)
		for _, err := range []error{four, five} {
			if err == nil || err.Error() != "mapped: "+one.Error() {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s.ran(t)
}

func newBudget(t testing.TB) *policy.Budget {
	t.Helper()
	b, err := policy.NewBudget(policy.BudgetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDoEndsItsWaitWithTheContext(t *testing.T) {
	for _, cause := range []error{nil, errors.New("cause")} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(200*ms, func() { cancel(cause) })
			s := newScript(99, errBoom)
			v, err := Do(ctx, Config{}, s.run)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) || cause != nil && !errors.Is(err, cause) || errors.Is(err, ErrExhausted) || v != -1 {
				t.Error(v, err)
			}
			if got := time.Since(s.start); got != 200*ms {
				t.Errorf("ended at %v", got)
			}
			s.ran(t, 0)
		})
	}
}

// At the very moment at which the wait ends, ctx does too: never another attempt.
func TestDoPrefersTheContextToTheTimer(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(500*ms, cancel)
			s := newScript(99, errBoom)
			_, err := Do(fires{ctx}, Config{}, s.run)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			s.ran(t, 0)
		})
	}
}

// fires is a context whose Done is slow to notice: only Err tells in time.
type fires struct{ context.Context }

func (fires) Done() <-chan struct{} { return nil }
func (f fires) Err() error {
	synctest.Wait() // let what is due at this instant happen
	return f.Context.Err()
}

func TestDoDoesNotRetryWhenTheContextEndedDuringTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := Do(ctx, Config{Backoff: backoff.None}, func(context.Context) (int, error) {
			n++
			cancel()
			return 0, errBoom
		})
		if n != 1 || !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) {
			t.Error(n, err)
		}
	})
}

func TestDoDoesNotWaitForAHopelessDeadline(t *testing.T) {
	for _, tt := range []struct {
		timeout time.Duration
		runs    int
		ends    time.Duration
	}{{400 * ms, 1, 0}, {500 * ms, 1, 0}, {500*ms + 1, 2, 500 * ms}, {1500 * ms, 2, 500 * ms}, {1500*ms + 1, 3, 1500 * ms}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
			defer cancel()
			s := newScript(99, errBoom)
			_, err := Do(ctx, Config{Attempts: 4}, s.run)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBoom) {
				t.Error(err)
			}
			if got := time.Since(s.start); got != tt.ends || len(s.at) != tt.runs {
				t.Errorf("timeout %v: ended at %v, ran at %v", tt.timeout, got, s.at)
			}
		})
	}
}

func TestDoRetriesAnAttemptsOwnTimeoutWhenAsked(t *testing.T) {
	attempt := func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, sec)
		defer cancel()
		<-ctx.Done()
		return 0, fmt.Errorf("get: %w", ctx.Err())
	}
	for _, tt := range []struct {
		c    Config
		ends time.Duration
	}{
		{Config{}, sec},
		{Config{RetryIf: func(error) bool { return true }}, 4500 * ms}, // three of 1 s, and 0.5 + 1 s between
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := Do(t.Context(), tt.c, attempt)
			if got := time.Since(start); got != tt.ends || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ended at %v: %v", got, err)
			}
		})
	}
}

func TestDoWithoutWaitIsNotDeafToTheContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
	defer cancel()
	if _, err := Do(ctx, Config{Attempts: -1, Backoff: backoff.None}, newScript(math.MaxInt, errBoom).run); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestDoRefusesBadInput(t *testing.T) {
	s := newScript(0, nil)
	if _, err := Do(t.Context(), Config{MaxElapsed: -1}, s.run); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := Do[int](t.Context(), Config{}, nil); !errors.Is(err, ErrInvalid) || !IsPermanent(err) {
		t.Error(err)
	}
	for _, cfg := range []Config{{}, {BeforeRetry: func(*policy.Call) {}}} {
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DoWith[int](t.Context(), r, nil); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
	var none context.Context
	for _, cfg := range []Config{{}, {BeforeRetry: func(*policy.Call) {}}} {
		if _, err := Do(none, cfg, s.run); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		r, _ := New(cfg)
		if _, err := DoWith(none, r, s.run); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
	s.ran(t)
}

// As MaxElapsed ends repetitions of a result with that result, so does a deadline
// that has no time for another.
func TestResultIsReturnedWhenThereIsNoTimeForAnother(t *testing.T) {
	pending := policy.OnResult(func(n int) bool { return n == 202 })
	refuses := func(context.Context, time.Duration) error { return errBoom }
	for name, tt := range map[string]struct {
		cfg    Config
		within time.Duration
		cancel time.Duration
		err    error
	}{
		"MaxElapsed":               {Config{MaxElapsed: ms}, time.Hour, time.Hour, nil},
		"deadline":                 {Config{}, ms, time.Hour, nil},
		"deadline, later":          {Config{}, 501 * ms, time.Hour, nil},
		"Wait":                     {Config{Wait: refuses}, time.Hour, time.Hour, nil},
		"MaxElapsed, an error":     {Config{MaxElapsed: ms, FailOnResult: true}, time.Hour, time.Hour, ErrExhausted},
		"deadline, an error":       {Config{FailOnResult: true}, ms, time.Hour, context.DeadlineExceeded},
		"cancelled while it waits": {Config{}, time.Hour, ms, context.Canceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			time.AfterFunc(tt.cancel, cancel)
			tt.cfg.RetryOnResult = pending
			n, err := Do(ctx, tt.cfg, func(context.Context) (int, error) { return 202, nil })
			if n != 202 || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("%s: %v, %v", name, n, err)
			}
		})
	}
}

// A function that ends its goroutine, as FailNow does, is not called again, where
// that is an error.
func TestGoexitIsNotRepeated(t *testing.T) {
	timeout, err := policy.NewTimeout(policy.TimeoutConfig{Abandon: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Backoff: backoff.None, RetryIf: func(error) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = policy.Do(t.Context(), policy.Chain(r, timeout), func(context.Context) (int, error) { n++; runtime.Goexit(); return 0, nil })
	if n != 1 || err != policy.ErrGoexit {
		t.Errorf("it ran %d times: %v", n, err)
	}
}

func TestPanicAndGoexitPassThroughDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, returned := 0, false
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v", got)
				}
			}()
			_, _ = Do(t.Context(), Config{}, func(context.Context) (int, error) { n++; panic("boom") })
		}()
		go func() {
			_, _ = Do(t.Context(), Config{}, func(context.Context) (int, error) { n++; runtime.Goexit(); return 0, nil })
			returned = true
		}()
		synctest.Wait()
		if n != 2 || returned {
			t.Errorf("%d calls, returned %v", n, returned)
		}
	})
}

func TestTheFirstAttemptsTimeCounts(t *testing.T) {
	r, err := New(Config{MaxElapsed: sec})
	if err != nil {
		t.Fatal(err)
	}
	slow := func(context.Context) (int, error) { time.Sleep(2 * sec); return 0, errBoom }
	for name, do := range map[string]func(context.Context) (int, error){
		"Do":     func(ctx context.Context) (int, error) { return Do(ctx, r.cfg, slow) },
		"DoWith": func(ctx context.Context) (int, error) { return DoWith(ctx, r, slow) },
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := do(t.Context())
			e, ok := errors.AsType[*ExhaustedError](err)
			if !ok || e.Attempts != 1 || e.Elapsed != 2*sec || e.Reason != OutOfTime {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A schedule that may look at the time is told all of it, also by way of jitter;
// without one the clock is left alone.
func TestTheFirstAttemptsTimeIsTakenForSchedulesThatLookAtTheTime(t *testing.T) {
	for name, jitter := range map[string]func(backoff.Schedule) backoff.Schedule{
		"none":         func(s backoff.Schedule) backoff.Schedule { return s },
		"FullJitter":   func(s backoff.Schedule) backoff.Schedule { return backoff.FullJitter{Of: s} },
		"EqualJitter":  func(s backoff.Schedule) backoff.Schedule { return backoff.EqualJitter{Of: s} },
		"FactorJitter": func(s backoff.Schedule) backoff.Schedule { return backoff.FactorJitter{Of: s} },
	} {
		synctest.Test(t, func(t *testing.T) {
			var told time.Duration
			looks := backoff.Func(func(s backoff.Step) (time.Duration, bool) { told = s.Elapsed; return 0, false })
			_, _ = Do(t.Context(), Config{Backoff: jitter(looks)}, func(context.Context) (int, error) { time.Sleep(sec); return 0, errBoom })
			if told != sec {
				t.Errorf("%s: told %v after %v", name, told, sec)
			}
			if r, err := New(Config{Backoff: jitter(backoff.Exponential{})}); err != nil || r.timed {
				t.Errorf("%s of what does not look at the time: timed %v, %v", name, r.timed, err)
			}
		})
	}
}

// Not in a bubble, whose times have no monotonic reading.
func TestSteppingTheWallClockDoesNotChangeWhatHasElapsed(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		cfg := Config{Backoff: backoff.None, MaxElapsed: 30 * time.Minute}
		r := run{cfg: &cfg, start: wall.Set(t, time.Now(), step)}
		if again, err := r.failed(t.Context(), errBoom); !again || err != nil {
			t.Errorf("set by %v: %v", step, err)
		}
		r.start = r.start.Add(-time.Hour)
		if again, err := r.failed(t.Context(), errBoom); again || r.step.Elapsed < time.Hour || r.step.Elapsed > 80*time.Minute {
			t.Errorf("set by %v, after an hour: %v, %v", step, r.step.Elapsed, err)
		}
	}
}

func TestDoDoesNotAllocateOnSuccess(t *testing.T) {
	ctx := t.Context()
	cfg := Config{Attempts: 5, Backoff: backoff.And(backoff.Times(3), backoff.Exponential{}), RetryIf: func(error) bool { return true }}
	fn := func(context.Context) (int, error) { return 1, nil }
	if got := testing.AllocsPerRun(100, func() { _, _ = Do(ctx, cfg, fn) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	cfg.BeforeRetry = func(*policy.Call) {}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(100, func() { _, _ = DoWith(ctx, r, fn) }); got != 0 {
		t.Errorf("DoWith: %v allocations", got)
	}
}

func BenchmarkDoSuccess(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Do(b.Context(), Config{}, func(context.Context) (int, error) { return 1, nil })
	}
}
