package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAcquireServesInTheOrderOfComing(t *testing.T) {
	bubble(t, limit(2), func(t *testing.T, s *server, p *Pool[string, *link]) {
		a, b := lend(t, p, "a"), lend(t, p, "b")
		var order []int
		for i := range 6 {
			go func() {
				r, err := p.Acquire(t.Context(), string(rune('c'+i)))
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one holds all that is free
				time.Sleep(time.Second)
				r.Release()
			}()
			synctest.Wait()
		}
		if n := p.Stats().Waiting; n != 6 {
			t.Errorf("%d wait", n)
		}
		a.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		b.Release()
		for i, n := range order {
			if i != n {
				t.Fatal(order)
			}
		}
		if len(order) != 6 {
			t.Error(order)
		}
	})
}

// Whoever is first is passed over by those for whose selector a connection has come back,
// four times for each connection that there may be, and no more often.
func TestAcquireLendsAConnectionToWhoWaitsForItBeforeItReplacesIt(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		held := lend(t, p, "a")
		var order []string
		for _, sel := range strings.Split("aabaaaaaba", "") {
			go func() {
				r, err := p.Acquire(t.Context(), sel)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, sel) // one holds all that is free
				time.Sleep(time.Second)
				r.Release()
			}()
			synctest.Wait()
		}
		held.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Join(order, ""); got != "aaaaaabbaa" || s.opens != 3 {
			t.Errorf("served %s, with %d connections, want aaaaaabbaa with 3", got, s.opens)
		}
	})
}

// Who comes once waits longer than in strict order by as long as four uses last, however many
// such there are, and however much wants the connections that are open.
func TestAcquireKeepsNobodyBackForLong(t *testing.T) {
	bubble(t, limit(4), func(t *testing.T, s *server, p *Pool[string, *link]) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				for {
					r, err := p.Acquire(ctx, string(rune('a'+i%2)))
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					r.Release()
				}
			})
		}
		time.Sleep(10 * time.Second)
		var worst atomic.Int64
		for i := range 200 {
			wg.Go(func() {
				began := time.Now()
				r, err := p.Acquire(t.Context(), fmt.Sprint("rare", i))
				if err != nil {
					t.Error(err)
					return
				}
				worst.Store(max(worst.Load(), int64(time.Since(began))))
				time.Sleep(time.Second)
				r.Release()
			})
			time.Sleep(time.Second)
		}
		stop()
		wg.Wait()
		// In strict order they wait for 7 s, being a quarter of all and behind 20 others.
		if d := time.Duration(worst.Load()); d > 14*time.Second {
			t.Errorf("one of 200 rare calls, a quarter of what is possible, waited for %v", d)
		}
	})
}

// With more selectors than connections, all of which are always wanted, it would be natural
// to open one for every use: who is next closes what the one after him needs.
func TestFewUsesOpenAConnectionWhereSelectorsAreMoreThanConnections(t *testing.T) {
	for selectors, percent := range map[int]int{4: 35, 6: 50, 20: 80} {
		bubble(t, limit(4), func(t *testing.T, s *server, p *Pool[string, *link]) {
			const each = 100
			var wg sync.WaitGroup
			for i := range selectors {
				for range 4 {
					wg.Go(func() {
						for k := range each / 4 {
							r, err := p.Acquire(t.Context(), string(rune('a'+i)))
							if err != nil {
								t.Error(err)
								return
							}
							time.Sleep(time.Second + time.Duration(i*7+k*13)%101*time.Millisecond)
							r.Release()
						}
					})
				}
			}
			wg.Wait()
			if most := selectors * each * percent / 100; s.opens > most {
				t.Errorf("%d uses of %d selectors opened %d connections, want at most %d", selectors*each, selectors, s.opens, most)
			}
		})
	}
}

func TestACancelledAcquireLeavesNoTraceAndDelaysNobody(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		held := lend(t, p, "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 20 {
			go func() {
				began := time.Now()
				if _, err := p.Acquire(ctx, "y"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || !isRefused(err) {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			}()
		}
		synctest.Wait()
		go func() {
			r, err := p.Acquire(t.Context(), "x")
			if err != nil || time.Since(time.Now()) != 0 {
				t.Error(err)
				return
			}
			r.Release()
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := p.Stats(); st.Waiting != 1 || st.Selectors != 1 {
			t.Errorf("%+v", st)
		}
		held.Release()
		synctest.Wait()
		if st := p.Stats(); st.Waiting != 0 || st.Idle != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A waiter that is served just as its context ends must pass on what it got.
func TestAcquireServedAndCancelledAtOncePassesOn(t *testing.T) {
	for i := range 1000 {
		s := newServer(t)
		p := s.pool(limit(1))
		held := lend(t, p, "x")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool)
		go func() {
			if r, err := p.Acquire(ctx, "x"); err == nil {
				r.Release()
			}
			ended <- true
		}()
		for p.Stats().Waiting == 0 {
		}
		if i%2 == 0 {
			cancel()
			held.Release()
		} else {
			held.Release()
			cancel()
		}
		<-ended
		lend(t, p, "x").Release()
		s.finish(p)
	}
}

func TestNobodyWaitsForOneWhoCannotBeServed(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxPerSelector = 3, 1 }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, sel string, n int) error {
			if sel == "down" && n < 3 {
				return io.EOF
			}
			return nil
		}
		began := time.Now()
		x := lend(t, p, "x")
		_ = fails(t, p, "down", 0)
		for _, sel := range []string{"x", "down", "y"} {
			go func() {
				r, err := p.Acquire(t.Context(), sel)
				if err != nil {
					t.Error(sel, err)
					return
				}
				want := map[string]time.Duration{"x": time.Second, "down": 100 * time.Millisecond}[sel]
				if d := time.Since(began); d != want {
					t.Errorf("%s served after %v", sel, d)
				}
				r.Release()
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		x.Release()
	})
}

func TestAcquireReturnsTheErrorOfItsOpenAndWaitsOutTheBackoffOfOthers(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(context.Context, string, int) error { time.Sleep(time.Second); return io.EOF }
		if _, err := p.Acquire(t.Context(), "x"); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		s.onOpen = nil
		began := time.Now()
		r, err := p.Acquire(t.Context(), "x")
		if err != nil || time.Since(began) != 100*time.Millisecond || r.Value() == nil || !r.Ready() {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		r.Release()
	})
}

