package governor

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
)

// A call gives its slot back before it completes. There is no bubble, for it would wait for
// who waits for a mutex.
func TestIdleIsToldAfterTheEndOfTheLastCall(t *testing.T) {
	g, err := New(PlainConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var mu sync.Mutex
	var heard []event.Kind
	idle := make(chan struct{})
	g.Listen(func(e event.Event) {
		mu.Lock()
		heard = append(heard, e.Kind)
		mu.Unlock()
		if e.Kind == event.Idle {
			close(idle)
		}
	}, event.Completed, event.Idle)
	leave := make(chan struct{})
	r := Submit(t.Context(), g, "", Func(func(context.Context) (int, error) {
		<-leave
		return 1, nil
	}))
	for r.State() != Running {
		runtime.Gosched()
	}
	r.mu.Lock() // it cannot complete
	close(leave)
	for g.taken() > 0 {
		time.Sleep(time.Millisecond)
	}
	for range 10 {
		g.Stats() // the actor looks
	}
	r.mu.Unlock()
	<-idle
	mu.Lock()
	defer mu.Unlock()
	if want := []event.Kind{event.Completed, event.Idle}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}
