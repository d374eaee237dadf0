package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// TikTokAds returns the adapter for TikTok's Business API (Ads).
//
// Every answer has status 200; limited are the codes 40100 and 40132 in the body.
// No time is given: clients wait for 60 to 300 seconds. "By this developer" in the
// texts means the app, and so the host: use one governor for each app. There are no
// published numbers.
//
// Evidence, read 2026-11-21: tiktok/tiktok-business-api-sdk:python_sdk/business_api_client/tiktok_business/tiktok_code.py;
// singer-io/tap-tiktok-ads:tap_tiktok_ads/client.py;
// rudderlabs/rudder-transformer:test/integrations/destinations/tiktok_ads/network.ts.
func TikTokAds() Adapter { return Adapter{tikTokAds} }

var tikTokAds = &api{peek: always, read: func(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	var reply struct {
		Code text `json:"code"`
	}
	if r.Status < 500 && (has(r.Body, "40100") || has(r.Body, "40132")) && decode(r.Body, &reply) &&
		(reply.Code == "40100" || reply.Code == "40132") {
		ok = true
		if s.Source == "" {
			s.Source = "code " + string(reply.Code)
		}
	}
	return only(s, ok)
}}

// TikTokOpenAPI returns the adapter for TikTok's API for developers, version 2.
//
// Limited are 429 and the error code rate_limit_exceeded. No time is given; the
// window is a sliding minute for each endpoint: use one governor for each app, with the
// endpoint as bucket, which is what a refusal pauses.
//
// Evidence, read 2026-11-21: developers.tiktok.com/doc/tiktok-api-v2-rate-limit,
// .../doc/tiktok-api-v2-error-handling.
func TikTokOpenAPI() Adapter { return Adapter{tikTokOpenAPI} }

// TikTokOpenAPIRequests is the limit of an endpoint, per bucket: 600 calls per
// minute.
func TikTokOpenAPIRequests() limiter.QuotaConfig {
	return documented(600, time.Minute)
}

var tikTokOpenAPI = &api{place: placePath, peek: always, read: func(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	var reply struct {
		Error struct {
			Code text `json:"code"`
		} `json:"error"`
	}
	if r.Status < 500 && has(r.Body, "rate_limit_exceeded") && decode(r.Body, &reply) {
		ok = ok || reply.Error.Code == "rate_limit_exceeded"
	}
	return scoped(throttle.Bucket, s, ok)
}}
