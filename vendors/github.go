package vendors

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// GitHub returns the adapter for GitHub's REST and GraphQL APIs.
//
// There are two kinds of limit. The primary one, of the token and resource (core,
// search, graphql ...), is used up in a 403 or 429 with X-RateLimit-Remaining 0 or
// a text that says so, and in an error of type RATE_LIMITED or RATE_LIMIT, which
// GraphQL answers with 200 and which is true whatever the headers say. Its delay is
// until X-RateLimit-Reset, or Retry-After where that is later. It pauses the
// bucket: ask with the resource as bucket.
//
// The secondary one, of the token as a whole, is told by the text or by the
// documentation_url; other answers with 429, or 403 with a Retry-After, count as
// one. Its delay is Retry-After, else X-RateLimit-Reset when nothing remains, else
// the documented minute. It pauses the host: use one governor for each token.
// Where both apply there are two signals. 401, and 403 for other reasons, are no
// limits.
//
// Every answer teaches the quota of its resource; a GraphQL answer that asked for
// rateLimit also its cost.
//
// Evidence, read 2026-11-21: github/docs:content/rest/using-the-rest-api/rate-limits-for-the-rest-api.md
// and the page on rate limits and query limits for GraphQL;
// octokit/plugin-throttling.js:src/index.ts, test/retry.test.ts;
// google/go-github:github/github.go, github_test.go; gofri/go-github-ratelimit.
func GitHub() Adapter { return Adapter{gitHub} }

// GitHubPrimary is the primary limit of a user's token, per bucket, the resources
// core and graphql: 5,000 calls, or points, per hour.
func GitHubPrimary() limiter.QuotaConfig { return documented(5000, time.Hour) }

// GitHubEnterprise is GitHubPrimary in GitHub Enterprise Cloud: 15,000 per hour.
func GitHubEnterprise() limiter.QuotaConfig { return documented(15_000, time.Hour) }

// GitHubActions is the primary limit of a workflow's GITHUB_TOKEN, per tenant, a
// repository: 1,000 calls per hour.
func GitHubActions() limiter.QuotaConfig { return documented(1000, time.Hour) }

// GitHubAnonymous is the primary limit of an IP address without a token, per host:
// 60 calls per hour.
func GitHubAnonymous() limiter.QuotaConfig { return documented(60, time.Hour) }

// GitHubSearch is the primary limit of the resource search, per host of a governor
// that only searches: 30 calls per minute.
func GitHubSearch() limiter.QuotaConfig { return documented(30, time.Minute) }

// GitHubCodeSearch is the primary limit of the resource code_search, per host of a
// governor that only searches code: 10 calls per minute.
func GitHubCodeSearch() limiter.QuotaConfig { return documented(10, time.Minute) }

// GitHubConcurrency is the secondary limit on calls at once, per host: 100 of the REST
// and GraphQL APIs together. It is for limiter.NewConcurrency; a governor with no more
// Workers than that keeps it anyway.
func GitHubConcurrency() limiter.ConcurrencyConfig { return limiter.ConcurrencyConfig{Limit: 100} }

// GitHubPoints is the secondary limit of the REST API, per host: 900 points per
// minute. A call that reads costs 1, one that writes 5: the governor.Ask's Cost.
// A governor.Limit whose Unit is "points" counts it; others of that governor, without
// a Unit, then count calls.
func GitHubPoints() limiter.QuotaConfig { return documented(900, time.Minute) }

// GitHubContent is the secondary limit on creating content, per host of a governor
// that does only this: 80 calls per minute. Beside it there is GitHubContentHour.
func GitHubContent() limiter.QuotaConfig { return documented(80, time.Minute) }

// GitHubContentHour is the longer limit on creating content, per host of a governor
// that does only this: 500 calls per hour.
func GitHubContentHour() limiter.QuotaConfig { return documented(500, time.Hour) }

// GitHubGraphQLPoints is the secondary limit of the GraphQL API, per bucket: 2,000
// points per minute. A query costs 1, one with mutations 5.
func GitHubGraphQLPoints() limiter.QuotaConfig { return documented(2000, time.Minute) }

// gitHubRate has no name: a resource names the quota.
var gitHubRate = family{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", reset: "X-Ratelimit-Reset", form: resetEpoch,
	level: throttle.Bucket}

var gitHub = &api{headers: []family{gitHubRate}, read: readGitHub, learn: learnGitHub, learnsBodies: true,
	place: placeGitHub, peek: gitHubGraphQL}

type gitHubReply struct {
	Message text `json:"message"`
	URL     text `json:"documentation_url"`
	Errors  items[struct {
		Type    text `json:"type"`
		Message text `json:"message"`
	}] `json:"errors"`
}

