package vendors

import (
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Atlassian returns the adapter for Atlassian's cloud: Jira and Confluence.
//
// Limited is 429, and a 5xx with Retry-After. The delay is Retry-After, else until
// X-RateLimit-Reset (ISO 8601, at times without seconds). RateLimit-Reason says of
// what: jira-burst-based is one endpoint's and method's, the bucket's;
// jira-per-issue-on-write one issue's, so the one request's;
// jira-quota-tenant-based the tenant's, the site's, and jira-quota-global-based the
// app's, the host's, which are points per hour. Headers that begin with Beta- are
// for information and are not read. Repeat a call only where it can be repeated.
//
// Use one governor for each app, with the site as tenant, and endpoint and method
// as bucket.
//
// Evidence, read 2026-11-21: developer.atlassian.com/cloud/jira/platform/rate-limiting, from a copy.
func Atlassian() Adapter { return Adapter{atlassian} }

// JiraIssueWrites is the limit on writes, per bucket, an issue: 20 in 2 seconds. Beside it there are 100 in 30 seconds, JiraIssueWritesLong.
func JiraIssueWrites() limiter.QuotaConfig { return documented(20, 2*time.Second) }

// JiraIssueWritesLong is the longer limit on writes, per bucket, an issue: 100 in
// 30 seconds.
func JiraIssueWritesLong() limiter.QuotaConfig { return documented(100, 30*time.Second) }

var atlassian = &api{
	headers: []family{{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset"}},
	read:    readAtlassian,
}

var atlassianReasons = map[string]throttle.Signal{
	"jira-burst-based":        {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Bucket}},
	"jira-per-issue-on-write": {Kind: throttle.KindBurst, Scope: throttle.Scope{Level: throttle.Request}},
	"jira-quota-tenant-based": {Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Tenant}},
	"jira-quota-global-based": {Kind: throttle.KindQuota},
}

func readAtlassian(r Response, quotas []quota) []throttle.Signal {
	s, ok := common(r, quotas)
	if s.Kind != throttle.KindOverload {
		reason := strings.ToLower(value(r.Header, "Ratelimit-Reason"))
		if known, is := atlassianReasons[reason]; is {
			s.Kind, s.Scope = known.Kind, known.Scope
			s.Source = strings.TrimSuffix(reason+", "+s.Source, ", ")
		}
	}
	return only(s, ok)
}
