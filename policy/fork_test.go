package policy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/flyball-go/flyball/event"
)

// A panic that passes several goroutines has one PanicError, of the goroutine where
// it came from; Goexit one ErrGoexit.
func TestPanicThroughSeveralForks(t *testing.T) {
	p := Chain(
		must(NewTimeout(TimeoutConfig{Abandon: true})), must(NewHedge(HedgeConfig{Parallel: true})), must(NewTimeout(TimeoutConfig{Abandon: true})),
	)
	h := see(func() error { _, err := Do(t.Context(), p, panics); return err })
	e, ok := h.panics.(*PanicError)
	if !ok || e.Value != errBoom || !strings.Contains(string(e.Stack), "policy.panics(") {
		t.Fatalf("%+v", h)
	}
	if s := e.Error(); strings.Count(s, "function panicked") != 1 || !strings.Contains(s, "policy.panics(") || !strings.HasPrefix(s, "policy: function panicked: boom\n\n") {
		t.Error(s)
	}
	h = see(func() error { _, err := Do(t.Context(), p, goexit); return err })
	want(t, "goexit", h, how{err: ErrGoexit})
}

func TestPanicError(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		text  string
		match error
	}{
		"error":  {errBoom, "policy: function panicked: boom", errBoom},
		"string": {"x", "policy: function panicked: x", nil},
		"own":    {&PanicError{Value: errBoom}, "policy: function panicked: policy: function panicked: boom", errBoom},
	} {
		e := caught(c.value)
		want(t, name, e.Error(), c.text) // as an error it is without its stack
		want(t, name, errors.Is(e, errBoom), c.match != nil)
		want(t, name, e.Refused(), false)
		want(t, name, len(e.Stack) > 0, true)
	}
	// A panic with a refusal was no refusal.
	want(t, "refused", refused(caught(&fake{true})), false)
}

func TestEndOfAContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	for _, ran := range []bool{true, false} {
		err := endOf(ctx, "x", ran)
		wantErr(t, "matches", err, context.Canceled, errBoom)
		want(t, "text", err.Error(), "policy: x: boom")
		want(t, "refused", refused(err), !ran)
	}
	want(t, "of no error", refused(nil), false)
	want(t, "of another", refused(errBoom), false)
}

func TestEventsHaveNames(t *testing.T) {
	for kind, name := range map[event.Kind]string{
		event.TimedOut: "timed out", event.BulkheadFull: "bulkhead full", event.FellBack: "fell back", event.FallbackFailed: "fallback failed", event.Hedged: "hedged",
		event.BudgetSpent: "budget spent", event.CacheHit: "cache hit", event.CacheMiss: "cache miss", event.CacheStale: "cache stale",
		event.Collapsed: "collapsed", event.Compensated: "compensated",
	} {
		want(t, name, kind.String(), name)
	}
}

func TestReportWithoutAListener(t *testing.T) {
	report(nil, event.Event{Kind: event.Retry})
	allocs(t, "report", 0, func() { report(nil, event.Event{Kind: event.Retry}) })
}
