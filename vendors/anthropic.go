package vendors

import (
	"bytes"

	"github.com/flyball-go/flyball/throttle"
)

// Anthropic returns the adapter for Anthropic's API.
//
// Limited are 429 and an error rate_limit_error, which may also come in a stream
// that began with 200. That is read of a Response whose Body is the stream; package
// httpx hands streams on unread, and hears of no error in one. The delay is retry-after-ms, else Retry-After, else the last
// of the exhausted ones of Anthropic-RateLimit-*-Reset (RFC 3339). 529
// overloaded_error is about the servers' capacity: a limit only when it says when it
// ends, else an outage. A credit balance that is too low is no limit.
//
// Limits are for each organization and class of models: use one governor for each
// organization, with the model as bucket, which is what a refusal pauses. Answers
// teach requests, tokens, input tokens and output tokens. Numbers depend on the
// account's tier, and are learned.
//
// Evidence, read 2026-11-21: anthropics/anthropic-sdk-go;
// anthropics/anthropic-sdk-typescript#357.
func Anthropic() Adapter { return Adapter{anthropic} }

var anthropic = &api{
	headers: []family{
		anthropicFamily("Requests", "requests", ""),
		anthropicFamily("Tokens", "tokens", "tokens"),
		anthropicFamily("Input-Tokens", "input_tokens", "tokens"),
		anthropicFamily("Output-Tokens", "output_tokens", "tokens"),
	},
	read: readAnthropic,
}

func anthropicFamily(header, name, unit string) family {
	const prefix = "Anthropic-Ratelimit-"
	return family{limit: prefix + header + "-Limit", remaining: prefix + header + "-Remaining", reset: prefix + header + "-Reset",
		name: name, unit: unit, level: throttle.Bucket}
}

func readAnthropic(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if !ok && r.Status < 500 && has(r.Body, "rate_limit_error") {
		ok = anthropicLimited(r.Body) || r.Status < 400 && anthropicStream(r.Body)
	}
	return scoped(throttle.Bucket, s, ok)
}

func anthropicLimited(body []byte) bool {
	var reply struct {
		Type  text `json:"type"`
		Error struct {
			Type text `json:"type"`
		} `json:"error"`
	}
	return decode(body, &reply) && reply.Type == "error" && reply.Error.Type == "rate_limit_error"
}

// anthropicStream looks for the error in a stream of server-sent events, where it
// is the last one.
func anthropicStream(body []byte) bool {
	i := bytes.LastIndex(body, []byte("event:"))
	if i < 0 || i > 0 && body[i-1] != '\n' {
		return false
	}
	event, data, _ := bytes.Cut(body[i:], []byte("\n"))
	data, isData := bytes.CutPrefix(data, []byte("data:"))
	data, _, _ = bytes.Cut(data, []byte("\n"))
	return isData && bytes.HasSuffix(bytes.TrimSpace(event), []byte("error")) && anthropicLimited(data)
}
