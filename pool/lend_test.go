package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
)

func TestTheFirstOfReleaseAndDiscardCounts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		r := lend(t, p, "x")
		r.Release()
		other := lend(t, p, "x") // the same connection, lent to another
		r.Release()
		r.Discard(errBroken)
		synctest.Wait()
		if st := p.Stats(); st.InUse != 1 || st.Idle != 0 || st.Discarded != 0 {
			t.Errorf("%+v", st)
		}
		if _, err := r.Conn(t.Context()); !errors.Is(err, ErrGivenBack) || r.Value() != nil || r.Ready() {
			t.Errorf("%v, %v, %v", err, r.Value(), r.Ready())
		}
		other.Discard(nil)
		other.Release()
		synctest.Wait()
		if st := p.Stats(); st.Open != 0 || st.Discarded != 1 || p.used != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestConnIsIdempotentAndNotForTwoAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = ignore(time.Second)
		r, _ := p.Reserve("x")
		go func() {
			if _, err := r.Conn(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if _, err := r.Conn(t.Context()); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		a, err := r.Conn(t.Context())
		if err != nil || a == nil || a != r.Value() || s.opens != 1 || !r.Ready() {
			t.Error(a, err)
		}
		r.Release()
	})
}

func TestConnWithAnEndedOrNilContextChangesNothing(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBroken)
		r, _ := p.Reserve("x")
		if _, err := r.Conn(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if _, err := r.Conn(none); !errors.Is(err, ErrNilContext) {
			t.Error(err)
		}
		if _, err := p.Acquire(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if _, err := p.Acquire(none, "x"); !errors.Is(err, ErrNilContext) {
			t.Error(err)
		}
		if s.opens != 0 {
			t.Error("opened")
		}
		if _, err := r.Conn(t.Context()); err != nil {
			t.Error(err)
		}
		r.Release()
	})
}

func TestReleaseDuringConn(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = ignore(time.Second)
		r, _ := p.Reserve("x")
		go func() { time.Sleep(time.Second / 2); r.Release() }()
		began := time.Now()
		if _, err := r.Conn(t.Context()); !errors.Is(err, ErrGivenBack) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if !p.Idle("x") {
			t.Error("the connection is not idle")
		}
	})
}

func TestAConnectionThatBrokeInItsFirstUseIsLikeAFailedOpen(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		for _, want := range []time.Duration{100e6, 200e6, 400e6} {
			r := lend(t, p, "x")
			r.Discard(errBroken)
			if d := time.Until(p.NotBefore("x")); d != want {
				t.Fatalf("backs off for %v, want %v", d, want)
			}
			refused(t, p, "x")
			time.Sleep(want)
		}
		synctest.Wait()
		if e := s.last(event.PoolDiscarded); !errors.Is(e.Err, errBroken) {
			t.Errorf("%+v", e)
		}
		r := lend(t, p, "x")
		r.Discard(context.Canceled) // says nothing about the connection
		r = lend(t, p, "x")
		r.Release()
		r = lend(t, p, "x") // was good once
		r.Discard(errBroken)
		r = lend(t, p, "x")
		r.Discard(errBroken)
		if d := time.Until(p.NotBefore("x")); d != 100*time.Millisecond {
			t.Errorf("a connection in order does not reset: %v", d)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := p.Stats().Selectors; n != 0 {
			t.Errorf("%d selectors", n)
		}
	})
}

func TestDiscardByAnIsBadThatPanicsOrExits(t *testing.T) {
	exit := false
	bubble(t, func(c cfg) {
		c.Max, c.IsBad = 1, func(error) bool {
			if exit {
				runtime.Goexit()
			}
			panic("oops")
		}
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		if !p.IsBad(errBroken) || p.IsBad(nil) {
			t.Error("IsBad")
		}
		lend(t, p, "x").Discard(errBroken)
		time.Sleep(time.Second)
		exit = true
		r := lend(t, p, "x")
		go r.Discard(errBroken)
		synctest.Wait()
		lend(t, p, "x").Release()
	})
}

