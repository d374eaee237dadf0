package breaker

import (
	"errors"
	"time"
)

// ErrOpen is matched by every error that a breaker answers a call with.
var ErrOpen = errors.New("breaker: open")

// OpenError is the answer of an open breaker. It matches ErrOpen.
type OpenError struct {
	// Name is that of the breaker, Config.Name.
	Name string

	// Until is when the breaker will admit a trial call; zero when it is not
	// known, as for a breaker forced open.
	Until time.Time
}

// Error says until when the breaker is open, where that is known.
func (e *OpenError) Error() string {
	s := "breaker: "
	if e.Name != "" {
		s += e.Name + ": "
	}
	if e.Until.IsZero() {
		return s + "open"
	}
	return s + "open until " + e.Until.Format(time.RFC3339Nano)
}

// Is reports whether target is ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// Refused reports true: the call was not made.
func (e *OpenError) Refused() bool { return true }

// RetryAfter is the time left until Until; 0 when it has passed or is not known.
func (e *OpenError) RetryAfter() time.Duration {
	if e.Until.IsZero() {
		return 0
	}
	return max(0, time.Until(e.Until))
}

// Outcome is what came of a call, in the breaker's eyes.
type Outcome uint8

const (
	Neutral Outcome = iota // cancelled, rate-limited, ignored or never made: only the permit goes back
	Success
	Failure
)

// Permit identifies the state a call was admitted in, so that a late outcome is
// not judged in a state that it has nothing to do with. Only the Circuit that
// issued it knows its meaning.
type Permit uint64

// Circuit is a circuit breaker as a governor uses it. Its methods are called
// from many goroutines at once, take now as an argument, return at once, and
// call nothing of the governor's.
type Circuit interface {
	// Ready returns nil when a call could be admitted at now, else an error that
	// matches ErrOpen, preferably an *OpenError. It takes no permit.
	Ready(now time.Time) error

	// Acquire admits a call at now, or returns an error that matches ErrOpen.
	// Every permit is given back by exactly one Report.
	Acquire(now time.Time) (Permit, error)

	// Report gives a permit back with what came of the call; took is how long
	// the call itself ran, without any waiting before it.
	Report(p Permit, now time.Time, o Outcome, took time.Duration)
}
