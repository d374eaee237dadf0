package vendors

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

func TestOpenAI(t *testing.T) {
	failure := func(typ, code, message string) string {
		return `{"error":{"message":"` + message + `","type":"` + typ + `","param":null,"code":` + code + `}}`
	}
	limit := failure("requests", `"rate_limit_exceeded"`, "Rate limit reached for gpt-4o. Please try again in 1.2s.")
	tooLarge := func(rest string) string {
		return failure("tokens", `"rate_limit_exceeded"`, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): "+rest)
	}
	tokens := []string{"x-ratelimit-remaining-requests", "99", "x-ratelimit-reset-requests", "2m", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"}
	checkReadings(t, OpenAI(), []reading{
		{"milliseconds", got(429, limit, "retry-after-ms", "1250", "retry-after", "2"), is(burst, onBucket, 1250*ms)},
		{"seconds", got(429, limit, append(tokens, "retry-after", "2.5")...), is(burst, onBucket, 2500*ms)},
		{"a date", got(429, limit, "retry-after", "Sat, 21 Nov 2026 10:00:30 GMT"), is(burst, onBucket, 29900*ms)},
		{"the exhausted one", got(429, limit, tokens...), is(burst, onBucket, 6*time.Minute)},
		{"both, the later", got(429, limit, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "7m", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"), is(burst, onBucket, 7*time.Minute)},
		{"milliseconds of a reset", got(429, limit, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "20ms"), is(burst, onBucket, 20*ms)},
		{"a reset in seconds", got(429, limit, "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "7.66"), is(burst, onBucket, 7660*ms)},
		{"hours", got(429, limit, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1h16m0.667s"), is(budget, onBucket, 4560667*ms)},
		{"a reset below zero", got(429, "", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "-5s"), is(burst, onBucket, none)},
		{"a reset past the end", got(429, "", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "99999999999h"), is(burst, onBucket, none)},
		{"the plain names", got(429, "", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795255230000"), is(burst, onBucket, 29900*ms)},
		{"the text", got(429, limit), is(burst, onBucket, 1200*ms)},
		{"the text in minutes", got(429, failure("tokens", "null", "Please try again in 6m0s. Visit x")), is(burst, onBucket, 6*time.Minute)},
		{"the text of others", got(429, failure("", "null", "Please retry after 6 seconds.")), is(burst, onBucket, 6*sec)},
		{"a text without a time", got(429, failure("", "null", "Please try again in a few minutes")), is(burst, onBucket, none)},
		{"per day", got(429, failure("requests", `"rate_limit_exceeded"`, "on requests per day (RPD): Limit 200")), is(budget, onBucket, none)},
		{"do not", got(429, limit, "x-should-retry", "false"), []throttle.Signal{final(sig(burst, onBucket, 1200*ms))}},
		{"overloaded", got(429, failure("engine_overloaded", "null", "")), is(overload, onBucket, none)},
		{"money by the code", got(429, failure("x", `"insufficient_quota"`, ""), "retry-after", "2"), notLimited},
		{"money by the type", got(429, failure("insufficient_quota", "null", "")), notLimited},
		{"money, newer", got(429, failure("x", `"credit_balance_exhausted"`, "")), notLimited},
		{"too large", got(429, tooLarge("Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully."), tokens...), notLimited},
		{"too large, and when it would be no larger", got(429, tooLarge("Limit 30000, Used 1, Requested 40000."), "retry-after", "9"), notLimited},
		{"too large for Groq", got(429, tooLarge("Limit 6000, Requested 14810, please reduce your message size and try again.")), notLimited},
		{"too large, without numbers", got(429, failure("tokens", "null", "The input or output tokens must be reduced in order to run successfully.")), notLimited},
		{"too large for now", got(429, tooLarge("Limit 30000, Used 29000, Requested 2000.")), is(burst, onBucket, none)},
		{"too large for a time", got(429, tooLarge("Please try again in 1.2s.")), is(burst, onBucket, 1200*ms)},
		{"large, and too many tokens", got(429, failure("tokens", `"rate_limit_exceeded"`, "Rate limit reached for x on tokens per min (TPM): Limit 30000, Used 29000, Requested 20000. Please try again in 38s.")), is(burst, onBucket, 38*sec)},
		{"a limit after numbers", got(429, failure("tokens", "null", "Rate limit reached: Limit 10, Requested 11."), "retry-after", "9"), is(burst, onBucket, 9*sec)},
		{"an error as a text", got(429, `{"error":"insufficient_quota"}`), is(burst, onBucket, none)},
		{"an outage", got(503, failure("server_error", "null", "overloaded")), notLimited},
		{"an outage that ends", got(503, failure("server_error", "null", "overloaded"), "retry-after", "3"), is(overload, onHost, 3*sec)},
		{"another code", got(400, failure("x", `"rate_limit_exceeded"`, "")), notLimited},
	})
	checkLessons(t, OpenAI(), []lesson{
		{"both", got(200, "", "x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s", "x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s"),
			[]throttle.Quota{ends(left(onBucket, "requests", 59, 60), sec), ends(in(left(onBucket, "tokens", 149984, 150000), "tokens", 0), 6*time.Minute)}},
	})
}

func TestAnthropic(t *testing.T) {
	const limit = `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`
	stream := func(s string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" + s + "\"}}\n\n"
	}
	const prefix = "anthropic-ratelimit-"
	checkReadings(t, Anthropic(), []reading{
		{"seconds", got(429, limit, "retry-after", "60", prefix+"requests-remaining", "0", prefix+"requests-reset", "2026-11-21T10:00:30Z"), is(burst, onBucket, time.Minute)},
		{"the exhausted one", got(429, limit, prefix+"requests-remaining", "5", prefix+"requests-reset", "2026-11-21T10:05:00Z", prefix+"output-tokens-remaining", "0", prefix+"output-tokens-reset", "2026-11-21T10:00:30Z"), is(burst, onBucket, 29900*ms)},
		{"several, the later", got(429, limit, prefix+"requests-remaining", "0", prefix+"requests-reset", "2026-11-21T10:00:30Z", prefix+"input-tokens-remaining", "0", prefix+"input-tokens-reset", "2026-11-21T10:00:20Z"), is(burst, onBucket, 29900*ms)},
		{"none is exhausted", got(429, limit, prefix+"requests-remaining", "5", prefix+"requests-reset", "2026-11-21T10:05:00Z"), is(burst, onBucket, none)},
		{"a stream", got(200, stream("rate_limit_error")), is(burst, onBucket, none)},
		{"a stream with other ends of lines", got(200, "event:error\r\ndata:"+limit+"\r\n\r\n"), is(burst, onBucket, none)},
		{"an error in 200", got(200, limit), is(burst, onBucket, none)},
		{"a stream that is overloaded", got(200, stream("overloaded_error")), notLimited},
		{"a stream that speaks of it", got(200, "event: content_block_delta\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}\n\n"), notLimited},
		{"a stream with it in a line", got(200, "data: x event: error\ndata: "+limit+"\n"), notLimited},
		{"a stream that went on", got(200, stream("rate_limit_error")+"event: ping\ndata: {}\n\n"), notLimited},
		{"overloaded", got(529, `{"type":"error","error":{"type":"overloaded_error"}}`), notLimited},
		{"overloaded for a time", got(529, `{"type":"error","error":{"type":"overloaded_error"}}`, "retry-after", "3"), is(overload, onHost, 3*sec)},
		{"money", got(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`), notLimited},
		{"do not", got(429, limit, "x-should-retry", "false"), []throttle.Signal{final(sig(burst, onBucket, none))}},
	})
	checkLessons(t, Anthropic(), []lesson{
		{"all", got(200, "", prefix+"requests-limit", "50", prefix+"requests-remaining", "49", prefix+"requests-reset", "2026-11-21T10:00:30Z", prefix+"output-tokens-limit", "8000", prefix+"tokens-remaining", "7"),
			[]throttle.Quota{ends(left(onBucket, "requests", 49, 50), 29900*ms), in(left(onBucket, "tokens", 7, -1), "tokens", 0), in(left(onBucket, "output_tokens", -1, 8000), "tokens", 0)}},
	})
}
