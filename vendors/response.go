package vendors

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Response is what a vendor answered, good or bad, over HTTP or gRPC. Fields of
// the protocol that was not used stay zero; Status 0 means gRPC.
//
// Adapters only read it and keep nothing of it.
type Response struct {
	Status int         // HTTP status; 0: the answer came over gRPC
	Header http.Header // HTTP headers; Learn finds them by canonical names only, as net/http has them
	Body   []byte      // HTTP body, or its first MiB

	Code    Code   // gRPC status code
	Message string // gRPC status message
	Details []Any  // gRPC status details, not decoded

	// Trailer holds the gRPC trailers. Names are in lower case; values of names
	// that end in -bin are the raw bytes, not base64.
	Trailer map[string][]string

	// At is when the answer was received: what relative times count from. The
	// zero time means the moment at which an adapter reads it.
	At time.Time

	once bool // as ResponseError.Once
}

// NoRetry reports whether the server forbids to repeat the call, be it a limit or any
// other failure: over gRPC by a trailer grpc-retry-pushback-ms that is negative, no
// number or there more than once, over HTTP by X-Should-Retry or Stripe-Should-Retry
// with the value false. The signals of a limit have it in their own NoRetry; an outage
// has no signal, and who repeats calls after one asks here.
func (r Response) NoRetry() bool {
	if r.Status == 0 {
		_, noRetry, _ := pushback(r)
		return noRetry
	}
	r = r.canonical()
	return strings.EqualFold(value(r.Header, "X-Should-Retry"), "false") || strings.EqualFold(value(r.Header, "Stripe-Should-Retry"), "false")
}

// Any is one detail of a gRPC status: a message, encoded, and its type.
type Any struct {
	TypeURL string // such as type.googleapis.com/google.rpc.RetryInfo
	Value   []byte
}

// at returns r with At filled in.
func (r Response) at(now time.Time) Response {
	if r.At.IsZero() {
		r.At = now
	}
	return r
}

// canonical returns r with the canonical names of its headers, which HTTP clients
// other than net/http's may not give them.
func (r Response) canonical() Response {
	for name := range r.Header {
		if name == http.CanonicalHeaderKey(name) {
			continue
		}
		h := make(http.Header, len(r.Header))
		for name, values := range r.Header {
			name = http.CanonicalHeaderKey(name)
			h[name] = append(h[name], values...)
		}
		r.Header = h
		break
	}
	return r
}

// Code is a gRPC status code. It has the numbers of grpc's own codes.Code, to
// which it converts, without needing the module.
type Code uint32

const (
	CodeOK Code = iota
	CodeCanceled
	CodeUnknown
	CodeInvalidArgument
	CodeDeadlineExceeded
	CodeNotFound
	CodeAlreadyExists
	CodePermissionDenied
	CodeResourceExhausted
	CodeFailedPrecondition
	CodeAborted
	CodeOutOfRange
	CodeUnimplemented
	CodeInternal
	CodeUnavailable
	CodeDataLoss
	CodeUnauthenticated
)

var codeNames = [...]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL",
	"UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}

// String returns the code's name as the gRPC specification writes it,
// RESOURCE_EXHAUSTED, or CODE(99) for a number without a name.
func (c Code) String() string {
	if int64(c) < int64(len(codeNames)) {
		return codeNames[c]
	}
	return "CODE(" + strconv.FormatUint(uint64(c), 10) + ")"
}
