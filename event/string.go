package event

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// String returns the event as a line for people: when, of what, what, and the fields
// that are set.
//
//	2026-05-04T10:00:00.000Z acme cooling scope=host delay=30s until=2026-05-04T10:00:30.000Z source="Retry-After: 30"
func (e Event) String() string {
	words := make([]string, 0, 10)
	if !e.Time.IsZero() {
		words = append(words, stamp(e.Time))
	}
	if e.Name != "" {
		words = append(words, word(e.Name))
	}
	words = append(words, e.Kind.String())
	for _, a := range e.fields() {
		text := a.Value.String()
		if a.Value.Kind() == slog.KindTime {
			text = stamp(a.Value.Time())
		}
		words = append(words, a.Key+"="+word(text))
	}
	return strings.Join(words, " ")
}

// LogValue makes an event a group of the fields that are set.
func (e Event) LogValue() slog.Value {
	all := make([]slog.Attr, 0, 10)
	if !e.Time.IsZero() {
		all = append(all, slog.Time("time", e.Time))
	}
	all = append(all, slog.String("kind", e.Kind.String()))
	if e.Name != "" {
		all = append(all, slog.String("name", e.Name))
	}
	return slog.GroupValue(append(all, e.fields()...)...)
}

// fields are those that are set, but for Time, Kind and Name.
func (e *Event) fields() (all []slog.Attr) {
	add := func(set bool, a slog.Attr) {
		if set {
			all = append(all, a)
		}
	}
	add(e.Request != 0, slog.Uint64("request", e.Request))
	add(e.Attempt != 0, slog.Int("attempt", e.Attempt))
	add(e.Scope != "", slog.String("scope", e.Scope))
	add(e.Delay != 0, slog.Duration("delay", e.Delay))
	add(!e.Until.IsZero(), slog.Time("until", e.Until))
	add(e.Source != "", slog.String("source", e.Source))
	if e.Err != nil {
		all = append(all, slog.String("err", fmt.Sprint(e.Err)))
	}
	return all
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }

// word is s, in quotes where it could be taken for several.
func word(s string) string {
	odd := func(r rune) bool { return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}
