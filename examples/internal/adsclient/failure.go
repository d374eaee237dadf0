package adsclient

import (
	"errors"
	"regexp"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/vendors"
)

var (
	failureKey  = regexp.MustCompile(`^google\.ads\.googleads\.v[0-9]+\.errors\.googleadsfailure-bin$`)
	failureType = regexp.MustCompile(`/google\.ads\.googleads\.v[0-9]+\.errors\.GoogleAdsFailure$`)
)

// Failure returns what Google says about a failed call, of any API version; nil
// when it says nothing. It reads the trailer, and the status details when that
// is not there.
func Failure(err error) *adspb.GoogleAdsFailure {
	e, ok := errors.AsType[*vendors.ResponseError](err)
	if !ok {
		return nil
	}
	f := &adspb.GoogleAdsFailure{}
	for key, values := range e.Trailer {
		if failureKey.MatchString(key) && len(values) > 0 && proto.Unmarshal([]byte(values[0]), f) == nil {
			return f
		}
	}
	for _, d := range e.Details {
		if failureType.MatchString(d.TypeURL) && proto.Unmarshal(d.Value, f) == nil {
			return f
		}
	}
	return nil
}

// dialing finds the cause in grpc's words about a connection that failed.
var dialing = regexp.MustCompile(`connection error: desc = "transport: (?:Error while dialing: )?(.*)"$`)

// Transient reports whether err is one of those that Google's own clients send
// again.
func Transient(err error) bool {
	e, ok := errors.AsType[*vendors.ResponseError](err)
	return ok && (e.Code == vendors.CodeUnavailable || e.Code == vendors.CodeDeadlineExceeded)
}

// Hopeless reports whether err is a failure that every other call would meet
// too: no access, or no more calls.
func Hopeless(err error) bool {
	if e, ok := errors.AsType[*vendors.ResponseError](err); ok {
		return e.Code == vendors.CodeUnauthenticated
	}
	_, noToken := errors.AsType[*TokenError](err)
	return noToken || errors.Is(err, ErrMaxCalls)
}

// Describe says in one line what went wrong, in Google's words where there are
// any.
func Describe(err error) string {
	if err == nil {
		return ""
	}
	f := Failure(err)
	if f == nil || len(f.Errors) == 0 {
		text := err.Error()
		if s, ok := status.FromError(err); ok {
			text = s.Message()
		}
		if e, ok := errors.AsType[*vendors.ResponseError](err); ok {
			text = e.Code.String() + ": " + e.Message
		}
		if inner := dialing.FindStringSubmatch(text); inner != nil {
			text = inner[1]
		}
		return strings.Join(strings.Fields(text), " ")
	}
	first := f.Errors[0]
	text := codeName(first.ErrorCode) + ": " + first.Message
	if f.RequestId != "" {
		text += " (request " + f.RequestId + ")"
	}
	return strings.Join(strings.Fields(text), " ")
}

// codeName returns the name of the one code that is set.
func codeName(c *adspb.ErrorCode) string {
	m := c.ProtoReflect()
	f := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if f == nil {
		return "UNKNOWN"
	}
	n := m.Get(f).Enum()
	if v := f.Enum().Values().ByNumber(n); v != nil {
		return string(v.Name())
	}
	return "UNKNOWN"
}
