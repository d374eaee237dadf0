package policy

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrGoexit is what runtime.Goexit becomes, as testing.T.FailNow calls it, where
// the function runs on another goroutine than the caller's.
var ErrGoexit = errors.New("policy: function called runtime.Goexit")

// PanicError is a panic that was brought to another goroutine: of an attempt of
// a Hedge or under a Timeout that abandons, which panics with it in its turn; of
// a call whose result others wait for, to whom it is an error.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked

	again bool // it is itself the value of a panic
}

// Error says what was passed to panic. When the PanicError itself is what is
// panicked with, it tells the stack as well: nobody else would.
func (e *PanicError) Error() string {
	s := fmt.Sprintf("policy: function panicked: %v", e.Value)
	if e.again {
		s += "\n\n" + string(e.Stack)
	}
	return s
}

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Refused reports false: the function ran, whatever it panicked with.
func (e *PanicError) Refused() bool { return false }

// caught is the PanicError of a recovered value, made while the stack is there.
func caught(v any) *PanicError {
	if e, ok := v.(*PanicError); ok && e.again {
		return &PanicError{Value: e.Value, Stack: e.Stack} // from one goroutine to the next
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// ending is how a function ended that ran where its caller does not see it.
type ending struct {
	err   error
	crash *PanicError // it panicked
}

// error makes an error of a panic too.
func (e ending) error() error {
	if e.crash != nil {
		return e.crash
	}
	return e.err
}

// result returns the error, or panics in place of the one that panicked.
func (e ending) result() error {
	if e.crash != nil {
		panic(&PanicError{Value: e.crash.Value, Stack: e.crash.Stack, again: true})
	}
	return e.err
}

// guard runs fn, and done, on the same goroutine, with how fn ended: it may
// return, panic, or end the goroutine.
func guard(fn func() error, done func(ending)) {
	e := ending{err: ErrGoexit}
	defer func() {
		if v := recover(); v != nil {
			e = ending{crash: caught(v)}
		}
		done(e)
	}()
	e.err = fn()
}
