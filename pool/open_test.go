package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
)

// fails reserves for sel, and wants Conn to fail after d.
func fails(t *testing.T, p *Pool[string, *link], sel string, d time.Duration) error {
	t.Helper()
	r, ok := p.Reserve(sel)
	if !ok {
		t.Fatalf("Reserve(%q) is false", sel)
	}
	began := time.Now()
	l, err := r.Conn(t.Context())
	if err == nil || l != nil || time.Since(began) != d {
		t.Fatalf("Conn: %v, %v after %v, want an error after %v", l, err, time.Since(began), d)
	}
	if _, again := r.Conn(t.Context()); again != err || r.Ready() || r.Value() != nil {
		t.Errorf("Conn again: %v, %v; Ready %v", again, err, r.Ready())
	}
	if !isRefused(err) {
		t.Errorf("%v is no refusal", err)
	}
	r.Release()
	r.Discard(nil)
	return err
}

func TestOpenGetsTheValuesOfConnsContextButNotItsEnd(t *testing.T) {
	type key struct{}
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(ctx context.Context, _ string, _ int) error {
			if ctx.Value(key{}) != "v" {
				t.Errorf("value %v", ctx.Value(key{}))
			}
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != 30*time.Second {
				t.Errorf("deadline in %v, %v", time.Until(at), ok)
			}
			time.Sleep(10 * time.Second)
			return ctx.Err()
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		r, _ := p.Reserve("x")
		began := time.Now()
		_, err := r.Conn(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !isRefused(err) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, ok := errors.AsType[*OpenError](err); ok {
			t.Error("that is no OpenError: Open has not failed")
		}
		r.Release()
		refused(t, p, "x") // the Open holds the place
		freed := 0
		p.OnFree(func() { freed++ })
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if r, ok := p.Reserve("x"); !ok || !r.Ready() || freed == 0 {
			t.Error("the late connection is not idle, or nobody was told", ok, freed)
		} else {
			r.Release()
		}
		if st := p.Stats(); st.Created != 1 || st.Failed != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAnOpenThatIgnoresItsContextIsBoundedByOpenTimeout(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.OpenTimeout = 2, 5*time.Second }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = ignore(time.Minute)
		err := fails(t, p, "x", 5*time.Second)
		if e, ok := errors.AsType[*OpenError](err); !ok || e.Selector != "x" || !errors.Is(err, ErrOpenTimeout) || e.Permanent() {
			t.Errorf("%#v", err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("looks like the caller's deadline")
		}
		if d := time.Until(p.NotBefore("x")); d != 100*time.Millisecond {
			t.Errorf("backs off for %v", d)
		}
		if st := p.Stats(); st.Opening != 1 || st.Failed != 1 || p.used != 1 {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Minute - 5*time.Second)
		synctest.Wait()
		if !p.Idle("x") || !p.NotBefore("x").IsZero() {
			t.Error("the late connection is not used")
		}
		if s.kinds(event.PoolFailed) != 1 || s.kinds(event.PoolCreated) != 1 || s.last(event.PoolCreated).Delay != time.Minute {
			t.Error(s.events)
		}
	})
}

func TestAnOpenThatHeedsItsContextFailsWithErrOpenTimeoutToo(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(ctx context.Context, _ string, _ int) error { <-ctx.Done(); return ctx.Err() }
		if err := fails(t, p, "x", 30*time.Second); !errors.Is(err, ErrOpenTimeout) {
			t.Error(err)
		}
		synctest.Wait()
		if p.Full("x") || p.used != 0 {
			t.Error("the place was lost")
		}
	})
}

func TestASlowCloseOfAStolenConnectionIsBoundedByOpenTimeout(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.OpenTimeout = 1, time.Second }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		lend(t, p, "a").Release()
		s.onClose = func(*link) { time.Sleep(10 * time.Second) }
		if err := fails(t, p, "b", time.Second); !errors.Is(err, ErrOpenTimeout) {
			t.Error(err)
		}
		refused(t, p, "a")
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if s.opens != 1 || p.used != 0 {
			t.Errorf("Open was called for nobody: %d; %d used", s.opens, p.used)
		}
	})
}

