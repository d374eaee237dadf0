package vendors

import (
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// X returns the adapter for the API of X (Twitter).
//
// Limited are 429, the old 420, the code 88, and UsageCapExceeded with 429 or 403:
// the cap of a month, without a time. The delay is Retry-After, else until the last
// of the exhausted limits is renewed: the endpoint's window of 15 minutes, which
// pauses the bucket, and the 24 hours of the user, the tenant, and of the app, the
// host; there is a signal for each of them that is exhausted. Use one governor for
// each app, with the user as tenant, and user (or app) and endpoint together as
// bucket. Answers teach all three.
//
// Evidence, read 2026-11-21: tweepy/tweepy:tweepy/client.py, tweepy/api.py.
func X() Adapter { return Adapter{x} }

var x = &api{
	headers: []family{
		{limit: "X-Rate-Limit-Limit", remaining: "X-Rate-Limit-Remaining", reset: "X-Rate-Limit-Reset", form: resetEpoch,
			level: throttle.Bucket, window: 15 * time.Minute},
		{limit: "X-User-Limit-24hour-Limit", remaining: "X-User-Limit-24hour-Remaining", reset: "X-User-Limit-24hour-Reset", form: resetEpoch,
			name: "user 24hour", level: throttle.Tenant, window: 24 * time.Hour},
		{limit: "X-App-Limit-24hour-Limit", remaining: "X-App-Limit-24hour-Remaining", reset: "X-App-Limit-24hour-Reset", form: resetEpoch,
			name: "app 24hour", window: 24 * time.Hour},
	},
	read: readX,
}

func readX(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if r.Status < 400 || r.Status >= 500 {
		return only(s, ok)
	}
	var reply struct {
		Title  text `json:"title"`
		Type   text `json:"type"`
		Errors items[struct {
			Code  text `json:"code"`
			Title text `json:"title"`
		}] `json:"errors"`
	}
	decode(r.Body, &reply)
	capped := reply.Title == "UsageCapExceeded" || strings.HasSuffix(string(reply.Type), "/usage-capped")
	for _, e := range reply.Errors {
		capped = capped || e.Title == "UsageCapExceeded"
		ok = ok || e.Code == "88"
	}
	if capped && (ok || r.Status == http.StatusForbidden) {
		return []throttle.Signal{{Kind: throttle.KindQuota, Delay: throttle.Unknown, Source: "UsageCapExceeded"}}
	}
	if s.Scope.Level == throttle.Host && exhaustedQuota(quotas).Remaining != 0 {
		s.Scope.Level = throttle.Bucket // nothing says that it is wider
	}
	return each(r, quotas, s, ok || r.Status == 420)
}
