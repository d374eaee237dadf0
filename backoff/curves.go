package backoff

import (
	"math"
	"time"
)

const defaultInitial = 500 * time.Millisecond

// Constant waits the same every time, for ever: Constant(time.Second). The zero
// Constant is [None]. Less than 0 is invalid and counts as 0.
type Constant time.Duration

// None does not wait, and never stops.
const None = Constant(0)

// Next returns the constant and true.
func (c Constant) Next(Step) (time.Duration, bool) { return max(time.Duration(c), 0), true }

// Validate reports a negative delay.
func (c Constant) Validate() error {
	if c < 0 {
		return invalid("Constant is %v, less than 0", time.Duration(c))
	}
	return nil
}

// Linear waits Initial after the first attempt and Increment more after each
// further one, for ever. The zero value waits 500 ms, 1 s, 1.5 s and so on.
type Linear struct {
	Initial   time.Duration // 0 means 500 ms
	Increment time.Duration // 0 means Initial, so that the nth delay is n x Initial
	Max       time.Duration // no delay is longer; 0 means no limit
}

// Next returns Initial + (Attempt-1) x Increment, at most Max, and true.
func (l Linear) Next(s Step) (time.Duration, bool) {
	initial := positive(l.Initial, defaultInitial)
	d := add(initial, mul(positive(l.Increment, initial), max(s.Attempt, 1)-1))
	return min(d, positive(l.Max, longest)), true
}

// Validate reports negative fields, and an Initial over Max.
func (l Linear) Validate() error {
	if l.Increment < 0 {
		return invalid("Linear.Increment is %v, less than 0", l.Increment)
	}
	return validateCurve("Linear", l.Initial, l.Max)
}

// Exponential waits Initial after the first attempt and Multiplier times as long
// after each further one, for ever. The zero value waits 500 ms, 1 s, 2 s, 4 s
// and so on, without limit: set Max.
type Exponential struct {
	Initial    time.Duration // 0 means 500 ms
	Multiplier float64       // 1 or more, finite; 0 means 2
	Max        time.Duration // no delay is longer; 0 means no limit
}

// Next returns Initial x Multiplier^(Attempt-1), rounded to a nanosecond, at
// most Max, and true.
func (e Exponential) Next(s Step) (time.Duration, bool) {
	d := positive(e.Initial, defaultInitial)
	if n := max(s.Attempt, 1); n > 1 {
		d = scale(d, math.Pow(multiplier(e.Multiplier, 2), float64(n-1)))
	}
	return min(d, positive(e.Max, longest)), true
}

// Validate reports negative fields, an Initial over Max, and a Multiplier that
// is neither 0 nor a number of 1 or more.
func (e Exponential) Validate() error {
	if err := validateMultiplier("Exponential", e.Multiplier); err != nil {
		return err
	}
	return validateCurve("Exponential", e.Initial, e.Max)
}

// Fibonacci waits Initial after the first and the second attempt, and then each
// time as long as the two delays before together, for ever. The zero value waits
// 500 ms, 500 ms, 1 s, 1.5 s, 2.5 s and so on, without limit.
type Fibonacci struct {
	Initial time.Duration // 0 means 500 ms
	Max     time.Duration // no delay is longer; 0 means no limit
}

// Next returns F(Attempt) x Initial, at most Max, and true. It takes fewer than
// 100 additions, however large Attempt is.
func (f Fibonacci) Next(s Step) (time.Duration, bool) {
	limit := positive(f.Max, longest)
	d := positive(f.Initial, defaultInitial)
	for n, before := max(s.Attempt, 1), time.Duration(0); n > 1 && d < limit; n-- {
		before, d = d, add(before, d)
	}
	return min(d, limit), true
}

// Validate reports negative fields, and an Initial over Max.
func (f Fibonacci) Validate() error { return validateCurve("Fibonacci", f.Initial, f.Max) }

// positive returns d, or the default when d is not set: 0, or out of range.
func positive(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// multiplier is positive for multipliers. NaN fails both comparisons.
func multiplier(m, otherwise float64) float64 {
	if m >= 1 && m <= math.MaxFloat64 {
		return m
	}
	return otherwise
}

func validateCurve(name string, initial, limit time.Duration) error {
	switch {
	case initial < 0:
		return invalid("%s.Initial is %v, less than 0", name, initial)
	case limit < 0:
		return invalid("%s.Max is %v, less than 0", name, limit)
	case limit > 0 && initial > limit:
		return invalid("%s.Initial is %v, more than Max, %v", name, initial, limit)
	}
	return nil
}

func validateMultiplier(name string, m float64) error {
	if m != 0 && multiplier(m, 0) == 0 {
		return invalid("%s.Multiplier is %v, not 0 or a finite number of at least 1", name, m)
	}
	return nil
}