func TestFailedOpensBackOffPerSelector(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, sel string, n int) error {
			if sel == "down" {
				return io.EOF
			}
			return nil
		}
		for _, want := range []time.Duration{100e6, 200e6, 400e6, 800e6, 1600e6, 3200e6, 6400e6, 10e9, 10e9} {
			err := fails(t, p, "down", 0)
			if !errors.Is(err, io.EOF) || err.Error() != "pool: open down: EOF" {
				t.Error(err)
			}
			if d := time.Until(p.NotBefore("down")); d != want {
				t.Errorf("backs off for %v, want %v", d, want)
			}
			refused(t, p, "down")
			if p.Full("down") {
				t.Error("a backoff is not full")
			}
			lend(t, p, "up").Discard(nil) // others do not wait
			synctest.Wait()
			time.Sleep(want - 1)
			refused(t, p, "down")
			time.Sleep(time.Nanosecond)
		}
		if at := p.NotBefore("down"); time.Until(at) != 0 {
			t.Error("a backoff just past cannot be told from none")
		}
		s.onOpen = nil
		r := lend(t, p, "down")
		if at := p.NotBefore("down"); !at.IsZero() {
			t.Errorf("a success leaves a backoff: %v", time.Until(at))
		}
		r.Discard(nil)
		synctest.Wait()
		s.onOpen = func(context.Context, string, int) error { return io.EOF }
		_ = fails(t, p, "down", 0)
		if d := time.Until(p.NotBefore("down")); d != 100*time.Millisecond {
			t.Errorf("after a success it begins with %v", d)
		}
		synctest.Wait()
		if s.kinds(event.PoolFailed) != 10 {
			t.Error(s.kinds(event.PoolFailed))
		}
	})
}

func TestABackoffLetsIdleConnectionsBeUsed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		r := lend(t, p, "x")
		s.onOpen = func(context.Context, string, int) error { return io.EOF }
		_ = fails(t, p, "x", 0)
		r.Release()
		r = lend(t, p, "x")
		refused(t, p, "x")
		r.Release()
	})
}

func TestOpensThatFailTogetherAreOneFailure(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(context.Context, string, int) error { time.Sleep(time.Second); return io.EOF }
		late, _ := p.Reserve("x")
		done := make(chan bool)
		for range 8 {
			go func() { _ = fails(t, p, "x", time.Second); done <- true }()
		}
		for range 8 {
			<-done
		}
		if d := time.Until(p.NotBefore("x")); d != 100*time.Millisecond {
			t.Errorf("backs off for %v", d)
		}
		// A reservation from before the backoff gets the error, and opens nothing.
		if _, err := late.Conn(t.Context()); !errors.Is(err, io.EOF) || s.opens != 8 {
			t.Errorf("%v, %d opened", err, s.opens)
		}
		if p.used != 0 {
			t.Errorf("%d used", p.used)
		}
		time.Sleep(100 * time.Millisecond)
		_ = fails(t, p, "x", time.Second)
		if d := time.Until(p.NotBefore("x")); d != 200*time.Millisecond {
			t.Errorf("then for %v", d)
		}
	})
}

func TestFailuresAreForgotten(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(context.Context, string, int) error { return io.EOF }
		for i := range 500 {
			_ = fails(t, p, fmt.Sprint(i), 0)
		}
		if n := p.Stats().Selectors; n != 500 {
			t.Errorf("%d selectors", n)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := p.Stats().Selectors; n != 0 || len(p.failing) != 0 || !p.tickAt.IsZero() {
			t.Errorf("%d selectors, %d failing, timer at %v", n, len(p.failing), p.tickAt)
		}
		_ = fails(t, p, "0", 0)
		if d := time.Until(p.NotBefore("0")); d != 100*time.Millisecond {
			t.Errorf("begins with %v", d)
		}
	})
}

// A connection that was good ends the memory of one that was not, and with it a backoff
// that outlasts it: who waits for its end is served then, before any who come later.
func TestWhoWaitsForABackoffThatIsForgottenIsServed(t *testing.T) {
	bubble(t, func(c cfg) {
		c.MaxUses, c.OpenBackoff = 1, backoff.Constant(2*failureMemory)
	}, func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b := lend(t, p, "x"), lend(t, p, "x")
		b.Discard(errBroken)
		began, waited := time.Now(), time.Duration(-1)
		go func() {
			r, err := p.Acquire(t.Context(), "x")
			if err != nil {
				t.Error(err)
				return
			}
			waited = time.Since(began)
			r.Release()
		}()
		synctest.Wait()
		a.Release()
		time.Sleep(failureMemory)
		synctest.Wait()
		if !p.NotBefore("x").IsZero() || waited != failureMemory {
			t.Errorf("the backoff ends at %v, and who waited for it did so for %v", p.NotBefore("x"), waited)
		}
		time.Sleep(failureMemory)
	})
}

