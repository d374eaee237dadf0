package governor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// executed is err without its claim that nothing was sent: for a closure that ran,
// and for one that is running when it hears of it.
type executed struct{ err error }

func (e *executed) Error() string { return e.err.Error() }
func (e *executed) Unwrap() error { return e.err }
func (e *executed) Refused() bool { return false }

// unsent is an err of the user's that kept a call from being made.
type unsent struct{ err error }

func (e *unsent) Error() string { return e.err.Error() }
func (e *unsent) Unwrap() error { return e.err }
func (e *unsent) Refused() bool { return true }

// returned is the error of a request whose closure returned err. What a call
// inside it was refused with says nothing about the rest of it. Nor is an err to be
// asked once more of which a method, which is the user's, panics.
func (c *core) returned(err error) error {
	if c.says(true, func() bool { return IsRefused(err) }) {
		return &executed{err}
	}
	return err
}

// permanent reports whether err is.
func (c *core) permanent(err error) bool {
	return c.says(false, func() bool { return retry.IsPermanent(err) })
}

// says is what the methods of an error say; instead, when one panics.
func (c *core) says(instead bool, ask func() bool) (yes bool) {
	defer func() {
		if recover() != nil {
			c.count.hookPanics.Add(1)
			yes = instead
		}
	}()
	return ask()
}

// refusal is a sentinel for a request that the governor did not send.
type refusal string

func (e refusal) Error() string { return string(e) }
func (e refusal) Refused() bool { return true }

// The errors that a request is refused with. Test for them with errors.Is. All
// of them satisfy IsRefused; when an attempt was made before that the vendor may
// have executed, they are the Reason of a *GaveUpError, which does not.
var (
	ErrClosed          error = refusal("governor: closed")
	ErrQueueFull       error = refusal("governor: queue full")
	ErrDropped         error = refusal("governor: dropped from a full queue")
	ErrNilFunc         error = refusal("governor: nil function")
	ErrNilContext      error = refusal("governor: nil context")
	ErrSelector        error = refusal("governor: selector cannot be compared")
	ErrAsk             error = refusal("governor: invalid ask")
	ErrTooManyKeys     error = refusal("governor: too many keys")
	ErrNeverAdmissible error = refusal("governor: cost is more than a limit can ever admit")

	// ErrTooManyHosts is what Group.Get says when GroupConfig.MaxHosts governors are
	// in use.
	ErrTooManyHosts error = refusal("governor: too many hosts")

	// ErrReentrant answers a call that would wait, inside a closure, for a slot
	// of the same governor while none is spare, or for permits that the closure gives
	// back when it ends: it could wait for itself.
	ErrReentrant error = refusal("governor: blocking call from inside a closure of the same governor")

	// ErrLate is matched by LateError.
	ErrLate error = refusal("governor: cannot start in time")

	// ErrCooling is matched by CooldownError.
	ErrCooling error = refusal("governor: cooling down")
)

// The errors of requests that were sent.
var (
	// ErrGoexit is the error of a request whose closure ended its goroutine
	// with runtime.Goexit, as testing.T.FailNow does.
	ErrGoexit = errors.New("governor: closure called runtime.Goexit")

	// ErrAbandoned is the error of a request whose closure did not return
	// within Config.CloseGrace after Close. The closure still runs.
	ErrAbandoned = errors.New("governor: abandoned while running")

	// ErrStreamStalled ends a Stream whose loop took longer than
	// Config.StreamIdle for an item.
	ErrStreamStalled = errors.New("governor: stream stalled by its consumer")

	// ErrAgain is matched by what Again returns, and by the last error of a request
	// that ended while it waited for its next call: the vendor's job was begun.
	ErrAgain = errors.New("governor: ask again")

	// ErrGaveUp is matched by GaveUpError.
	ErrGaveUp = errors.New("governor: gave up")
)

// IsRefused reports whether err says that the call was never executed by the
// vendor, so that sending it elsewhere or later is safe. It asks the outermost
// error in err's tree that has a method Refused() bool. A vendor's own rate-limit
// error has none: one that Ask.NoRetry or a signal's NoRetry let through is not
// recognised, though most vendors did not execute the call.
func IsRefused(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Refused() bool
	}](err)
	return ok && r.Refused()
}

// CooldownError refuses a request that would have to wait, for a cooldown whose
// end is known, longer than Config.MaxWait. It matches ErrCooling.
type CooldownError struct {
	Scope  throttle.Scope  // what is paused
	Until  time.Time       // until when
	Signal throttle.Signal // by which the vendor asked for that; zero when it did not, but Again did
	Err    error           // the vendor's error when it was this request that it refused, else nil
	heard  bool            // see endOfCall
}

