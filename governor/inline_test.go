package governor

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// direct runs fn in a bubble with a governor whose fast path is on, also when
// FLYBALL_PATH is actor.
func direct(t *testing.T, cfg Config[string, int], fn func(t *testing.T, g *Governor[string, int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Name = "test"
		g, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		g.actorOnly = false
		fn(t, g)
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if used, queued := g.gate.word.used(), g.gate.word.queued(); used != 0 || queued != 0 {
			t.Errorf("after Close %d slots are used, %d queued", used, queued)
		}
	})
}

func ints(p *pool.Config[string, int]) *pool.Config[string, int] {
	if p == nil {
		p = &pool.Config[string, int]{}
	}
	p.Open = func(context.Context, string) (int, error) { return 1, nil }
	return p
}

func answer(context.Context, int) (int, error) { return 42, nil }

func goroutine() string {
	buf := make([]byte, 64)
	return string(bytes.Fields(buf[:runtime.Stack(buf, false)])[1])
}

func where(context.Context, int) (string, error) { return goroutine(), nil }

func TestHealthyDoRunsOnTheCallersGoroutine(t *testing.T) {
	direct(t, Config[string, int]{Workers: 2}, func(t *testing.T, g *Governor[string, int]) {
		for range 3 {
			if at, err := Do(t.Context(), g, "", where); at != goroutine() || err != nil {
				t.Errorf("ran on goroutine %s, %v; want %s", at, err, goroutine())
			}
		}
		if at, _ := Submit(t.Context(), g, "", where).Result(t.Context()); at == goroutine() {
			t.Error("Submit ran on the caller's goroutine")
		}
		if at, err := Do(t.Context(), g.With(Ask{KeepConn: true}), "", where); at != goroutine() || err != nil {
			t.Errorf("KeepConn ran on goroutine %s, %v; want %s", at, err, goroutine())
		}
		g.Pause()
		time.AfterFunc(time.Second, g.Resume)
		start := time.Now()
		if at, err := Do(t.Context(), g, "", where); at != goroutine() || err != nil || time.Since(start) != time.Second {
			t.Errorf("in a pause it ran on goroutine %s after %v, %v; want %s", at, time.Since(start), err, goroutine())
		}
		synctest.Wait() // the actor sees that nothing waits
		if at, _ := Do(t.Context(), g, "", where); at != goroutine() {
			t.Error("after the pause it did not run on the caller's goroutine")
		}
	})
}

// trap is a breaker that does something when a call is about to start.
type trap struct {
	mu     sync.Mutex // guards out and heard
	spring func()
	out    int // permits
	heard  []breaker.Outcome
}

func (b *trap) Ready(time.Time) error { return nil }
func (b *trap) Acquire(time.Time) (breaker.Permit, error) {
	b.mu.Lock()
	b.out++
	b.mu.Unlock()
	if f := b.spring; f != nil {
		b.spring = nil
		f()
	}
	return 0, nil
}
func (b *trap) Report(_ breaker.Permit, _ time.Time, o breaker.Outcome, _ time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	b.heard = append(b.heard, o)
}

