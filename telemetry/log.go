package telemetry

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/flyball-go/flyball/event"
)

// NewLogHandler returns a handler that adds trace_id and span_id to each record
// whose context is within a span, and hands it to next.
func NewLogHandler(next slog.Handler) slog.Handler { return &logHandler{next} }

type logHandler struct{ slog.Handler }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name)}
}

// Log returns a function that writes events to l, for Listen and for OnEvent: the
// kind is the message, what the event says are attributes. What fails, or makes
// calls wait, is a warning; the rest is for debugging, with it the extensions of a
// cooldown, of which each call brings one that was on its way when it began.
func Log(l *slog.Logger) func(event.Event) {
	return func(e event.Event) {
		level := slog.LevelDebug
		if warns[e.Kind] {
			level = slog.LevelWarn
		}
		if !l.Enabled(context.Background(), level) {
			return
		}
		l.LogAttrs(context.Background(), level, e.Kind.String(), attrs(e)...)
	}
}

var warns = map[event.Kind]bool{
	event.Overflow: true, event.Refused: true, event.GaveUp: true, event.Cooling: true, event.Clamped: true,
	event.BadVendor: true, event.BreakerState: true, event.BreakerRate: true, event.TimedOut: true,
	event.FallbackFailed: true, event.BudgetSpent: true, event.PoolFailed: true, event.Stuck: true,
	event.Abandoned: true, event.StoreLost: true, event.Unguarded: true,
}

// attrs are the fields that are set.
func attrs(e event.Event) (all []slog.Attr) {
	add := func(set bool, a slog.Attr) {
		if set {
			all = append(all, a)
		}
	}
	add(e.Name != "", slog.String("name", e.Name))
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
