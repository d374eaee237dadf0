package governor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/flyball-go/flyball/event"
)

// logged are the events that the Logger gets.
var logged = []event.Kind{event.Cooling, event.Extended, event.Cooled, event.Cleared, event.Clamped, event.PoolWait, event.PoolFailed, event.GaveUp, event.BadVendor, event.Stuck}

// logbook writes events to a Logger. It belongs to the one listener that has it.
type logbook struct {
	logger *slog.Logger
	name   string
	ends   map[string]time.Time // of scopes that cool, as written last
}

// mostEnds bounds ends, where a listener that was too slow has missed that some are over.
const mostEnds = 1000

// minor reports whether e is an extension that is not worth a line: each call that was
// on its way when a cooldown began brings another one of some milliseconds. What
// several add up to is.
func (l *logbook) minor(e event.Event) bool {
	switch e.Kind {
	case event.Cooled, event.Cleared:
		delete(l.ends, e.Scope)
		return false
	case event.Cooling, event.Extended:
	default:
		return false
	}
	if end, ok := l.ends[e.Scope]; e.Kind == event.Extended && ok && e.Until.Sub(end) < e.Delay/10 {
		return true
	}
	if l.ends == nil || len(l.ends) >= mostEnds {
		l.ends = make(map[string]time.Time)
	}
	l.ends[e.Scope] = e.Until
	return false
}

func (l *logbook) write(e event.Event) {
	if l.minor(e) {
		return
	}
	level := slog.LevelInfo
	switch e.Kind {
	case event.PoolFailed, event.GaveUp, event.BadVendor, event.Stuck, event.Clamped:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("governor", l.name)}
	if e.Scope != "" {
		attrs = append(attrs, slog.String("scope", e.Scope))
	}
	if e.Delay != 0 {
		attrs = append(attrs, slog.Duration("delay", e.Delay))
	}
	if !e.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", e.Until))
	}
	if e.Request != 0 {
		attrs = append(attrs, slog.Uint64("request", e.Request))
	}
	if e.Source != "" {
		attrs = append(attrs, slog.String("source", e.Source))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("err", fmt.Sprint(e.Err)))
	}
	l.logger.LogAttrs(context.Background(), level, e.Kind.String(), attrs...)
}
