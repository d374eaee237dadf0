package grpcx

import (
	"errors"
	"time"

	"github.com/flyball-go/flyball/vendors"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Error returns err, the error of a failed call, together with its status and
// trailer as a [vendors.ResponseError], for adapters such as
// vendors.GoogleAds(). The status details are taken as they came: their types
// need not be linked into the program. trailer may be nil; it is kept and must
// not be changed afterwards.
//
// The server forbids to repeat a call by a trailer grpc-retry-pushback-ms of -1: its
// error is then permanent, as retry.IsPermanent has it.
//
// nil stays nil. An error without a gRPC status, such as io.EOF, and one that
// has been through here already are returned as they are.
//
// errors.Is and errors.As find in the result what they find in err, and
// status.FromError and status.Code give err's own status.
func Error(err error, trailer metadata.MD) error {
	s, ok := errors.AsType[statuser](err)
	if !ok {
		return err
	}
	if _, done := errors.AsType[*vendors.ResponseError](err); done {
		return err
	}
	st := s.GRPCStatus()
	if st.Code() == codes.OK { // also of a nil status
		return err
	}
	r := vendors.Response{Code: vendors.Code(st.Code()), Message: st.Message(), Trailer: trailer, At: time.Now()}
	for _, d := range st.Proto().GetDetails() {
		r.Details = append(r.Details, vendors.Any{TypeURL: d.GetTypeUrl(), Value: d.GetValue()})
	}
	return &callError{&vendors.ResponseError{Response: r, Err: err}, st}
}

// statuser is what status.FromError looks for.
type statuser interface {
	error
	GRPCStatus() *status.Status
}

// callError is a ResponseError that is a gRPC error too. Without it
// status.FromError would find err's status further down, but put the text of the
// whole chain in place of the server's message.
type callError struct {
	*vendors.ResponseError
	st *status.Status
}

// Unwrap returns the ResponseError, which unwraps to the client's own error.
func (e *callError) Unwrap() error { return e.ResponseError }

// Permanent says to a governor's Retry that no further attempt is to be made: by a
// pushback that is negative, or is none, as gRPC's own retries have it. Of a rate limit
// the adapter says it.
func (e *callError) Permanent() bool { return e.NoRetry() }

// GRPCStatus returns the call's own status.
func (e *callError) GRPCStatus() *status.Status { return e.st }
