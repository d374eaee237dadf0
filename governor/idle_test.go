package governor

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// Who waits for the end of what runs already hears of it, too.
func TestIdleIsToldToWhoBeginsToListenWhileACallRuns(t *testing.T) {
	call := func(context.Context) (int, error) {
		time.Sleep(time.Second)
		return 1, nil
	}
	for name, begin := range map[string]func(t *testing.T, g *Plain){
		"Do":     func(t *testing.T, g *Plain) { go Do(t.Context(), g, "", Func(call)) },
		"Submit": func(t *testing.T, g *Plain) { Submit(t.Context(), g, "", Func(call)) },
		"actor": func(t *testing.T, g *Plain) {
			g.actorOnly = true
			Submit(t.Context(), g, "", Func(call))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := New(PlainConfig{Name: "test"})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				start := time.Now()
				begin(t, g)
				time.Sleep(time.Second / 2)
				var heard []time.Duration
				stop := g.Listen(func(e event.Event) { heard = append(heard, e.Time.Sub(start)) }, event.Idle)
				time.Sleep(time.Minute)
				stop()
				if want := []time.Duration{time.Second}; !slices.Equal(heard, want) {
					t.Errorf("heard after %v, want %v", heard, want)
				}
			})
		})
	}
}

// Cells without number make the look at the slots last, so that calls begin meanwhile.
func TestIdleIsToldOfACallThatBeginsWhileTheActorLooks(t *testing.T) {
	g, err := New(PlainConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.core.ask(func() { g.cells.block = make([]cell, 1<<16) })
	heard := make(chan event.Kind, 10)
	g.Listen(func(e event.Event) { heard <- e.Kind }, event.Completed, event.Idle)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Microsecond):
				g.wakeUp()
			}
		}
	})
	for range 200 {
		if _, err := Do(t.Context(), g, "", Func(func(context.Context) (int, error) {
			time.Sleep(time.Millisecond) // the actor looks at least once more
			return 1, nil
		})); err != nil {
			t.Fatal(err)
		}
		if first, then := <-heard, <-heard; first != event.Completed || then != event.Idle {
			t.Errorf("heard %v, then %v", first, then)
		}
	}
	close(ended)
	wg.Wait()
}