// Error says what is paused and until when.
func (e *CooldownError) Error() string {
	s := fmt.Sprintf("governor: %s cooling down until %s", e.Scope, e.Until.Format(time.RFC3339Nano))
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrCooling.
func (e *CooldownError) Is(target error) bool { return target == ErrCooling }

// Unwrap returns Err.
func (e *CooldownError) Unwrap() error { return e.Err }

// Refused reports true: rate-limited calls are not executed.
func (e *CooldownError) Refused() bool { return true }

// RetryAfter is the time left until Until, 0 when it has passed.
func (e *CooldownError) RetryAfter() time.Duration { return max(0, time.Until(e.Until)) }

// LateError refuses a request that cannot start by its latest start: the
// earlier of Ask.StartBy and the deadline of its context. It matches ErrLate
// and context.DeadlineExceeded.
type LateError struct {
	By    time.Time // the latest start
	Could time.Time // the earliest start known when it was refused; zero when By just passed
	Err   error     // the vendor's error when it had refused the request before, else nil
	heard bool      // see endOfCall
}

// Error says by when the request had to start and when it could have.
func (e *LateError) Error() string {
	s := "governor: cannot start by " + e.By.Format(time.RFC3339Nano)
	if !e.Could.IsZero() {
		s += ", could start at " + e.Could.Format(time.RFC3339Nano)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrLate or context.DeadlineExceeded.
func (e *LateError) Is(target error) bool {
	return target == ErrLate || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *LateError) Unwrap() error { return e.Err }

// Refused reports true: the call was not executed.
func (e *LateError) Refused() bool { return true }

// RetryAfter is the time left until the request could have started, 0 when that
// is not known.
func (e *LateError) RetryAfter() time.Duration {
	if e.Could.IsZero() {
		return 0
	}
	return max(0, time.Until(e.Could))
}

// CanceledError ends a request that was cancelled, by its context or by Cancel,
// while it waited. It matches the cause, and context.Canceled or
// context.DeadlineExceeded.
type CanceledError struct {
	Cause error // context.Cause of the request's context, or context.Canceled
	ctx   error // the context's Err, when it is another
	Err   error // how the last attempt ended, nil when there was none
	sent  bool  // an attempt was made that the vendor may have executed
	heard bool  // see endOfCall
}

// Error says that the request was cancelled, why, and how it had fared.
func (e *CanceledError) Error() string {
	s := "governor: cancelled while waiting: " + e.Cause.Error()
	if e.Err != nil {
		s += " (last attempt: " + e.Err.Error() + ")"
	}
	return s
}

// Unwrap returns the cause and the last attempt's error.
func (e *CanceledError) Unwrap() []error { return both(e.Cause, e.Err) }

// Is reports whether target is what the context's Err returned, which its cause
// need not match.
func (e *CanceledError) Is(target error) bool { return e.ctx != nil && target == e.ctx }

// Refused reports whether no attempt was made that the vendor may have executed.
func (e *CanceledError) Refused() bool { return !e.sent }

// GaveUpError ends a request that was attempted and will not be attempted
// again: its attempts or its time ran out, or the governor stopped. It matches
// ErrGaveUp, Reason and Err.
type GaveUpError struct {
	Attempts int           // how many were made, since the last Again if there was one
	Waited   time.Duration // from submission to the end, less the time attempts ran
	Reason   error         // why no further one is made, nil when attempts ran out
	Err      error         // how the last attempt ended
	sent     bool          // an attempt was made that the vendor may have executed
	heard    bool          // see endOfCall
}

// Error says how many attempts were made, how long the request waited, and how
// the last attempt ended.
func (e *GaveUpError) Error() string {
	s := fmt.Sprintf("governor: gave up, attempts: %d, waited: %v", e.Attempts, e.Waited)
	if e.Reason != nil {
		s += ": " + e.Reason.Error()
	}
	switch reason := e.Reason.(type) {
	case *CooldownError:
		if reason.Err != nil {
			return s // which ends with Err
		}
	case *LateError:
		if reason.Err != nil {
			return s
		}
	}
	return s + ": " + e.Err.Error()
}

// Is reports whether target is ErrGaveUp.
func (e *GaveUpError) Is(target error) bool { return target == ErrGaveUp }

// Unwrap returns the reason and the last attempt's error.
func (e *GaveUpError) Unwrap() []error { return both(e.Reason, e.Err) }

// Refused reports whether every attempt was refused by the vendor.
func (e *GaveUpError) Refused() bool { return !e.sent }

// PanicError is the error of a request whose closure panicked.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the panicking goroutine
}

// Error says what was passed to panic.
func (e *PanicError) Error() string { return fmt.Sprintf("governor: closure panicked: %v", e.Value) }

// Refused reports false: the closure ran, whatever it panicked with.
func (e *PanicError) Refused() bool { return false }

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ForcedError is what Close and Shutdown return when closures, or connections
// that are being closed, outlived Config.CloseGrace. They end when the user's
// code does; the governor is closed all the same.
type ForcedError struct {
	Running int   // closures and holds that still run
	Err     error // the end of Shutdown's context, nil for Close
}

// Error says how many closures still run.
func (e *ForcedError) Error() string {
	s := fmt.Sprintf("governor: closed by force with %d closures still running", e.Running)
	if e.Running == 0 {
		s = "governor: closed by force with connections still closing"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ForcedError) Unwrap() error { return e.Err }

func both(a, b error) []error {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		return []error{b}
	case b == nil:
		return []error{a}
	}
	return []error{a, b}
}
