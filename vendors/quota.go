package vendors

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// quota is one limit as an answer describes it.
type quota struct {
	throttle.Quota // without Reset; Limit, Remaining and Cost are -1 when not said

	reset  time.Duration // from the moment of the answer; throttle.Unknown: not said
	source string        // the header
}

// said returns a quota of which nothing is said.
func said(source string) quota {
	return quota{Quota: throttle.Quota{Limit: -1, Remaining: -1, Cost: -1}, reset: throttle.Unknown, source: source}
}

// empty reports whether nothing is said of q.
func (q *quota) empty() bool {
	return q.Limit < 0 && q.Remaining < 0 && q.Cost < 0 && q.reset == throttle.Unknown
}

// told is the source of a signal for which q is the reason.
func (q *quota) told() string {
	if q.reset == throttle.Unknown {
		return q.source
	}
	return q.source + ": in " + q.reset.String()
}

// export makes what adapters return of quotas.
func export(quotas []quota, at time.Time) []throttle.Quota {
	if len(quotas) == 0 {
		return nil
	}
	out := make([]throttle.Quota, 0, len(quotas))
	for _, q := range quotas {
		if q.reset != throttle.Unknown {
			q.Reset = at.Add(q.reset)
		}
		out = append(out, q.Quota)
	}
	return out
}

// readQuotas reads RateLimit, or else the first family of rate limit headers that an
// answer has and that says when it ends, or else the first at all: the newest form says
// the most. Where RateLimit leaves out when an exhausted quota is renewed, that is when
// the first of the families ends of which no calls remain.
func readQuotas(h http.Header, at time.Time) []quota {
	if !tellsLimits(h) {
		return nil
	}
	all := rateLimit(h)
	if len(all) > 0 && !slices.ContainsFunc(all, quota.endless) {
		return all
	}
	now := serverTime(h, at)
	var first []quota
	for i := range families {
		q, ok := families[i].read(h, now)
		switch {
		case !ok, len(all) > 0 && q.Remaining > 0:
		case q.reset == throttle.Unknown:
			if first == nil {
				first = []quota{q}
			}
		case len(all) == 0:
			return []quota{q}
		default:
			for i := range all {
				if all[i].endless() {
					all[i].reset, all[i].source = q.reset, q.source
				}
			}
			return all
		}
	}
	if len(all) > 0 {
		return all
	}
	return first
}

// endless reports whether q is exhausted until nobody says when.
func (q quota) endless() bool { return q.Remaining == 0 && q.reset == throttle.Unknown }

// exhaustedQuota returns the exhausted quota that is renewed last. When no quota
// says how much remains, a single one that says when it ends is taken for the one
// that refused; its Remaining stays -1.
func exhaustedQuota(quotas []quota) quota {
	last := said("")
	for _, q := range quotas {
		if q.Remaining == 0 && (last.Remaining != 0 || q.reset > last.reset) {
			last = q
		}
	}
	if last.Remaining != 0 && len(quotas) == 1 && quotas[0].Remaining < 0 {
		last = quotas[0]
	}
	return last
}

// family is one spelling of the headers limit, remaining and reset, and what a
// vendor documents about the quota that they tell of. Names of headers are
// canonical; those that a vendor does not have are "".
type family struct {
	limit, remaining string
	after            string // seconds from now
	reset            string // as form reads it
	policy           string // windows, in the drafts -04 to -06
	form             resetForm

	name, unit string // as a throttle.Quota has them
	level      throttle.Level
	window     time.Duration
}

// X-Rate-Limit alone is Zendesk's limit. GitLab sends epoch seconds under the
// names of the draft, where they are seconds from now: parseReset tells.
var families = [...]family{
	{limit: "Ratelimit-Limit", remaining: "Ratelimit-Remaining", reset: "Ratelimit-Reset", policy: "Ratelimit-Policy"},
	{limit: "X-Ratelimit-Limit", remaining: "X-Ratelimit-Remaining", after: "X-Ratelimit-Reset-After", reset: "X-Ratelimit-Reset", policy: "Ratelimit-Policy"},
	{limit: "X-Rate-Limit-Limit", remaining: "X-Rate-Limit-Remaining", after: "X-Rate-Limit-Reset-After", reset: "X-Rate-Limit-Reset", policy: "Ratelimit-Policy"},
}

// readFamilies reads the families of a vendor that an answer has.
func readFamilies(all []family, h http.Header, at time.Time) (out []quota) {
	if len(all) == 0 || len(h) == 0 {
		return nil
	}
	now := serverTime(h, at)
	for i := range all {
		if q, ok := all[i].read(h, now); ok {
			if out == nil {
				out = make([]quota, 0, len(all))
			}
			out = append(out, q)
		}
	}
	return out
}

