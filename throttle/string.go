package throttle

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// String returns the signal as a line for people:
//
//	burst host delay=30s source="Retry-After: 30"
//
// A Delay that is Unknown is "unknown"; with an Until that is said in its place.
func (s Signal) String() string {
	words := []string{s.Kind.String(), s.Scope.String()}
	if s.Until.IsZero() {
		words = append(words, "delay="+s.delay())
	} else {
		words = append(words, "until="+stamp(s.Until))
	}
	if s.NoRetry {
		words = append(words, "no_retry")
	}
	if s.Source != "" {
		words = append(words, "source="+strconv.Quote(s.Source))
	}
	return strings.Join(words, " ")
}

func (s Signal) delay() string {
	if s.Delay == Unknown {
		return "unknown"
	}
	return s.Delay.String()
}

// LogValue makes a signal a group of what it says.
func (s Signal) LogValue() slog.Value {
	all := []slog.Attr{slog.String("kind", s.Kind.String()), slog.String("scope", s.Scope.String())}
	switch {
	case !s.Until.IsZero():
		all = append(all, slog.Time("until", s.Until))
	case s.Delay == Unknown:
		all = append(all, slog.String("delay", s.delay()))
	default:
		all = append(all, slog.Duration("delay", s.Delay))
	}
	if s.NoRetry {
		all = append(all, slog.Bool("no_retry", true))
	}
	if s.Source != "" {
		all = append(all, slog.String("source", s.Source))
	}
	return slog.GroupValue(all...)
}

// String returns what is known of the quota, as a line for people:
//
//	tokens of bucket:small 400 of 30000 left per=1m0s until=2026-05-04T10:00:30.000Z
func (q Quota) String() string {
	unit := q.Unit
	if unit == "" {
		unit = "calls"
	}
	words := []string{unit, "of", q.Scope.String()}
	if q.Name != "" {
		words = append(words, strconv.Quote(q.Name))
	}
	switch {
	case q.Remaining >= 0 && q.Limit >= 0:
		words = append(words, strconv.FormatInt(q.Remaining, 10), "of", strconv.FormatInt(q.Limit, 10), "left")
	case q.Remaining >= 0:
		words = append(words, strconv.FormatInt(q.Remaining, 10), "left")
	case q.Limit >= 0:
		words = append(words, "limit="+strconv.FormatInt(q.Limit, 10))
	}
	if q.Window > 0 {
		words = append(words, "per="+q.Window.String())
	}
	if !q.Reset.IsZero() {
		words = append(words, "until="+stamp(q.Reset))
	}
	if q.Cost >= 0 {
		words = append(words, "cost="+strconv.FormatInt(q.Cost, 10))
	}
	return strings.Join(words, " ")
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }
