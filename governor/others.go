package governor

import (
	"errors"
	"fmt"
	"reflect"
)

// A closure may make calls of its own, of this governor or of another one, and return how they
// ended. What their vendor said has been learned there then: whom it is for, and since when it
// counts, this call does not know, and to learn it once more would pause whoever made it, too.

// verdict is an error with which a governor ends a call that has waited.
type verdict interface {
	error

	// learned reports whether nothing is to be learned from it: there was no attempt, or the
	// adapter took how the last one ended for a rate limit.
	learned() bool
}

func (e *CooldownError) learned() bool { return e.heard || e.Err == nil }
func (e *LateError) learned() bool     { return e.heard || e.Err == nil }
func (e *CanceledError) learned() bool { return e.heard || e.Err == nil }
func (e *GaveUpError) learned() bool   { return e.heard }

// heard notes in err, which ends a request and is not yet known to others, what its last
// attempt has ended with.
func (h *history) heardOf(err error) {
	switch e := err.(type) {
	case *CooldownError:
		e.heard = h.heard
	case *LateError:
		e.heard = h.heard
	case *CanceledError:
		e.heard = h.heard
	case *GaveUpError:
		e.heard = h.heard
		h.heardOf(e.Reason)
	}
}

// ofThisCall returns err without how other calls have ended, nil when nothing is left, and
// whether there was any such in it. It is for who reads what the vendor said.
func ofThisCall(err error) (own error, others bool) {
	rest, others := apart(err)
	switch len(rest) {
	case 0:
		return nil, others
	case 1:
		return rest[0], others
	}
	return errors.Join(rest...), others
}

// apart returns the parts of err without those of other calls.
func apart(err error) (rest []error, others bool) {
	if v, ok := err.(verdict); ok && v.learned() {
		return nil, true
	}
	var parts []error
	switch e := err.(type) {
	case *stale:
		parts = []error{e.err}
	case interface{ Unwrap() error }:
		parts = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	}
	for _, part := range parts {
		if part == nil {
			continue
		}
		own, other := apart(part)
		rest, others = append(rest, own...), others || other
	}
	asks := true
	if x, ok := err.(interface{ As(any) bool }); ok { // a list of errors may have some that it does not wrap
		var v verdict
		asks = !x.As(&v) || !v.learned()
	}
	if asks && !others {
		return []error{err}, false
	}
	return append([]error{&alone{err, asks}}, rest...), true
}

// alone is an error without what it wraps, and without its text, which may be of that.
type alone struct {
	err  error
	asks bool // its own methods As and Is, which do not look into what another call has ended with
}

func (e *alone) Error() string { return fmt.Sprintf("%T", e.err) }

// As finds the error itself, and what its own method finds, which is in a list one of the list.
func (e *alone) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	if reflect.TypeOf(e.err).AssignableTo(to.Type()) {
		to.Set(reflect.ValueOf(e.err))
		return true
	}
	x, ok := e.err.(interface{ As(any) bool })
	return ok && e.asks && x.As(target)
}

// Is finds the error itself, and what its own method says that it is.
func (e *alone) Is(target error) bool {
	if reflect.TypeOf(target).Comparable() && e.err == target {
		return true
	}
	x, ok := e.err.(interface{ Is(error) bool })
	return ok && e.asks && x.Is(target)
}
