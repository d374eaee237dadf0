package backoff

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"time"
)

// Step is what a Schedule is asked about: one failure (or one success, where
// something repeats) and what went before it.
type Step struct {
	Attempt int           // how many attempts were made, 1 after the first; less counts as 1
	Prev    time.Duration // the delay this sequence was last given; 0 at the first
	Elapsed time.Duration // time since the first attempt began
	Err     error         // how the last attempt ended; nil for success
}

// Schedule says how long to wait before the next attempt. A Schedule is a
// value without state: the same Step gets the same answer, but for randomness,
// so one Schedule serves any number of sequences and goroutines at once.
type Schedule interface {
	// Next returns the delay before the attempt that follows step.Attempt, 0 or
	// more, and whether there is to be one at all.
	Next(step Step) (delay time.Duration, again bool)
}

// Func is a Schedule of your own making, often of the attempt and the last
// error:
//
//	backoff.Func(func(s backoff.Step) (time.Duration, bool) { return time.Second, !errors.Is(s.Err, io.EOF) })
//
// A negative delay counts as 0. The function must be safe for as many
// goroutines as use the schedule. One that keeps state makes a schedule that
// serves a single sequence: it is asked once for every step, unless a schedule
// around it has already decided to stop. A nil Func stops at once.
type Func func(Step) (delay time.Duration, again bool)

// Next calls f.
func (f Func) Next(s Step) (time.Duration, bool) {
	if f == nil {
		return 0, false
	}
	return answer(f(s))
}

// Validate reports a nil function.
func (f Func) Validate() error {
	if f == nil {
		return invalid("Func is nil")
	}
	return nil
}

// ErrInvalid is matched, with errors.Is, by every error of [Validate] and of the
// Validate methods in this package. The text names the field and its value.
var ErrInvalid = errors.New("backoff: invalid schedule")

// Validate reports what is wrong with s and the schedules within it, the first
// thing only; nil when all is well. A nil Schedule is wrong, and so is a nil pointer to
// one. A schedule of another package takes part by having a Validate method, and is
// taken to be right when it has none.
func Validate(s Schedule) error {
	if s == nil {
		return invalid("Schedule is nil")
	}
	if p := reflect.ValueOf(s); p.Kind() == reflect.Pointer && p.IsNil() {
		return invalid("Schedule is a nil %T", s)
	}
	if v, ok := s.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// validateParts reports the first thing wrong in a schedule made of others.
func validateParts(name string, parts ...Schedule) error {
	for _, p := range parts {
		if p == nil {
			return invalid("%s has a nil Schedule", name)
		}
		if err := Validate(p); err != nil {
			return err
		}
	}
	return nil
}

// ask is Next for a schedule from outside, which may be nil or answer badly.
func ask(s Schedule, step Step) (time.Duration, bool) {
	if s == nil {
		return 0, false
	}
	return answer(s.Next(step))
}

func answer(d time.Duration, again bool) (time.Duration, bool) {
	if !again {
		return 0, false
	}
	return max(d, 0), true
}

const longest time.Duration = math.MaxInt64

// add, mul and scale saturate at longest; their arguments are 0 or more, and
// scale takes +Inf too.

func add(a, b time.Duration) time.Duration {
	if a > longest-b {
		return longest
	}
	return a + b
}

func mul(d time.Duration, n int) time.Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(n))
	if hi != 0 || lo > math.MaxInt64 {
		return longest
	}
	return time.Duration(lo)
}

func scale(d time.Duration, by float64) time.Duration {
	if d == 0 {
		return 0 // also 0 times +Inf
	}
	x := math.Round(float64(d) * by)
	if x >= 1<<63 {
		return longest
	}
	return time.Duration(x)
}