func readGitHub(r Response, quotas []quota) []throttle.Signal {
	if r.Status >= 500 {
		return only(common(r, nil))
	}
	if r.Status == http.StatusUnauthorized || r.Status < 400 && !has(r.Body, "RATE_LIMIT") && !has(r.Body, "exceeded") && !has(r.Body, "abuse") {
		return nil
	}
	primary, secondary := gitHubBody(r)
	q := exhaustedQuota(quotas)
	after, source, stated := retryAfter(r.Header, r.At)
	refused := r.Status == http.StatusForbidden || r.Status == http.StatusTooManyRequests
	if q.Remaining == 0 && refused {
		primary = true
	}
	if !primary && (r.Status == http.StatusTooManyRequests || r.Status == http.StatusForbidden && stated) {
		secondary = true
	}
	var all signals
	if secondary {
		s := throttle.Signal{Kind: throttle.KindBurst, Delay: time.Minute, Source: "secondary rate limit"}
		switch {
		case stated:
			s.Delay, s.Source = after, s.Source+", "+source
		case q.Remaining == 0 && q.reset != throttle.Unknown:
			s.Delay, s.Source = q.reset, s.Source+", "+q.told()
		}
		all.add(s)
	}
	if primary {
		all.add(gitHubPrimary(r, quotas, after, source, secondary))
	}
	return all
}

// gitHubPrimary is the signal of a primary limit. Where the secondary one was hit,
// too, Retry-After is about that.
func gitHubPrimary(r Response, quotas []quota, after time.Duration, source string, secondary bool) throttle.Signal {
	s := throttle.Signal{Kind: throttle.KindQuota, Scope: throttle.Scope{Level: throttle.Bucket}, Delay: throttle.Unknown, Source: "primary rate limit"}
	resource := line(value(r.Header, "X-Ratelimit-Resource"), 64)
	if resource == "search" || resource == "code_search" {
		s.Kind = throttle.KindBurst // per minute
	}
	if len(quotas) > 0 && quotas[0].reset != throttle.Unknown {
		s.Delay, s.Source = quotas[0].reset, quotas[0].told()
	}
	if !secondary && after > s.Delay {
		s.Delay, s.Source = after, source
	}
	if resource != "" {
		s.Source = resource + ": " + s.Source
	}
	return s
}

// gitHubBody tells from the body which limits an answer is about.
func gitHubBody(r Response) (primary, secondary bool) {
	var reply gitHubReply
	if !decode(r.Body, &reply) {
		page := bytes.ToLower(r.Body[:min(len(r.Body), 4<<10)]) // of a proxy
		return false, r.Status >= 400 && bytes.Contains(page, []byte("secondary rate limit"))
	}
	told := func(s text, found func(s, text string) bool) bool {
		lower := strings.ToLower(string(s[:min(len(s), maxValue)]))
		return found(lower, "exceeded a secondary rate limit") || found(lower, "triggered an abuse detection") || found(lower, "exceeded secondary rate limit")
	}
	if r.Status < 400 { // anything can have a message, a commit for one
		secondary = told(text(strings.TrimPrefix(string(reply.Message), "You have ")), strings.HasPrefix)
	} else {
		secondary = told(reply.Message, strings.Contains) ||
			strings.HasSuffix(string(reply.URL), "secondary-rate-limits") || strings.HasSuffix(string(reply.URL), "#abuse-rate-limits")
		refused := r.Status == http.StatusForbidden || r.Status == http.StatusTooManyRequests
		primary = refused && strings.HasPrefix(string(reply.Message), "API rate limit")
	}
	for _, e := range reply.Errors {
		primary = primary || e.Type == "RATE_LIMITED" || e.Type == "RATE_LIMIT"
		secondary = secondary || told(e.Message, strings.Contains)
	}
	return primary, secondary
}

func learnGitHub(r Response, quotas []quota) []quota {
	for i := range quotas {
		quotas[i].Name = line(value(r.Header, "X-Ratelimit-Resource"), 64)
	}
	if !has(r.Body, `"rateLimit"`) {
		return quotas
	}
	var reply struct {
		Data struct {
			RateLimit struct {
				Cost      text `json:"cost"`
				Limit     text `json:"limit"`
				Remaining text `json:"remaining"`
				ResetAt   text `json:"resetAt"`
			} `json:"rateLimit"`
		} `json:"data"`
	}
	decode(r.Body, &reply)
	told := reply.Data.RateLimit
	if len(quotas) == 0 {
		quotas = []quota{said("")}
	}
	q := &quotas[0] // the headers say the same, without the cost
	q.Name, q.Unit, q.Scope.Level = "graphql", "points", throttle.Bucket
	q.Cost = told.Cost.count()
	if n := told.Limit.count(); n >= 0 {
		q.Limit = n
	}
	if n := told.Remaining.count(); n >= 0 {
		q.Remaining = n
	}
	if d, ok := resetAny.parse(string(told.ResetAt), serverTime(r.Header, r.At)); ok {
		q.reset = d
	}
	if q.empty() {
		return nil
	}
	return quotas
}
