package httpx

import (
	"context"
	"errors"
	"testing"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
)

// A governor hears from a host's breaker what it hears from any.
func TestTheBreakerOfAHostTellsWhatOpensIt(t *testing.T) {
	down := errors.New("connection reset")
	b, err := newBreaker(breaker.Config{Consecutive: 1}, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "example.com", Breaker: judged(b)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	fails := func(blamed bool) {
		_, _ = governor.Do(t.Context(), g, "", func(_ context.Context, _ struct{}) (int, error) { return 0, &failure{err: down, blamed: blamed} })
	}
	fails(false)
	if s := b.State(); s != breaker.Closed {
		t.Errorf("after a failure that it is not to count: %v", s)
	}
	fails(true)
	if c := g.Stats().Breaker.Cause; c != "connection reset" {
		t.Errorf("cause %q", c)
	}
	for _, e := range g.Recent() {
		if e.Kind == event.BreakerState && errors.Is(e.Err, down) {
			return
		}
	}
	t.Errorf("not told: %v", g.Recent())
}
