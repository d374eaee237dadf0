package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
)

// bubble runs a test with virtual time, a server and a pool, which it closes.
func bubble(t *testing.T, edit func(*Config[string, *link]), test func(t *testing.T, s *server, p *Pool[string, *link])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		p := s.pool(edit)
		test(t, s, p)
		synctest.Wait()
		s.consistent(p)
		s.finish(p)
	})
}

type cfg = *Config[string, *link]

func limit(n int) func(cfg) { return func(c cfg) { c.Max = n } }

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	s := newServer(t)
	for field, edit := range map[string]func(cfg){
		"Open":           func(c cfg) { c.Open = nil },
		"Max":            func(c cfg) { c.Max = -1 },
		"MaxPerSelector": func(c cfg) { c.MaxPerSelector = -2 },
		"MaxUses":        func(c cfg) { c.MaxUses = math.MaxInt32 + 1 },
		"OpenTimeout":    func(c cfg) { c.OpenTimeout = -time.Second },
		"MaxAge":         func(c cfg) { c.MaxAge = -1 },
		"IdleTimeout":    func(c cfg) { c.IdleTimeout = -1 },
		"CheckAfter":     func(c cfg) { c.CheckAfter = -1 },
		"OpenBackoff":    func(c cfg) { c.OpenBackoff = backoff.Constant(-1) },
	} {
		c := s.config()
		edit(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "pool: Config."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	p, err := New(Config[int, int]{Open: func(context.Context, int) (int, error) { return 0, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Max() != 16 || p.cfg.OpenTimeout != 30*time.Second || p.IsBad(errBroken) || p.IsBad(nil) {
		t.Errorf("%+v", p.cfg)
	}
}

func TestReserveTakesTheIdleOneUsedLast(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b, c := lend(t, p, "x"), lend(t, p, "x"), lend(t, p, "x")
		want := b.Value()
		c.Release()
		a.Release()
		b.Release()
		r, ok := p.Reserve("x")
		if !ok || !r.Ready() || r.Value() != nil {
			t.Fatal("no idle one", ok)
		}
		if got, err := r.Conn(none); got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		r.Release()
		if s.opens != 3 {
			t.Errorf("%d opened", s.opens)
		}
	})
}

func TestReserveCreatesWhileThereIsCapacityAndThenStealsTheLeastRecentlyUsed(t *testing.T) {
	bubble(t, limit(3), func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b, c := lend(t, p, "a"), lend(t, p, "b"), lend(t, p, "c")
		refused(t, p, "d")
		if !p.Full("d") || !p.Full("a") {
			t.Error("not full")
		}
		victim := b.Value().id
		b.Release()
		a.Release()
		c.Release()
		if p.Full("d") || !p.Idle("a") || p.Idle("d") {
			t.Error("full, or idle")
		}
		r, ok := p.Reserve("d")
		if !ok || r.Ready() {
			t.Fatal("nothing to steal")
		}
		if n := len(s.closed); n != 0 {
			t.Errorf("Reserve closed %d", n)
		}
		if _, err := r.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.closed[victim] != 1 || len(s.closed) != 1 {
			t.Errorf("closed %v, want %d", s.closed, victim)
		}
		if e := s.last(event.PoolStolen); e.Source != "b" || e.Err != nil {
			t.Errorf("event %+v", e)
		}
		if st := p.Stats(); st.Stolen != 1 || st.Created != 4 || st.Open != 3 || st.Idle != 2 || st.InUse != 1 || st.Selectors != 3 {
			t.Errorf("%+v", st)
		}
		r.Release()
	})
}

// Displaces says what Reserve is about to do, whatever has happened before.
func TestDisplacesNamesWhomReserveWouldCloseForAnother(t *testing.T) {
	for _, set := range []func(cfg){
		func(cfg) {},
		func(c cfg) { c.MaxPerSelector = 2 },
		func(c cfg) { c.MaxAge = time.Second },
	} {
		bubble(t, func(c cfg) { c.Max = 3; set(c) }, func(t *testing.T, s *server, p *Pool[string, *link]) {
			s.onOpen = func(_ context.Context, sel string, n int) error {
				if sel == "d" && n%2 == 0 {
					return io.EOF
				}
				return nil
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var lent []*Reservation[string, *link]
			named := 0
			for range 2000 {
				time.Sleep(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
				if len(lent) > 0 && rng.IntN(2) == 0 {
					i := rng.IntN(len(lent))
					lent[i].Release()
					lent = slices.Delete(lent, i, i+1)
					continue
				}
				sel := string(rune('a' + rng.IntN(4)))
				victim, ok := p.Displaces(sel)
				r, reserved := p.Reserve(sel)
				want := ""
				if reserved && r.state.Load() == stateNew && r.conn != nil && r.conn.entry.sel != sel && p.unfit(r.conn, p.now()) == nil {
					want = r.conn.entry.sel
				}
				if victim != want || ok != (want != "") {
					t.Fatalf("says %q, %v; then Reserve would close one of %q", victim, ok, want)
				}
				if ok {
					named++
				}
				if reserved {
					if _, err := r.Conn(t.Context()); err == nil {
						lent = append(lent, r)
					} else {
						r.Release()
					}
				}
			}
			for _, r := range lent {
				r.Release()
			}
			if named < 50 {
				t.Errorf("named somebody %d times", named)
			}
		})
	}
}

func TestAReservationThatWouldHaveStolenGivesTheIdleOneBack(t *testing.T) {
	for _, discard := range []bool{false, true} {
		bubble(t, limit(2), func(t *testing.T, s *server, p *Pool[string, *link]) {
			a, b := lend(t, p, "a"), lend(t, p, "b")
			a.Release()
			b.Release()
			r, _ := p.Reserve("c")
			refusedSteal, ok := p.Reserve("d")
			if !ok {
				t.Fatal("b was there to steal")
			}
			if discard {
				r.Discard(errBroken)
			} else {
				r.Release()
			}
			refusedSteal.Release()
			if st := p.Stats(); st.Idle != 2 || st.Selectors != 2 || len(s.closed) != 0 {
				t.Errorf("%+v", st)
			}
			// The order of use is what it was.
			r, _ = p.Reserve("c")
			if r.conn.entry.sel != "a" {
				t.Errorf("would steal %q", r.conn.entry.sel)
			}
			r.Release()
		})
	}
}

func TestStealingOpensOnlyAfterCloseHasReturned(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onClose = func(*link) { time.Sleep(7 * time.Second) }
		lend(t, p, "a").Release()
		began := time.Now()
		r := lend(t, p, "b")
		if d := time.Since(began); d != 7*time.Second {
			t.Errorf("took %v", d)
		}
		began = time.Now()
		r.Discard(nil)
		if d := time.Since(began); d != 0 {
			t.Errorf("Discard took %v", d)
		}
		refused(t, p, "b") // its place is free when it is closed
		freed := make(chan time.Duration, 9)
		p.OnFree(func() { freed <- time.Since(began) })
		if d := <-freed; d != 7*time.Second {
			t.Errorf("free after %v", d)
		}
		lend(t, p, "b").Release()
	})
}

func TestMaxPerSelectorHoldsAlsoWhileOneIsClosing(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxPerSelector, c.IdleTimeout = 5, 2, time.Minute }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onClose = func(*link) { time.Sleep(time.Second) }
		a, b := lend(t, p, "x"), lend(t, p, "x")
		refused(t, p, "x")
		if !p.Full("x") || p.Full("y") {
			t.Error("Full")
		}
		a.Discard(nil)
		refused(t, p, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		if p.Full("x") {
			t.Error("Full")
		}
		a = lend(t, p, "x")
		a.Release()
		b.Release()
	})
}

