package vendors

import (
	"math"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// quota is one limit as rate limit headers describe it.
type quota struct {
	name      string
	limit     int64         // -1: not said
	remaining int64         // -1: not said, which is not 0
	reset     time.Duration // from the moment of the answer; throttle.Unknown: not said
	window    time.Duration // 0: not said
	unit      string        // "": not said
	source    string        // the header
}

func (q quota) export(at time.Time) throttle.Quota {
	out := throttle.Quota{Name: q.name, Limit: q.limit, Remaining: q.remaining, Cost: -1}
	if q.reset != throttle.Unknown {
		out.Reset = at.Add(q.reset)
	}
	return out
}

// readQuotas reads the first family of rate limit headers that an answer has and
// that says when it ends, or else the first at all: the newest form says the most.
func readQuotas(h http.Header, at time.Time) []quota {
	if q := rateLimit(h); len(q) > 0 {
		return q
	}
	now := serverTime(h, at)
	var first []quota
	for _, f := range families {
		switch q, ok := f.read(h, now); {
		case ok && q.reset != throttle.Unknown:
			return []quota{q}
		case ok && first == nil:
			first = []quota{q}
		}
	}
	return first
}

// exhaustedQuota returns when the last of the exhausted quotas is renewed, and
// that quota. When no quota says how much remains, a single one that says when
// it ends is taken for the one that refused; its remaining stays -1.
func exhaustedQuota(quotas []quota) (time.Duration, quota) {
	last := quota{limit: -1, remaining: -1, reset: throttle.Unknown}
	for _, q := range quotas {
		if q.remaining == 0 && (last.remaining != 0 || q.reset > last.reset) {
			last = q
		}
	}
	if last.remaining != 0 && len(quotas) == 1 && quotas[0].remaining < 0 {
		last = quotas[0]
	}
	return last.reset, last
}

// family is one spelling of the headers limit, remaining and reset.
type family struct {
	limit, remaining string
	after            string // seconds from now; "" where there is none
	reset            string // any form that parseReset reads
}

// X-Rate-Limit alone is Zendesk's limit. GitLab sends epoch seconds under the
// names of the draft, where they are seconds from now: parseReset tells.
var families = [...]family{
	{"RateLimit-Limit", "RateLimit-Remaining", "", "RateLimit-Reset"},
	{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset-After", "X-RateLimit-Reset"},
	{"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset-After", "X-Rate-Limit-Reset"},
}

// read reads the family's headers; false when the answer has none of them that
// can be read.
func (f family) read(h http.Header, now time.Time) (quota, bool) {
	q := quota{limit: -1, remaining: -1, reset: throttle.Unknown}
	if n, window, ok := firstPolicy(value(h, f.limit)); ok {
		q.limit, q.window = n, window
	}
	if n, ok := parseAmount(value(h, f.remaining)); ok {
		q.remaining = n
	}
	if f.after != "" {
		if d, ok := parseDecimal(value(h, f.after), time.Second); ok {
			q.reset, q.source = d, f.after+": "+d.String()
		}
	}
	if q.reset == throttle.Unknown {
		if d, ok := parseReset(value(h, f.reset), now); ok {
			q.reset, q.source = d, f.reset+": in "+d.String()
		}
	}
	if q.window == 0 { // drafts -04 to -06
		if _, window, ok := firstPolicy(value(h, "RateLimit-Policy")); ok {
			q.window = window
		}
	}
	return q, q.limit >= 0 || q.remaining >= 0 || q.reset != throttle.Unknown
}

// firstPolicy reads "100", "100, 100;w=60" and "100;w=60, 5000;w=86400" as the
// first number, and the window of the first policy that has that number.
func firstPolicy(s string) (limit int64, window time.Duration, ok bool) {
	limit = -1
	members, _ := parseList(s)
	for _, m := range members {
		n, valid := parseAmount(m.value)
		if !valid || m.key != "" {
			continue
		}
		if limit < 0 {
			limit = n
		}
		if w, has := m.seconds("w"); has && n == limit && window == 0 {
			window = w
		}
	}
	return limit, window, limit >= 0
}

// rateLimit reads the RateLimit field of drafts -07 (one dictionary) and -08 on
// (a list of named policies), with what RateLimit-Policy adds. Members that
// break the draft's rules are ignored, as it demands.
func rateLimit(h http.Header) (out []quota) {
	policies := make(map[string]quota)
	for _, m := range list(h, "RateLimit-Policy") {
		q := quota{limit: -1, unit: m.param("qu")}
		if n, ok := parseCount(m.param("q")); ok {
			q.limit = n
		}
		q.window, _ = m.seconds("w")
		policies[m.name()] = q
	}
	single := quota{limit: -1, remaining: -1, reset: throttle.Unknown, source: "RateLimit"}
	for _, m := range list(h, "RateLimit") {
		switch m.key { // of the dictionary
		case "limit":
			single.limit, _ = countOr(m.value, -1)
		case "remaining":
			single.remaining, _ = countOr(m.value, -1)
		case "reset":
			if d, ok := parseDecimal(m.value, time.Second); ok {
				single.reset = d
			}
		}
		remaining, ok := parseCount(m.param("r"))
		if m.key != "" || !ok {
			continue
		}
		q := quota{name: m.name(), limit: -1, remaining: remaining, reset: throttle.Unknown, source: "RateLimit: " + line(m.name(), 64)}
		if p, known := policies[q.name]; known {
			q.limit, q.window, q.unit = p.limit, p.window, p.unit
		}
		if m.has("t") {
			if q.reset, ok = m.seconds("t"); !ok {
				continue
			}
		}
		out = append(out, q)
	}
	if single.remaining >= 0 || single.reset != throttle.Unknown {
		if _, w, ok := firstPolicy(value(h, "RateLimit-Policy")); ok {
			single.window = w
		}
		out = append(out, single)
	}
	return out
}

// countOr is parseCount with a default.
func countOr(s string, or int64) (int64, bool) {
	if n, ok := parseCount(s); ok && n < math.MaxInt64 {
		return n, true
	}
	return or, false
}
