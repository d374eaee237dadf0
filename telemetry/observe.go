package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flyball-go/flyball/governor"
)

// made is an instrument of a Telemetry.
type made struct {
	instrument
	metric.Float64Observable
}

// watch is a governor that is watched.
type watch struct {
	handle  governor.Handle
	name    string                             // as it is measured
	attrs   attribute.Set                      // it, and the constant ones
	options [ownLabel]metric.MeasurementOption // that, and each label
	stop    func()                             // of what hears of attempts; guarded by Telemetry.mu
}

func (t *Telemetry) newWatch(h governor.Handle) *watch {
	w := &watch{handle: h, name: text(h.Name(), maxName), stop: func() {}}
	w.attrs = t.with(keyGovernor.String(w.name))
	w.options[noLabel] = metric.WithAttributeSet(w.attrs)
	for l := noLabel + 1; l < ownLabel; l++ {
		w.options[l] = w.with(labels[l])
	}
	return w
}

func (w *watch) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(w.attrs.ToSlice(), more...)...))
}

// observe tells all that Stats say of the watched governors.
func (t *Telemetry) observe(ctx context.Context, o metric.Observer) error {
	var errs []error
	for _, l := range t.listed() {
		if err := l.update(); err != nil {
			errs = append(errs, err)
		}
	}
	for _, w := range t.watched() {
		if ctx.Err() != nil { // nobody waits for it any more
			return errors.Join(append(errs, ctx.Err())...)
		}
		if err := t.observeOne(o, w); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// observeOne tells of one governor. Stats may run code of users, of a limiter or a
// breaker; its panic must not end the goroutine that collects, and thus the program.
func (t *Telemetry) observeOne(o metric.Observer, w *watch) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: reading governor %q panicked: %v", w.name, p)
		}
	}()
	s := w.handle.Stats()
	for _, m := range t.made {
		m.read(&s, func(v float64, l label, own ...attribute.KeyValue) {
			option := w.options[l%ownLabel]
			if l == ownLabel {
				option = w.with(own...)
			}
			o.ObserveFloat64(m.Float64Observable, v, option)
		})
	}
	return nil
}

// watched returns the governors, by name: Stats waits for an actor, which is no time
// to hold a lock.
func (t *Telemetry) watched() []*watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.watches), func(a, b *watch) int { return cmp.Compare(a.name, b.name) })
}