func TestAnExpiredConnectionIsReplacedByItsOwnSelector(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxPerSelector, c.MaxAge = 2, 1, time.Minute }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onClose = func(*link) { time.Sleep(time.Second) }
		lend(t, p, "x").Release()
		time.Sleep(time.Minute - 1)
		// Stop the timer, as if it were late, to find it expired.
		p.timer.Stop()
		time.Sleep(time.Nanosecond)
		if p.Full("x") || p.Idle("x") {
			t.Error("Full or Idle")
		}
		r, ok := p.Reserve("x")
		if !ok || r.Ready() {
			t.Fatal("not replaced", ok)
		}
		refused(t, p, "x")
		r.Release() // not needed after all; too old to become idle again
		refused(t, p, "x")
		time.Sleep(time.Second)
		synctest.Wait()
		r = lend(t, p, "x")
		r.Release()
		if e := s.last(event.PoolDiscarded); e.Err == nil || !errors.Is(e.Err, errAge) {
			t.Errorf("%+v", e)
		}

		time.Sleep(time.Minute - 1)
		p.timer.Stop()
		time.Sleep(time.Nanosecond)
		began := time.Now()
		r = lend(t, p, "x") // closes and opens
		if time.Since(began) != time.Second {
			t.Error(time.Since(began))
		}
		r.Release()
	})
}

