package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/internal/errtree"
)

// ErrTimeout is matched by *TimeoutError.
var ErrTimeout = errors.New("policy: timeout")

// TimeoutError says that a call took longer than it may. It matches ErrTimeout
// and context.DeadlineExceeded, and unwraps to Err. Another one, without Err, is
// the cause of the function's context.
type TimeoutError struct {
	Name    string        // of the Timeout
	After   time.Duration // how long the call may take
	Ignored bool          // the function did not heed its context: it was abandoned
	Err     error         // what it returned, nil when it was abandoned
}

// Error says how long the call may take, and what came of it.
func (e *TimeoutError) Error() string {
	s := "policy: "
	if e.Name != "" {
		s += e.Name + ": "
	}
	s += fmt.Sprintf("timeout after %v", e.After)
	if e.Ignored {
		s += ", ignored by the function"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrTimeout or context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// ErrFull is matched by *FullError and *FallbackError.
var ErrFull = errors.New("policy: full")

// FullError is the answer of a Bulkhead without room. It matches ErrFull.
type FullError struct {
	Name   string        // of the Bulkhead
	Max    int           // how many calls may run at once
	Waited time.Duration // for how long the call waited
}

// Error says how many calls run, and how long the call waited.
func (e *FullError) Error() string {
	s := "policy: "
	if e.Name != "" {
		s += e.Name + ": "
	}
	s += fmt.Sprintf("full (%d at once)", e.Max)
	if e.Waited > 0 {
		s += fmt.Sprintf(" after waiting %v", e.Waited)
	}
	return s
}

// Is reports whether target is ErrFull.
func (e *FullError) Is(target error) bool { return target == ErrFull }

// Refused reports true: the function was not called.
func (e *FullError) Refused() bool { return true }

// FallbackError says that a call failed and that as many substitutes ran as may.
// It matches ErrFull and unwraps to Err.
type FallbackError struct {
	Name string // of the Fallback
	Max  int    // how many substitutes may run at once
	Err  error  // of the call; nil when it was its result that would not do
}

// Error says how many substitutes run, and how the call failed.
func (e *FallbackError) Error() string {
	s := "policy: "
	if e.Name != "" {
		s += e.Name + ": "
	}
	err := e.Err
	if err == nil {
		err = errUnwanted
	}
	return fmt.Sprintf("%sno fallback (%d at once): %v", s, e.Max, err)
}

var errUnwanted = errors.New("unwanted result")

// Is reports whether target is ErrFull.
func (e *FallbackError) Is(target error) bool { return target == ErrFull }

// Unwrap returns Err.
func (e *FallbackError) Unwrap() error { return e.Err }

// Refused reports what Err says: the substitute is not the function.
func (e *FallbackError) Refused() bool { return errtree.Refused(e.Err) }

// endedError is what a layer returns when a context ends while it waits. It
// matches the context's error and its cause.
type endedError struct {
	what       string
	err, cause error
	ran        bool // the function may have been called
}

func endOf(ctx context.Context, what string, ran bool) error {
	return &endedError{what, ctx.Err(), context.Cause(ctx), ran}
}

func (e *endedError) Error() string   { return "policy: " + e.what + ": " + e.cause.Error() }
func (e *endedError) Unwrap() []error { return []error{e.err, e.cause} }
func (e *endedError) Refused() bool   { return !e.ran }
