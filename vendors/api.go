package vendors

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// api is the dialect of most HTTP APIs: what their headers have in common, as
// data, and functions for the rest.
type api struct {
	headers []family

	// read reads an answer with the quotas that its headers tell of; nil reads
	// what common does.
	read func(Response, []quota) []throttle.Signal

	// learn adds to those quotas what else an answer teaches; nil adds nothing.
	learn        func(Response, []quota) []quota
	learnsBodies bool // learn adds nothing without a body

	// place finds tenant and bucket in a URL; nil finds none.
	place func(*url.URL) (tenant, bucket string)

	// peek says whether a good answer in JSON may be a refusal or tell a cost, by what
	// it answers and by its header; nil: none is.
	peek func(*http.Response) bool
}

// Read implements Dialect.
func (a *api) Read(r Response) []throttle.Signal {
	if r.Status == 0 {
		return nil
	}
	quotas := readFamilies(a.headers, r.Header, r.At)
	if a.read == nil {
		return only(common(r, quotas))
	}
	return a.read(r, quotas)
}

// Learn implements Dialect.
func (a *api) Learn(r Response) []throttle.Quota {
	if r.Status == 0 {
		return nil
	}
	quotas := readFamilies(a.headers, r.Header, r.At)
	if a.learn != nil {
		quotas = a.learn(r, quotas)
	}
	return export(quotas, r.At)
}

// common reads what HTTP APIs have in common: 429 is limited, and so is a 5xx that
// says when it ends, which is overload; one that does not is an outage. The delay
// is stated by a header, or is until the last of the exhausted quotas is renewed.
// When ok is false, s still has the delay of the headers.
func common(r Response, quotas []quota) (s throttle.Signal, ok bool) {
	q, stated := exhaustedQuota(quotas), false
	if s.Delay, s.Source, stated = retryAfter(r.Header, r.At); !stated {
		s.Delay, s.Source = q.reset, q.told()
	}
	s.NoRetry = strings.EqualFold(value(r.Header, "X-Should-Retry"), "false")
	if r.Status >= 500 {
		s.Kind = throttle.KindOverload
		return s, stated
	}
	s.Kind, s.Scope = budgetKind(q.Window, s.Delay), q.Scope
	return s, r.Status == http.StatusTooManyRequests
}

// each is for APIs whose quotas are of several scopes: s, which common read of
// quotas, and a signal for every other scope that has an exhausted one. Its pause ends
// when that is renewed, or sooner where a header states that.
func each(r Response, quotas []quota, s throttle.Signal, ok bool) []throttle.Signal {
	if !ok || r.Status >= 500 {
		return only(s, ok)
	}
	_, _, stated := retryAfter(r.Header, r.At)
	all := signals{s}
	for _, q := range quotas {
		if q.Remaining != 0 || q.Scope == s.Scope {
			continue
		}
		other := s
		if !stated || q.reset != throttle.Unknown && q.reset < s.Delay {
			other.Delay, other.Source = q.reset, q.told()
		}
		other.Kind, other.Scope = budgetKind(q.Window, other.Delay), q.Scope
		all.add(other)
	}
	return all
}

// budgetKind tells a budget from a rate by its window, or by a delay as long as one.
func budgetKind(window, delay time.Duration) throttle.Kind {
	return windowKind(max(window, delay))
}

// only is the one signal, if there is one.
func only(s throttle.Signal, ok bool) []throttle.Signal {
	if !ok {
		return nil
	}
	return []throttle.Signal{s}
}

// scoped returns only s, for another scope unless it is overload, which is the host's.
func scoped(level throttle.Level, s throttle.Signal, ok bool) []throttle.Signal {
	if s.Kind != throttle.KindOverload {
		s.Scope.Level = level
	}
	return only(s, ok)
}
