package vendors

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// LinkedIn returns the adapter for LinkedIn's APIs.
//
// Limited is 429, also where a decorated field ("author!") of a good answer has
// one: that call was executed, and is repeated only where that does no harm
// (ResponseError.Once). There are no headers. A text with "DAY limit" names a daily limit, which is
// renewed at midnight UTC: that is the delay. Of an APPLICATION it is the app's for
// the endpoint, so use the endpoint as bucket; of a MEMBER it is the tenant's. A
// text that names no window may also be the protection of LinkedIn's servers; its
// delay is unknown, and it pauses the bucket. Numbers are in the developer portal
// only. Use one governor for each app.
//
// Evidence, read 2026-11-21: learn.microsoft.com/linkedin/shared/api-guide/concepts/rate-limits.
func LinkedIn() Adapter { return Adapter{linkedIn} }

var linkedIn = &api{read: readLinkedIn, peek: always}

// linkedInError is the body of a failure, or a field that failed.
type linkedInError struct {
	Message text `json:"message"`
	Status  text `json:"status"`
}

func readLinkedIn(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	if r.Status >= 400 {
		if !ok || r.Status >= 500 {
			return only(s, ok)
		}
		var e linkedInError
		decode(r.Body, &e)
		return only(e.signal(r, s), true)
	}
	var all signals
	for _, e := range linkedInFields(r.Body) {
		if e.Status == "429" {
			all.add(e.signal(r, throttle.Signal{Delay: throttle.Unknown}))
		}
	}
	if r.once {
		all.once()
	}
	return all
}

func (e linkedInError) signal(r Response, s throttle.Signal) throttle.Signal {
	message := strings.ToUpper(string(e.Message[:min(len(e.Message), maxValue)]))
	s.Kind, s.Scope.Level = throttle.KindBurst, throttle.Bucket
	if strings.Contains(message, "MEMBER") {
		s.Scope.Level = throttle.Tenant
	}
	if strings.Contains(message, "DAY LIMIT") {
		s.Kind = throttle.KindQuota
		if s.Delay == throttle.Unknown {
			now := serverTime(r.Header, r.At)
			s.Delay = until(now.UTC().Truncate(24*time.Hour).Add(24*time.Hour), now)
			s.Source = "day limit, until 00:00 UTC"
		}
	}
	return s
}

// linkedInFields returns the errors of the first decorated fields that failed, as
// far as each is in 4 KiB.
func linkedInFields(body []byte) (all []linkedInError) {
	if len(body) > maxBody {
		return nil
	}
	for tried := 0; tried < maxItems; {
		_, rest, ok := bytes.Cut(body, []byte(`!"`))
		if !ok {
			break
		}
		body = rest
		in, isField := bytes.CutPrefix(bytes.TrimLeft(rest[:min(len(rest), 4<<10)], " \t\r\n"), []byte(":"))
		if in = bytes.TrimLeft(in, " \t\r\n"); !isField || len(in) == 0 || in[0] != '{' {
			continue
		}
		var e linkedInError
		if tried++; json.NewDecoder(bytes.NewReader(in)).Decode(&e) == nil {
			all = append(all, e)
		}
	}
	return all
}
