package telemetry

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/flyball-go/flyball/telemetry"

// Telemetry makes metrics and spans. Make one per program.
type Telemetry struct {
	cfg    Config
	attrs  attribute.Set // Config.Attributes
	made   []made
	tracer trace.Tracer
	events metric.Int64Counter
	call   metric.Float64Histogram
	wait   metric.Float64Histogram
	ran    metric.Float64Histogram
	reg    metric.Registration

	sources sync.Map     // of metric.MeasurementOption by source, see ofEvent
	sourced atomic.Int64 // how many

	mu       sync.Mutex        // guards what follows; nothing is called under it
	watches  map[string]*watch // by the name that is measured
	lists    map[*list]struct{}
	isClosed atomic.Bool // written under mu
}

// New makes the instruments. The error names the field that is out of range, or is
// the provider's.
func New(cfg Config) (*Telemetry, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Meters == nil {
		cfg.Meters = otel.GetMeterProvider()
	}
	if cfg.Tracers == nil {
		cfg.Tracers = otel.GetTracerProvider()
	}
	t := &Telemetry{
		cfg:     cfg,
		attrs:   attribute.NewSet(cfg.Attributes...),
		tracer:  cfg.Tracers.Tracer(Scope),
		watches: make(map[string]*watch),
		lists:   make(map[*list]struct{}),
	}
	if err := t.make(cfg.Meters.Meter(Scope)); err != nil {
		return nil, fmt.Errorf("telemetry: Config.Meters: %w", err)
	}
	return t, nil
}

func (t *Telemetry) make(m metric.Meter) error {
	var all []metric.Observable
	for _, i := range instruments(t.cfg.Scopes) {
		var o metric.Float64Observable
		var err error
		switch i.kind {
		case counter:
			o, err = m.Float64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		case updown:
			o, err = m.Float64ObservableUpDownCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		case gauge:
			o, err = m.Float64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		}
		if err != nil {
			return err
		}
		t.made, all = append(t.made, made{i, o}), append(all, o)
	}
	var errs [5]error
	t.events, errs[0] = m.Int64Counter("flyball.policy.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events of policies used alone."))
	t.call, errs[1] = m.Float64Histogram("flyball.policy.duration", metric.WithUnit("s"),
		metric.WithDescription("What events of policies used alone say how long it was: calls through a breaker, waits for a bulkhead, undone steps."), seconds)
	t.wait, errs[2] = m.Float64Histogram("flyball.attempt.wait", metric.WithUnit("s"),
		metric.WithDescription("How long attempts waited in the queue."), seconds)
	t.ran, errs[3] = m.Float64Histogram("flyball.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("How long attempts ran."), seconds)
	t.reg, errs[4] = m.RegisterCallback(t.observe, all...)
	return errors.Join(errs[:]...)
}

// seconds are the bounds that OpenTelemetry's conventions give for durations.
var seconds = metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)

// Watch measures h, under the name that it has, until stop is called: call it when h
// is closed. Of two governors of one name only one is seen, so a name that is
// watched already is an error. stop may be called again.
//
// A collection asks each governor for its Stats, one after the other; it takes some
// 60 us for each. The SDK of OpenTelemetry keeps 2000 values of a metric and throws
// the others together, and flyball.requests.ended has four for each governor,
// flyball.cooldown.remaining as many as Config.Scopes: a program with hundreds of
// governors makes its provider with a higher WithCardinalityLimit.
func (t *Telemetry) Watch(h governor.Handle) (stop func(), err error) {
	if h == nil {
		return nil, errors.New("telemetry: Watch: the governor is nil")
	}
	w, err := t.begun(h)
	if err != nil {
		return nil, err
	}
	return func() { t.remove(w)() }, nil
}

// begun begins to watch h.
func (t *Telemetry) begun(h governor.Handle) (*watch, error) {
	w := t.newWatch(h)
	if err := t.add(w); err != nil {
		return nil, err
	}
	if t.cfg.Histograms {
		unheard := h.Listen(t.attempts(w), event.Started, event.AttemptEnded)
		t.mu.Lock()
		if w.stop = unheard; t.isClosed.Load() { // Close did not see it
			defer unheard()
		}
		t.mu.Unlock()
	}
	return w, nil
}

func (t *Telemetry) add(w *watch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed.Load() {
		return errors.New("telemetry: Watch: closed")
	}
	if t.watches[w.name] != nil {
		return fmt.Errorf("telemetry: Watch: a governor %q is watched already", w.name)
	}
	t.watches[w.name] = w
	return nil
}

// remove forgets w, if another has not its name by now, and returns what ends its
// listener.
func (t *Telemetry) remove(w *watch) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches[w.name] == w {
		delete(t.watches, w.name)
	}
	return w.stop
}

// with returns the constant attributes and others.
func (t *Telemetry) with(more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(t.attrs.ToSlice(), more...)...)
}

// Close ends what New began: nothing is measured any more. It does not close the
// providers. It may be called again.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	was := t.isClosed.Swap(true)
	var stops []func()
	for _, w := range t.watches {
		stops = append(stops, w.stop)
	}
	clear(t.watches)
	clear(t.lists)
	t.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	if was {
		return nil
	}
	return t.reg.Unregister()
}