// A backoff that begins while others already wait must be timed for them too.
func TestABackoffThatBeginsWhileOneWaitsIsTimed(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, _ string, n int) error {
			time.Sleep(time.Second)
			if n == 1 {
				return io.EOF
			}
			return nil
		}
		go func() { _, _ = p.Acquire(t.Context(), "x") }()
		synctest.Wait()
		began := time.Now()
		r, err := p.Acquire(t.Context(), "x")
		if d := time.Since(began); err != nil || d != 2100*time.Millisecond {
			t.Fatalf("%v after %v", err, d)
		}
		r.Release()
	})
}

// A backoff that ends while somebody comes, or while the timer looks who is still to wait,
// is over for good: who was not served because of it must have a timer. The clock is real,
// and the end of the backoff is put a little ahead of it, by all that lies between two looks.
func TestNobodyWaitsForABackoffThatIsOver(t *testing.T) {
	s := newServer(t)
	p := s.pool(limit(1))
	defer s.finish(p)
	over, leave := context.WithCancel(t.Context())
	leave() // who has to wait leaves at once
	for name, look := range map[string]func(w *waiter[string, *link]){
		"Acquire": func(w *waiter[string, *link]) {
			if r, err := p.wait(over, "x"); err == nil {
				w.r = r
			}
		},
		"the timer": func(w *waiter[string, *link]) {
			p.mu.Lock()
			p.waiters.add(w, 0)
			p.mu.Unlock()
			p.tick()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 20_000 {
				p.mu.Lock()
				if p.tickAt = (time.Time{}); p.timer != nil {
					p.timer.Stop()
					p.timer = nil
				}
				e := p.entryLocked("x")
				w := &waiter[string, *link]{entry: e, served: make(chan struct{})}
				e.fails, e.at = 1, time.Now()
				e.until = e.at.Add(time.Duration(i % 1000))
				p.mu.Unlock()
				look(w)
				p.mu.Lock()
				r, timed := w.r, p.timer != nil
				if r == nil && p.waiters.first == w {
					p.leaveLocked(w)
				}
				p.mu.Unlock()
				if r != nil {
					r.Release()
				} else if !timed {
					t.Fatalf("one who came %v before the end of a backoff waits, and there is no timer", time.Duration(i%1000))
				}
			}
		})
	}
}

func TestAPlaceThatBecomesFreeGoesToTheNextWhoWaits(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = func(_ context.Context, sel string, _ int) error {
			if sel == "down" {
				time.Sleep(time.Second)
				return io.EOF
			}
			return nil
		}
		s.onClose = func(*link) { time.Sleep(time.Second) }
		for name, begin := range map[string]func(){
			"discarded":  func() { lend(t, p, "x").Discard(nil) },
			"not opened": func() { go func() { _, _ = p.Acquire(t.Context(), "down") }() },
			"not needed": func() {
				r, _ := p.Reserve("z")
				go func() { time.Sleep(time.Second); r.Release() }()
			},
		} {
			begin()
			synctest.Wait()
			began := time.Now()
			r, err := p.Acquire(t.Context(), "y")
			if d := time.Since(began); err != nil || d != time.Second {
				t.Errorf("%s: %v after %v", name, err, d)
				return
			}
			r.Discard(nil)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
	})
}

// Conn is answered just as its context ends: it must have the connection, or not.
func TestConnAnsweredAndCancelledAtOnceLosesNothing(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		s.onOpen = ignore(time.Second)
		for range 500 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r, ok := p.Reserve("x")
			if !ok {
				t.Fatal("a place was lost")
			}
			_, err := r.Conn(ctx)
			if (err == nil) != (r.Value() != nil) {
				t.Errorf("%v, %v", err, r.Value())
			}
			r.Discard(nil)
			synctest.Wait()
			if r, ok := p.Reserve("x"); ok && r.Ready() {
				r.Discard(nil)
			} else if ok {
				r.Release()
			}
			cancel()
			synctest.Wait()
		}
	})
}
