package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

var errBoom = errors.New("boom")

// layer is a policy from a function.
type layer struct {
	name string
	at   Layer
	wrap func(next Handler) Handler
}

func (l layer) Wrap(next Handler) Handler { return l.wrap(next) }
func (l layer) Layer() Layer              { return l.at }
func (l layer) String() string            { return l.name }

func pass(name string) layer {
	return layer{name: name, wrap: func(next Handler) Handler { return func(c *Call) error { return next(c) } }}
}

// around is a layer that is a handler with its next.
func around(h func(c *Call, next Handler) error) layer {
	return layer{name: "around", wrap: func(next Handler) Handler { return func(c *Call) error { return h(c, next) } }}
}

// refuse is a layer that lets nothing through.
func refuse(err error) layer {
	return around(func(*Call, Handler) error { return err })
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fake is a layer's error that says whether the function was called.
type fake struct{ refused bool }

func (e *fake) Error() string { return fmt.Sprintf("refused: %v", e.refused) }
func (e *fake) Refused() bool { return e.refused }

// refused reports whether err says that the function was not called.
func refused(err error) bool { return errtree.Refused(err) }

func permanent(err error) bool {
	return errtree.Find(err, func(e interface{ Permanent() bool }) bool { return e.Permanent() })
}

// sleep is a function that takes so long, or until its context ends.
func sleep(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if d <= 0 {
			return context.Cause(ctx)
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// slow is sleep with a result.
func slow[R any](d time.Duration, r R) func(context.Context) (R, error) {
	return func(ctx context.Context) (R, error) { return r, sleep(d)(ctx) }
}

// log records events.
type log struct {
	mu     sync.Mutex
	events []event.Event
}

func (l *log) hear(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// take returns the events so far as text, and forgets them. What other goroutines
// are about to report is waited for, in a bubble.
func (l *log) take() (s string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Time.IsZero() {
			s += "(no time) "
		}
		s += fmt.Sprintf("[%v %s", e.Kind, e.Name)
		if e.Attempt != 0 {
			s += fmt.Sprintf(" #%d", e.Attempt)
		}
		if e.Delay != 0 {
			s += fmt.Sprintf(" %v", e.Delay)
		}
		if e.Err != nil {
			s += " " + e.Err.Error()
		}
		s += "]"
	}
	l.events = nil
	return s
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantErr(t *testing.T, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: %v, want one that matches %v", what, err, target)
		}
	}
	if len(targets) == 0 && err != nil {
		t.Errorf("%s: %v, want no error", what, err)
	}
}

// how a function ended that may panic or end its goroutine.
type how struct {
	err    error
	panics any
	goexit bool
}

// see runs fn on a goroutine of its own and waits for it.
func see(fn func() error) (h how) {
	done := make(chan struct{})
	h.goexit = true
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				h.panics, h.goexit = v, false
			}
		}()
		h.err = fn()
		h.goexit = false
	}()
	<-done
	return h
}

// took measures fn.
func took(fn func()) time.Duration {
	begin := time.Now()
	fn()
	return time.Since(begin)
}

func allocs(t *testing.T, what string, want float64, fn func()) {
	t.Helper()
	if n := testing.AllocsPerRun(200, fn); n != want {
		t.Errorf("%s: %v allocations, want %v", what, n, want)
	}
}

func goexit(context.Context) (int, error) { runtime.Goexit(); return 0, nil }
func panics(context.Context) (int, error) { panic(errBoom) }
func fails(context.Context) (int, error)  { return 7, errBoom }
func five(context.Context) (int, error)   { return 5, nil }
