package governor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
)

// items yields n numbers, one a second, and then err if there is one.
func items(n int, errs ...error) func(context.Context, struct{}) iter.Seq2[int, error] {
	tries := 0
	return func(ctx context.Context, _ struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			try := tries
			tries++
			if n < 0 && try < len(errs) { // fails before the first item
				yield(0, errs[try])
				return
			}
			for i := range max(n, -n) {
				time.Sleep(time.Second)
				if !yield(i, nil) {
					return
				}
			}
			if n > 0 && len(errs) > 0 {
				yield(0, errs[0])
			}
		}
	}
}

func TestStreamYieldsAndHoldsItsSlotToTheEnd(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var next time.Time
		var r *governor.Request[int]
		var got []int
		for v, err := range governor.Stream(t.Context(), g, "", items(3)) {
			if err != nil {
				t.Error(err)
			}
			if r == nil {
				r = governor.Submit(t.Context(), g, "", stamp(&next))
			}
			got = append(got, v)
		}
		<-r.Done()
		since(t, "next start", start, next, 3*time.Second)
		if fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("items %v", got)
		}
	})
}

func TestStreamIsRepeatedOnlyBeforeTheFirstItem(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		limited := governortest.Limited(10 * time.Second)
		n := 0
		for _, err := range governor.Stream(t.Context(), g, "", items(-2, limited)) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		since(t, "end", start, time.Now(), 12*time.Second)
		if n != 2 {
			t.Errorf("%d items, want 2", n)
		}

		start = time.Now()
		var errs []error
		n = 0
		for _, err := range governor.Stream(t.Context(), g, "", items(2, limited)) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			n++
		}
		since(t, "end", start, time.Now(), 2*time.Second)
		if n != 2 || len(errs) != 1 || errs[0] != limited {
			t.Errorf("%d items, then %v; want 2, then the vendor's error once", n, errs)
		}
		var next time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&next)).Done()
		since(t, "next start: the signal was learned", start, next, 12*time.Second)
	})
}

func TestStreamGivesEverythingBackHoweverTheLoopEnds(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		for name, loop := range map[string]func(){
			"break": func() {
				for range governor.Stream(t.Context(), g, "", items(3)) {
					break
				}
			},
			"panic in the body": func() {
				defer func() {
					if v := recover(); v != "body" {
						t.Errorf("recovered %v, want the body's own panic", v)
					}
				}()
				for range governor.Stream(t.Context(), g, "", items(3)) {
					panic("body")
				}
			},
			"Goexit in the body": func() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range governor.Stream(t.Context(), g, "", items(3)) {
						runtime.Goexit()
					}
				}()
				<-done
			},
			"panic in the sequence": func() {
				var got error
				for _, err := range governor.Stream(t.Context(), g, "", func(context.Context, struct{}) iter.Seq2[int, error] { panic("sequence") }) {
					got = err
				}
				if _, ok := errors.AsType[*governor.PanicError](got); !ok {
					t.Errorf("got %v, want a *PanicError", got)
				}
			},
			"nil sequence": func() {
				for _, err := range governor.Stream(t.Context(), g, "", func(context.Context, struct{}) iter.Seq2[int, error] { return nil }) {
					if _, ok := errors.AsType[*governor.PanicError](err); !ok {
						t.Errorf("got %v, want a *PanicError", err)
					}
				}
			},
			"cancelled in the queue": func() {
				g.Pause()
				defer g.Resume()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				n := 0
				for _, err := range governor.Stream(ctx, g, "", items(3)) {
					if n++; !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
				}
				if n != 1 {
					t.Errorf("%d turns, want one with the error", n)
				}
			},
		} {
			loop()
			synctest.Wait()
			if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 {
				t.Errorf("after %s: %d in flight, %d queued", name, s.InFlight, s.Queued)
			}
		}
	})
}

func TestStreamRefusedAtTheDoorYieldsTheReason(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		g.Close()
		n := 0
		for _, err := range governor.Stream(t.Context(), g, "", items(1)) {
			if n++; !errors.Is(err, governor.ErrClosed) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d turns, want 1", n)
		}
	})
}

func TestFirstItemOfAProbeLetsTheRampBegin(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
		<-governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(time.Second)).Call).Done()
		start := time.Now()
		var next time.Time
		var r *governor.Request[int]
		for range governor.Stream(t.Context(), g, "", items(3)) { // the probe, with an item each second
			if r == nil {
				r = governor.Submit(t.Context(), g, "", stamp(&next))
			}
		}
		<-r.Done()
		since(t, "next start", start, next, 2*time.Second)
	})
}

func TestLoopThatTakesTooLongForAnItemEndsItsStream(t *testing.T) {
	f := &fuse{}
	set := func(c *governor.Config[string, *conn]) { c.StreamIdle, c.Breaker = 10*time.Second, f }
	withPool(t, set, func(t *testing.T, g *connected, _, open *atomic.Int64) {
		for _, tt := range []struct {
			name  string
			takes time.Duration
			items int
			err   error
		}{
			{"in time", 10*time.Second - 1, 5, nil},
			{"too long", 11 * time.Second, 1, governor.ErrStreamStalled},
		} {
			var ended error
			items := 0
			var last error
			for _, err := range governor.Stream(t.Context(), g, "a", func(ctx context.Context, _ *conn) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := range 5 {
						if !yield(i, nil) {
							return
						}
						ended = context.Cause(ctx)
					}
				}
			}) {
				if last = err; err != nil {
					break
				}
				items++
				time.Sleep(tt.takes)
			}
			synctest.Wait()
			if items != tt.items || last != tt.err || ended != tt.err && tt.err == nil {
				t.Errorf("%s: %d items, then %v; the context ended with %v", tt.name, items, last, ended)
			}
			if s := g.Stats(); s.InFlight != 0 || (open.Load() == 0) != (tt.err != nil) {
				t.Errorf("%s: %d in flight, %d connections open", tt.name, s.InFlight, open.Load())
			}
		}
		if f.outcomes[breaker.Failure] != 0 {
			t.Error("a slow consumer is no failure of the vendor's")
		}
	})
}

// A timer of StreamIdle would keep the request for as long as that takes.
func TestLoopThatPanicsLeavesNoTimer(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x", StreamIdle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	apart(func() {
		kept := new([64]byte)
		runtime.AddCleanup(kept, func(c chan struct{}) { close(c) }, gone)
		for range governor.Stream(t.Context(), g, "", func(context.Context, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) { yield(int(kept[0]), nil) }
		}) {
			panic("body")
		}
	})
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	for range 3000 { // half a minute and more, which only a failure takes
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the sequence is still reachable")
}

func TestRefusalBesideAnAgainThatComesTooLateIsLearned(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		var last error
		for _, err := range governor.Stream(t.Context(), g, "", func(ctx context.Context, c struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				if yield(1, nil) {
					yield(0, errors.Join(governor.Again(time.Second), governortest.Limited(time.Minute)))
				}
			}
		}) {
			last = err
		}
		if !errors.Is(last, governor.ErrAgain) {
			t.Errorf("the loop has %v", last)
		}
		if s := g.Stats(); len(s.Cooldowns) != 1 {
			t.Errorf("%+v: nothing was learned", s.Cooldowns)
		}
	})
}
