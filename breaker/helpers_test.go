package breaker_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
)

func newBreaker(t testing.TB, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// calls makes n calls that take no time of the clock's.
func calls(t testing.TB, b *breaker.Breaker, n int, o breaker.Outcome, took time.Duration) {
	t.Helper()
	for i := range n {
		p, err := b.Acquire(time.Now())
		if err != nil {
			t.Fatalf("call %d of %d: %v", i+1, n, err)
		}
		b.Report(p, time.Now(), o, took)
	}
}

// returns is a call that returns err.
func returns(err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return 1, err }
}

// do makes a call that ends somehow.
func do(ctx context.Context, b *breaker.Breaker, fn func(context.Context) (int, error)) (err error) {
	done := make(chan struct{})
	go func() { // which a Goexit ends
		defer close(done)
		defer func() { _ = recover() }()
		_, err = breaker.Do(ctx, b, fn)
	}()
	<-done
	return err
}

func panics(context.Context) (int, error) { panic("boom") }
func exits(context.Context) (int, error)  { runtime.Goexit(); return 0, nil }

func inState(t testing.TB, b *breaker.Breaker, want breaker.State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("state is %v, want %v", got, want)
	}
}

// admitted is how many calls are admitted at once. It does not give them back.
func admitted(b *breaker.Breaker, atMost int) (n int) {
	for range atMost {
		if _, err := b.Acquire(time.Now()); err == nil {
			n++
		}
	}
	return n
}

func transition(t testing.TB, b *breaker.Breaker, to breaker.State) {
	t.Helper()
	if err := b.Transition(to); err != nil {
		t.Fatal(err)
	}
}

// recorder is an OnEvent that keeps what it hears.
type recorder struct {
	mu    sync.Mutex
	heard []event.Event
}

func (r *recorder) hear(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, e)
}

// take returns what was heard since it was last called.
func (r *recorder) take() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.heard
	r.heard = nil
	return heard
}
