package vendors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/wire"
	"github.com/flyball-go/flyball/throttle"
)

func TestAWS(t *testing.T) {
	var all []reading
	for _, code := range strings.Fields(`Throttling ThrottlingException ThrottledException RequestThrottledException TooManyRequestsException
		ProvisionedThroughputExceededException RequestLimitExceeded BandwidthLimitExceeded LimitExceededException RequestThrottled SlowDown EC2ThrottledException`) {
		all = append(all,
			reading{code + " in a header", got(400, "{}", "X-Amzn-ErrorType", code+":http://x/"), is(burst, onBucket, none)},
			reading{code + " as a type", got(400, `{"__type":"com.amazonaws#`+code+`"}`), is(burst, onBucket, none)},
			reading{code + " as a code", got(503, `{"code":"`+code+`"}`), is(burst, onBucket, none)},
			reading{code + " in XML", got(503, "<?xml version=\"1.0\"?>\n<Error><Code>"+code+"</Code></Error>"), is(burst, onBucket, none)})
	}
	for _, code := range []string{"PriorRequestNotComplete", "TransactionInProgressException"} {
		all = append(all, reading{code, got(400, `{"__type":"`+code+`"}`), is(atOnce, onBucket, none)})
	}
	for _, code := range []string{"AccessDeniedException", "ValidationException", "InternalServerError", "ServiceQuotaExceededException", "ThrottlingX", "slowdown"} {
		all = append(all, reading{code, got(400, `{"__type":"`+code+`"}`), notLimited}, reading{code + " with 500", got(500, `{"__type":"`+code+`"}`), notLimited})
	}
	const limited = `{"__type":"ThrottlingException"}`
	checkReadings(t, AWS(), append(all, []reading{
		{"EC2", got(503, "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"), is(burst, onBucket, none)},
		{"CDATA", got(503, "<Error><Code><![CDATA[SlowDown]]></Code></Error>"), is(burst, onBucket, none)},
		{"the header comes first", got(400, limited, "X-Amzn-ErrorType", "AccessDeniedException"), notLimited},
		{"a query's error", got(400, `{}`, "x-amzn-query-error", "RequestThrottled;Sender"), is(burst, onBucket, none)},
		{"Lambda", got(429, `{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","message":"Rate Exceeded."}`, "X-Amzn-ErrorType", "TooManyRequestsException"), is(atOnce, onBucket, none)},
		{"429 without a code", got(429, `{"message":"Too Many Requests"}`), is(burst, onBucket, none)},
		{"429 with another code", got(429, `{"code":"Busy"}`), is(burst, onBucket, none)},
		{"429 for resources", got(429, `{"__type":"ServiceQuotaExceededException"}`), notLimited},
		{"milliseconds", got(400, limited, "x-amz-retry-after", "1500"), is(burst, onBucket, 1500*ms)},
		{"milliseconds first", got(400, limited, "x-amz-retry-after", "1500", "Retry-After", "9"), is(burst, onBucket, 1500*ms)},
		{"bad milliseconds", got(400, limited, "x-amz-retry-after", "-1", "Retry-After", "9"), is(burst, onBucket, 9*sec)},
		{"an outage that ends", got(503, "", "x-amz-retry-after", "250"), is(overload, onHost, 250*ms)},
		{"an outage", got(503, "<Error><Code>ServiceUnavailable</Code></Error>"), notLimited},
		{"a success", got(200, limited), notLimited},
		{"S3's list of objects", got(200, "<ListBucketResult><Code>SlowDown</Code></ListBucketResult>"), notLimited},
	}...))
}

// detail builds a status detail of google.rpc.
func detail(name string, parts ...[]byte) Any {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return Any{"type.googleapis.com/google.rpc." + name, b}
}

func retryIn(seconds int64) Any {
	return detail("RetryInfo", wire.AppendBytes(nil, 1, adsDuration(seconds, 0)))
}

func violation(num int32, text string) Any {
	return detail("QuotaFailure", wire.AppendBytes(nil, 1, wire.AppendBytes(nil, num, text)))
}

func metadata(key, value string) []byte {
	return wire.AppendBytes(nil, 3, wire.AppendBytes(wire.AppendBytes(nil, 1, key), 2, value))
}

