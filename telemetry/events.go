package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/flyball-go/flyball/event"
)

// OnEvent counts an event of a policy that is used alone, by kind and by the
// policy's Name, and measures its Delay where that is how long something took. Make
// it the policy's OnEvent. Governors need it not: Watch measures them. After Close it
// does nothing.
func (t *Telemetry) OnEvent(e event.Event) {
	if t.isClosed.Load() {
		return
	}
	attrs := t.ofEvent(e)
	t.events.Add(context.Background(), 1, attrs)
	switch e.Kind {
	case event.BreakerSuccess, event.BreakerFailure, event.BulkheadFull, event.CacheMiss, event.Compensated:
		t.call.Record(context.Background(), e.Delay.Seconds(), attrs)
	}
}

// source is what events are counted by.
type source struct {
	name string
	kind event.Kind
}

// maxSources bounds Telemetry.sources: a program that makes up names without end
// pays for each event, and not with memory of ours.
const maxSources = 4096

// ofEvent returns the attributes of an event. They are made once for each name and
// kind, since a breaker has an event for each call.
func (t *Telemetry) ofEvent(e event.Event) metric.MeasurementOption {
	key := source{e.Name, e.Kind}
	if o, ok := t.sources.Load(key); ok {
		return o.(metric.MeasurementOption)
	}
	o := metric.WithAttributeSet(t.with(keyName.String(text(e.Name, maxName)), keyKind.String(e.Kind.String())))
	if t.sourced.Load() < maxSources { // several may pass this at once; it need not be exact
		t.sourced.Add(1)
		t.sources.Store(key, o)
	}
	return o
}

// attempts returns what hears of w's attempts.
func (t *Telemetry) attempts(w *watch) func(event.Event) {
	return func(e event.Event) {
		l := succeeded
		switch {
		case e.Kind == event.Started:
			t.wait.Record(context.Background(), e.Delay.Seconds(), w.options[noLabel])
			return
		case e.Err != nil:
			l = failed
		}
		t.ran.Record(context.Background(), e.Delay.Seconds(), w.options[l])
	}
}
