package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/policy"
)

var errBoom = errors.New("boom")

const longest time.Duration = math.MaxInt64

func TestDefaultIsThreeAttemptsCountingTheFirst(t *testing.T) {
	for attempt, want := range map[int]Reason{-1: Again, 0: Again, 1: Again, 2: Again, 3: OutOfAttempts, 4: OutOfAttempts, math.MaxInt: OutOfAttempts} {
		if _, again, why := (Config{}).Next(backoff.Step{Attempt: attempt, Err: errBoom}); why != want || again != (want == Again) {
			t.Errorf("attempt %d: %v %v, want %v", attempt, again, why, want)
		}
	}
}

func TestDefaultBackoffIsExponentialFrom500msDoublingUpTo1min(t *testing.T) {
	c := Config{Attempts: -1}
	want := 500 * time.Millisecond
	for attempt := 1; attempt < 20; attempt++ {
		if wait, _, _ := c.Next(backoff.Step{Attempt: attempt, Err: errBoom}); wait != min(want, time.Minute) {
			t.Errorf("attempt %d: %v, want %v", attempt, wait, min(want, time.Minute))
		}
		want *= 2
	}
}

func TestDefaultRetriesEveryErrorButContextErrorsAndPermanentOnes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Reason
	}{
		{nil, Succeeded},
		{errBoom, Again},
		{fmt.Errorf("wrapped: %w", errBoom), Again},
		{After(time.Second, errBoom), Again},
		{&ExhaustedError{Err: errBoom}, Again},
		{context.Canceled, Ignored},
		{context.DeadlineExceeded, Ignored},
		{fmt.Errorf("get: %w", context.DeadlineExceeded), Ignored},
		{errors.Join(errBoom, context.Canceled), Ignored},
		{policy.ErrGoexit, Ignored},
		{Permanent(errBoom), Ignored},
		{fmt.Errorf("get: %w", Permanent(errBoom)), Ignored},
	} {
		if _, _, why := (Config{}).Next(backoff.Step{Attempt: 1, Err: tt.err}); why != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, why, tt.want)
		}
	}
}

func TestRetryIfDecidesButForPermanentAndCanceled(t *testing.T) {
	yes, no := func(error) bool { return true }, func(error) bool { return false }
	for _, tt := range []struct {
		retryIf func(error) bool
		err     error
		want    Reason
	}{
		{no, errBoom, Ignored},
		{yes, errBoom, Again},
		{yes, context.DeadlineExceeded, Again}, // an attempt's own timeout
		{yes, context.Canceled, Ignored},
		{yes, Permanent(errBoom), Ignored},
		{yes, errors.Join(errBoom, Permanent(errBoom)), Ignored},
	} {
		if _, _, why := (Config{RetryIf: tt.retryIf}).Next(backoff.Step{Attempt: 1, Err: tt.err}); why != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, why, tt.want)
		}
	}
}

