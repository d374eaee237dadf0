// Package errtree asks the errors in an error's tree what they have to say by
// their methods, whichever package they are from.
package errtree

import (
	"errors"
	"time"
)

// Find calls yes for every error in err's tree that is a T, in the order of
// errors.Is, until it returns true. errors.AsType would stop at the first T, which
// may have nothing to say.
func Find[T any](err error, yes func(T) bool) bool {
	for err != nil {
		if e, ok := err.(T); ok && yes(e) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, branch := range e.Unwrap() {
				if Find(branch, yes) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// RetryAfter returns the longest time that the methods RetryAfter() time.Duration
// in err's tree ask to wait. Less than 0 is ignored; ok is false when none asks.
func RetryAfter(err error) (hint time.Duration, ok bool) {
	Find(err, func(e interface{ RetryAfter() time.Duration }) bool {
		if d := e.RetryAfter(); d >= 0 {
			hint, ok = max(hint, d), true
		}
		return false
	})
	return hint, ok
}

// Refused reports whether err says that a call was not made: what the outermost
// error in its tree with a method Refused() bool says.
func Refused(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Refused() bool
	}](err)
	return ok && r.Refused()
}

// SaysRefused is err as one that says whether the call was made, whatever the
// errors in its tree say.
func SaysRefused(err error, refused bool) error { return &says{err, refused} }

// Made is the error of a call of which an attempt was made if sent is true, even
// when err says that none was: that is about another attempt.
func Made(err error, sent bool) error {
	if sent && Refused(err) {
		return SaysRefused(err, false)
	}
	return err
}

type says struct {
	err     error
	refused bool
}

func (e *says) Error() string { return e.err.Error() }
func (e *says) Unwrap() error { return e.err }
func (e *says) Refused() bool { return e.refused }
