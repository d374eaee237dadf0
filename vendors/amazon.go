package vendors

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// AmazonAds returns the adapter for the Amazon Ads API.
//
// Limited are 429 and, whatever the status of the failure, an
// Amazon-Advertising-Api-Throttled of true; X-Amzn-ErrorType says
// AccessDeniedException beside it and is not to be trusted. The delay is
// Retry-After, which is documented and often missing. Limits are for each client
// of Login with Amazon, region and endpoint: use one governor for each client and
// region, with the endpoint as bucket, which is what a refusal pauses. They are
// dynamic, and there are no published numbers. Early retries are answered by
// longer refusals.
//
// Evidence, read 2026-11-21: amzn/ads-advanced-tools-docs issues #262, #344, #422,
// #436, #501.
func AmazonAds() Adapter { return Adapter{amazonAds} }

var amazonAds = &api{read: func(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if r.Status >= 400 && strings.EqualFold(value(r.Header, "Amazon-Advertising-Api-Throttled"), "true") {
		s.Kind, ok = throttle.KindBurst, true
	}
	return scoped(throttle.Bucket, s, ok)
}}

// AmazonSPAPI returns the adapter for Amazon's Selling Partner API.
//
// Limited are 429 and an error QuotaExceeded, which is the token bucket of the
// operation and not a day's budget. The delay is Retry-After, else unknown.
// X-Amzn-RateLimit-Limit teaches the rate: calls per second that come back, of
// the operation, for this seller and application. Use the operation as bucket,
// which is what a refusal pauses, and one governor for each seller and
// application.
//
// Evidence, read 2026-11-21: saleweaver/python-amazon-sp-api#1042.
func AmazonSPAPI() Adapter { return Adapter{amazonSPAPI} }

var amazonSPAPI = &api{read: readAmazonSPAPI, learn: learnAmazonSPAPI}

func readAmazonSPAPI(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if r.Status >= 400 && r.Status < 500 && r.Status != http.StatusTooManyRequests {
		var reply struct {
			Errors items[struct {
				Code text `json:"code"`
			}] `json:"errors"`
		}
		decode(r.Body, &reply)
		for _, e := range reply.Errors {
			ok = ok || e.Code == "QuotaExceeded"
		}
	}
	return scoped(throttle.Bucket, s, ok)
}

// learnAmazonSPAPI reads a rate of 0.0222 as one call in 45 seconds.
func learnAmazonSPAPI(r Response, quotas []quota) []quota {
	perSecond, ok := text(value(r.Header, "X-Amzn-Ratelimit-Limit")).float()
	if !ok || perSecond <= 0 {
		return quotas
	}
	q := said("X-Amzn-RateLimit-Limit")
	q.Scope.Level, q.Limit = throttle.Bucket, 1
	q.Window = time.Duration(min(math.Round(1e9/perSecond), math.MaxInt64/2))
	return append(quotas, q)
}
