package httpx

import (
	"context"
	"errors"
	"net/http"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
)

// failure is what an attempt comes to that its governor is not to take for a success:
// a refusal, an answer that is a failure, or an error.
type failure struct {
	resp    *http.Response // nil: err
	err     error          // of Base, or what of resp the adapter reads
	final   bool           // not to be repeated, unless it was refused because of a limit
	blamed  bool           // the breaker is to count it
	backoff backoff.Schedule

	rest *peeked // resp's body, of which there is more than has been read; nil: there is not
	x    *exchange
}

// Error is that of the answer, or of the error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns it, so that adapters find a *vendors.ResponseError.
func (f *failure) Unwrap() error { return f.err }

// Permanent says to a governor's Retry that no further attempt is to be made.
func (f *failure) Permanent() bool { return f.final }

// Settled implements governor.Keeper: what there is more of a body is for who gets the
// answer, and nobody does when there is a further attempt.
func (f *failure) Settled(again bool) (keep bool) {
	switch {
	case f.rest == nil:
		return false
	case again:
		f.rest.cut()
		return false
	}
	return f.x.handOut(f.resp)
}

var _ governor.Keeper = (*failure)(nil)

// asFailure finds an attempt's failure in what a governor makes of it.
func asFailure(err error) (*failure, bool) {
	if f, ok := err.(*failure); ok {
		return f, true
	}
	return errors.AsType[*failure](err)
}

// outcome is what the caller gets for a governor's error: the answer of the last
// attempt, its error, or the governor's.
func outcome(err error, last *http.Response) (*http.Response, error) {
	if gone := isAny(err, governor.ErrClosed, governor.ErrAbandoned, governor.ErrGoexit); gone {
		return nil, timed(err)
	}
	if _, cancelled := errors.AsType[*governor.CanceledError](err); cancelled {
		return nil, timed(err)
	}
	f, ok := asFailure(err)
	switch {
	case ok && f.resp != nil && f.resp == last:
		return last, nil
	case ok && f.resp == nil && !reasoned(err):
		return nil, f.err
	}
	return nil, timed(err)
}

// reasoned reports whether err says more than that attempts have run out.
func reasoned(err error) bool {
	g, ok := errors.AsType[*governor.GaveUpError](err)
	return ok && g.Reason != nil
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// timed makes an error that is the end of a deadline say so to those who ask it by
// net.Error's method, as http.Client does.
func timed(err error) error {
	if _, ok := err.(interface{ Timeout() bool }); ok || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &timeoutError{err}
}

type timeoutError struct{ error }

func (e *timeoutError) Unwrap() error   { return e.error }
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
