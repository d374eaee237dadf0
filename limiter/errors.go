package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLimited is matched by every error with which a limiter turns a call away.
var ErrLimited = errors.New("limiter: limited")

// Reason says why a limiter turned a call away.
type Reason uint8

// The reasons.
const (
	NoPermits  Reason = iota // they are not there, and the call does not wait for them
	QueueFull                // too many calls wait already
	Displaced                // the call waited, and made room for a newer one
	TooLate                  // it would have had to wait longer than it may, or than its context lasts, or has
	Impossible               // they never are there: the limit is less than what was asked for
)

var reasons = [...]string{"no permits", "queue full", "displaced by a newer call", "too late", "more permits than the limit ever holds"}

// String returns the reason in lower case words.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "invalid"
}

// LimitedError is the answer of a limiter that lets a call neither pass nor wait,
// or not any longer. It matches ErrLimited, and context.DeadlineExceeded when the
// call's context would have ended before it was let pass. Get at its fields with
// errors.AsType[*limiter.LimitedError].
type LimitedError struct {
	Reason Reason

	// After is how long it was, when the limiter answered, until the permits
	// could have been had, if nobody else wanted any; Never when they never can
	// be, and 0 when nobody knows, since they come back when some call ends.
	After time.Duration

	// Key is whose limit it was; "" for a limiter without keys.
	Key string

	deadline bool // it was the context's
}

// refuse returns the error for a call that would have to wait.
func refuse(why Reason, wait time.Duration, key string) *LimitedError {
	if wait == Never {
		why = Impossible
	}
	return &LimitedError{Reason: why, After: wait, Key: key}
}

// Error says why, whose limit it was and how long to wait.
func (e *LimitedError) Error() string {
	s := "limiter: " + e.Reason.String()
	if e.Key != "" {
		s += fmt.Sprintf(" for %q", e.Key)
	}
	if e.After > 0 && e.After != Never {
		s += fmt.Sprintf(", retry after %v", e.After)
	}
	return s
}

// Is reports whether target is ErrLimited, or context.DeadlineExceeded where that
// was the reason.
func (e *LimitedError) Is(target error) bool {
	return target == ErrLimited || e.deadline && target == context.DeadlineExceeded
}

// Refused reports true: the call was not made.
func (e *LimitedError) Refused() bool { return true }

// Permanent reports whether it is no use to try again: the Reason is Impossible.
func (e *LimitedError) Permanent() bool { return e.Reason == Impossible }

// RetryAfter returns After.
func (e *LimitedError) RetryAfter() time.Duration { return e.After }

// refusal is a sentinel for a call that was not made.
type refusal string

func (e refusal) Error() string { return string(e) }
func (e refusal) Refused() bool { return true }

// final is a refusal that stands: to try again is no use.
type final struct{ refusal }

func (e final) Permanent() bool { return true }

// ErrClosed is the error of calls that come to a limiter that is closed, or wait in
// it. It is permanent: nothing opens a limiter again. Test for it with errors.Is.
var ErrClosed error = final{"limiter: closed"}

// ErrInvalid is matched by the errors for a nil context or function, and for a
// setting that is out of range: those name the field and its value, and are
// permanent. Test for it with errors.Is.
var ErrInvalid = errors.New("limiter: invalid")

var errNil error = invalid("limiter: nil context or function")

// invalid is an error that matches ErrInvalid.
type invalid string

func invalidf(format string, args ...any) error {
	return invalid("limiter: " + fmt.Sprintf(format, args...))
}

func (e invalid) Error() string        { return string(e) }
func (e invalid) Is(target error) bool { return target == ErrInvalid }
func (e invalid) Refused() bool        { return true }
func (e invalid) Permanent() bool      { return true }

// endedError is for a call whose context ended, or that was cancelled, while it
// waited. It matches the context's error and its cause.
type endedError struct{ err, cause error }

func endOf(ctx context.Context) error { return &endedError{ctx.Err(), context.Cause(ctx)} }

func (e *endedError) Error() string   { return "limiter: no permit: " + e.cause.Error() }
func (e *endedError) Unwrap() []error { return []error{e.err, e.cause} }
func (e *endedError) Refused() bool   { return true }
