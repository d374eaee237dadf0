package retry

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
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
