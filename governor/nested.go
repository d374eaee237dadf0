package governor

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// A closure may make calls of its own, of this governor or of another one, and return how they
// ended. What their vendor said has been learned there then: whom it is for, and since when it
// counts, this call does not know, and to learn it once more would pause whoever made it, too.

// endOfCall is an error with which a governor ends a call.
type endOfCall interface {
	error

	// unlearned returns how the call's last attempt ended, if its governor's adapter has found
	// nothing in that; nil otherwise, or if there was none.
	unlearned() error
}

// unheard is err where it is not heard.
func unheard(heard bool, err error) error {
	if heard {
		return nil
	}
	return err
}

func (e *CooldownError) unlearned() error {
	if e == nil {
		return nil
	}
	return unheard(e.heard, e.Err)
}

func (e *LateError) unlearned() error {
	if e == nil {
		return nil
	}
	return unheard(e.heard, e.Err)
}

func (e *CanceledError) unlearned() error {
	if e == nil {
		return nil
	}
	return unheard(e.heard, e.Err)
}

func (e *GaveUpError) unlearned() error {
	if e == nil {
		return nil
	}
	return unheard(e.heard, e.Err)
}

func (e *againError) unlearned() error { return nil }

// isAgain reports whether it is what Again returns that stands in the way of the rest of err: of
// a call that was to poll no more.
func isAgain(err error) bool {
	v, _ := errors.AsType[endOfCall](err)
	_, again := v.(*againError)
	return again
}

// ofThisCall returns err without how other calls have ended, nil when nothing is left but what
// wraps that, and whether there was any such in it. It is for who reads what the vendor said.
func ofThisCall(err error) (own error, others bool) {
	if _, has := errors.AsType[endOfCall](err); !has { // mostly
		return err, false
	}
	rest, others := apart(err)
	said := false
	for _, part := range rest {
		wraps, is := part.(*alone)
		said = said || !is || !wraps.plain()
	}
	switch {
	case !said:
		return nil, others
	case len(rest) == 1:
		return rest[0], others
	}
	return errors.Join(rest...), others
}

// beside returns what a closure has failed with itself, beside how other calls have ended, nil
// if that is nothing, whoever wraps it, and whether there was any such. It is for the breaker.
func beside(err error) (own error, others bool) {
	if _, has := errors.AsType[endOfCall](err); !has {
		return err, false
	}
	rest, others := apart(err)
	rest = slices.DeleteFunc(rest, func(part error) bool {
		_, wraps := part.(*alone)
		return wraps && others
	})
	return errors.Join(rest...), others
}

// apart returns the parts of err without those of other calls.
func apart(err error) (rest []error, others bool) {
	var parts []error
	switch e := err.(type) {
	case *CooldownError, *LateError, *CanceledError, *GaveUpError, *againError: // not what embeds one
		if said := e.(endOfCall).unlearned(); said != nil {
			rest, _ = apart(said)
		}
		return rest, true
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
		var v endOfCall
		asks = !x.As(&v) || v == nil
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

// plain reports whether it is one that only wraps: of fmt, errors, and of this package.
func (e *alone) plain() bool {
	t := reflect.TypeOf(e.err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch e.err.(type) {
	case *executed, *unsent, *stale:
		return true
	}
	return t.PkgPath() == "fmt" || t.PkgPath() == "errors"
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
