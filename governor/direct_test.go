package governor

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
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

// That the last slot was taken is told each time, also where nothing ever waits.
func TestDepletedIsToldEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var told atomic.Int64
		defer g.Listen(func(event.Event) { told.Add(1) }, event.Depleted)()
		for _, ask := range []Ask{{}, {KeepConn: true}} {
			view, second := g.With(ask), Func(func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
			told.Store(0)
			for range 3 {
				_, _ = Do(t.Context(), view, "", second)
				time.Sleep(time.Second)
				_, _ = Submit(t.Context(), view, "", second).Result(t.Context())
				time.Sleep(time.Second)
			}
			if n := told.Load(); n != 6 {
				t.Errorf("%+v: told of %d of six calls", ask, n)
			}
		}
	})
}

// A request that is taken together with the Pause that was given after it costs the limits
// nothing, and so starts when the pause ends.
func TestAPauseBehindARequestKeepsItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := Limit{Per: throttle.Host, Quota: limiter.QuotaConfig{Limit: 1, Per: time.Minute}}
		g, err := New(PlainConfig{Name: "test", NoPace: true, Limits: []Limit{minute}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.turn.Lock()
		g.gate.word.rests() // as it is after the first request
		r := Submit(t.Context(), g.With(Ask{KeepConn: true}), "", Func(func(context.Context) (int, error) { return 0, nil }))
		paused := make(chan struct{})
		go func() { g.Pause(); close(paused) }()
		for said := 0; said == 0; runtime.Gosched() {
			g.door.mu.Lock()
			said = len(g.door.msgs)
			g.door.mu.Unlock()
		}
		g.turn.Unlock()
		<-paused
		synctest.Wait()
		if s := r.State(); s != Queued {
			t.Errorf("it is %v in a pause", s)
		}
		start := time.Now()
		g.Resume()
		if _, err := r.Result(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v, want nothing at once", err, time.Since(start))
		}
	})
}

// What comes together competes for what there is: the one idle connection, or the one permit,
// is for the highest priority, and otherwise for what came first.
func TestWhatComesTogetherIsServedByPriority(t *testing.T) {
	for _, tt := range []struct {
		name       string
		low, high  Ask
		pooled     bool
		wantsFirst string
	}{
		{"a connection", Ask{KeepConn: true}, Ask{KeepConn: true, Priority: 5}, true, "high"},
		{"a permit", Ask{KeepConn: true}, Ask{KeepConn: true, Priority: 5}, false, "high"},
		{"a connection, of one lane", Ask{KeepConn: true, Tenant: "t"}, Ask{KeepConn: true, Tenant: "t"}, true, "low"},
		{"a permit, of one lane", Ask{KeepConn: true, Tenant: "t"}, Ask{KeepConn: true, Tenant: "t"}, false, "low"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opened := 0
				cfg := Config[string, int]{Name: "test", Workers: 2, NoPace: true, Pool: &pool.Config[string, int]{
					Max: 2,
					Open: func(context.Context, string) (int, error) { // one at a time
						if opened++; opened > 1 {
							time.Sleep(time.Second)
						}
						return opened, nil
					},
				}}
				if !tt.pooled {
					cfg.Pool = nil
					cfg.Limits = []Limit{{Per: throttle.Host, Quota: limiter.QuotaConfig{Limit: 1, Per: time.Minute}}}
				}
				g, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				if _, err := Do(t.Context(), g, "a", func(context.Context, int) (int, error) { return 0, nil }); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				var order []string
				submit := func(name string, ask Ask) *Request[int] {
					return Submit(t.Context(), g.With(ask), "a", func(context.Context, int) (int, error) {
						order = append(order, name)
						time.Sleep(time.Second / 2)
						return 0, nil
					})
				}
				g.turn.Lock()
				rs := []*Request[int]{submit("low", tt.low), submit("high", tt.high)}
				g.turn.Unlock()
				g.wakeUp()
				for _, r := range rs {
					if _, err := r.Result(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if len(order) != 2 || order[0] != tt.wantsFirst {
					t.Errorf("they ran as %q, want %s first", order, tt.wantsFirst)
				}
			})
		})
	}
}
