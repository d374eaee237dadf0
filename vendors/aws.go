package vendors

import (
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// AWS returns the adapter for the APIs of Amazon Web Services.
//
// Limited is a failure, of whatever status (400, 429, 503), with one of the error
// codes that AWS's own SDKs take for throttling, and 429 with another one or none. The code
// is in X-Amzn-ErrorType or X-Amzn-Query-Error, in __type, code or Error.Code of a
// JSON body, or in <Code> of an XML one. The delay is X-Amz-Retry-After, in milliseconds, else
// Retry-After. PriorRequestNotComplete, TransactionInProgressException and limits on
// concurrent invocations are about concurrency. ServiceQuotaExceededException, which
// counts resources, is no limit.
//
// Limits are for each account, region, service and mostly operation: use one
// governor for each of the first three, with the operation (or the table, or the
// prefix in S3) as bucket, which is what a refusal pauses.
//
// With the SDK, fill Response from the HTTP answer that smithy's ResponseError has.
//
// Evidence, read 2026-11-21: aws/aws-sdk-go-v2, v1.47.6: aws/retry/{standard,middleware}.go,
// retry2026_test.go, aws/protocol/restjson/decoder_util.go.
func AWS() Adapter { return Adapter{aws} }

var aws = &api{read: readAWS}

// awsThrottles are the codes that are limits.
var awsThrottles = map[string]throttle.Kind{
	"Throttling":                             throttle.KindBurst,
	"ThrottlingException":                    throttle.KindBurst,
	"ThrottledException":                     throttle.KindBurst,
	"RequestThrottledException":              throttle.KindBurst,
	"TooManyRequestsException":               throttle.KindBurst,
	"ProvisionedThroughputExceededException": throttle.KindBurst,
	"TransactionInProgressException":         throttle.KindConcurrency,
	"RequestLimitExceeded":                   throttle.KindBurst,
	"BandwidthLimitExceeded":                 throttle.KindBurst,
	"LimitExceededException":                 throttle.KindBurst,
	"RequestThrottled":                       throttle.KindBurst,
	"SlowDown":                               throttle.KindBurst,
	"PriorRequestNotComplete":                throttle.KindConcurrency,
	"EC2ThrottledException":                  throttle.KindBurst,
}

func readAWS(r Response, _ []quota) []throttle.Signal {
	if r.Status < 400 {
		return nil
	}
	s, ok := common(r, nil)
	if d, valid := parseDecimal(value(r.Header, "X-Amz-Retry-After"), time.Millisecond); valid {
		s.Delay, s.Source = d, "x-amz-retry-after: "+d.String()
		ok = ok || r.Status >= 500
	}
	code, reason := awsCode(r)
	kind, limited := awsThrottles[code]
	switch {
	case limited:
		s.Kind = kind
		if strings.Contains(reason, "Concurren") {
			s.Kind = throttle.KindConcurrency
		}
		if s.Source == "" {
			s.Source = code
		}
		s.Scope.Level = throttle.Bucket
		return only(s, true)
	case code == "ServiceQuotaExceededException":
		return nil
	}
	return scoped(throttle.Bucket, s, ok)
}

// awsCode returns the error code of an answer, without what services put around
// it, and the reason that some give beside it.
func awsCode(r Response) (code, reason string) {
	var reply struct {
		Type   text `json:"__type"`
		Code   text `json:"code"`
		Reason text `json:"Reason"`
		Error  struct {
			Code text `json:"Code"`
		} `json:"Error"`
	}
	if !decode(r.Body, &reply) {
		for name, value := range elements(r.Body) {
			if string(name) == "Code" {
				reply.Code = text(value)
				break
			}
		}
	}
	query, _, _ := strings.Cut(value(r.Header, "X-Amzn-Query-Error"), ";")
	for _, c := range [...]string{value(r.Header, "X-Amzn-Errortype"), query, string(reply.Code), string(reply.Type), string(reply.Error.Code)} {
		c, _, _ = strings.Cut(c, ":")
		if c = c[strings.LastIndexByte(c, '#')+1:]; c != "" {
			return c, string(reply.Reason)
		}
	}
	return "", ""
}
