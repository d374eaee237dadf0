// Package backoff says how long to wait between attempts: delay schedules as
// plain values that are combined like values.
//
//	s := backoff.And( // at most five times, and wait as the exponential says
//		backoff.Times(5),
//		backoff.FullJitter{Of: backoff.Exponential{Initial: time.Second, Max: time.Minute}},
//	)
//	delay, again := s.Next(backoff.Step{Attempt: 1, Err: err})
//
// # The parts
//
// Curves are types whose values are written down: [Constant] and [None],
// [Linear], [Exponential], [Fibonacci], [Decorrelated], and [Func] for one of
// your own. [FullJitter], [EqualJitter] and [FactorJitter] spread the delays of
// another schedule. [Times] and [Never] say how often and nothing else;
// [MaxDelay], [MaxElapsed], [While], [Until] and [Map] change another schedule,
// and [And], [Or] and [Then] join several, with the meaning they have in Arrow's
// Schedule.
//
// # What holds for all of them
//
// No delay is negative, and none overflows: what would be more than a Duration
// can hold is the longest Duration. Next takes constant time for each schedule
// it asks, whatever the attempt, and allocates nothing. A schedule never panics
// for a parameter out of range; a number out of range counts as one not set, a
// nil Schedule or function stops at once, and [Validate] names both. Only a
// function of yours can panic, and then Next does. Each describes itself by a
// String method: "full jitter(exponential 1s x2 up to 1m0s)".
//
// # Randomness
//
// Callers that failed together should not come back together. Full, equal and
// decorrelated jitter are those of Marc Brooker, "Exponential Backoff And
// Jitter", AWS Architecture Blog, 2015; full and decorrelated jitter did best
// there. Each has a Rand field, a source of numbers from 0 to 1 that is safe for
// as many goroutines as use the schedule; nil means math/rand/v2. A number
// outside 0..1 counts as the nearer end, NaN as 0.
//
// # Concurrency
//
// Schedules have no state; all that a sequence remembers is in its [Step]. Any
// number of sequences and goroutines may use one schedule at once, as long as
// the functions given to it allow that.
//
// Nothing here sleeps, calls or repeats anything: see package retry for that.
package backoff
