package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/errtree"
)

func TestDoReturnsWhatTheFunctionReturns(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	v, err := breaker.Do(ctx, b, func(ctx context.Context) (string, error) { return ctx.Value(key{}).(string), errDown })
	if v != "v" || err != errDown {
		t.Error(v, err)
	}
	if s := b.Stats(); s.Calls != 1 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestDoDoesNotCallWhenOpen(t *testing.T) {
	b := newBreaker(t, breaker.Config{Initial: breaker.ForcedOpen})
	v, err := breaker.Do(t.Context(), b, func(context.Context) (int, error) { t.Error("called"); return 1, nil })
	if v != 0 || !errors.Is(err, breaker.ErrOpen) {
		t.Error(v, err)
	}
}

func TestSuccessesOfDoFillTheWindow(t *testing.T) {
	b := newBreaker(t, breaker.Config{Window: 10, MinCalls: 10, SlowCall: -1}) // no clock: the shortest way
	for i := range 10 {
		var err error
		if i >= 5 {
			err = errors.New("down")
		}
		_ = do(t.Context(), b, returns(err))
	}
	if s := b.Stats(); s.State != breaker.Open || s.Calls != 10 || s.Failed != 5 {
		t.Errorf("%+v", s)
	}
}

func TestDoRefusesBadInput(t *testing.T) {
	b := newBreaker(t, breaker.Config{Initial: breaker.HalfOpen, HalfOpenCalls: 1})
	if _, err := breaker.Do[int](t.Context(), b, nil); !errors.Is(err, breaker.ErrInvalid) {
		t.Error(err)
	}
	var none context.Context
	if _, err := breaker.Do(none, b, returns(nil)); !errors.Is(err, breaker.ErrInvalid) {
		t.Error(err)
	}
	cause := errors.New("lunch")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	late, cancel2 := context.WithTimeout(t.Context(), 0)
	defer cancel2()
	for ctx, want := range map[context.Context][]error{canceled: {context.Canceled, cause}, late: {context.DeadlineExceeded}} {
		_, err := breaker.Do(ctx, b, func(context.Context) (int, error) { t.Error("called"); return 1, nil })
		for _, target := range want {
			if !errors.Is(err, target) {
				t.Errorf("%v does not match %v", err, target)
			}
		}
		if !errtree.Refused(err) {
			t.Errorf("%v does not say that there was no call", err)
		}
	}
	if s := b.Stats(); s.Trials != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPanicAndGoexitAreFailuresAndPassThrough(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v", got)
			}
		}()
		_, _ = breaker.Do(t.Context(), b, panics)
	}()
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		_, _ = breaker.Do(t.Context(), b, exits)
		returned = true
	}()
	<-done
	if s := b.Stats(); returned || s.Failed != 2 {
		t.Errorf("returned %v, %+v", returned, s)
	}
}

// What is the user's may panic too.
func TestPanicOfAPredicateIsAFailure(t *testing.T) {
	boom := func(error) bool { panic("boom") }
	for name, cfg := range map[string]breaker.Config{"Ignore": {Ignore: boom}, "Failure": {Failure: boom}, "OpenOn": {OpenOn: boom}} {
		cfg.Initial, cfg.HalfOpenCalls = breaker.HalfOpen, 5
		b := newBreaker(t, cfg)
		_ = do(t.Context(), b, returns(errDown))
		func() {
			defer func() { _ = recover() }()
			done, _ := b.Allow()
			done(errDown)
		}()
		if s := b.Stats(); s.Failed != 2 || s.Trials != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	b := newBreaker(t, breaker.Config{})
	func() {
		defer func() { _ = recover() }()
		_, _ = breaker.DoJudged(t.Context(), b, returns(nil), func(int, error) breaker.Outcome { panic("boom") })
	}()
	if s := b.Stats(); s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTheCallersCancellationIsNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 1})
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, errDown }) // whatever it made of that
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		_, _ = breaker.Do(ctx, b, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		cancel()
		inState(t, b, breaker.Closed)

		// A success is one, and a timeout of the call's own is a failure.
		ctx, cancel = context.WithCancel(t.Context())
		_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, nil })
		inState(t, b, breaker.Closed)
		_, _ = breaker.Do(t.Context(), b, func(ctx context.Context) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		})
		inState(t, b, breaker.Open)
	})
}