func TestAScheduleIsAskedWithTheStepAndMayEndOrPanic(t *testing.T) {
	var steps []backoff.Step
	var p *Pool[string, *link]
	bubble(t, func(c cfg) {
		c.OpenBackoff = backoff.Func(func(s backoff.Step) (time.Duration, bool) {
			_ = p.Stats() // not under a lock
			steps = append(steps, s)
			switch s.Attempt {
			case 1:
				return time.Second, true
			case 2:
				return 0, false
			}
			panic("no")
		})
	}, func(t *testing.T, s *server, pool *Pool[string, *link]) {
		p = pool
		s.onOpen = func(context.Context, string, int) error { return io.EOF }
		for range 3 {
			_ = fails(t, p, "x", 0)
			if d := time.Until(p.NotBefore("x")); d != time.Second {
				t.Errorf("backs off for %v", d)
			}
			time.Sleep(time.Second)
		}
		if s := steps[2]; s.Attempt != 3 || s.Prev != time.Second || s.Elapsed != 2*time.Second || s.Err != io.EOF {
			t.Errorf("%+v", s)
		}
	})
}

type marked struct{ permanent bool }

func (m marked) Error() string   { return "marked" }
func (m marked) Permanent() bool { return m.permanent }

func TestPermanentLooksAtAllThatIsWrapped(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.EOF, false}, {nil, false}, {marked{false}, false}, {marked{true}, true},
		{fmt.Errorf("a: %w", marked{true}), true},
		{errors.Join(io.EOF, marked{false}, fmt.Errorf("b: %w", marked{true})), true},
		{fmt.Errorf("%w, %w", marked{false}, io.EOF), false},
	} {
		if got := (&OpenError{Err: c.err}).Permanent(); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestAPermanentFailureIsToldToAllWhoWaitForTheSelector(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxPerSelector = 2, 1 }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, sel string, _ int) error {
			time.Sleep(time.Second)
			if sel == "unknown" {
				return marked{true}
			}
			return nil
		}
		began := time.Now()
		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := p.Acquire(t.Context(), "unknown")
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; !errors.Is(err, marked{true}) || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		if _, err := p.Acquire(t.Context(), "unknown"); !errors.Is(err, marked{true}) || time.Since(began) != time.Second || s.opens != 1 {
			t.Errorf("%v after %v, %d opened", err, time.Since(began), s.opens)
		}
		if err := p.Refusal("unknown"); !errors.Is(err, marked{true}) {
			t.Errorf("Refusal: %v", err)
		}
		if err := p.Refusal("other"); err != nil {
			t.Errorf("Refusal of another: %v", err)
		}
		time.Sleep(time.Hour)
		if err := p.Refusal("unknown"); err != nil {
			t.Errorf("Refusal after the backoff: %v", err)
		}
	})
}

func TestPanicAndGoexitInOpenAreErrors(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, _ string, n int) error {
			if n == 1 {
				panic("oops")
			}
			return goexit()
		}
		err := fails(t, p, "x", 0)
		if e, ok := errors.AsType[*PanicError](err); !ok || e.Value != "oops" || !strings.Contains(string(e.Stack), "open_test.go") {
			t.Errorf("%#v", err)
		}
		time.Sleep(time.Second)
		if err := fails(t, p, "x", 0); !errors.Is(err, ErrGoexit) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		s.onOpen = nil
		lend(t, p, "x").Release()
	})
}

func TestAnErrorOfAnotherClosedPoolIsNotTakenForOurs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(context.Context, string, int) error { return ErrClosed }
		if e, ok := errors.AsType[*OpenError](fails(t, p, "x", 0)); !ok || e.Err != ErrClosed {
			t.Error(e)
		}
	})
}

func TestABackoffIsCertainWhereNoConnectionMayComeBack(t *testing.T) {
	bubble(t, func(c cfg) { c.Max = 2 }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		used := lend(t, p, "x")
		s.onOpen = func(context.Context, string, int) error { return io.EOF }
		fails(t, p, "x", 0)
		if at := p.Earliest("x"); !at.IsZero() || p.NotBefore("x").IsZero() {
			t.Errorf("one is in use: nothing before %v", time.Until(at))
		}
		used.Discard(nil)
		synctest.Wait()
		if at := p.Earliest("x"); !at.Equal(p.NotBefore("x")) || time.Until(at) != 100*time.Millisecond {
			t.Errorf("none is left: nothing before %v", time.Until(at))
		}
		if at := p.Earliest("y"); !at.IsZero() {
			t.Errorf("another selector: nothing before %v", time.Until(at))
		}
	})
}
