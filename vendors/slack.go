package vendors

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Slack returns the adapter for Slack's Web API.
//
// Limited are 429 and the error ratelimited in the body, which chat.postMessage
// spells rate_limited, and which may come with status 200. The delay is Retry-After; on a good answer that header means
// nothing. Limits are for each method, workspace and app: use one governor for
// each app, with workspace and method together as bucket, "T012/chat.postMessage",
// which is what a refusal pauses.
//
// Evidence, read 2026-11-21: slackapi/python-slack-sdk:tests/slack_sdk/web/mock_web_api_handler.py;
// slack-go/slack:retry.go; docs.slack.dev/apis/web-api/rate-limits.
func Slack() Adapter { return Adapter{slack} }

// SlackTier is the limit of a method, per bucket, by its tier, 1 to 4: 1, 20, 50 or
// 100 calls per minute. Any other tier counts as the nearest of these. Slack
// allows somewhat more, but does not say how much.
func SlackTier(tier int) limiter.QuotaConfig {
	perMinute := [...]int{1, 20, 50, 100}
	return documented(perMinute[min(max(tier, 1), len(perMinute))-1], time.Minute)
}

// SlackMessages is the limit of chat.postMessage, per bucket, a channel: one per
// second.
func SlackMessages() limiter.QuotaConfig { return documented(1, time.Second) }

var slack = &api{place: placeSlack, peek: always, read: func(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	var reply struct {
		OK    text `json:"ok"`
		Error text `json:"error"`
	}
	if r.Status < 500 && (has(r.Body, "ratelimited") || has(r.Body, "rate_limited")) && decode(r.Body, &reply) {
		ok = ok || reply.OK != "true" && (reply.Error == "ratelimited" || reply.Error == "rate_limited")
	}
	return scoped(throttle.Bucket, s, ok)
}}