func TestGRPC(t *testing.T) {
	const exhausted = CodeResourceExhausted
	rpc := func(c Code, details ...Any) Response {
		return Response{Code: c, Message: "m", Details: details, At: received}
	}
	push := func(c Code, values ...string) Response {
		return Response{Code: c, Trailer: map[string][]string{"grpc-retry-pushback-ms": values}, At: received}
	}
	unknown := throttle.KindUnknown
	refused := rpc(exhausted, retryIn(9))
	refused.Trailer = push(exhausted, "250").Trailer
	never := func(c Code) Response {
		r := push(c, "-1")
		r.Details = []Any{retryIn(90)}
		return r
	}
	oversized := push(exhausted, "100")
	oversized.Message = "trying to send message larger than max (5 vs. 4)"
	daily := rpc(exhausted)
	daily.Message = "Quota exceeded for quota metric 'Queries' and limit 'Queries per day'"
	checkReadings(t, GRPC(), []reading{
		{"exhausted", rpc(exhausted), is(unknown, onHost, none)},
		{"too large", Response{Code: exhausted, Message: "grpc: received message larger than max (5 vs. 4)"}, notLimited},
		{"too large, says the server", oversized, is(unknown, onHost, 100*ms)},
		{"with a time", rpc(exhausted, retryIn(9)), is(unknown, onHost, 9*sec)},
		{"now", rpc(exhausted, detail("RetryInfo", wire.AppendBytes(nil, 1, ""))), is(unknown, onHost, 0)},
		{"a RetryInfo without a time", rpc(exhausted, detail("RetryInfo")), is(unknown, onHost, none)},
		{"a negative time", rpc(exhausted, retryIn(-9)), is(unknown, onHost, none)},
		{"overload", rpc(CodeUnavailable, retryIn(9)), is(overload, onHost, 9*sec)},
		{"of any code", rpc(CodeInternal, retryIn(9)), is(overload, onHost, 9*sec)},
		{"a transaction", rpc(CodeAborted, retryIn(1)), is(lock, onRequest, sec)},
		{"unavailable", rpc(CodeUnavailable), notLimited},
		{"OK", rpc(CodeOK, retryIn(9)), notLimited},
		{"pushback", push(CodeUnavailable, "2000"), is(overload, onHost, 2*sec)},
		{"pushback of nothing", push(exhausted, "0"), is(unknown, onHost, 0)},
		{"pushback first", refused, is(unknown, onHost, 250*ms)},
		{"pushback for centuries", push(exhausted, "99999999999999999999"), is(unknown, onHost, longest)},
		{"do not", push(exhausted, "-1"), []throttle.Signal{final(sig(unknown, onHost, none))}},
		{"no number", push(exhausted, "soon"), []throttle.Signal{final(sig(unknown, onHost, none))}},
		{"a fraction", push(exhausted, "1.5"), []throttle.Signal{final(sig(unknown, onHost, none))}},
		{"twice", push(exhausted, "100", "100"), []throttle.Signal{final(sig(unknown, onHost, none))}},
		{"unavailable, do not", push(CodeUnavailable, "-1"), notLimited},
		{"do not, and a time", never(exhausted), []throttle.Signal{final(sig(unknown, onHost, 90*sec))}},
		{"unavailable for a time, do not", never(CodeUnavailable), []throttle.Signal{final(sig(overload, onHost, 90*sec))}},
		{"a transaction, do not", never(CodeAborted), []throttle.Signal{final(sig(lock, onRequest, 90*sec))}},
		{"a day in seconds", rpc(exhausted, violation(5, "GenerateRequestsPerDayPerProjectPerModel-FreeTier"), retryIn(42)), is(budget, onHost, 42*sec)},
		{"a metric", rpc(exhausted, violation(4, "x/requests_per_minute")), is(burst, onHost, none)},
		{"a description", rpc(exhausted, violation(2, "Requests per hour")), is(budget, onHost, none)},
		{"a subject names none", rpc(exhausted, violation(1, "requests per day")), is(unknown, onHost, none)},
		{"metadata", rpc(exhausted, detail("ErrorInfo", wire.AppendBytes(nil, 1, "RATE_LIMIT_EXCEEDED"), metadata("quota_limit", "DefaultRequestsPerMinutePerProject"))), is(burst, onHost, none)},
		{"metadata of a day", rpc(exhausted, detail("ErrorInfo", wire.AppendBytes(nil, 1, "RATE_LIMIT_EXCEEDED"), metadata("quota_unit", "1/d/{project}"))), is(budget, onHost, none)},
		{"a key names none", rpc(exhausted, detail("ErrorInfo", metadata("per day", ""))), is(unknown, onHost, none)},
		{"another field names none", rpc(exhausted, detail("ErrorInfo", wire.AppendBytes(nil, 4, wire.AppendBytes(nil, 2, "per day")))), is(unknown, onHost, none)},
		{"a text", daily, is(budget, onHost, none)},
		{"HTTP", got(429, "", "Retry-After", "3"), is(unknown, onHost, 3*sec)},
	})
	checkLessons(t, GRPC(), []lesson{{"HTTP", got(200, "", "X-RateLimit-Remaining", "3"), []throttle.Quota{left(onHost, "", 3, -1)}}, {"gRPC", rpc(exhausted), nil}})
}

