package pool

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

func open(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return false
	default:
		return true
	}
}

func TestCloseRefusesAtOnceAndWaitsForWhatIsLent(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onClose = func(*link) { time.Sleep(time.Second) }
		lend(t, p, "idle").Release()
		a, b := lend(t, p, "x"), lend(t, p, "x")
		ready, _ := p.Reserve("idle")
		began := time.Now()
		p.Shutdown()
		p.Shutdown()
		if time.Since(began) != 0 || !open(p.Done()) {
			t.Error("Shutdown waits")
		}
		for range 3 { // repeatable, from anywhere
			go func() {
				p.Close()
				if d := time.Since(began); d != 6*time.Second {
					t.Errorf("Close returned after %v", d)
				}
			}()
		}
		refused(t, p, "x")
		if !p.Full("x") || p.Idle("idle") {
			t.Error("not full, or idle")
		}
		if _, err := p.Acquire(t.Context(), "x"); !errors.Is(err, ErrClosed) || !isRefused(err) {
			t.Error(err)
		}
		// What was promised before is kept, as nothing has to be opened for it.
		if _, err := ready.Conn(t.Context()); err != nil {
			t.Error(err)
		}
		ready.Release()
		a.Release()
		time.Sleep(5 * time.Second)
		b.Discard(nil)
		p.Close()
		p.Close()
		synctest.Wait()
		if s.kinds(event.PoolDiscarded) != 1 { // b; the others are no loss
			t.Error(s.events)
		}
	})
}

func TestCloseWakesAllWhoWait(t *testing.T) {
	bubble(t, limit(2), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(ctx context.Context, sel string, _ int) error {
			if sel == "slow" {
				time.Sleep(time.Minute) // deaf
			}
			return nil
		}
		held := lend(t, p, "x")
		began := time.Now()
		ended := make(chan error, 9)
		for _, sel := range []string{"slow", "x", "y", "y"} {
			go func() {
				_, err := p.Acquire(t.Context(), sel)
				ended <- err
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		p.Shutdown()
		for range 4 {
			if err := <-ended; err != ErrClosed || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		held.Release()
		p.Close()
		if d := time.Since(began); d != time.Minute { // the late link is closed
			t.Errorf("Close returned after %v", d)
		}
		if len(s.closed) != 2 {
			t.Error(s.closed)
		}
	})
}

func TestCloseEndsTheContextOfOpenAndCheck(t *testing.T) {
	for _, sel := range []string{"open", "check"} {
		bubble(t, func(c cfg) {
			c.Check = func(ctx context.Context, _ string, _ *link) error { <-ctx.Done(); return ctx.Err() }
		}, func(t *testing.T, s *server, p *Pool[string, *link]) {
			if sel == "check" {
				lend(t, p, sel).Release()
			} else {
				s.onOpen = func(ctx context.Context, _ string, _ int) error { <-ctx.Done(); return context.Cause(ctx) }
			}
			r, _ := p.Reserve(sel)
			began := time.Now()
			go func() { time.Sleep(time.Second); p.Close() }()
			if _, err := r.Conn(t.Context()); err != ErrClosed || time.Since(began) != time.Second {
				t.Errorf("%s: %v after %v", sel, err, time.Since(began))
			}
			r.Release()
			synctest.Wait()
			if len(s.events) > 1 || open(p.Done()) {
				t.Error(s.events)
			}
		})
	}
}

func TestConnAfterCloseOpensNothing(t *testing.T) {
	bubble(t, limit(3), func(t *testing.T, s *server, p *Pool[string, *link]) {
		for _, sel := range []string{"a", "b", "c"} {
			lend(t, p, sel).Release()
		}
		steal, _ := p.Reserve("d")
		s.consistent(p)
		b := lend(t, p, "b")
		b.Discard(nil)
		synctest.Wait()
		create, _ := p.Reserve("b")
		unused, _ := p.Reserve("e")
		p.Shutdown()
		for _, r := range []*Reservation[string, *link]{steal, create} {
			if _, err := r.Conn(t.Context()); err != ErrClosed {
				t.Error(err)
			}
			r.Release()
		}
		unused.Release()
		p.Close()
		if s.opens != 3 || p.used != 0 || len(p.sels) != 0 {
			t.Errorf("%d opened, %d used", s.opens, p.used)
		}
	})
}

// Puddle's issue 8: something is opened just while the pool is closed.
func TestOpensThatSucceedDuringCloseAreClosed(t *testing.T) {
	for i := range 300 {
		s := newServer(t)
		p := s.pool(limit(4))
		begin := make(chan bool)
		s.onOpen = func(context.Context, string, int) error {
			for range i { // a little later each time
				_ = p.Max()
			}
			return nil
		}
		ended := make(chan bool)
		for range 4 {
			go func() {
				r, ok := p.Reserve("x")
				<-begin
				if ok {
					_, _ = r.Conn(t.Context())
					r.Release()
				}
				ended <- true
			}()
		}
		close(begin)
		s.finish(p)
		for range 4 {
			<-ended
		}
	}
}

func TestAPanicOrGoexitInCloseDoesNotHoldUpThePool(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onClose = func(l *link) {
			if l.id == 1 {
				panic("oops")
			}
			_ = goexit()
		}
		for range 2 {
			lend(t, p, "x").Discard(errBroken)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for _, e := range s.events {
			if p, ok := errors.AsType[*PanicError](e.Err); e.Kind == event.PoolDiscarded && (!errors.Is(e.Err, errBroken) || ok && p.Value != "oops") {
				t.Error(e.Err)
			}
		}
		if p.Stats().Discarded != 2 {
			t.Error(p.Stats())
		}
	})
}

func TestCloseWaitsForTheLastEvent(t *testing.T) {
	heard := false
	bubble(t, func(c cfg) {
		c.OnEvent = func(e event.Event) {
			if e.Kind == event.PoolDiscarded {
				time.Sleep(time.Second)
				heard = true
			}
		}
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		lend(t, p, "x").Discard(nil)
		p.Close()
		if !heard {
			t.Error("an event after Close")
		}
	})
}

func TestNoTimerIsLeftAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		p := s.pool(func(c cfg) { c.IdleTimeout = time.Minute })
		lend(t, p, "x").Release()
		s.finish(p)
		if p.timer.Stop() {
			t.Error("the timer runs")
		}
		p.tick()
		if p.timer.Stop() {
			t.Error("the timer runs again")
		}
		called := false
		p.OnFree(func() { called = true })
		p.free()
		if called {
			t.Error("OnFree after Close")
		}
	})
}
