package grpcx

import (
	"context"
	"errors"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// refused gives an error that has no status, since the call was not made or not
// finished, the one that clients of gRPC look for.
func refused(err error) error {
	if err == nil {
		return nil
	}
	switch err.(type) {
	case *governor.CanceledError, *governor.LateError: // whatever the last attempt ended with
	default:
		if s, ok := errors.AsType[statuser](err); ok && s.GRPCStatus().Code() != codes.OK {
			return err
		}
	}
	return &refusedError{err, withRetryInfo(status.New(codeOf(err), err.Error()), err)}
}

// codeOf is the status code that says what err does.
func codeOf(err error) codes.Code {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case is(limiter.ErrLimited): // whatever else it is
		return codes.ResourceExhausted
	case is(context.Canceled):
		return codes.Canceled
	case is(context.DeadlineExceeded, governor.ErrLate):
		return codes.DeadlineExceeded
	case is(governor.ErrCooling, governor.ErrQueueFull, governor.ErrDropped, governor.ErrTooManyKeys, governor.ErrNeverAdmissible):
		return codes.ResourceExhausted
	case is(breaker.ErrOpen, governor.ErrClosed, governor.ErrAbandoned, limiter.ErrClosed):
		return codes.Unavailable
	case is(governor.ErrReentrant, governor.ErrAsk, governor.ErrNilContext):
		return codes.FailedPrecondition
	case is(governor.ErrGoexit):
		return codes.Internal
	}
	if _, ok := errors.AsType[*governor.PanicError](err); ok {
		return codes.Internal
	}
	return codes.Unknown
}

// withRetryInfo adds to st when err says that it may be tried again. No known time
// is so long that it does not fit.
func withRetryInfo(st *status.Status, err error) *status.Status {
	after, ok := retry.RetryAfter(err)
	if !ok || after <= 0 || after >= limiter.Never {
		return st
	}
	after = (after + time.Millisecond - 1).Truncate(time.Millisecond) // rounded up: not a moment early
	if with, e := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); e == nil {
		st = with
	}
	return st
}

// refusedError is an error with a status.
type refusedError struct {
	error
	st *status.Status
}

func (e *refusedError) Unwrap() error              { return e.error }
func (e *refusedError) GRPCStatus() *status.Status { return e.st }
