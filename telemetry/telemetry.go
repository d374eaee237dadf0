package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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

	mu       sync.Mutex // guards what follows; nothing is called under it
	handles  map[*watch]struct{}
	watches  int // that there ever were
	isClosed bool
}

// watch is a governor that is watched.
type watch struct {
	handle governor.Handle
	attrs  metric.MeasurementOption
	number int
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
		handles: make(map[*watch]struct{}),
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
		if i.kind == counter {
			o, err = m.Float64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		} else {
			o, err = m.Float64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		}
		if err != nil {
			return err
		}
		t.made, all = append(t.made, made{i, o}), append(all, o)
	}
	var errs [5]error
	t.events, errs[0] = m.Int64Counter("flyball.events", metric.WithUnit("{event}"),
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
func (t *Telemetry) Watch(h governor.Handle) (stop func(), err error) {
	if h == nil {
		return nil, errors.New("telemetry: Watch: the governor is nil")
	}
	w := &watch{handle: h, attrs: metric.WithAttributeSet(t.with(keyGovernor.String(h.Name())))}
	if err := t.add(w); err != nil {
		return nil, err
	}
	unheard := func() {}
	if t.cfg.Histograms {
		unheard = h.Listen(t.attempts(w), event.Started, event.AttemptEnded)
	}
	return func() {
		t.mu.Lock()
		delete(t.handles, w)
		t.mu.Unlock()
		unheard()
	}, nil
}

func (t *Telemetry) add(w *watch) error {
	name := w.handle.Name()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		return errors.New("telemetry: Watch: closed")
	}
	for other := range t.handles {
		if other.handle.Name() == name {
			return fmt.Errorf("telemetry: Watch: a governor %q is watched already", name)
		}
	}
	w.number = t.watches
	t.watches++
	t.handles[w] = struct{}{}
	return nil
}

// watched returns the governors: Stats waits for an actor, which is no time to hold
// a lock.
func (t *Telemetry) watched() []*watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Keys(t.handles), byName)
}

// with returns the constant attributes and others.
func (t *Telemetry) with(more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(t.attrs.ToSlice(), more...)...)
}

// Close ends what New began: nothing is measured any more. It does not close the
// providers. It may be called again.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	was := t.isClosed
	t.isClosed = true
	clear(t.handles)
	t.mu.Unlock()
	if was {
		return nil
	}
	return t.reg.Unregister()
}
