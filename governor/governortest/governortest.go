// Package governortest helps to test code that uses a governor: a vendor whose
// errors a test makes up, closures that follow a script, and a recorder of
// events.
//
//	synctest.Test(t, func(t *testing.T) {
//		g, _ := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
//		defer g.Close()
//		s := governortest.NewScript(governortest.Limited(15*time.Second), nil)
//		_, err := governor.Do(t.Context(), g, "", s.Call) // waits 15 s, in no time
//		...
//	})
//
// Everything may be used by many goroutines at once. Nothing here keeps time:
// in a testing/synctest bubble a test sees exact durations.
//
// It is no model of a vendor's quota; for that see package vendortest.
package governortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// Refusal is an error by which a made-up vendor asks to be called less.
type Refusal struct{ Signals []throttle.Signal }

// Error lists the signals.
func (e *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("governortest: refused")
	for _, s := range e.Signals {
		if s.Delay == throttle.Unknown {
			fmt.Fprintf(&b, ", %s for an unknown time", s.Scope)
		} else {
			fmt.Fprintf(&b, ", %s for %v", s.Scope, s.Delay)
		}
	}
	return b.String()
}

// Limited returns an error that pauses the scope, the host when there is none,
// for delay.
func Limited(delay time.Duration, scope ...throttle.Scope) error {
	if len(scope) == 0 {
		scope = []throttle.Scope{{}}
	}
	e := &Refusal{}
	for _, sc := range scope {
		e.Signals = append(e.Signals, throttle.Signal{Kind: throttle.KindBurst, Scope: sc, Delay: delay, Source: "governortest"})
	}
	return e
}

// Vendor is an adapter that reads Refusals, anywhere in an error's tree. The
// zero Vendor is ready.
type Vendor struct{}

var _ governor.Signaler = Vendor{}

// DelayError returns the delay of the first signal of a Refusal.
func (Vendor) DelayError(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*Refusal](err); ok && len(e.Signals) > 0 {
		return e.Signals[0].Delay, true
	}
	return 0, false
}

// Signals returns the signals of a Refusal.
func (Vendor) Signals(err error, _ time.Time) []throttle.Signal {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e.Signals
	}
	return nil
}

// Script is a closure's outcomes, one per attempt, in order: an error, or nil
// for success. After the last step every attempt succeeds.
type Script struct {
	// Latency is how long each attempt takes; 0 means no time. Set it before
	// use. An attempt whose context ends earlier returns its cause.
	Latency time.Duration

	mu     sync.Mutex
	steps  []error
	starts []time.Time
}

// NewScript returns a Script with the given steps.
func NewScript(steps ...error) *Script { return &Script{steps: steps} }

// Call is one attempt: the closure for a governor.Plain. It returns the number
// of the attempt, from 1.
func (s *Script) Call(ctx context.Context, _ struct{}) (int, error) {
	s.mu.Lock()
	s.starts = append(s.starts, time.Now())
	n := len(s.starts)
	var err error
	if n <= len(s.steps) {
		err = s.steps[n-1]
	}
	s.mu.Unlock()
	if s.Latency > 0 {
		t := time.NewTimer(s.Latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return n, context.Cause(ctx)
		}
	}
	return n, err
}

// Starts returns when attempts began.
func (s *Script) Starts() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.starts...)
}

// Recorder collects the events of a governor.
type Recorder struct {
	stop func()

	mu     sync.Mutex
	events []event.Event
}

// Record begins to collect the events of h, of the given kinds or of all.
// Events arrive asynchronously: call synctest.Wait before looking.
func Record(h governor.Handle, kinds ...event.Kind) *Recorder {
	r := &Recorder{}
	r.stop = h.Listen(func(e event.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}, kinds...)
	return r
}

// Stop ends the collecting.
func (r *Recorder) Stop() { r.stop() }

// Events returns what was collected so far.
func (r *Recorder) Events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event.Event(nil), r.events...)
}

// Kinds returns the kinds of what was collected so far, in order.
func (r *Recorder) Kinds() []event.Kind {
	var ks []event.Kind
	for _, e := range r.Events() {
		ks = append(ks, e.Kind)
	}
	return ks
}

// Count returns how many events of kind k were collected so far.
func (r *Recorder) Count(k event.Kind) (n int) {
	for _, e := range r.Events() {
		if e.Kind == k {
			n++
		}
	}
	return n
}