type notRefused struct{}

func (notRefused) Error() string { return "sent" }
func (notRefused) Refused() bool { return false }

func TestErrorsAreJudgedInOrder(t *testing.T) {
	is := func(target error) func(error) bool {
		return func(err error) bool { return errors.Is(err, target) }
	}
	both := fmt.Errorf("%w and %w", errIgnore, errDown)
	for _, tt := range []struct {
		name string
		cfg  breaker.Config
		err  error
		want breaker.Outcome
	}{
		{"nil", breaker.Config{Ignore: func(error) bool { return true }}, nil, breaker.Success},
		{"any", breaker.Config{}, errDown, breaker.Failure},
		{"refused within", breaker.Config{}, fmt.Errorf("inner: %w", &breaker.OpenError{}), breaker.Neutral},
		{"not refused", breaker.Config{}, notRefused{}, breaker.Failure},
		{"ignored", breaker.Config{Ignore: is(errIgnore)}, errIgnore, breaker.Neutral},
		{"not ignored", breaker.Config{Ignore: is(errIgnore)}, errDown, breaker.Failure},
		{"recorded", breaker.Config{Failure: is(errDown)}, errDown, breaker.Failure},
		{"not recorded", breaker.Config{Failure: is(errDown)}, errTrip, breaker.Success},
		{"ignored before recorded", breaker.Config{Ignore: is(errIgnore), Failure: is(errDown)}, both, breaker.Neutral},
		{"opens", breaker.Config{Failure: is(errDown), OpenOn: is(errTrip)}, errTrip, breaker.Failure},
		{"ignored before opens", breaker.Config{Ignore: is(errTrip), OpenOn: is(errTrip)}, errTrip, breaker.Neutral},
	} {
		b := newBreaker(t, tt.cfg)
		if got := b.Judge(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		b = newBreaker(t, tt.cfg)
		_, _ = breaker.Do(t.Context(), b, returns(tt.err))
		done, err := b.Allow()
		if err == nil {
			done(tt.err)
		}
		s := b.Stats()
		want := map[breaker.Outcome]int{breaker.Success: 2, breaker.Failure: 2}[tt.want]
		if tt.name == "opens" {
			want = 1 // and then it was
		}
		if s.Calls != want || (s.Failed > 0) != (tt.want == breaker.Failure) {
			t.Errorf("%s: %+v", tt.name, s)
		}
	}
}

func TestResultsCanBeJudged(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	judge := func(status int, err error) breaker.Outcome {
		switch {
		case status >= 500:
			return breaker.Failure
		case status >= 400:
			return breaker.Neutral
		}
		return b.Judge(err)
	}
	for _, call := range []struct {
		status int
		err    error
	}{{503, nil}, {404, errDown}, {200, nil}, {0, errDown}} {
		v, err := breaker.DoJudged(t.Context(), b, func(context.Context) (int, error) { return call.status, call.err }, judge)
		if v != call.status || err != call.err {
			t.Error(v, err)
		}
	}
	if s := b.Stats(); s.Calls != 3 || s.Failed != 2 {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = breaker.DoJudged(ctx, b, func(context.Context) (int, error) { cancel(); return 500, errDown }, judge)
	if s := b.Stats(); s.Calls != 3 {
		t.Errorf("an error after the end: %+v", s)
	}
	ctx, cancel = context.WithCancel(t.Context())
	_, _ = breaker.DoJudged(ctx, b, func(context.Context) (int, error) { cancel(); return 500, nil }, judge)
	if s := b.Stats(); s.Calls != 4 || s.Failed != 3 {
		t.Errorf("a result after the end: %+v", s)
	}
	_, _ = breaker.DoJudged(t.Context(), b, returns(errDown), func(int, error) breaker.Outcome { return 77 })
	if s := b.Stats(); s.Calls != 4 {
		t.Errorf("%+v", s)
	}
}

func TestAllowCountsACallOnce(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	done, err := b.Allow()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{errDown, nil, context.Canceled, errDown} {
		done(err)
	}
	if s := b.Stats(); s.Calls != 1 || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

// An error's RetryAfter says exactly how long, from a closed breaker and from a
// half-open one, and only the error that opens it is asked.
func TestRetryAfterSetsUntilWhenItIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 2, OpenFor: doubling, MaxRetryAfter: time.Hour})
		until := func(want time.Duration) {
			t.Helper()
			if s := b.Stats(); s.State != breaker.Open || time.Until(s.Until) != want {
				t.Errorf("%v for %v, want open for %v", s.State, time.Until(s.Until), want)
			}
		}
		wrapped := func(d time.Duration) error { return fmt.Errorf("call: %w", hint{d}) }
		_, _ = breaker.Do(t.Context(), b, returns(wrapped(9*time.Second)))
		inState(t, b, breaker.Closed)
		_, _ = breaker.Do(t.Context(), b, returns(errDown))
		until(1 * time.Second)
		time.Sleep(time.Second)
		_, _ = breaker.Do(t.Context(), b, returns(wrapped(7*time.Second)))
		until(7 * time.Second)
		time.Sleep(7 * time.Second)
		done, _ := b.Allow()
		done(wrapped(10 * time.Hour))
		until(time.Hour)
		time.Sleep(time.Hour)
		_, _ = breaker.Do(t.Context(), b, returns(wrapped(0))) // says nothing
		until(5 * time.Second)
		time.Sleep(5 * time.Second)
		_, _ = breaker.Do(t.Context(), b, returns(wrapped(-time.Hour)))
		until(5 * time.Second)
	})
}

