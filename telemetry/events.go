package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/flyball-go/flyball/event"
)

// OnEvent counts an event of a policy that is used alone, by kind and by the
// policy's Name, and measures its Delay where that is how long something took. Make
// it the policy's OnEvent. Governors need it not: Watch measures them.
func (t *Telemetry) OnEvent(e event.Event) {
	attrs := metric.WithAttributeSet(t.with(keyName.String(e.Name), keyKind.String(e.Kind.String())))
	t.events.Add(context.Background(), 1, attrs)
	switch e.Kind {
	case event.BreakerSuccess, event.BreakerFailure, event.BulkheadFull, event.CacheMiss, event.Compensated:
		t.call.Record(context.Background(), e.Delay.Seconds(), attrs)
	}
}

// attempts returns what hears of w's attempts.
func (t *Telemetry) attempts(w *watch) func(event.Event) {
	ok := metric.WithAttributes(keyOutcome.String("succeeded"))
	failed := metric.WithAttributes(keyOutcome.String("failed"))
	return func(e event.Event) {
		switch {
		case e.Kind == event.Started:
			t.wait.Record(context.Background(), e.Delay.Seconds(), w.attrs)
		case e.Err == nil:
			t.ran.Record(context.Background(), e.Delay.Seconds(), w.attrs, ok)
		default:
			t.ran.Record(context.Background(), e.Delay.Seconds(), w.attrs, failed)
		}
	}
}
