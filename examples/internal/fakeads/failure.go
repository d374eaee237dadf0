package fakeads

import (
	"fmt"
	"math"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flyball-go/flyball/examples/internal/adspb"
	"github.com/flyball-go/flyball/examples/internal/gaql"
)

// refusal is a failed call before it is put on the wire.
type refusal struct {
	code codes.Code
	err  *adspb.GoogleAdsError
}

// outer is the text of the status, which tells nothing.
var outer = map[codes.Code]string{
	codes.InvalidArgument:   "Request contains an invalid argument.",
	codes.Unauthenticated:   "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
	codes.PermissionDenied:  "The caller does not have permission",
	codes.ResourceExhausted: "Resource has been exhausted (e.g. check quota).",
	codes.Internal:          "Internal error encountered.",
	codes.Unavailable:       "The service is currently unavailable.",
}

// wire returns the trailer of a refusal and the status that goes with it. The
// failure is in both, as Google sends it; the API version is in its name.
func (r *refusal) wire(version, requestID string) (metadata.MD, error) {
	failure, err := proto.Marshal(&adspb.GoogleAdsFailure{Errors: []*adspb.GoogleAdsError{r.err}, RequestId: requestID})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	name := "google.ads.googleads." + version + ".errors.GoogleAdsFailure"
	st := &spb.Status{Code: int32(r.code), Message: outer[r.code],
		Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/" + name, Value: failure}}}
	return metadata.Pairs(name+"-bin", string(failure), "request-id", requestID), status.FromProto(st).Err()
}

func refused(code codes.Code, ec *adspb.ErrorCode, format string, args ...any) *refusal {
	return &refusal{code, &adspb.GoogleAdsError{ErrorCode: ec, Message: fmt.Sprintf(format, args...)}}
}

func requestError(e adspb.RequestErrorEnum_RequestError, format string, args ...any) *refusal {
	return refused(codes.InvalidArgument, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_RequestError{RequestError: e}}, format, args...)
}

func authenticationError(e adspb.AuthenticationErrorEnum_AuthenticationError, text string) *refusal {
	return refused(codes.Unauthenticated, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_AuthenticationError{AuthenticationError: e}}, "%s", text)
}

func authorizationError(e adspb.AuthorizationErrorEnum_AuthorizationError, text string) *refusal {
	return refused(codes.PermissionDenied, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_AuthorizationError{AuthorizationError: e}}, "%s", text)
}

func internalError(code codes.Code, e adspb.InternalErrorEnum_InternalError, text string) *refusal {
	return refused(code, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_InternalError{InternalError: e}}, "%s", text)
}

// queryError tells what is wrong with a query, and with which part of it.
func queryError(e *gaql.Error, query string) *refusal {
	r := refused(codes.InvalidArgument, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_QueryError{QueryError: e.Code}},
		"Error in query at position %d: %s.", e.Pos, e.Message)
	r.err.Trigger = &adspb.Value{Value: &adspb.Value_StringValue{StringValue: query}}
	r.err.Location = &adspb.ErrorLocation{FieldPathElements: []*adspb.ErrorLocation_FieldPathElement{{FieldName: "query"}}}
	return r
}

// quotaError tells whose rate was exceeded and how long to wait.
func quotaError(e adspb.QuotaErrorEnum_QuotaError, scope adspb.QuotaErrorDetails_QuotaRateScope, rate string, delay time.Duration) *refusal {
	r := refused(codes.ResourceExhausted, &adspb.ErrorCode{ErrorCode: &adspb.ErrorCode_QuotaError{QuotaError: e}},
		"Too many requests. Retry in %.0f seconds.", math.Ceil(delay.Seconds()))
	r.err.Details = &adspb.ErrorDetails{QuotaErrorDetails: &adspb.QuotaErrorDetails{
		RateScope: scope, RateName: rate, RetryDelay: durationpb.New(delay)}}
	return r
}