// read reads the family's headers; false when the answer has none of them that
// can be read.
func (f *family) read(h http.Header, now time.Time) (quota, bool) {
	if !f.in(h) {
		return quota{}, false
	}
	q := said("")
	q.Name, q.Unit, q.Scope.Level, q.Window = f.name, f.unit, f.level, f.window
	if n, ok := parseAmount(value(h, f.limit)); ok {
		q.Limit = n
	} else if n, window, ok := firstPolicy(value(h, f.limit)); ok {
		q.Limit = n
		if window > 0 {
			q.Window = window
		}
	}
	if n, ok := parseAmount(value(h, f.remaining)); ok {
		q.Remaining = n
	}
	if d, ok := parseDecimal(value(h, f.after), time.Second); ok {
		q.reset, q.source = d, f.after
	}
	if q.reset == throttle.Unknown {
		if d, ok := f.form.parse(value(h, f.reset), now); ok {
			q.reset, q.source = d, f.reset
		}
	}
	if q.Window == 0 {
		q.Window = policyWindow(value(h, f.policy), q.Limit)
	}
	return q, !q.empty()
}

// tellsLimits reports whether h may have one of families, or RateLimit.
func tellsLimits(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Ratelimit") || strings.HasPrefix(name, "X-Rate") {
			return true
		}
	}
	return false
}

// silent reports whether nothing can be learned of an answer: of most answers of most
// APIs.
func (httpDialect) silent(h http.Header, _ []byte) bool { return !tellsLimits(h) }

func (a *api) silent(h http.Header, body []byte) bool {
	if a.learn != nil && (!a.learnsBodies || len(body) > 0) {
		return false
	}
	for i := range a.headers {
		if a.headers[i].in(h) {
			return false
		}
	}
	return true
}

// in reports whether h has one of the family's headers that say something by
// themselves.
func (f *family) in(h http.Header) bool {
	for _, name := range [...]string{f.limit, f.remaining, f.after, f.reset} {
		if name != "" && len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// firstPolicy reads "100", "100, 100;w=60" and "100;w=60, 5000;w=86400" as the
// first number, and the window of the first policy that has that number.
func firstPolicy(s string) (limit int64, window time.Duration, ok bool) {
	members, _ := parseList(s)
	limit = -1
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

// policyWindow is the window of the policy of a limit, or else of the first.
func policyWindow(policies string, limit int64) time.Duration {
	members, _ := parseList(policies)
	for _, m := range members {
		if n, ok := parseAmount(m.value); ok && n == limit {
			if w, has := m.seconds("w"); has {
				return w
			}
		}
	}
	_, window, _ := firstPolicy(policies)
	return window
}

// rateLimit reads the RateLimit field of drafts -07 (one dictionary) and -08 on
// (a list of named policies), with what RateLimit-Policy adds. Members that
// break the draft's rules are ignored, as it demands.
func rateLimit(h http.Header) (out []quota) {
	policies := make(map[string]quota)
	unit, units := "", 0 // of all policies, while units is at most 1
	for _, m := range list(h, "Ratelimit-Policy") {
		q := said("")
		if u := m.param("qu"); u != "requests" {
			q.Unit = line(u, 64)
		}
		if q.Unit != unit || units == 0 {
			unit, units = q.Unit, units+1
		}
		if n, ok := parseCount(m.param("q")); ok {
			q.Limit = n
		}
		q.Window, _ = m.seconds("w")
		policies[m.name()] = q
	}
	single := said("RateLimit")
	for _, m := range list(h, "Ratelimit") {
		switch m.key { // of the dictionary
		case "limit":
			single.Limit, _ = countOr(m.value, -1)
		case "remaining":
			single.Remaining, _ = countOr(m.value, -1)
		case "reset":
			if d, ok := parseDecimal(m.value, time.Second); ok {
				single.reset = d
			}
		}
		remaining, ok := m.integer("r")
		if m.key != "" || !ok {
			continue
		}
		q := said("RateLimit " + line(m.name(), 64))
		q.Name, q.Remaining = line(m.name(), 64), remaining
		if p, known := policies[m.name()]; known {
			q.Limit, q.Window, q.Unit = p.Limit, p.Window, p.Unit
		} else if units == 1 {
			q.Unit = unit // bytes are no calls, whatever their policy is called
		}
		if m.has("t") {
			if _, ok := m.integer("t"); !ok {
				continue
			}
			q.reset, _ = m.seconds("t")
		}
		out = append(out, q)
	}
	if single.Remaining >= 0 || single.reset != throttle.Unknown {
		single.Window = policyWindow(value(h, "Ratelimit-Policy"), single.Limit)
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