func TestLongestRetryAfterInTheTreeCounts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want time.Duration
	}{
		{errors.Join(hint{0}, hint{5 * time.Second}), 5 * time.Second},
		{errors.Join(hint{-1}, fmt.Errorf("a: %w", hint{5 * time.Second}), hint{time.Second}), 5 * time.Second},
		{errors.Join(hint{0}, hint{-1}), time.Minute}, // none that counts: the schedule's
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{Consecutive: 1})
			_ = do(t.Context(), b, returns(tt.err))
			if d := time.Until(b.Stats().Until); d != tt.want {
				t.Errorf("%v: open for %v, want %v", tt.err, d, tt.want)
			}
		})
	}
}

func TestErrorsOfDoGoThroughOnError(t *testing.T) {
	var asked []error
	success := false
	b := newBreaker(t, breaker.Config{Consecutive: 1, OnError: func(err error) error {
		if asked = append(asked, err); success {
			return nil
		}
		return fmt.Errorf("guarded: %w", err)
	}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx context.Context
		is  error
	}{"own": {t.Context(), errDown}, "open": {t.Context(), breaker.ErrOpen}, "ended": {ended, context.Canceled}} {
		b.Reset()
		if name == "open" {
			transition(t, b, breaker.ForcedOpen)
		}
		asked, success = nil, false
		_, err := breaker.Do(tt.ctx, b, returns(errDown))
		if len(asked) != 1 || !errors.Is(asked[0], tt.is) || err.Error() != "guarded: "+asked[0].Error() {
			t.Errorf("%s: asked about %v, got %v", name, asked, err)
		}
	}
	b.Reset()
	success = true
	if n, err := breaker.Do(t.Context(), b, returns(errDown)); n != 1 || err != nil {
		t.Errorf("nil is no success: %v, %v", n, err)
	}
	inState(t, b, breaker.Open) // which it was not for the breaker
	asked = nil
	b.Reset()
	_, _ = breaker.Do(t.Context(), b, returns(nil))
	_, _ = breaker.DoJudged(t.Context(), b, returns(nil), func(int, error) breaker.Outcome { return breaker.Failure })
	_, _ = breaker.Do[int](t.Context(), b, nil)
	if asked != nil {
		t.Errorf("asked about %v", asked)
	}
}

func TestOpenOnOpensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fmt.Errorf("%w: %w", errTrip, hint{3 * time.Second})
		for _, from := range []breaker.State{breaker.Closed, breaker.HalfOpen, breaker.MetricsOnly, breaker.Disabled} {
			b := newBreaker(t, breaker.Config{Initial: from, OpenOn: func(err error) bool { return errors.Is(err, errTrip) }})
			_, _ = breaker.Do(t.Context(), b, returns(errDown))
			inState(t, b, from)
			_, _ = breaker.DoJudged(t.Context(), b, returns(gone), func(int, error) breaker.Outcome { return breaker.Success })
			inState(t, b, from)
			_, _ = breaker.Do(t.Context(), b, returns(gone))
			if from == breaker.MetricsOnly || from == breaker.Disabled {
				inState(t, b, from)
			} else if s := b.Stats(); s.State != breaker.Open || time.Until(s.Until) != 3*time.Second {
				t.Errorf("%v: %+v", from, s)
			}
		}
	})
}

