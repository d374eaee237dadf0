package vendors

import (
	"net/http"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// HTTP returns the adapter for an HTTP API without one of its own. It reads what
// standards define and what is common besides.
//
// Limited is: status 429, 420 and 529; any other 5xx with a readable Retry-After,
// which announces its end (one without is an outage, and a breaker's business);
// 403 with a readable Retry-After or an exhausted quota; 413 with a readable
// Retry-After, for that one request; and any failure whose body is a problem of
// the RateLimit draft. Redirects and successes are not, whatever their headers
// say.
//
// The delay is the first that can be read of: retry-after-ms and
// x-ms-retry-after-ms, Retry-After, RateLimit in its draft forms, RateLimit-Reset,
// X-RateLimit-Reset-After, X-RateLimit-Reset (also spelled X-Rate-Limit-...). The
// last ones are read as seconds, epoch seconds, epoch milliseconds, RFC 3339 or
// an HTTP date; a RateLimit of nothing left that does not say until when leaves that
// to those below it. Of several quotas only the exhausted ones count, and of those the
// latest: a reset beside calls that remain says nothing about this refusal. The
// pause is the whole host's: use one governor for each credential.
//
// Evidence, read 2026-11-21: RFC 9110 10.2.3 and 15.5.14, RFC 6585 4,
// draft-ietf-httpapi-ratelimit-headers -00 to -10, the retry tests of
// hashicorp/go-retryablehttp and openai/openai-python.
func HTTP() Adapter { return Adapter{httpDialect{}} }

type httpDialect struct{}

// Read implements Dialect.
func (httpDialect) Read(r Response) []throttle.Signal {
	if r.Status < 400 {
		return nil
	}
	delay, source, stated := retryAfter(r.Header, r.At)
	kind, problem := readProblem(r)
	quotas := readQuotas(r.Header, r.At)
	exhausted := exhaustedQuota(quotas)

	var scope throttle.Scope
	switch {
	case problem, r.Status == http.StatusTooManyRequests, r.Status == 420: // "Enhance Your Calm"
	case r.Status == 529: // "Site is overloaded"
	case r.Status >= 500 && stated:
	case r.Status == http.StatusForbidden && (stated || exhausted.Remaining == 0):
	case r.Status == http.StatusRequestEntityTooLarge && stated:
		scope.Level = throttle.Request
	default:
		return nil
	}

	if !stated {
		delay, source = exhausted.reset, exhausted.told()
	}
	switch {
	case kind != throttle.KindUnknown:
	case r.Status >= 500:
		kind = throttle.KindOverload
	case exhausted.Remaining == 0 && exhausted.Window > 0:
		kind = windowKind(exhausted.Window)
	}
	return []throttle.Signal{{
		Kind: kind, Scope: scope, Delay: delay, Source: source,
		NoRetry: strings.EqualFold(value(r.Header, "X-Should-Retry"), "false"),
	}}
}

// Learn implements Dialect.
func (httpDialect) Learn(r Response) []throttle.Quota {
	if r.Status == 0 {
		return nil
	}
	return export(readQuotas(r.Header, r.At), r.At)
}

// retryAfter reads the headers that say it directly. Those in milliseconds are
// finer, and servers that send both round the other one.
func retryAfter(h http.Header, at time.Time) (delay time.Duration, source string, ok bool) {
	delay = throttle.Unknown
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, v := range values(h, name) {
			if d, valid := parseDecimal(v, time.Millisecond); valid && d > delay {
				delay, source, ok = d, strings.ToLower(name)+": "+v, true
			}
		}
		if ok {
			return delay, source, true
		}
	}
	if d, ok := RetryAfter(h, at); ok {
		return d, "Retry-After: " + d.String(), true
	}
	return throttle.Unknown, "", false
}

// windowKind tells a budget from a rate by how long its window is.
func windowKind(w time.Duration) throttle.Kind {
	if w >= time.Hour {
		return throttle.KindQuota
	}
	return throttle.KindBurst
}

// maxBody bounds what is read of a body.
const maxBody = 1 << 20

// readProblem looks for a problem type of the RateLimit draft in an
// application/problem+json body.
func readProblem(r Response) (throttle.Kind, bool) {
	if !strings.Contains(strings.ToLower(value(r.Header, "Content-Type")), "problem+json") {
		return throttle.KindUnknown, false
	}
	var p struct {
		Type text `json:"type"`
	}
	decode(r.Body, &p)
	_, name, _ := strings.Cut(string(p.Type), "http-problem-types#")
	switch name {
	case "quota-exceeded":
		return throttle.KindQuota, true
	case "temporary-reduced-capacity":
		return throttle.KindOverload, true
	case "abnormal-usage-detected":
		return throttle.KindBan, true
	}
	return throttle.KindUnknown, false
}