func TestCheckBeforeReuseAfterIdleTime(t *testing.T) {
	bubble(t, func(c cfg) {
		c.Max, c.CheckAfter, c.Check = 1, 10*time.Second, newServer(t).check
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		checks := 0
		p.cfg.Check = s.check
		s.onCheck = func(ctx context.Context, l *link) error {
			checks++
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != 30*time.Second || l.sel != "x" {
				t.Error("ctx", time.Until(at))
			}
			return nil
		}
		lend(t, p, "x").Release()
		time.Sleep(10*time.Second - 1)
		if r, ok := p.Reserve("x"); !ok || !r.Ready() {
			t.Error("checked too early")
		} else {
			r.Release() // unused: its idle time goes on
		}
		time.Sleep(time.Nanosecond)
		if p.Idle("x") || p.Full("x") {
			t.Error("Idle or Full")
		}
		r, ok := p.Reserve("x")
		if !ok || r.Ready() {
			t.Fatal("not checked")
		}
		if _, err := r.Conn(t.Context()); err != nil || checks != 1 || s.opens != 1 || !r.Ready() {
			t.Errorf("%v, %d checks", err, checks)
		}
		r.Release()
		if !p.Idle("x") {
			t.Error("not fresh")
		}
	})
}

func TestAConnectionThatFailsItsCheckIsReplaced(t *testing.T) {
	for name, check := range map[string]func() error{
		"error":  func() error { return errBroken },
		"panic":  func() error { panic("oops") },
		"Goexit": goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c cfg) {
				c.Max, c.MaxPerSelector, c.Check = 1, 1, func(context.Context, string, *link) error { return check() }
			}, func(t *testing.T, s *server, p *Pool[string, *link]) {
				r := lend(t, p, "x")
				old := r.Value()
				r.Release()
				r = lend(t, p, "x")
				if st := p.Stats(); r.Value() == old || s.closed[old.id] != 1 || st.Reused != 0 {
					t.Errorf("not replaced: %+v", st)
				}
				r.Release()
				synctest.Wait()
				if s.kinds(event.PoolDiscarded) != 1 || s.last(event.PoolDiscarded).Err == nil || s.kinds(event.PoolStolen) != 0 {
					t.Error(s.events)
				}
				s.onOpen = func(context.Context, string, int) error { return errBroken }
				if _, ok := errors.AsType[*OpenError](fails(t, p, "x", 0)); !ok {
					t.Error("no OpenError")
				}
				synctest.Wait()
				if p.used != 0 {
					t.Errorf("%d used", p.used)
				}
			})
		})
	}
}

func TestAFailedCheckOpensNothingWhileTheSelectorBacksOff(t *testing.T) {
	bubble(t, func(c cfg) {
		c.Check = func(context.Context, string, *link) error { time.Sleep(time.Second); return errBroken }
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		lend(t, p, "x").Release()
		a, _ := p.Reserve("x")
		s.onOpen = func(context.Context, string, int) error { return errors.New("down") }
		b, _ := p.Reserve("x")
		go func() { time.Sleep(time.Second - 1); _, _ = b.Conn(t.Context()) }()
		_, err := a.Conn(t.Context())
		if e, ok := errors.AsType[*OpenError](err); !ok || e.Err.Error() != "down" || s.opens != 2 {
			t.Errorf("%v, %d opened", err, s.opens)
		}
	})
}

