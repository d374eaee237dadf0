package pool

import (
	"context"
	"errors"
	"fmt"
)

// refusal is an error that says that no connection was handed out.
type refusal string

func (r refusal) Error() string { return string(r) }

// Refused reports true: nothing was done with a connection.
func (r refusal) Refused() bool { return true }

// What is matched with errors.Is. Those that Acquire and Conn return by
// themselves have a method Refused() bool that returns true; ErrOpenTimeout and
// ErrGoexit come within an *OpenError, which has one too.
var (
	ErrClosed     error = refusal("pool: closed")
	ErrGivenBack  error = refusal("pool: the reservation was given back")
	ErrBusy       error = refusal("pool: Conn of this reservation is already running")
	ErrSelector   error = refusal("pool: the selector is not equal to itself, or not comparable")
	ErrNilContext error = refusal("pool: nil context")

	ErrOpenTimeout = errors.New("OpenTimeout passed")    // Open or Check took too long
	ErrGoexit      = errors.New("runtime.Goexit called") // by Open or Check
)

// Why a connection in good order is discarded, as the events say it.
var (
	errAge  = errors.New("pool: reached MaxAge")
	errUses = errors.New("pool: reached MaxUses")
	errIdle = errors.New("pool: reached IdleTimeout")
)

// OpenError says that a connection could not be opened, nor one checked within
// OpenTimeout. Nothing was done with a connection.
type OpenError struct {
	Selector any
	Err      error // what Open returned, ErrOpenTimeout, ErrGoexit or a *PanicError
}

// Error prints the selector as fmt.Sprint does.
func (e *OpenError) Error() string { return fmt.Sprintf("pool: open %v: %v", e.Selector, e.Err) }

// Unwrap returns Err.
func (e *OpenError) Unwrap() error { return e.Err }

// Refused reports true: whatever the connection was for was not done.
func (e *OpenError) Refused() bool { return true }

// Permanent reports whether Err, or an error that it wraps, has a method
// Permanent() bool that returns true: another try would fail alike.
func (e *OpenError) Permanent() bool { return permanent(e.Err) }

// permanent looks at the whole tree: errors.As would stop at the first error
// that has the method, even if it says no.
func permanent(err error) bool {
	if p, ok := err.(interface{ Permanent() bool }); ok && p.Permanent() {
		return true
	}
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		return permanent(w.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range w.Unwrap() {
			if permanent(err) {
				return true
			}
		}
	}
	return false
}

// PanicError is a panic of Open, Close or Check, which the pool survived.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error prints the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// contextError is what Acquire and Conn return when ctx ends first. It matches
// the context's error and its cause.
type contextError struct{ err, cause error }

func endOf(ctx context.Context) error {
	return &contextError{ctx.Err(), context.Cause(ctx)}
}

func (e *contextError) Error() string   { return "pool: no connection: " + e.cause.Error() }
func (e *contextError) Unwrap() []error { return []error{e.err, e.cause} }
func (e *contextError) Refused() bool   { return true }
