package governor

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/retry"
)

// A round that ends before all has been started that can be leaves the rest in its lanes, with
// slots for it. What comes next does not go before it.
func TestWhatARoundHasLeftIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 8})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		nothing := Func(func(context.Context) (int, error) { return 0, nil })
		g.Pause()
		rs := []*Request[int]{Submit(t.Context(), g, "", nothing), Submit(t.Context(), g, "", nothing), Submit(t.Context(), g, "", nothing)}
		synctest.Wait()
		g.turn.Lock()
		g.paused = false
		g.gate.pause(false)
		g.pump(g.now(), 1)
		if g.queue.Len() != 2 || !g.behind {
			t.Errorf("%d of three wait after a start, the round was ended early: %v", g.queue.Len(), g.behind)
		}
		rs = append(rs, Submit(t.Context(), g, "", nothing))
		g.receive(g.now(), math.MaxInt)
		if g.queue.Len() != 3 {
			t.Errorf("%d wait, want the two that did and the new one", g.queue.Len())
		}
		g.turn.Unlock()
		g.wakeUp()
		for _, r := range rs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// What comes back from an attempt at the moment when something new is taken from the door has
// its place in the lane before that, and the slot. There is no bubble, for it would wait for
// who waits for a mutex.
func TestWhatComesBackIsNotOvertaken(t *testing.T) {
	g, err := New(PlainConfig{
		Name: "test", Workers: 1,
		Retry: &retry.Config{Backoff: backoff.None},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var order []string // only the one slot's owner appends
	goesOn, began := make(chan struct{}), make(chan struct{})
	old := Submit(t.Context(), g, "", Func(func(context.Context) (int, error) {
		if order = append(order, "old"); len(order) == 1 {
			close(began)
			<-goesOn
			return 0, errors.New("once more")
		}
		return 0, nil
	}))
	<-began
	g.turn.Lock()
	fresh := Submit(t.Context(), g, "", Func(func(context.Context) (int, error) {
		order = append(order, "fresh")
		return 0, nil
	}))
	close(goesOn)
	for back := false; !back || g.gate.word.used() > 0; time.Sleep(time.Millisecond) {
		g.door.mu.Lock()
		back = g.door.returning()
		g.door.mu.Unlock()
	}
	g.turn.Unlock()
	g.wakeUp()
	for _, r := range []*Request[int]{old, fresh} {
		if _, err := r.Result(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"old", "old", "fresh"}; !slices.Equal(order, want) {
		t.Errorf("they ran as %q, want %q", order, want)
	}
}

// What has started and is over before the round comes to its end was work all the same, and
// that it is done is told.
func TestIdleIsToldOfWhatWasOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		idle := 0
		defer g.Listen(func(event.Event) { idle++ }, event.Idle)()
		synctest.Wait()
		g.turn.Lock()
		r := Submit(t.Context(), g.With(Ask{KeepConn: true}), "", Func(func(context.Context) (int, error) { return 0, nil }))
		g.receive(g.now(), math.MaxInt)
		if _, err := r.Result(t.Context()); err != nil {
			t.Error(err)
		}
		for g.attempts.len() > 0 { // its worker is about to take it out
			runtime.Gosched()
		}
		g.round(g.now())
		g.turn.Unlock()
		synctest.Wait()
		if idle != 1 {
			t.Errorf("told %d times, want once", idle)
		}
	})
}
