package vendors

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Zendesk returns the adapter for Zendesk's APIs.
//
// Limited are 429, and 503 that says when it ends. The delay is Retry-After, else
// until the last of the exhausted limits is renewed: the account's (RateLimit-Reset,
// in seconds) and those of endpoints, "Zendesk-RateLimit-tickets-index: total=100;
// remaining=0; resets=41". A refusal by an endpoint's limit alone pauses the bucket,
// one by both limits the two, each for its own time, and others the host: use one
// governor for each account, with the endpoint as bucket.
// Answers teach all of them. Zendesk's own client waits for 10 s when there is no
// time.
//
// Evidence, read 2026-11-21: developer.zendesk.com, rate limits, from a copy;
// zendesk/zendesk_api_client_rb, retry.rb.
func Zendesk() Adapter { return Adapter{zendesk} }

// ZendeskExports is the limit on incremental exports, per bucket: 10 calls per minute.
func ZendeskExports() limiter.QuotaConfig { return documented(10, time.Minute) }

var zendesk = &api{
	headers: []family{
		{limit: "Ratelimit-Limit", remaining: "Ratelimit-Remaining", reset: "Ratelimit-Reset", form: resetSeconds},
		{limit: "X-Rate-Limit", remaining: "X-Rate-Limit-Remaining"},
	},
	read: func(r Response, quotas []quota) []throttle.Signal {
		quotas = zendeskQuotas(r, quotas)
		s, ok := common(r, quotas)
		return each(r, quotas, s, ok)
	},
	learn: zendeskQuotas,
}

// zendeskQuotas are the account's quota, of which there are two spellings, and
// those of endpoints.
func zendeskQuotas(r Response, account []quota) []quota {
	if len(account) > 1 {
		a, b := &account[0], &account[1]
		if a.Limit < 0 {
			a.Limit = b.Limit
		}
		if a.Remaining < 0 {
			a.Remaining = b.Remaining
		}
		account = account[:1]
	}
	const prefix = "Zendesk-Ratelimit-"
	var names []string
	for name := range r.Header {
		if strings.HasPrefix(name, prefix) && len(name) <= maxValue && len(names) < maxItems {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxValues)] {
		if q, ok := zendeskEndpoint(r.Header, name); ok {
			q.Name = strings.ToLower(line(name[len(prefix):], 64))
			account = append(account, q)
		}
	}
	return account
}

// zendeskEndpoint reads "total=100; remaining=99; resets=41".
func zendeskEndpoint(h http.Header, name string) (quota, bool) {
	q := said(name)
	for part := range strings.SplitSeq(value(h, name), ";") {
		key, v, _ := strings.Cut(part, "=")
		v = strings.TrimSpace(v)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "total":
			q.Limit = text(v).count()
		case "remaining":
			q.Remaining = text(v).count()
		case "resets", "reset":
			if d, ok := parseDecimal(v, time.Second); ok {
				q.reset = d
			}
		}
	}
	q.Scope.Level = throttle.Bucket
	return q, !q.empty()
}
