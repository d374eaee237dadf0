package vendors

import (
	"cmp"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// HubSpot returns the adapter for HubSpot's APIs.
//
// Limited are 429; 423, a lock of two seconds that too many calls lead to; and 477,
// the portal is being moved, with a Retry-After of up to a day. What a 429 is about
// is its policyName: TEN_SECONDLY_ROLLING, a window of ten seconds or of what
// X-HubSpot-RateLimit-Interval-Milliseconds says; SECONDLY, a second, of search, and
// so the bucket's; DAILY, until midnight in the portal's time zone, which is not
// known here. Without a policyName it is the window, or else the day, of which headers
// say that nothing remains, and the day where they say so of both. That window is the
// delay unless there is a Retry-After. Limits are for each app and portal: use one
// governor for each app, with the portal as tenant, which is what a refusal pauses, and
// a bucket for search.
//
// Answers teach the quota of the window and of the day; not that of the second,
// which is not enforced.
//
// Evidence, read 2026-11-21: HubSpot/hubspot-api-nodejs, RetryDecorator.ts;
// developers.hubspot.com/docs/api-reference/error-handling;
// rudderlabs/rudder-transformer:test/integrations/destinations/hs/network.ts.
func HubSpot() Adapter { return Adapter{hubSpot} }

// HubSpotRequests is the limit of an app for a portal, per tenant: 100 calls in 10
// seconds. Some subscriptions have up to 190.
func HubSpotRequests() limiter.QuotaConfig { return documented(100, 10*time.Second) }

// HubSpotSearch is the limit on search, per bucket: 5 calls per second.
func HubSpotSearch() limiter.QuotaConfig { return documented(5, time.Second) }

// HubSpotDaily is the least budget of a portal, per tenant: 250,000 calls per day.
// Larger subscriptions have more.
func HubSpotDaily() limiter.QuotaConfig { return documented(250_000, 24*time.Hour) }

var hubSpot = &api{
	place: placeHubSpot,
	headers: []family{
		{limit: "X-Hubspot-Ratelimit-Max", remaining: "X-Hubspot-Ratelimit-Remaining", level: throttle.Tenant},
		{limit: "X-Hubspot-Ratelimit-Daily", remaining: "X-Hubspot-Ratelimit-Daily-Remaining", name: "daily", level: throttle.Tenant,
			window: 24 * time.Hour},
	},
	read: readHubSpot,
	learn: func(r Response, quotas []quota) []quota {
		for i := range quotas {
			if quotas[i].Name == "" {
				quotas[i].Window, _ = hubSpotWindow(r.Header)
			}
		}
		return quotas
	},
}

// hubSpotPolicies are the values of policyName, and how long their windows are.
var hubSpotPolicies = map[text]throttle.Signal{
	"TEN_SECONDLY_ROLLING": {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Tenant}, Delay: 10 * time.Second},
	"SECONDLY":             {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: time.Second},
	"DAILY":                {Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}, Delay: throttle.Unknown},
}

const statusMigrating = 477

func readHubSpot(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, nil)
	stated := s.Delay != throttle.Unknown
	switch r.Status {
	case http.StatusTooManyRequests:
		var reply struct {
			Policy text `json:"policyName"`
		}
		decode(r.Body, &reply)
		policy, known := hubSpotPolicies[reply.Policy]
		if !known { // the headers may tell
			policy = throttle.Signal{Kind: s.Kind, Scope: throttle.Scope{Level: throttle.Tenant}, Delay: throttle.Unknown}
			for _, q := range quotas { // the day, which ends later, comes last
				switch {
				case q.Remaining != 0:
				case q.Name == "daily":
					policy = hubSpotPolicies["DAILY"]
				default:
					policy = hubSpotPolicies["TEN_SECONDLY_ROLLING"]
				}
			}
		}
		if window, told := hubSpotWindow(r.Header); told && policy.Delay == 10*time.Second {
			policy.Delay = window
		}
		s.Kind, s.Scope = policy.Kind, policy.Scope
		if !stated {
			s.Delay, s.Source = policy.Delay, cmp.Or(line(string(reply.Policy), 64), "X-HubSpot-RateLimit")
		}
	case http.StatusLocked:
		s.Kind, s.Scope.Level, ok = throttle.KindLock, throttle.Request, true
		if !stated {
			s.Delay, s.Source = 2*time.Second, "locked"
		}
	case statusMigrating:
		s.Kind, s.Scope.Level, ok = throttle.KindOverload, throttle.Tenant, true
	}
	return only(s, ok)
}

// hubSpotWindow is how long the rolling window is.
func hubSpotWindow(h http.Header) (time.Duration, bool) {
	d, ok := parseDecimal(value(h, "X-Hubspot-Ratelimit-Interval-Milliseconds"), time.Millisecond)
	return d, ok && d > 0
}
