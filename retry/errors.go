package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/internal/errtree"
)

// Permanent wraps err as one that is never retried, whatever a RetryIf says. The
// result has err's text and unwraps to err. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string   { return e.err.Error() }
func (e *permanentError) Unwrap() error   { return e.err }
func (e *permanentError) Permanent() bool { return true }

// IsPermanent reports whether err, or any error in its tree, has a method
// Permanent() bool that returns true. One that returns false says nothing about
// the errors around and below it.
func IsPermanent(err error) bool {
	return errtree.Find(err, func(e interface{ Permanent() bool }) bool { return e.Permanent() })
}

// After wraps err as one after which at least d is waited before the next
// attempt. The result has err's text and unwraps to err. After(d, nil) is nil.
// Less than 0 is no hint at all.
func After(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &afterError{d, err}
}

type afterError struct {
	d   time.Duration
	err error
}

func (e *afterError) Error() string             { return e.err.Error() }
func (e *afterError) Unwrap() error             { return e.err }
func (e *afterError) RetryAfter() time.Duration { return e.d }

// RetryAfter returns how long err asks to wait before the next attempt, and
// whether it asks at all: the longest of what the methods RetryAfter()
// time.Duration of err, and of the errors in its tree, return. Less than 0 is
// ignored.
func RetryAfter(err error) (hint time.Duration, ok bool) { return errtree.RetryAfter(err) }

// ErrResult is the error, in an *ExhaustedError, of a result that
// Config.RetryOnResult would have repeated.
var ErrResult = errors.New("retry: result is to be repeated")

// ErrExhausted is matched, with errors.Is, by every *ExhaustedError.
var ErrExhausted = errors.New("retry: exhausted")

// ExhaustedError is returned when an error would have been retried, had there
// been attempts or time left. It matches ErrExhausted and unwraps to Err; get at
// its fields with errors.AsType[*retry.ExhaustedError].
type ExhaustedError struct {
	Name     string        // Config.Name
	Attempts int           // how many were made
	Elapsed  time.Duration // to the end of the last, from the beginning of the first where MaxElapsed or the schedule depends on that, else from its end
	Reason   Reason        // which limit it was
	Err      error         // of the last attempt

	sent bool // an attempt was not refused
}

// Error says how many attempts were made in which time, and the last error.
func (e *ExhaustedError) Error() string {
	s := "retry: "
	if e.Name != "" {
		s += e.Name + ": "
	}
	return s + fmt.Sprintf("%v after attempt %d and %v: %v", e.Reason, e.Attempts, e.Elapsed, e.Err)
}

// Unwrap returns Err.
func (e *ExhaustedError) Unwrap() error { return e.Err }

// Is reports whether target is ErrExhausted.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// Refused reports whether every attempt was refused further in, so that none was
// sent.
func (e *ExhaustedError) Refused() bool { return !e.sent && errtree.Refused(e.Err) }
