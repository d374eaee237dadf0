package backoff

import "time"

// Times does not wait, and stops after as many repeats: Times(2) lets three
// attempts be made in all. It is meant to be joined with a schedule that waits:
//
//	backoff.And(backoff.Times(2), backoff.Constant(time.Second))
//
// The zero Times is [Never]. Less than 0 is invalid and counts as 0.
type Times int

// Never stops at once: nothing is repeated.
const Never = Times(0)

// Next returns 0, and whether Attempt is at most t.
func (t Times) Next(s Step) (time.Duration, bool) { return 0, max(s.Attempt, 1) <= int(t) }

// Validate reports a negative number.
func (t Times) Validate() error {
	if t < 0 {
		return invalid("Times is %d, less than 0", int(t))
	}
	return nil
}

func (t Times) count() (int, bool) { return max(int(t), 0), true }

// MaxDelay makes no delay of s longer than limit. 0 means no limit; less than 0
// is invalid and counts as 0.
func MaxDelay(s Schedule, limit time.Duration) Schedule { return maxDelay{s, limit} }

type maxDelay struct {
	of    Schedule
	limit time.Duration
}

func (m maxDelay) Next(s Step) (time.Duration, bool) {
	d, again := ask(m.of, s)
	return min(d, positive(m.limit, longest)), again
}

func (m maxDelay) Validate() error {
	if m.limit < 0 {
		return invalid("MaxDelay is %v, less than 0", m.limit)
	}
	return validateParts("MaxDelay", m.of)
}

func (m maxDelay) count() (int, bool) { return count(m.of) }

// MaxElapsed stops s once a wait would end later than limit after the first
// attempt began: when Elapsed and the delay together are more than limit. 0
// means no limit; less than 0 is invalid and counts as 0.
func MaxElapsed(s Schedule, limit time.Duration) Schedule { return maxElapsed{s, limit} }

type maxElapsed struct {
	of    Schedule
	limit time.Duration
}

func (m maxElapsed) Next(s Step) (time.Duration, bool) {
	d, again := ask(m.of, s)
	if !again || add(max(s.Elapsed, 0), d) > positive(m.limit, longest) {
		return 0, false
	}
	return d, true
}

func (m maxElapsed) Validate() error {
	if m.limit < 0 {
		return invalid("MaxElapsed is %v, less than 0", m.limit)
	}
	return validateParts("MaxElapsed", m.of)
}

func (m maxElapsed) count() (int, bool) { return count(m.of) }

// While goes on with s as long as matches is true of the last attempt's error,
// and stops when it is not. The error is nil where something repeats after
// success. A nil function is invalid and stops at once.
func While(s Schedule, matches func(error) bool) Schedule { return while{s, matches, true} }

// Until stops s as soon as matches is true of the last attempt's error: [While]
// the other way round.
func Until(s Schedule, matches func(error) bool) Schedule { return while{s, matches, false} }

type while struct {
	of      Schedule
	matches func(error) bool
	want    bool
}

func (w while) Next(s Step) (time.Duration, bool) {
	if w.matches == nil || w.matches(s.Err) != w.want {
		return 0, false
	}
	return ask(w.of, s)
}

func (w while) Validate() error {
	if w.matches == nil {
		return invalid("the function of While or Until is nil")
	}
	return validateParts("While or Until", w.of)
}

func (w while) count() (int, bool) { return count(w.of) }

// Map replaces each delay of s by what change makes of it: it is not asked when
// s stops. A negative delay counts as 0. A nil function is invalid and stops at
// once.
func Map(s Schedule, change func(Step, time.Duration) time.Duration) Schedule {
	return mapped{s, change}
}

type mapped struct {
	of     Schedule
	change func(Step, time.Duration) time.Duration
}

func (m mapped) Next(s Step) (time.Duration, bool) {
	d, again := ask(m.of, s)
	if !again || m.change == nil {
		return 0, false
	}
	return max(m.change(s, d), 0), true
}

func (m mapped) Validate() error {
	if m.change == nil {
		return invalid("the function of Map is nil")
	}
	return validateParts("Map", m.of)
}

func (m mapped) count() (int, bool) { return count(m.of) }