func TestACheckThatHangsIsBoundedByOpenTimeout(t *testing.T) {
	bubble(t, func(c cfg) {
		c.Max, c.OpenTimeout = 1, time.Second
		c.Check = func(context.Context, string, *link) error { time.Sleep(time.Minute); return nil }
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		lend(t, p, "x").Release()
		if err := fails(t, p, "x", time.Second); !errors.Is(err, ErrOpenTimeout) {
			t.Error(err)
		}
		refused(t, p, "y")
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := p.Stats(); st.Open != 0 || st.Discarded != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestACheckGoesOnWhenItsCallerLeaves(t *testing.T) {
	bubble(t, func(c cfg) {
		c.Max, c.CheckAfter = 1, time.Minute
		c.Check = func(ctx context.Context, _ string, _ *link) error { time.Sleep(10 * time.Second); return ctx.Err() }
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		lend(t, p, "x").Release()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, _ := p.Reserve("x")
		if _, err := r.Conn(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.Discard(nil)
		refused(t, p, "x")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !p.Idle("x") || s.opens != 1 || p.Stats().Reused != 0 {
			t.Error("the checked connection is lost")
		}
	})
}

func TestNoHookIsCalledUnderALockAndPanicsHarmNobody(t *testing.T) {
	var p *Pool[string, *link]
	use := func() { _ = p.Stats() }
	bubble(t, func(c cfg) {
		dial, hangUp := c.Open, c.Close
		c.Max = 1
		c.Open = func(ctx context.Context, sel string) (*link, error) { use(); return dial(ctx, sel) }
		c.Close = func(sel string, l *link) {
			use()
			hangUp(sel, l)
			if l.id%2 == 0 {
				_ = goexit()
			}
			panic("close")
		}
		c.Check = func(context.Context, string, *link) error { use(); return nil }
		c.IsBad = func(error) bool { use(); return true }
		c.OnEvent = func(e event.Event) {
			use()
			if e.Kind == event.PoolCreated {
				_ = goexit()
			}
			panic("event")
		}
	}, func(t *testing.T, s *server, pool *Pool[string, *link]) {
		p = pool
		freed := atomic.Int32{}
		p.OnFree(nil)
		p.OnFree(func() { use(); freed.Add(1); panic("free") })
		p.OnFree(func() { use(); freed.Add(1) })
		for range 4 {
			lend(t, p, "x").Release()
			lend(t, p, "x").Discard(errBroken)
			time.Sleep(time.Minute)
			lend(t, p, "y").Release()
		}
		if n := freed.Load(); n < 16 || n%2 != 0 {
			t.Errorf("%d calls of OnFree", n)
		}
	})
}

// Goexit in a function of OnFree ends the goroutine that it runs on, and nothing else: the
// other functions are called, what was given back is free, and no event is lost.
func TestGoexitInOnFreeEndsOnlyItsGoroutine(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		var mu sync.Mutex
		var told []int
		tell := func(i int) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, i)
		}
		p.OnFree(func() { tell(0); _ = goexit() })
		p.OnFree(func() { tell(1); _ = goexit() })
		p.OnFree(func() { tell(2); panic("free") })
		p.OnFree(func() { tell(3) })
		returned, ended := false, false
		go func() {
			defer func() { ended = true }()
			r, _ := p.Acquire(t.Context(), "x")
			r.Release()
			returned = true
		}()
		synctest.Wait()
		if !slices.Equal(told, []int{0, 1, 2, 3}) || returned || !ended {
			t.Errorf("told %v; Release returned %v, its goroutine ended %v", told, returned, ended)
		}
		s.onOpen = func(_ context.Context, _ string, n int) error {
			if time.Sleep(time.Second); n == 2 {
				return errBroken
			}
			return nil
		}
		for _, sel := range []string{"fails", "y"} {
			r, _ := p.Reserve(sel) // closes the one before
			ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = r.Conn(ctx)
			leave()
			r.Release()
			time.Sleep(2 * time.Second)
		}
		if s.kinds(event.PoolStolen) != 1 || s.kinds(event.PoolFailed) != 1 || s.kinds(event.PoolCreated) != 2 || !p.Idle("y") {
			t.Errorf("heard %v", s.events)
		}
	})
}

func TestOnFreeIsCalledWhenASuccessEndsABackoff(t *testing.T) {
	bubble(t, func(c cfg) { c.OpenBackoff = backoff.Constant(time.Hour) }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, _ string, n int) error {
			time.Sleep(time.Duration(n) * time.Second)
			if n == 1 {
				return errBroken
			}
			return nil
		}
		a, _ := p.Reserve("x")
		b, _ := p.Reserve("x")
		go func() { _, _ = a.Conn(t.Context()) }()
		synctest.Wait()
		go func() { _, _ = b.Conn(t.Context()) }()
		time.Sleep(2*time.Second - 1)
		refused(t, p, "x")
		freed := atomic.Bool{}
		p.OnFree(func() { freed.Store(true) })
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !freed.Load() {
			t.Error("nobody was told")
		}
		lend(t, p, "x").Release()
		b.Release()
	})
}

func TestEventsHaveThePoolsName(t *testing.T) {
	heard := make(chan event.Event, 8)
	p, err := New(Config[string, int]{
		Name: "sessions", Open: func(context.Context, string) (int, error) { return 1, nil },
		OnEvent: func(e event.Event) { heard <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if e := <-heard; e.Name != "sessions" {
		t.Errorf("%+v", e)
	}
	r.Release()
}
