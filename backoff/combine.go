package backoff

import (
	"math"
	"slices"
	"time"
)

// And goes on as long as every one of the schedules does, and waits the longest
// of their delays. Those after one that stops are not asked. And of nothing is
// invalid, and acts as [None].
func And(schedules ...Schedule) Schedule { return and(slices.Clone(schedules)) }

type and []Schedule

func (a and) Next(s Step) (time.Duration, bool) {
	var delay time.Duration
	for _, part := range a {
		d, again := ask(part, s)
		if !again {
			return 0, false
		}
		delay = max(delay, d)
	}
	return delay, true
}

func (a and) Validate() error { return validateList("And", a) }

func (a and) count() (least int, known bool) {
	least = math.MaxInt
	for _, part := range a {
		if n, ok := count(part); ok {
			least, known = min(least, n), true
		}
	}
	return least, known
}

// Or goes on as long as any of the schedules does, and waits the shortest delay
// of those that do. Or of nothing is invalid, and acts as [Never].
func Or(schedules ...Schedule) Schedule { return or(slices.Clone(schedules)) }

type or []Schedule

func (o or) Next(s Step) (time.Duration, bool) {
	delay, goesOn := longest, false
	for _, part := range o {
		if d, again := ask(part, s); again {
			delay, goesOn = min(delay, d), true
		}
	}
	if !goesOn {
		return 0, false
	}
	return delay, true
}

func (o or) Validate() error { return validateList("Or", o) }

func (o or) count() (most int, known bool) {
	for _, part := range o {
		n, ok := count(part)
		if !ok {
			return 0, false
		}
		most = max(most, n)
	}
	return most, true
}

// Then goes on with the first schedule until it stops, then with the second
// until it stops, and so on: five quick repeats, then one a minute for ever, is
//
//	backoff.Then(backoff.And(backoff.Times(5), backoff.Constant(time.Second)), backoff.Constant(time.Minute))
//
// Each schedule counts its attempts from 1. A Then has no state, so it knows how
// many attempts belonged to a schedule only where [Times] limits that schedule,
// alone or within others; it subtracts that number, and at the first attempt of
// the next schedule Prev is 0. Where a schedule stops for another reason (the
// time, the error, a [Func]), the ones before the last are asked anew at every
// step, and go on again when the reason is gone. The next one then counts from
// the number of attempts made so far, less what Times would have allowed, and at
// least 1. Elapsed is the time since the very first attempt for all of them.
//
// Then of nothing is invalid, and acts as [Never].
func Then(schedules ...Schedule) Schedule { return then(slices.Clone(schedules)) }

type then []Schedule

func (t then) Next(s Step) (time.Duration, bool) {
	s.Attempt = max(s.Attempt, 1)
	for _, part := range t {
		if d, again := ask(part, s); again {
			return d, true
		}
		if n, ok := count(part); ok {
			s.Attempt = max(s.Attempt-n, 1)
			if s.Attempt == 1 {
				s.Prev = 0
			}
		}
	}
	return 0, false
}

func (t then) Validate() error { return validateList("Then", t) }

func (t then) count() (sum int, known bool) {
	for _, part := range t {
		n, ok := count(part)
		if !ok {
			return 0, false
		}
		if sum > math.MaxInt-n {
			return math.MaxInt, true
		}
		sum += n
	}
	return sum, true
}

// count returns how many times s goes on at most because a Times within it says
// so, and whether one does.
func count(s Schedule) (n int, known bool) {
	switch s := s.(type) {
	case nil:
		return 0, true
	case interface{ count() (int, bool) }:
		return s.count()
	}
	return 0, false
}

func validateList(name string, parts []Schedule) error {
	if len(parts) == 0 {
		return invalid("%s of no schedules", name)
	}
	return validateParts(name, parts...)
}