// Slowness is the time that the call itself took.
func TestDoAndAllowMeasureTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []breaker.Config{{}, {WindowTime: time.Hour}} {
			cfg.SlowCall = time.Second
			b := newBreaker(t, cfg)
			time.Sleep(time.Minute)
			for _, d := range []time.Duration{time.Second, time.Second + 1} {
				_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(d); return 0, nil })
				done, _ := b.Allow()
				time.Sleep(d)
				done(errDown)
			}
			if s := b.Stats(); s.Calls != 4 || s.Slow != 2 || s.Failed != 2 {
				t.Errorf("%+v", s)
			}
		}
		for _, cfg := range []breaker.Config{{}, {WindowTime: time.Hour}, {Consecutive: 9}} {
			cfg.SlowCall = -1
			b := newBreaker(t, cfg)
			_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(1000 * time.Hour); return 0, errDown })
			if s := b.Stats(); s.Slow != 0 || s.Failed != 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestHealthyCallsAllocateNothing(t *testing.T) {
	ctx := t.Context()
	for name, cfg := range map[string]breaker.Config{
		"calls": {}, "seconds": {WindowTime: 10 * time.Second}, "in a row": {Consecutive: 5}, "disabled": {Initial: breaker.Disabled},
		"metrics only": {Initial: breaker.MetricsOnly}, "never slow": {SlowCall: -1},
	} {
		b := newBreaker(t, cfg)
		fn := returns(nil)
		judge := func(int, error) breaker.Outcome { return breaker.Success }
		for what, run := range map[string]func(){
			"Do":       func() { _, _ = breaker.Do(ctx, b, fn) },
			"DoJudged": func() { _, _ = breaker.DoJudged(ctx, b, fn, judge) },
			"a permit": func() {
				now := time.Now()
				_ = b.Ready(now)
				p, _ := b.Acquire(now)
				b.Report(p, now, breaker.Success, 0)
			},
		} {
			if n := testing.AllocsPerRun(1000, run); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
		if n := testing.AllocsPerRun(1000, func() { done, _ := b.Allow(); done(nil) }); n != 2 {
			t.Errorf("%s, Allow: %v allocations", name, n)
		}
	}
}

// Nor do those of a window with failures in it, or those that are refused but
// for their error.
func TestOtherCallsAllocateLittle(t *testing.T) {
	ctx := t.Context()
	b := newBreaker(t, breaker.Config{WindowTime: time.Hour, FailureRate: 1})
	_, _ = breaker.Do(ctx, b, returns(errDown))
	good, bad := returns(nil), returns(errDown)
	if n := testing.AllocsPerRun(1000, func() { _, _ = breaker.Do(ctx, b, good); _, _ = breaker.Do(ctx, b, bad) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	transition(t, b, breaker.ForcedOpen)
	if n := testing.AllocsPerRun(1000, func() { _, _ = breaker.Do(ctx, b, good) }); n != 1 {
		t.Errorf("%v allocations", n)
	}
}