func TestGoogleAPI(t *testing.T) {
	reason := func(s string) string {
		return `{"error":{"errors":[{"domain":"usageLimits","reason":"` + s + `"}],"code":403}}`
	}
	details := func(s string) string {
		return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[` + s + `]}}`
	}
	const info = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"42s"}`
	const day = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}`
	errorInfo := func(limit, unit string) string {
		return `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"` + limit + `","quota_unit":"` + unit + `"}}`
	}
	var all []reading
	for s, want := range map[string][]throttle.Signal{
		"rateLimitExceeded": is(burst, onHost, none), "userRateLimitExceeded": is(burst, onTenant, none), "userRateLimitExceededUnreg": is(burst, onTenant, none),
		"quotaExceeded": is(budget, onHost, none), "dailyLimitExceeded": is(budget, onHost, none), "dailyLimitExceededUnreg": is(budget, onHost, none),
	} {
		all = append(all, reading{s, got(403, reason(s)), want}, reading{s + " with 429", got(429, reason(s)), want}, reading{s + " with 400", got(400, reason(s)), notLimited})
	}
	for _, s := range []string{"accessNotConfigured", "insufficientPermissions", "forbidden", "", "storageQuotaExceeded"} {
		all = append(all, reading{s, got(403, reason(s)), notLimited})
	}
	checkReadings(t, GoogleAPI(), append(all, []reading{
		{"the second reason", got(403, `{"error":{"errors":[{"reason":"x"},{"reason":"rateLimitExceeded"}]}}`), is(burst, onHost, none)},
		{"in an array", got(403, "["+reason("rateLimitExceeded")+"]"), is(burst, onHost, none)},
		{"a RetryInfo", got(429, details(info)), is(burst, onHost, 42*sec)},
		{"a day in seconds", got(429, details(day+","+info)), is(budget, onHost, 42*sec)},
		{"Retry-After first", got(429, details(info), "Retry-After", "7"), is(burst, onHost, 7*sec)},
		{"now", got(429, details(`{"@type":"x/google.rpc.RetryInfo","retryDelay":"0s"}`)), is(burst, onHost, 0)},
		{"a bad time", got(429, details(`{"@type":"x/google.rpc.RetryInfo","retryDelay":"-1s"}`)), is(burst, onHost, none)},
		{"another detail's time", got(429, details(`{"@type":"x/google.rpc.Help","retryDelay":"9s"}`)), is(burst, onHost, none)},
		{"the new 403", got(403, details(errorInfo("ReadsPerMinute", "1/min/{project}"))), is(burst, onHost, none)},
		{"the new 403 for a day", got(403, details(errorInfo("DefaultPerDay", "1/d/{project}"))), is(budget, onHost, none)},
		{"the text of a day", got(429, `{"error":{"message":"Quota exceeded for quota metric 'Queries' and limit 'Queries per day'"}}`), is(budget, onHost, none)},
		{"an error as a text", got(403, `{"error":"rateLimitExceeded"}`), notLimited},
		{"an outage with a time", got(503, details(info)), is(overload, onHost, 42*sec)},
		{"an outage", got(503, reason("backendError")), notLimited},
		{"gRPC", Response{Code: CodeResourceExhausted, Details: []Any{retryIn(3)}}, is(throttle.KindUnknown, onHost, 3*sec)},
	}...))
}

func TestAzure(t *testing.T) {
	locked := func(s string) string { return fmt.Sprintf(s, `"code":"RetryableErrorDueToAnotherOperation"`) }
	checkReadings(t, Azure(), []reading{
		{"milliseconds of the client", got(429, "", "retry-after-ms", "500", "x-ms-retry-after-ms", "400", "Retry-After", "300"), is(burst, onBucket, 500*ms)},
		{"milliseconds of Cosmos", got(429, "", "x-ms-retry-after-ms", "400.5", "Retry-After", "300"), is(burst, onBucket, 401*ms)},
		{"bad milliseconds", got(429, "", "retry-after-ms", "x", "Retry-After", "300"), is(burst, onBucket, 300*sec)},
		{"milliseconds of nothing", got(429, "", "retry-after-ms", "0", "Retry-After", "300"), is(burst, onBucket, 0)},
		{"a code", got(429, `{"error":{"code":"SubscriptionRequestsThrottled"}}`, "Retry-After", "17"), is(burst, onBucket, 17*sec)},
		{"hours", got(429, "", "Retry-After", "3600"), is(budget, onBucket, time.Hour)},
		{"a lock", got(429, locked(`{"error":{%s}}`), "Retry-After", "17"), notLimited},
		{"a lock, older", got(429, locked(`{%s}`)), notLimited},
		{"a text about a lock", got(429, `{"error":{"code":"x","message":"RetryableErrorDueToAnotherOperation"}}`), is(burst, onBucket, none)},
		{"overload", got(503, "", "x-ms-retry-after-ms", "400"), is(overload, onHost, 400*ms)},
	})
	checkLessons(t, Azure(), []lesson{
		{"what remains", got(200, "", "x-ms-ratelimit-remaining-subscription-reads", "11999", "x-ms-ratelimit-remaining-tenant-writes", "5"),
			[]throttle.Quota{left(onBucket, "subscription-reads", 11999, -1), left(onBucket, "tenant-writes", 5, -1)}},
		{"of a provider", got(200, "", "x-ms-ratelimit-remaining-resource", "Microsoft.Compute/HighCostGet3Min;107,Microsoft.Compute/HighCostGet30Min;1072,x,;y"),
			[]throttle.Quota{left(onBucket, "Microsoft.Compute/HighCostGet3Min", 107, -1), left(onBucket, "Microsoft.Compute/HighCostGet30Min", 1072, -1)}},
	})
}

func TestMicrosoftGraph(t *testing.T) {
	batch := func(s string) string { return `{"responses":[` + s + `]}` }
	checkReadings(t, MicrosoftGraph(), []reading{
		{"429", got(429, `{"error":{"code":"TooManyRequests"}}`, "Retry-After", "10"), is(burst, onTenant, 10*sec)},
		{"a fraction", got(429, "", "Retry-After", "1.5"), is(burst, onTenant, 1500*ms)},
		{"SharePoint", got(429, "", "RateLimit-Limit", "1200", "RateLimit-Remaining", "0", "RateLimit-Reset", "5"), is(burst, onTenant, 5*sec)},
		{"504", got(504, "", "Retry-After", "10"), is(overload, onHost, 10*sec)},
		{"a batch", got(200, batch(`{"id":"1","status":200,"headers":{"Retry-After":"99"}},{"id":"2","status":429,"headers":{"retry-after":"10"},"body":{}},{"id":"3","status":"429","headers":{"Retry-After":20}}`)), []throttle.Signal{final(sig(burst, onTenant, 20*sec))}},
		{"a batch without a time", got(200, batch(`{"status":429}`)), is(burst, onTenant, none)},
		{"a batch of failures", got(200, batch(`{"status":404,"headers":{"Retry-After":"1"}},{"status":503},null,5`)), notLimited},
		{"a batch of something else", got(200, `{"responses":"429","status":429}`), notLimited},
	})
	percentUsed := func(left_ int64) throttle.Quota {
		return in(left(onTenant, "throttle limit", left_, 100), "percent", 0)
	}
	cost := in(left(onTenant, "", -1, -1), "resource units", 0)
	cost.Cost = 2
	checkLessons(t, MicrosoftGraph(), []lesson{
		{"SharePoint", got(200, "", "RateLimit-Limit", "1200", "RateLimit-Remaining", "120", "RateLimit-Reset", "5"), []throttle.Quota{ends(left(onTenant, "", 120, 1200), 5*sec)}},
		{"usage and cost", got(200, "", "x-ms-resource-unit", "2", "x-ms-throttle-limit-percentage", "0.85"), []throttle.Quota{percentUsed(15), cost}},
		{"over the limit", got(429, "", "x-ms-throttle-limit-percentage", "1.8"), []throttle.Quota{percentUsed(0)}},
		{"garbled", got(200, "", "x-ms-resource-unit", "-2", "x-ms-throttle-limit-percentage", "NaN"), nil},
	})
}

func TestCloudflare(t *testing.T) {
	policy := []string{"Ratelimit", `"default";r=0;t=30, "other";r=5;t=90`, "Ratelimit-Policy", `"default";q=1200;w=300`}
	checkReadings(t, Cloudflare(), []reading{
		{"the policy", got(429, "", policy...), is(burst, onHost, 30*sec)},
		{"Retry-After first", got(429, "", append(policy, "retry-after", "20")...), is(burst, onHost, 20*sec)},
		{"as it was until 2025", got(429, "", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "Sat, 21 Nov 2026 10:00:30 GMT"), is(burst, onHost, 29900*ms)},
		{"the block", got(429, `{"success":false,"errors":[{"code":971}]}`), is(burst, onHost, 5*time.Minute)},
		{"do not", got(429, "", "X-Should-Retry", "false", "retry-after-ms", "100"), []throttle.Signal{final(sig(burst, onHost, 100*ms))}},
		{"403", got(403, "", policy...), notLimited},
	})
	checkLessons(t, Cloudflare(), []lesson{
		{"policies", got(200, "", policy...), []throttle.Quota{ends(in(left(onHost, "default", 0, 1200), "", 5*time.Minute), 30*sec), ends(left(onHost, "other", 5, -1), 90*sec)}},
	})
}
