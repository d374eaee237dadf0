package vendors

import (
	"github.com/flyball-go/flyball/throttle"
)

// Linear returns the adapter for Linear's GraphQL API.
//
// Limited is an error with the code RATELIMITED, which comes with status 400, and
// 429. The delay is Retry-After, else until the last of the exhausted limits is
// renewed, in milliseconds since 1970: X-RateLimit-Requests-Reset and
// -Complexity-Reset, which pause the host, and -Endpoint-Requests-Reset, which
// pauses the bucket. Where both are exhausted there are two signals. Use one governor
// for each user or app, with the operation as bucket. Answers teach all three,
// complexity in points, and X-Complexity what the call cost of those.
//
// Evidence, read 2026-11-21: linear.app/developers/rate-limiting.
func Linear() Adapter { return Adapter{linear} }

var linear = &api{
	headers: []family{
		{limit: "X-Ratelimit-Requests-Limit", remaining: "X-Ratelimit-Requests-Remaining", reset: "X-Ratelimit-Requests-Reset",
			form: resetMilli, name: "requests"},
		{limit: "X-Ratelimit-Complexity-Limit", remaining: "X-Ratelimit-Complexity-Remaining", reset: "X-Ratelimit-Complexity-Reset",
			form: resetMilli, name: "complexity", unit: "points"},
		{limit: "X-Ratelimit-Endpoint-Requests-Limit", remaining: "X-Ratelimit-Endpoint-Requests-Remaining",
			reset: "X-Ratelimit-Endpoint-Requests-Reset", form: resetMilli, name: "endpoint", level: throttle.Bucket},
	},
	read: readLinear,
	learn: func(r Response, quotas []quota) []quota {
		for i := range quotas {
			if quotas[i].Name == "complexity" {
				quotas[i].Cost = text(value(r.Header, "X-Complexity")).count()
			}
		}
		return quotas
	},
}

func readLinear(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if r.Status >= 500 || !has(r.Body, "RATELIMITED") {
		return each(r, quotas, s, ok)
	}
	var reply struct {
		Errors items[struct {
			Extensions struct {
				Code text `json:"code"`
			} `json:"extensions"`
		}] `json:"errors"`
	}
	decode(r.Body, &reply)
	for _, e := range reply.Errors {
		ok = ok || e.Extensions.Code == "RATELIMITED"
	}
	return each(r, quotas, s, ok)
}
