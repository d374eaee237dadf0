package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Notion returns the adapter for Notion's API.
//
// Limited are 429 and the code rate_limited; and 5xx that say when they end, above
// all 529 service_overload. The delay is Retry-After, else
// additional_data.retry_after of the body. Notion's own client repeats every call
// after a 529, and after a 500 or 503 only those that read or delete. The pause is
// the host's: use one governor for each integration.
//
// Evidence, read 2026-11-21: makenotion/notion-sdk-js:src/Client.ts, src/errors.ts, test/Client.test.ts.
func Notion() Adapter { return Adapter{notion} }

// NotionRequests is the limit of an integration, per host: 3 calls per second on average.
func NotionRequests() limiter.QuotaConfig { return documented(3, time.Second) }

var notion = &api{read: func(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	if r.Status < 400 {
		return nil
	}
	var reply struct {
		Code       text `json:"code"`
		Additional struct {
			After text `json:"retry_after"`
		} `json:"additional_data"`
	}
	decode(r.Body, &reply)
	if d, valid := reply.Additional.After.seconds(); valid && s.Delay == throttle.Unknown {
		s.Delay, s.Source = d, "retry_after: "+d.String()
		ok = ok || r.Status >= 500
	}
	return only(s, ok || reply.Code == "rate_limited")
}}