// A cooldown that is received while a call is on its way through the gate holds it,
// and it leaves nothing behind.
func TestInlineCallLooksLast(t *testing.T) {
	b := &trap{}
	direct(t, Config[string, int]{Workers: 1, Breaker: b, Pool: ints(nil)}, func(t *testing.T, g *Governor[string, int]) {
		if _, err := Do(t.Context(), g, "a", answer); err != nil { // opens the connection
			t.Fatal(err)
		}
		b.heard = nil
		start := time.Now()
		b.spring = func() {
			g.Learn(throttle.Signal{Delay: time.Hour / 10})
			if s := g.gate.word.used(); s != 1 {
				t.Errorf("%d slots are used on the way in, want 1", s)
			}
		}
		time.AfterFunc(time.Minute, func() { // meanwhile
			b.mu.Lock()
			defer b.mu.Unlock()
			if s := g.Stats(); s.InFlight != 0 || s.Queued != 1 || s.Pool.Idle != 1 || b.out != 0 {
				t.Errorf("%d in flight, %d queued, %d connections idle, %d permits out; want 0, 1, 1, 0", s.InFlight, s.Queued, s.Pool.Idle, b.out)
			}
		})
		at := time.Time{}
		v, err := Do(t.Context(), g, "a", func(context.Context, int) (int, error) { at = time.Now(); return 7, nil })
		if v != 7 || err != nil || at.Sub(start) != time.Hour/10 {
			t.Errorf("%d, %v, started after %v, want 6m", v, err, at.Sub(start))
		}
		if want := []breaker.Outcome{breaker.Neutral, breaker.Success}; !slices.Equal(b.heard, want) {
			t.Errorf("the breaker heard %v, want %v", b.heard, want)
		}
		if s := g.Stats(); s.Submitted != 2 || s.Started != 2 || s.Succeeded != 2 || s.Pool.Created != 1 || s.Pool.Stolen+s.Pool.Discarded != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestInlineCallThatMeetsTheEndIsRefused(t *testing.T) {
	b := &trap{}
	direct(t, Config[string, int]{Workers: 2, Breaker: b}, func(t *testing.T, g *Governor[string, int]) {
		b.spring = func() { g.begin(draining) }
		ran := false
		if _, err := Do(t.Context(), g, "", func(context.Context, int) (int, error) { ran = true; return 0, nil }); err != ErrClosed || ran {
			t.Errorf("got %v, ran %v; want ErrClosed", err, ran)
		}
		if b.out != 0 {
			t.Errorf("%d permits are out", b.out)
		}
	})
}

// shutter is a limit that is shut until somebody opens it, and tells nobody.
type shutter struct {
	open  atomic.Bool
	taken atomic.Int64
}

func (l *shutter) Wait(time.Time, string, int) time.Duration {
	if l.open.Load() {
		return 0
	}
	return time.Hour
}
func (l *shutter) Take(time.Time, string, int)             { l.taken.Add(1) }
func (l *shutter) Settle(time.Time, string, int, int)      {}
func (l *shutter) Accepted(_, _ time.Time, _ string)       {}
func (l *shutter) Refused(_, _ time.Time, _ string)        {}
func (l *shutter) Rate(time.Time, string) float64          { return 0 }
func limits(per throttle.Level, l limiter.Limiter) []Limit { return []Limit{{Per: per, Limiter: l}} }

// Lanes that wait for a limit do not count as queued. Still they are first.
func TestInlineCallOvertakesNobody(t *testing.T) {
	l := &shutter{}
	direct(t, Config[string, int]{Workers: 1, NoPace: true, Limits: limits(throttle.Tenant, l)}, func(t *testing.T, g *Governor[string, int]) {
		a := g.With(Ask{Tenant: "a"})
		var order []string
		note := func(who string) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) {
				order = append(order, who)
				time.Sleep(time.Second)
				return 0, nil
			}
		}
		first := Submit(t.Context(), a, "", note("first"))
		time.Sleep(time.Minute)
		if n := g.gate.word.queued(); n != 0 {
			t.Fatalf("%d are queued, want the lane to be parked", n)
		}
		l.open.Store(true)
		if _, err := Do(t.Context(), a, "", note("second")); err != nil {
			t.Error(err)
		}
		<-first.Done()
		if !slices.Equal(order, []string{"first", "second"}) {
			t.Errorf("started %v", order)
		}
		time.Sleep(time.Second)
		if at, _ := Do(t.Context(), a, "", where); at != goroutine() {
			t.Error("when nothing waits any more calls are still queued")
		}
		if n := l.taken.Load(); n != 3 {
			t.Errorf("%d permits were taken, want 3", n)
		}
	})
}

func TestLimitThatDoesNotAdmitQueuesTheCallOnce(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	direct(t, Config[string, int]{Limits: limits(throttle.Host, bucket), Pool: ints(nil)}, func(t *testing.T, g *Governor[string, int]) {
		start := time.Now()
		for i := range 5 {
			if _, err := Do(t.Context(), g, "", answer); err != nil || time.Since(start) != time.Duration(i)*time.Second {
				t.Errorf("call %d after %v, %v", i, time.Since(start), err)
			}
		}
		if s := g.Stats(); s.Submitted != 5 || s.Started != 5 || s.Succeeded != 5 || s.Wait.Count != 5 || s.Call.Count != 5 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWordLetsNobodyPastTheQueue(t *testing.T) {
	for name, set := range map[string]func(*word){
		"queued": func(w *word) { w.queue(1) },
		"waits":  (*word).waits,
		"held":   (*word).hold,
		"closed": (*word).shut,
		"wanted": func(w *word) { w.full(0) },
	} {
		w := new(word)
		if ok, _ := w.admit(1); !ok || !w.calm() || w.used() != 1 {
			t.Fatalf("nobody is let in")
		}
		if ok, full := w.admit(1); ok || !full {
			t.Errorf("two have one slot")
		}
		w.release()
		set(w)
		if ok, full := w.admit(1); ok || full || w.calm() || w.used() != 0 {
			t.Errorf("%s: let in, or full, or calm", name)
		}
	}
}

// An idle cell keeps a slot, which counts as free everywhere, and which others get.
func TestSlotKeptByACellIsFree(t *testing.T) {
	direct(t, Config[string, int]{Workers: 1}, func(t *testing.T, g *Governor[string, int]) {
		rec := []event.Kind{}
		g.Listen(func(e event.Event) { rec = append(rec, e.Kind) }, event.Idle)
		for i := range 5 {
			if _, err := Do(t.Context(), g, "", answer); err != nil {
				t.Fatal(err)
			}
			if s := g.Stats(); s.InFlight != 0 || g.spent(nil) {
				t.Fatalf("%d in flight", s.InFlight)
			}
			running := make(chan struct{})
			r := Submit(t.Context(), g, "", func(context.Context, int) (int, error) { close(running); time.Sleep(time.Second); return 0, nil })
			<-running
			if s := g.Stats(); s.InFlight != 1 || !g.spent(nil) {
				t.Errorf("%d in flight", s.InFlight)
			}
			if i%2 == 0 {
				_, err := Do(t.Context(), g, "", answer) // waits for the slot
				if err != nil {
					t.Error(err)
				}
			}
			<-r.Done()
			synctest.Wait()
		}
		if len(rec) < 5 {
			t.Errorf("idle %d times, want at least 5", len(rec))
		}
	})
}

func TestWhatWaitsForAnInlineCallStartsWhenItEnds(t *testing.T) {
	direct(t, Config[string, int]{Workers: 1}, func(t *testing.T, g *Governor[string, int]) {
		start := time.Now()
		go Do(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(time.Second); return 0, nil })
		time.Sleep(time.Second / 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Submit(ctx, g, "", answer).Result(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the result after 1s", err, time.Since(start))
		}
	})
}

func TestMoreInlineCallsThanCells(t *testing.T) {
	direct(t, Config[string, int]{Workers: 100}, func(t *testing.T, g *Governor[string, int]) {
		stop := make(chan struct{})
		var ended atomic.Int64
		for range 100 {
			go func() {
				caller := goroutine()
				if _, err := Do(t.Context(), g, "", func(context.Context, int) (int, error) {
					if goroutine() != caller {
						t.Error("not inline")
					}
					<-stop
					return 0, nil
				}); err != nil {
					t.Error(err)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		if s := g.Stats(); s.InFlight != 100 || s.Started != 100 || s.Submitted != 100 || s.Succeeded != 0 {
			t.Errorf("%+v", s)
		}
		last := Submit(t.Context(), g, "", answer) // there is no slot
		time.Sleep(time.Second)
		if last.State() != Queued {
			t.Errorf("%v, want queued", last.State())
		}
		close(stop)
		synctest.Wait()
		if s := g.Stats(); s.InFlight != 0 || s.Succeeded != 101 || ended.Load() != 100 || s.Call.Count != 101 || s.Wait.Count != 101 {
			t.Errorf("%+v", s)
		}
	})
}

func TestInlineContext(t *testing.T) {
	type key struct{}
	cause := errors.New("cause")
	value := func(ctx context.Context) {
		if ctx.Value(key{}) != "value" {
			t.Error("the caller's values are lost")
		}
	}
	direct(t, Config[string, int]{AttemptTimeout: time.Minute}, func(t *testing.T, g *Governor[string, int]) {
		base := context.WithValue(t.Context(), key{}, "value")
		var kept context.Context
		start := time.Now()
		_, err := Do(base, g, "", func(ctx context.Context, _ int) (int, error) {
			kept = ctx
			value(ctx)
			if d, ok := ctx.Deadline(); !ok || d.Sub(start) != time.Minute || ctx.Err() != nil {
				t.Errorf("deadline %v %v, %v", d, ok, ctx.Err())
			}
			if i, ok := retry.FromContext(ctx); !ok || i != (retry.Info{Attempt: 1, Started: start}) {
				t.Errorf("%+v, %v", i, ok)
			}
			return 0, nil
		})
		if err != nil || kept.Err() != context.Canceled || context.Cause(kept) != context.Canceled {
			t.Errorf("%v; when it is over the context says %v", err, kept.Err())
		}
		value(kept)
		select {
		case <-kept.Done():
		default:
			t.Error("when it is over the context has not ended")
		}
		if Hold(kept)(nil); attemptOf(kept, g.core) != nil {
			t.Error("when it is over there is still an attempt")
		}

		for _, look := range []bool{false, true} { // the timeout, with and without a timer
			_, err = Do(base, g, "", func(ctx context.Context, _ int) (int, error) {
				if look {
					child, cancel := context.WithCancel(ctx)
					defer cancel()
					<-child.Done()
					value(ctx)
				} else {
					time.Sleep(2 * time.Minute)
				}
				return 0, context.Cause(ctx)
			})
			if err != context.DeadlineExceeded {
				t.Errorf("after the attempt's timeout: %v", err)
			}
		}

		ctx, cancel := context.WithCancelCause(base)
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if _, err := Do(ctx, g, "", func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }); err != cause {
			t.Errorf("the caller's cancellation is %v", err)
		}

		time.AfterFunc(time.Second, func() { g.Close() })
		if _, err := Do(base, g, "", func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }); !errors.Is(err, ErrClosed) || IsRefused(err) {
			t.Errorf("closed midway: %v", err)
		}
	})
}

func TestInlineCallHoldsAndNests(t *testing.T) {
	direct(t, Config[string, int]{Workers: 2, Pool: ints(&pool.Config[string, int]{Max: 2})}, func(t *testing.T, g *Governor[string, int]) {
		Do(t.Context(), g, "", answer) // there is a connection now
		var release func(error)
		v, err := Do(t.Context(), g, "", func(ctx context.Context, _ int) (int, error) { release = Hold(ctx); return 42, nil })
		if s := g.Stats(); v != 42 || err != nil || s.InFlight != 1 || s.Pool.InUse != 1 {
			t.Errorf("%d, %v; %d in flight, %d connections in use; want what is held", v, err, s.InFlight, s.Pool.InUse)
		}
		release(nil)
		if s := g.Stats(); s.InFlight != 0 || s.Pool.Idle != 1 {
			t.Errorf("%d in flight", s.InFlight)
		}
		nested := func(ctx context.Context, _ int) (int, error) {
			return Do(ctx, g, "", func(ctx context.Context, _ int) (int, error) {
				_, err := Do(ctx, g, "", answer)
				return 7, err
			})
		}
		if v, err := Do(t.Context(), g, "", nested); v != 7 || !errors.Is(err, ErrReentrant) {
			t.Errorf("%d, %v; want room for the second, none for the third", v, err)
		}
	})
}

// The actor collects slots of idle cells, and one that it has in hand is free.
func TestNestedCallIsNotRefusedForASlotTheActorCollects(t *testing.T) {
	direct(t, Config[string, int]{Workers: 2}, func(t *testing.T, g *Governor[string, int]) {
		nested := func(ctx context.Context, _ int) (int, error) { return Do(ctx, g, "", answer) }
		for range 1000 {
			var release func(error)
			Do(t.Context(), g, "", func(ctx context.Context, _ int) (int, error) { release = Hold(ctx); return 0, nil })
			release(nil)
			if _, err := Do(t.Context(), g, "", nested); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

func TestInlineCallIsReportedAsStuck(t *testing.T) {
	direct(t, Config[string, int]{StuckAfter: time.Minute}, func(t *testing.T, g *Governor[string, int]) {
		for range 2 {
			if _, err := Do(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(150 * time.Second); return 0, nil }); err != nil {
				t.Error(err)
			}
		}
		go Do(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(150 * time.Second); return 0, nil })
		time.Sleep(30 * time.Second)
		if s := g.Stats(); s.Stuck != 2 {
			t.Errorf("%d stuck, want 2", s.Stuck)
		}
		time.Sleep(time.Hour)
		if s := g.Stats(); s.Stuck != 3 || s.Submitted != 3 || s.Succeeded != 3 {
			t.Errorf("%d stuck, %d submitted; want 3", s.Stuck, s.Submitted)
		}
	})
}

// Who looks for what is stuck may find a call that has not started, and will not.
func TestInlineCallThatWasStuckOnItsWayInIsCountedOnce(t *testing.T) {
	b := &trap{}
	direct(t, Config[string, int]{Workers: 2, Breaker: b, StuckAfter: time.Second}, func(t *testing.T, g *Governor[string, int]) {
		go Do(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(time.Minute); return 0, nil })
		synctest.Wait() // the actor looks every second from now on
		b.spring = func() {
			time.Sleep(time.Hour)
			if s := g.Stats(); s.Stuck != 2 {
				t.Errorf("%d stuck, want both", s.Stuck)
			}
			g.Learn(throttle.Signal{Delay: time.Minute})
		}
		if v, err := Do(t.Context(), g, "a", answer); v != 42 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if s := g.Stats(); s.Submitted != 2 || s.Started != 2 || s.Succeeded != 2 || s.Wait.Count != 2 {
			t.Errorf("%+v, want two of each", s)
		}
		for sel, x := range g.names.m {
			if n := x.refs.Load(); n != 0 {
				t.Errorf("selector %q has %d references", sel, n)
			}
		}
	})
}

// Stats counts what is on its way in as begun; it was refused after all.
func TestInlineCallRefusedAtTheEndIsNotSubmitted(t *testing.T) {
	b := &trap{}
	direct(t, Config[string, int]{Workers: 2, Breaker: b}, func(t *testing.T, g *Governor[string, int]) {
		b.spring = func() {
			g.Stats()
			g.begin(draining)
		}
		if _, err := Do(t.Context(), g, "", answer); err != ErrClosed {
			t.Errorf("got %v, want ErrClosed", err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if s := g.Stats(); s.Submitted != 0 || s.Started != 0 || s.Refused != 1 || s.Wait.Count != 0 {
			t.Errorf("%+v, want 1 refused", s)
		}
	})
}

func TestAbandonedInlineCallReturnsWithItsClosure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(Config[string, int]{Name: "test", CloseGrace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		g.actorOnly = false
		closed := make(chan error, 1)
		time.AfterFunc(time.Second, func() { closed <- g.Close() })
		start := time.Now()
		v, err := Do(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(time.Minute); return 42, nil })
		if v != 0 || err != ErrAbandoned || time.Since(start) != time.Minute {
			t.Errorf("%d, %v after %v; want ErrAbandoned after a minute", v, err, time.Since(start))
		}
		if forced, _ := errors.AsType[*ForcedError](<-closed); forced == nil || forced.Running != 1 {
			t.Errorf("Close returned %v, want 1 running", forced)
		}
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s := g.Stats(); s.Submitted != 1 || s.Failed != 1 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// What goes back to the queue keeps its place, though it never had one.
func TestRefusedInlineCallKeepsItsPlace(t *testing.T) {
	direct(t, Config[string, int]{Vendor: listing{}, Workers: 4}, func(t *testing.T, g *Governor[string, int]) {
		var order []string
		if _, err := Submit(t.Context(), g, "", answer).Result(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		go func() {
			tries := 0
			Do(t.Context(), g, "", func(context.Context, int) (int, error) {
				if tries++; tries == 1 {
					time.Sleep(time.Second)
					return 0, listed{[]throttle.Signal{{Delay: time.Minute}}}
				}
				order = append(order, "do")
				return 0, nil
			})
		}()
		time.Sleep(time.Second / 2)
		g.Pause()
		r := Submit(t.Context(), g, "", func(context.Context, int) (int, error) { order = append(order, "submit"); return 0, nil })
		time.Sleep(time.Second)
		g.Resume()
		<-r.Done()
		if !slices.Equal(order, []string{"do", "submit"}) {
			t.Errorf("started %v", order)
		}
	})
}

// Both paths tell the same, and count the same.
func TestPathsAreAlike(t *testing.T) {
	boom := errors.New("boom")
	script := []func(n int) (int, error){
		func(int) (int, error) { return 1, nil },
		func(int) (int, error) { time.Sleep(time.Second); return 1, nil },
		func(int) (int, error) { return 1, boom },
		func(int) (int, error) { panic("x") },
		func(n int) (int, error) {
			if n == 1 {
				return 0, listed{[]throttle.Signal{{Delay: time.Minute}}}
			}
			return 3, nil
		},
		func(n int) (int, error) {
			if n == 1 {
				return 0, listed{[]throttle.Signal{{Delay: time.Second, NoRetry: true, Scope: throttle.Scope{Level: throttle.Request}}}}
			}
			return 3, nil
		},
		func(n int) (int, error) {
			if n < 3 {
				return 0, &again{}
			}
			return 4, nil
		},
		func(int) (int, error) { return 1, nil },
	}
	run := func(t *testing.T, actor bool) (results []any, events []event.Event, s Stats) {
		b := &trap{}
		direct(t, Config[string, int]{
			Vendor: listing{}, Workers: 3, Breaker: b, Pool: ints(nil),
			Retry: &retry.Config{Backoff: backoff.Constant(time.Second), RetryIf: func(err error) bool { _, ok := errors.AsType[*again](err); return ok }},
		}, func(t *testing.T, g *Governor[string, int]) {
			g.actorOnly = actor
			Do(t.Context(), g, "", answer)
			synctest.Wait()
			start := time.Now()
			g.Listen(func(e event.Event) {
				e.Time = e.Time.Add(-time.Duration(start.UnixNano()))
				if e.Request != 0 { // the others are of what happens at once elsewhere
					events = append(events, e)
				}
			})
			for i, f := range script {
				n := 0
				v, err := Do(t.Context(), g.With(Ask{Tenant: "a", Cost: i % 3}), "", func(context.Context, int) (int, error) { n++; return f(n) })
				if p, ok := errors.AsType[*PanicError](err); ok {
					results = append(results, v, p.Value)
				} else {
					results = append(results, v, err)
				}
				synctest.Wait()
				time.Sleep(time.Minute)
			}
			s = g.Stats()
			results = append(results, b.heard, b.out)
		})
		for i := range events {
			events[i].Until, events[i].Err = time.Time{}, nil
			events[i].Request = 1 // their numbers differ
		}
		s.Time = time.Time{}
		return results, events, s
	}
	results, events, stats := run(t, false)
	wantResults, wantEvents, wantStats := run(t, true)
	if !reflect.DeepEqual(results, wantResults) {
		t.Errorf("results\n%v, want\n%v", results, wantResults)
	}
	if !reflect.DeepEqual(stats, wantStats) {
		t.Errorf("statistics\n%+v, want\n%+v", stats, wantStats)
	}
	for i := range max(len(events), len(wantEvents)) {
		if i >= len(events) || i >= len(wantEvents) || events[i] != wantEvents[i] {
			t.Fatalf("event %d\n%+v, want\n%+v", i, events[i:min(i+6, len(events))], wantEvents[i:min(i+6, len(wantEvents))])
		}
	}
}

type again struct{}

func (*again) Error() string { return "again" }

// What a governor learns of a quota does not depend on the path.
func TestPathsLearnTheSameRate(t *testing.T) {
	run := func(actor bool) (rates []float64) {
		direct(t, Config[string, int]{Vendor: listing{}, Workers: 4}, func(t *testing.T, g *Governor[string, int]) {
			g.actorOnly = actor
			for i := range 300 {
				if i%2 == 0 { // between calls that cells count
					time.Sleep(30 * time.Millisecond)
				}
				Do(t.Context(), g.With(Ask{NoRetry: true}), "", func(context.Context, int) (int, error) {
					if i%2 == 1 {
						time.Sleep(time.Duration(1+i%3) * 20 * time.Millisecond)
					}
					if i%100 == 99 {
						return 0, listed{[]throttle.Signal{{Delay: time.Second}}}
					}
					return 1, nil
				})
				if i%50 == 49 {
					rates = append(rates, g.Stats().Limits[0].Rate)
				}
			}
		})
		return rates
	}
	if got, want := run(false), run(true); !reflect.DeepEqual(got, want) || want[3] == 0 {
		t.Errorf("learned %v, want %v", got, want)
	}
}

// Who hung up in mid-call may have left an answer on the wire.
func TestConnectionOfAnInlineCallWhoseContextEndedIsNotUsedAgain(t *testing.T) {
	p, opened := ints(nil), 0
	p.Open = func(context.Context, string) (int, error) { opened++; return opened, nil }
	direct(t, Config[string, int]{Pool: p}, func(t *testing.T, g *Governor[string, int]) {
		which := func(_ context.Context, conn int) (int, error) { return conn, nil }
		Do(t.Context(), g, "", which) // opens it
		ctx, cancel := context.WithCancel(t.Context())
		if conn, err := Do(ctx, g, "", func(_ context.Context, conn int) (int, error) { cancel(); return conn, nil }); conn != 1 || err != nil {
			t.Errorf("got connection %d, %v; want the first", conn, err)
		}
		if conn, err := Do(t.Context(), g, "", which); conn != 2 || err != nil {
			t.Errorf("got connection %d, %v; want a second", conn, err)
		}
	})
}

func TestInlineCallAllocatesItsContextOnly(t *testing.T) { allocatesOnce(t, false) }

// allocatesOnce holds Do to one allocation, on the goroutine that calls it or through
// the actor.
func allocatesOnce(t *testing.T, actorOnly bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, p := range map[string]*pool.Config[string, int]{"plain": nil, "pooled": ints(nil)} {
		g, err := New(Config[string, int]{Name: "test", Pool: p})
		if err != nil {
			t.Fatal(err)
		}
		g.actorOnly = actorOnly
		if n := testing.AllocsPerRun(1000, func() { Do(ctx, g, "a", answer) }); n > 1 {
			t.Errorf("%s: %v allocations, want 1", name, n)
		}
		g.Close()
	}
}
