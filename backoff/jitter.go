package backoff

import (
	"math/rand/v2"
	"time"
)

// FullJitter waits anything between nothing and the delay of another schedule,
// half of it on average: "full jitter" of Brooker's article.
type FullJitter struct {
	Of   Schedule       // the schedule to spread; nil is invalid
	Rand func() float64 // nil means math/rand/v2
}

// Next returns a random delay from 0 to that of Of, and stops with it.
func (j FullJitter) Next(s Step) (time.Duration, bool) {
	d, again := ask(j.Of, s)
	if !again {
		return 0, false
	}
	return between(0, d, j.Rand), true
}

// Validate reports a nil or invalid Of.
func (j FullJitter) Validate() error { return validateParts("FullJitter", j.Of) }

func (j FullJitter) count() (int, bool) { return count(j.Of) }

// EqualJitter waits at least half as long as another schedule says, and at most
// as long, three quarters on average: "equal jitter" of Brooker's article.
type EqualJitter struct {
	Of   Schedule       // the schedule to spread; nil is invalid
	Rand func() float64 // nil means math/rand/v2
}

// Next returns a random delay from half that of Of to all of it, and stops with
// it.
func (j EqualJitter) Next(s Step) (time.Duration, bool) {
	d, again := ask(j.Of, s)
	if !again {
		return 0, false
	}
	return between(d/2, d, j.Rand), true
}

// Validate reports a nil or invalid Of.
func (j EqualJitter) Validate() error { return validateParts("EqualJitter", j.Of) }

func (j EqualJitter) count() (int, bool) { return count(j.Of) }

// FactorJitter waits up to a share more or less than another schedule says; on
// average as long. With Upward it waits up to a share more and never less, for
// delays that somebody asked for. Either may pass the other schedule's Max: put
// a [MaxDelay] around it where that matters.
type FactorJitter struct {
	Of     Schedule       // the schedule to spread; nil is invalid
	Factor float64        // the share, more than 0 and at most 1; 0 means 0.5
	Upward bool           // only more, never less
	Rand   func() float64 // nil means math/rand/v2
}

// Next returns a random delay from (1-Factor) to (1+Factor) times that of Of,
// with Upward from 1 to (1+Factor) times, and stops with it.
func (j FactorJitter) Next(s Step) (time.Duration, bool) {
	d, again := ask(j.Of, s)
	if !again {
		return 0, false
	}
	spread := scale(d, j.factor())
	low := d
	if !j.Upward {
		low -= min(spread, d)
	}
	return between(low, add(d, spread), j.Rand), true
}

func (j FactorJitter) factor() float64 {
	if !(j.Factor > 0 && j.Factor <= 1) {
		return 0.5
	}
	return j.Factor
}

// Validate reports a nil or invalid Of, and a Factor outside 0..1.
func (j FactorJitter) Validate() error {
	if !(j.Factor >= 0 && j.Factor <= 1) {
		return invalid("FactorJitter.Factor is %v, not within 0..1", j.Factor)
	}
	return validateParts("FactorJitter", j.Of)
}

func (j FactorJitter) count() (int, bool) { return count(j.Of) }

// Decorrelated waits anything between Initial and Multiplier times the delay
// before, for ever: it grows like an exponential, but by chance. It is a
// schedule of its own and remembers the delay before by Step.Prev: "decorrelated
// jitter" of Brooker's article. The zero value starts between 500 ms and 1.5 s
// and has no limit: set Max.
type Decorrelated struct {
	Initial    time.Duration  // 0 means 500 ms
	Multiplier float64        // 1 or more, finite; 0 means 3
	Max        time.Duration  // no delay is longer; 0 means no limit
	Rand       func() float64 // nil means math/rand/v2
}

// Next returns a random delay from Initial to Multiplier x Prev (the first time,
// and when Prev is less: Multiplier x Initial), at most Max, and true.
func (j Decorrelated) Next(s Step) (time.Duration, bool) {
	initial := positive(j.Initial, defaultInitial)
	high := scale(max(s.Prev, initial), multiplier(j.Multiplier, 3))
	return min(between(initial, high, j.Rand), positive(j.Max, longest)), true
}

// Validate reports negative fields, an Initial over Max, and a Multiplier that
// is neither 0 nor a number of 1 or more.
func (j Decorrelated) Validate() error {
	if err := validateMultiplier("Decorrelated", j.Multiplier); err != nil {
		return err
	}
	return validateCurve("Decorrelated", j.Initial, j.Max)
}

// between returns a random delay from low to high, both included.
func between(low, high time.Duration, source func() float64) time.Duration {
	if source == nil {
		source = rand.Float64
	}
	x := source()
	switch {
	case !(x > 0): // NaN too
		return low
	case x >= 1:
		return high
	}
	return low + scale(high-low, x) // never more than high: x is short of 1 by at least 2^-53
}