func TestNext(t *testing.T) {
	sec := backoff.Constant(time.Second)
	tests := []struct {
		name string
		c    Config
		s    backoff.Step
		want string
	}{
		{"success", Config{}, backoff.Step{Attempt: 1}, "0s false succeeded"},
		{"one attempt", Config{Attempts: 1}, backoff.Step{Attempt: 1, Err: errBoom}, "0s false out of attempts"},
		{"one attempt, attempt 0 counts as 1", Config{Attempts: 1}, backoff.Step{Err: errBoom}, "0s false out of attempts"},
		{"no limit", Config{Attempts: -1, Backoff: sec}, backoff.Step{Attempt: math.MaxInt, Err: errBoom}, "1s true again"},
		{"the schedule ends it", Config{Attempts: 9, Backoff: backoff.Times(1)}, backoff.Step{Attempt: 2, Err: errBoom}, "0s false out of schedule"},
		{"attempts come before the schedule", Config{Backoff: backoff.Never}, backoff.Step{Attempt: 3, Err: errBoom}, "0s false out of attempts"},
		{"hint over backoff", Config{Backoff: sec}, backoff.Step{Attempt: 1, Err: After(5*time.Second, errBoom)}, "5s true again"},
		{"backoff over hint", Config{Backoff: sec}, backoff.Step{Attempt: 1, Err: After(time.Millisecond, errBoom)}, "1s true again"},
		{"negative hint", Config{Backoff: sec}, backoff.Step{Attempt: 1, Err: After(math.MinInt64, errBoom)}, "1s true again"},
		{"longest hint", Config{Backoff: sec}, backoff.Step{Attempt: 1, Elapsed: longest, Err: After(longest, errBoom)}, "24h0m0s true again"},
		{"backoff over the longest hint", Config{Backoff: backoff.Constant(longest)}, backoff.Step{Attempt: 1, Err: After(longest, errBoom)}, longest.String() + " true again"},
		{"clamped hint", Config{Backoff: sec, MaxRetryAfter: time.Minute}, backoff.Step{Attempt: 1, Err: After(time.Minute+1, errBoom)}, "1m0s true again"},
		{"clamped hint within time", Config{Backoff: sec, MaxRetryAfter: time.Minute, MaxElapsed: time.Minute}, backoff.Step{Attempt: 1, Err: After(time.Hour, errBoom)}, "1m0s true again"},
		{"negative MaxRetryAfter counts as none", Config{Backoff: sec, MaxRetryAfter: -1}, backoff.Step{Attempt: 1, Err: After(time.Hour, errBoom)}, "1h0m0s true again"},
		{"negative backoff", Config{Backoff: negative{}}, backoff.Step{Attempt: 1, Err: errBoom}, "0s true again"},
		{"within time", Config{Backoff: sec, MaxElapsed: 3 * time.Second}, backoff.Step{Attempt: 1, Elapsed: 2 * time.Second, Err: errBoom}, "1s true again"},
		{"past time", Config{Backoff: sec, MaxElapsed: 3*time.Second - 1}, backoff.Step{Attempt: 1, Elapsed: 2 * time.Second, Err: errBoom}, "0s false out of time"},
		{"long past time, no wait", Config{Backoff: backoff.None, MaxElapsed: 1}, backoff.Step{Attempt: 1, Elapsed: 2, Err: errBoom}, "0s false out of time"},
		{"hint past time", Config{Backoff: sec, MaxElapsed: time.Minute}, backoff.Step{Attempt: 1, Err: After(longest, errBoom)}, "0s false out of time"},
		{"time does not overflow", Config{Backoff: backoff.Constant(2), MaxElapsed: longest}, backoff.Step{Attempt: 1, Elapsed: longest - 1, Err: errBoom}, "0s false out of time"},
		{"negative elapsed", Config{Backoff: sec, MaxElapsed: time.Second}, backoff.Step{Attempt: 1, Elapsed: math.MinInt64, Err: errBoom}, "1s true again"},
		{"negative MaxElapsed counts as none", Config{Backoff: sec, MaxElapsed: -1}, backoff.Step{Attempt: 1, Err: errBoom}, "1s true again"},
	}
	for _, tt := range tests {
		wait, again, why := tt.c.Next(tt.s)
		if got := fmt.Sprint(wait, again, why); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// negative is a schedule of another package that breaks the contract.
type negative struct{}

func (negative) Next(backoff.Step) (time.Duration, bool) { return -time.Second, true }

func TestBackoffSeesTheWholeStep(t *testing.T) {
	step := backoff.Step{Attempt: 2, Prev: 3, Elapsed: 4, Err: errBoom}
	Config{Backoff: backoff.Func(func(s backoff.Step) (time.Duration, bool) {
		if s != step {
			t.Errorf("got %+v, want %+v", s, step)
		}
		return 0, true
	})}.Next(step)
}

func TestValidateNamesFieldAndValue(t *testing.T) {
	for _, c := range []Config{{}, {Attempts: -5, Backoff: backoff.None, MaxElapsed: 1}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	err := Config{MaxElapsed: -time.Second}.Validate()
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "MaxElapsed is -1s") {
		t.Error(err)
	}
	err = Config{MaxRetryAfter: -time.Second}.Validate()
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "MaxRetryAfter is -1s") {
		t.Error(err)
	}
	err = Config{Backoff: backoff.Exponential{Multiplier: math.NaN()}}.Validate()
	if !errors.Is(err, ErrInvalid) || !errors.Is(err, backoff.ErrInvalid) || !strings.Contains(err.Error(), "Backoff: backoff: invalid schedule: Exponential.Multiplier is NaN") {
		t.Error(err)
	}
}

func TestReasonsHaveNames(t *testing.T) {
	if got := fmt.Sprint(Again, Succeeded, Ignored, OutOfAttempts, OutOfSchedule, OutOfTime, Reason(99)); got !=
		"again succeeded ignored out of attempts out of schedule out of time invalid" {
		t.Error(got)
	}
}

// A nil pointer passes for a Backoff in an interface.
func TestNextOfANilPointerStops(t *testing.T) {
	_, again, why := Config{Backoff: (*backoff.Exponential)(nil)}.Next(backoff.Step{Attempt: 1, Err: errBoom})
	if again || why != OutOfSchedule {
		t.Errorf("again %v, %v; want it out of schedule", again, why)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	step := backoff.Step{Attempt: 1, Err: errors.Join(fmt.Errorf("a: %w", errBoom), After(time.Second, errBoom))}
	if got := testing.AllocsPerRun(100, func() { Config{}.Next(step) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
