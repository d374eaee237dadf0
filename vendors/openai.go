package vendors

import (
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// OpenAI returns the adapter for OpenAI's API and for those that have its shape
// (Groq and others).
//
// Limited is 429, unless the code or type says that it is about money:
// insufficient_quota, credit_balance_exhausted and their like; or the text that the
// request alone is too large for the limit, which no wait changes. The delay is
// retry-after-ms, else Retry-After, else the last of the exhausted ones of
// X-RateLimit-Reset-Requests and -Tokens (Go durations, 6m0s), else what the text
// says ("Please try again in 1.2s"). X-Should-Retry: false forbids to repeat the
// call. A 503 is an outage unless it says when it ends.
//
// Limits are for each project and model: use one governor for each project, with
// the model as bucket, which is what a refusal pauses. Answers teach requests and
// tokens; what a call costs in tokens is known only after it. Numbers depend on the
// account's tier, and are learned.
//
// Evidence, read 2026-11-21: openai/openai-go:internal/requestconfig/requestconfig.go, requestconfig_test.go;
// openai/openai-python:tests/test_client.py; vanna-ai/vanna-flask#11 and
// ITSpecialist111/ai_automation_suggester#61 for what is too large.
func OpenAI() Adapter { return Adapter{openAI} }

var openAI = &api{
	headers: []family{
		{limit: "X-Ratelimit-Limit-Requests", remaining: "X-Ratelimit-Remaining-Requests", reset: "X-Ratelimit-Reset-Requests",
			form: resetGo, name: "requests", level: throttle.Bucket},
		{limit: "X-Ratelimit-Limit-Tokens", remaining: "X-Ratelimit-Remaining-Tokens", reset: "X-Ratelimit-Reset-Tokens",
			form: resetGo, name: "tokens", unit: "tokens", level: throttle.Bucket},
		{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset", // of others
			form: resetGo, level: throttle.Bucket},
	},
	read: readOpenAI,
}

// openAIBilling are the codes and types that are about money.
var openAIBilling = map[text]bool{
	"insufficient_quota": true, "credit_balance_exhausted": true, "billing_hard_limit_reached": true, "billing_not_active": true,
}

func readOpenAI(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if !ok || r.Status != http.StatusTooManyRequests {
		return only(s, ok)
	}
	var reply struct {
		Error struct {
			Code    text `json:"code"`
			Type    text `json:"type"`
			Message text `json:"message"`
		} `json:"error"`
	}
	decode(r.Body, &reply)
	e := reply.Error
	if openAIBilling[e.Code] || openAIBilling[e.Type] {
		return nil
	}
	told := proseDelay(string(e.Message), "try again in ", "retry after ")
	if told == throttle.Unknown && openAITooLarge(string(e.Message)) {
		return nil
	}
	if s.Delay == throttle.Unknown && told != throttle.Unknown {
		s.Delay, s.Source = told, "try again in "+told.String()
	}
	if strings.Contains(string(e.Message), "per day") || s.Delay >= time.Hour {
		s.Kind = throttle.KindQuota
	}
	if strings.Contains(string(e.Type+e.Code), "overloaded") {
		s.Kind = throttle.KindOverload
	}
	s.Scope.Level = throttle.Bucket
	return only(s, true)
}

// openAITooLarge reports whether a text says that a call alone is above the whole
// limit, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested
// 40000". An ordinary refusal, "Rate limit reached for ...", has such numbers, too, and
// one that would fit another time is ordinary whatever it is called.
func openAITooLarge(message string) bool {
	message = strings.ToLower(message[:min(len(message), 1<<10)])
	if !strings.HasPrefix(message, "request too large") && !strings.Contains(message, "tokens must be reduced") {
		return false
	}
	limit, limited := numberAfter(message, ": limit ")
	asked, known := numberAfter(message, ", requested ")
	return !limited || !known || asked > limit
}

// numberAfter reads the number after a word in a text.
func numberAfter(s, word string) (int64, bool) {
	_, rest, _ := strings.Cut(s, word)
	return parseCount(rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))])
}

// proseDelay reads a time in the first KiB of a text for people: after one of the
// words, a Go duration, or a number and a unit.
func proseDelay(s string, words ...string) time.Duration {
	s = strings.ToLower(s[:min(len(s), 1<<10)])
	for _, word := range words {
		_, rest, ok := strings.Cut(s, word)
		if !ok {
			continue
		}
		number, rest, _ := strings.Cut(rest, " ")
		number = strings.TrimRight(number, ".,;!")
		if d, ok := parseGoDuration(number); ok {
			return d
		}
		for _, u := range proseUnits {
			if strings.HasPrefix(rest, u.name) {
				if d, ok := parseDecimal(number, u.unit); ok {
					return d
				}
			}
		}
	}
	return throttle.Unknown
}

var proseUnits = [...]struct {
	name string
	unit time.Duration
}{{"millisecond", time.Millisecond}, {"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}}
