package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// hint and stuck are another package's errors.
type hint time.Duration

func (hint) Error() string               { return "hint" }
func (h hint) RetryAfter() time.Duration { return time.Duration(h) }

type stuck bool

func (stuck) Error() string     { return "stuck" }
func (s stuck) Permanent() bool { return bool(s) }

func TestPermanent(t *testing.T) {
	err := Permanent(errBoom)
	if err.Error() != "boom" || !errors.Is(err, errBoom) || !IsPermanent(err) {
		t.Errorf("%v", err)
	}
	if Permanent(nil) != nil {
		t.Error("Permanent(nil) is not nil")
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errBoom, false},
		{stuck(true), true},
		{stuck(false), false},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", stuck(true))), true},
		{errors.Join(errBoom, fmt.Errorf("b: %w", stuck(true))), true},
		{errors.Join(stuck(false), stuck(true)), true}, // the first has nothing to say
		{fmt.Errorf("a: %w %w", Permanent(stuck(false)), errBoom), true},
		{After(1, Permanent(errBoom)), true},
		{&ExhaustedError{Err: Permanent(errBoom)}, true},
		{errors.Join(errBoom, errBoom), false},
	} {
		if got := IsPermanent(tt.err); got != tt.want {
			t.Errorf("%#v: %v", tt.err, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	err := After(time.Second, errBoom)
	if err.Error() != "boom" || !errors.Is(err, errBoom) {
		t.Errorf("%v", err)
	}
	if After(time.Second, nil) != nil {
		t.Error("After(d, nil) is not nil")
	}
	for _, tt := range []struct {
		err  error
		want time.Duration
		ok   bool
	}{
		{nil, 0, false},
		{errBoom, 0, false},
		{hint(5), 5, true},
		{hint(0), 0, true},
		{hint(-5), 0, false},
		{hint(math.MinInt64), 0, false},
		{hint(math.MaxInt64), math.MaxInt64, true},
		{fmt.Errorf("a: %w", hint(5)), 5, true},
		{errors.Join(hint(5), hint(-1), fmt.Errorf("a: %w", hint(9)), hint(7)), 9, true},
		{After(3, hint(5)), 5, true},
		{After(7, hint(5)), 7, true},
		{After(-7, hint(5)), 5, true},
		{Permanent(hint(5)), 5, true},
	} {
		if got, ok := RetryAfter(tt.err); got != tt.want || ok != tt.ok {
			t.Errorf("%#v: %v %v, want %v %v", tt.err, got, ok, tt.want, tt.ok)
		}
	}
}

func TestExhaustedError(t *testing.T) {
	var err error = fmt.Errorf("call: %w", &ExhaustedError{Attempts: 3, Elapsed: 1500 * time.Millisecond, Reason: OutOfAttempts, Err: errBoom})
	if got := err.Error(); got != "call: retry: out of attempts after attempt 3 and 1.5s: boom" {
		t.Error(got)
	}
	e, ok := errors.AsType[*ExhaustedError](err)
	if !ok || e.Attempts != 3 || !errors.Is(err, ErrExhausted) || !errors.Is(err, errBoom) || errors.Is(err, ErrInvalid) {
		t.Errorf("%#v", err)
	}
}

func TestExhaustedErrorNamesItsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Do(t.Context(), Config{Name: "acme", Attempts: 1}, newScript(9, errBoom).run)
		if e, ok := errors.AsType[*ExhaustedError](err); !ok || e.Name != "acme" || err.Error() != "retry: acme: out of attempts after attempt 1 and 0s: boom" {
			t.Error(err)
		}
	})
}

// refused reports whether err says that nothing was sent.
func refused(err error) bool { return errtree.Refused(err) }

// A call is refused when every attempt was: one that was sent may have had its
// effect, whatever became of the others.
func TestCallThatWasSentIsNotRefused(t *testing.T) {
	full := &policy.FullError{}
	noTime := func(context.Context, time.Duration) error { return full }
	for name, tt := range map[string]struct {
		cfg    Config
		errs   []error       // of the attempts; nil is a result that is to be repeated
		within time.Duration // ends the context, by a deadline
		cancel time.Duration // ends it otherwise
		want   bool
	}{
		"exhausted":                            {Config{}, []error{errBoom, full, full}, 0, 0, false},
		"exhausted, the last was sent":         {Config{}, []error{full, full, errBoom}, 0, 0, false},
		"exhausted, none was sent":             {Config{}, []error{full, full, full}, 0, 0, true},
		"exhausted, a result":                  {Config{FailOnResult: true}, []error{nil, full, full}, 0, 0, false},
		"ignored":                              {Config{}, []error{errBoom, Permanent(full)}, 0, 0, false},
		"ignored, none was sent":               {Config{}, []error{full, Permanent(full)}, 0, 0, true},
		"deadline":                             {Config{}, []error{errBoom, full}, time.Second, 0, false},
		"deadline, none was sent":              {Config{}, []error{full, full}, time.Second, 0, true},
		"cancelled":                            {Config{}, []error{errBoom, full}, 0, time.Second, false},
		"cancelled, none was sent":             {Config{}, []error{full, full}, 0, time.Second, true},
		"cancelled by a refusal, one was sent": {Config{}, []error{errBoom, errBoom}, 0, time.Second, false},
		"no wait":                              {Config{Wait: noTime}, []error{errBoom}, 0, 0, false},
		"no wait, none was sent":               {Config{Wait: noTime}, []error{full}, 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cancel > 0 {
				time.AfterFunc(tt.cancel, func() { cancel(full) })
			}
			if tt.within > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, tt.within)
				defer stop()
			}
			tt.cfg.RetryOnResult = policy.OnResult(func(int) bool { return true })
			n := 0
			_, err := Do(ctx, tt.cfg, func(context.Context) (int, error) { n++; return n, tt.errs[n-1] })
			if err == nil || refused(err) != tt.want || n != len(tt.errs) {
				t.Errorf("%s: refused %v after %d attempts: %v", name, refused(err), n, err)
			}
		})
	}
}

func TestRepeatedCallThatWasSentIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &policy.FullError{}
		for sent := range 2 {
			n := 0
			_, err := Repeat(t.Context(), backoff.None, func(context.Context) (int, error) {
				if n++; n > sent {
					return 0, full
				}
				return n, nil
			})
			if !errors.Is(err, policy.ErrFull) || refused(err) != (sent == 0) {
				t.Errorf("%d calls made: refused %v, %v", sent, refused(err), err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(sec, func() { cancel(full) })
		if _, err := Repeat(ctx, backoff.Constant(time.Minute), newScript(0, nil).run); refused(err) || !errors.Is(err, policy.ErrFull) {
			t.Errorf("refused %v, %v", refused(err), err)
		}
		ended, cancelled := context.WithCancel(t.Context())
		cancelled()
		if _, err := Repeat(ended, backoff.None, newScript(0, nil).run); !refused(err) {
			t.Errorf("before the first call: %v", err)
		}
	})
}
