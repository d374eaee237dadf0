package errtree

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

type asks time.Duration

func (asks) Error() string               { return "asks" }
func (a asks) RetryAfter() time.Duration { return time.Duration(a) }

type refusal bool

func (refusal) Error() string   { return "refusal" }
func (r refusal) Refused() bool { return bool(r) }

var errBoom = errors.New("boom")

func TestTheLongestHintInTheTreeCounts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want time.Duration
		ok   bool
	}{
		{nil, 0, false},
		{errBoom, 0, false},
		{asks(-1), 0, false},
		{asks(0), 0, true},
		{errors.Join(asks(0), errBoom, fmt.Errorf("a: %w", asks(5)), asks(3)), 5, true},
		{SaysRefused(asks(2), true), 2, true},
	} {
		if got, ok := RetryAfter(tt.err); got != tt.want || ok != tt.ok {
			t.Errorf("%#v: %v, %v", tt.err, got, ok)
		}
	}
}

func TestTheOutermostErrorSaysWhetherACallWasMade(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errBoom, false},
		{refusal(true), true},
		{fmt.Errorf("a: %w", refusal(true)), true},
		{errors.Join(errBoom, refusal(true)), true},
		{SaysRefused(errBoom, true), true},
		{SaysRefused(refusal(true), false), false},
		{Made(refusal(true), true), false},
		{Made(refusal(true), false), true},
	} {
		if got := Refused(tt.err); got != tt.want {
			t.Errorf("%#v: %v", tt.err, got)
		}
	}
	for _, err := range []error{nil, errBoom, refusal(false)} {
		if got := Made(err, true); got != err {
			t.Errorf("%#v became %#v, though it did not say that nothing was made", err, got)
		}
	}
	if err := Made(refusal(true), true); !errors.Is(err, refusal(true)) || err.Error() != "refusal" {
		t.Errorf("%#v", err)
	}
}