// The connection used last may be the oldest, and too old when another one still is not:
// who comes before the timer gets that one, and the other is closed.
func TestAnOldConnectionIsClosedWhenAYoungerOneIsLent(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxAge = 2, 10*time.Second }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		old := lend(t, p, "x")
		time.Sleep(5 * time.Second)
		young := lend(t, p, "x")
		is := young.Value()
		young.Release()
		old.Release()
		p.timer.Stop() // it is late
		time.Sleep(5 * time.Second)
		r := lend(t, p, "x")
		if r.Value() != is {
			t.Errorf("link %d is lent, want the younger one", r.Value().id)
		}
		synctest.Wait()
		if st := p.Stats(); st.Open != 1 || st.Discarded != 1 {
			t.Errorf("%d open, %d discarded, want 1 and 1", st.Open, st.Discarded)
		}
		r.Release()
	})
}

func TestMaxAgeMaxUsesAndIdleTimeout(t *testing.T) {
	discardedAfter := func(edit func(cfg), use func(t *testing.T, p *Pool[string, *link]), want time.Duration, why error) func(*testing.T) {
		return func(t *testing.T) {
			bubble(t, edit, func(t *testing.T, s *server, p *Pool[string, *link]) {
				began := time.Now()
				use(t, p)
				for s.kinds(event.PoolDiscarded) == 0 && time.Since(began) < time.Hour {
					time.Sleep(time.Second / 2)
					synctest.Wait()
				}
				if e := s.last(event.PoolDiscarded); e.Time.Sub(began) != want || !errors.Is(e.Err, why) || e.Source != "x" {
					t.Errorf("after %v: %+v", e.Time.Sub(began), e)
				}
				if st := p.Stats(); st.Open != 0 || st.Selectors != 0 || !p.tickAt.IsZero() {
					t.Errorf("left: %+v, timer at %v", st, p.tickAt)
				}
			})
		}
	}
	once := func(t *testing.T, p *Pool[string, *link]) { lend(t, p, "x").Release() }
	t.Run("idle to MaxAge", discardedAfter(func(c cfg) { c.MaxAge = 9 * time.Second }, once, 9*time.Second, errAge))
	t.Run("idle to IdleTimeout", discardedAfter(func(c cfg) { c.IdleTimeout = 5 * time.Second }, once, 5*time.Second, errIdle))
	t.Run("given back after MaxAge", discardedAfter(func(c cfg) { c.MaxAge = 9 * time.Second }, func(t *testing.T, p *Pool[string, *link]) {
		r := lend(t, p, "x")
		time.Sleep(20 * time.Second)
		r.Release()
	}, 20*time.Second, errAge))
	t.Run("lent is not idle", discardedAfter(func(c cfg) { c.IdleTimeout = 5 * time.Second }, func(t *testing.T, p *Pool[string, *link]) {
		r := lend(t, p, "x")
		time.Sleep(20 * time.Second)
		r.Release()
		time.Sleep(3 * time.Second)
		r = lend(t, p, "x")
		r.Release()
	}, 28*time.Second, errIdle))
	t.Run("MaxUses", discardedAfter(func(c cfg) { c.MaxUses = 3 }, func(t *testing.T, p *Pool[string, *link]) {
		for range 3 {
			once(t, p)
		}
	}, 0, errUses))
	t.Run("a reservation is no use", discardedAfter(func(c cfg) { c.MaxUses, c.IdleTimeout = 2, 5*time.Second }, func(t *testing.T, p *Pool[string, *link]) {
		once(t, p)
		for range 4 {
			time.Sleep(time.Second)
			r, _ := p.Reserve("x")
			r.Release()
		}
	}, 5*time.Second, errIdle))
}

func TestIdleTimersAreSetAgainForThoseThatRemain(t *testing.T) {
	bubble(t, func(c cfg) { c.IdleTimeout, c.MaxAge = 10*time.Second, 25*time.Second }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b := lend(t, p, "a"), lend(t, p, "b")
		a.Release()
		time.Sleep(4 * time.Second)
		b.Release()
		idle := func(at time.Duration, want int) {
			t.Helper()
			time.Sleep(at)
			synctest.Wait()
			if n := p.Stats().Idle; n != want {
				t.Errorf("%d idle, want %d", n, want)
			}
		}
		idle(6*time.Second-1, 2)
		idle(1, 1)
		idle(4*time.Second-1, 1)
		idle(1, 0)
	})
}

func TestHostileSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type pair struct{ a, b any }
		p, err := New(Config[any, int]{Open: func(context.Context, any) (int, error) { return 1, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, sel := range []any{math.NaN(), []int{1}, map[string]int{}, func() {}, [1]any{math.NaN()}, pair{1, []int{}}, struct{ x complex128 }{complex(0, math.NaN())}} {
			if _, ok := p.Reserve(sel); ok {
				t.Errorf("reserved for %T", sel)
			}
			if _, err := p.Acquire(t.Context(), sel); !errors.Is(err, ErrSelector) || !isRefused(err) {
				t.Errorf("%T: %v", sel, err)
			}
			if _, ok := p.Displaces(sel); ok || !p.Full(sel) || p.Idle(sel) || !p.NotBefore(sel).IsZero() {
				t.Errorf("%T", sel)
			}
		}
		for _, sel := range []any{nil, 1.5, pair{1, "x"}, &pair{}} {
			r, err := p.Acquire(t.Context(), sel)
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		if n := p.Stats().Selectors; n != 4 {
			t.Errorf("%d selectors", n)
		}
	})
}

func TestNothingIsKeptAboutSelectorsThatAreNotUsed(t *testing.T) {
	bubble(t, limit(4), func(t *testing.T, s *server, p *Pool[string, *link]) {
		held := lend(t, p, "held")
		for i := range 1000 {
			lend(t, p, fmt.Sprint(i)).Release()
		}
		synctest.Wait()
		if n := p.Stats().Selectors; n != 4 {
			t.Errorf("%d selectors after 1000", n)
		}
		var rs []*Reservation[string, *link]
		for range 3 {
			rs = append(rs, lend(t, p, "held"))
		}
		synctest.Wait()
		for i := range 1000 {
			refused(t, p, fmt.Sprint(i))
		}
		if n := p.Stats().Selectors; n != 1 {
			t.Errorf("%d selectors after 1000 refusals", n)
		}
		for _, r := range append(rs, held) {
			r.Discard(nil)
		}
		synctest.Wait()
		if n := p.Stats().Selectors; n != 0 {
			t.Errorf("%d selectors at rest", n)
		}
	})
}

func TestStatsAsJSON(t *testing.T) {
	b, err := json.Marshal(Stats{Max: 3, InUse: 2})
	if err != nil || !strings.Contains(string(b), `"max":3,`) || !strings.Contains(string(b), `"in_use":2,`) {
		t.Error(string(b), err)
	}
}

func TestReserveAndReleaseOfAnIdleConnectionAllocateOnce(t *testing.T) {
	s := newServer(t)
	p := s.pool(func(c cfg) { c.IdleTimeout, c.CheckAfter, c.Check = time.Hour, time.Hour, s.check })
	defer p.Close()
	lend(t, p, "x").Release()
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		r, _ := p.Reserve("x")
		if _, err := r.Conn(ctx); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReserveRelease(b *testing.B) {
	p, err := New(Config[string, int]{Open: func(context.Context, string) (int, error) { return 1, nil }, Max: 64})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	r, err := p.Acquire(b.Context(), "x")
	if err != nil {
		b.Fatal(err)
	}
	r.Release()
	b.ReportAllocs()
	for b.Loop() {
		r, _ := p.Reserve("x")
		_, _ = r.Conn(b.Context())
		r.Release()
	}
}

func TestAConnectionThatComesBackUnusedKeepsItsPlaceInTheOrder(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b, c := lend(t, p, "x"), lend(t, p, "x"), lend(t, p, "x")
		want := c.Value()
		a.Release()
		b.Release()
		unused, _ := p.Reserve("x")
		c.Release()
		unused.Release()
		r := lend(t, p, "x")
		if r.Value() != want {
			t.Errorf("got %v, want the one used last, %v", r.Value(), want)
		}
		r.Release()
	})
}

func TestAllExpiredConnectionsThatAreFoundAreClosed(t *testing.T) {
	for _, limit := range []int{3, 5} {
		bubble(t, func(c cfg) { c.Max, c.IdleTimeout = limit, time.Minute }, func(t *testing.T, s *server, p *Pool[string, *link]) {
			a, b, c := lend(t, p, "x"), lend(t, p, "x"), lend(t, p, "x")
			a.Release()
			b.Release()
			c.Release()
			p.timer.Stop() // as if it were late
			time.Sleep(time.Minute)
			r := lend(t, p, "x")
			synctest.Wait()
			if st := p.Stats(); st.Discarded != 3 || st.Open != 1 || p.used != 1 {
				t.Errorf("%+v", st)
			}
			r.Release()
		})
	}
}

func TestAnExpiredConnectionIsClosedAlsoWhenTheSelectorBacksOff(t *testing.T) {
	bubble(t, func(c cfg) { c.IdleTimeout = time.Minute }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		r := lend(t, p, "x")
		s.onOpen = func(context.Context, string, int) error { return errBroken }
		r.Release()
		p.timer.Stop()
		time.Sleep(time.Minute - 1)
		held, _ := p.Reserve("x")
		_ = fails(t, p, "x", 0)
		held.Release() // unused: its idle time goes on
		p.timer.Stop()
		time.Sleep(time.Nanosecond)
		refused(t, p, "x")
		synctest.Wait()
		if st := p.Stats(); st.Discarded != 1 || st.Open != 0 {
			t.Errorf("%+v", st)
		}
	})
}
