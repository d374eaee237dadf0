package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// shelved returns how many connections lie on p's shelf, or -1 when it is closed.
func shelved(p *Pool[string, *link]) (n int) {
	s := p.shelf.Load()
	if s == nil || !s.open.Load() {
		return -1
	}
	for i := range s.places {
		if s.places[i].conn.Load() != nil {
			n++
		}
	}
	return n
}

// loan lends an idle connection.
func loan(t *testing.T, p *Pool[string, *link], sel string) Loan[string, *link] {
	t.Helper()
	l, ok := p.Lend(sel)
	if !ok {
		t.Fatalf("Lend(%q) is false", sel)
	}
	return l
}

// stocked opens n connections for x, and the shelf, with one of them on it.
func stocked(t *testing.T, p *Pool[string, *link], n int) {
	t.Helper()
	var rs []*Reservation[string, *link]
	for range n {
		rs = append(rs, lend(t, p, "x"))
	}
	for _, r := range rs {
		r.Release()
	}
	loan(t, p, "x").Release()
	loan(t, p, "x").Release()
	if n := shelved(p); n != 1 {
		t.Fatalf("%d on the shelf, want 1", n)
	}
}

func TestWhatLiesOnTheShelfIsIdle(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, p *Pool[string, *link]){
		"Stats": func(t *testing.T, p *Pool[string, *link]) {
			if st := p.Stats(); st.Idle != 1 || st.InUse != 0 || st.Reused != 2 {
				t.Errorf("%+v", st)
			}
		},
		"Lend": func(t *testing.T, p *Pool[string, *link]) {
			l := loan(t, p, "x")
			if st := p.Stats(); st.Idle != 0 || st.InUse != 1 || st.Reused != 3 || l.Value().sel != "x" {
				t.Errorf("%+v", st)
			}
			if _, ok := p.Lend("x"); ok {
				t.Error("lent twice")
			}
			l.Release()
		},
		"Lend to another selector": func(t *testing.T, p *Pool[string, *link]) {
			if _, ok := p.Lend("y"); ok {
				t.Error("lent for another selector")
			}
		},
		"Unused": func(t *testing.T, p *Pool[string, *link]) {
			loan(t, p, "x").Unused()
			if st := p.Stats(); st.Idle != 1 || st.Reused != 2 {
				t.Errorf("%+v", st)
			}
		},
		"Reserve": func(t *testing.T, p *Pool[string, *link]) {
			if r, ok := p.Reserve("x"); !ok || !r.Ready() {
				t.Error("not found")
			} else {
				r.Release()
			}
		},
		"Reserve steals": func(t *testing.T, p *Pool[string, *link]) {
			lend(t, p, "y").Release()
			if st := p.Stats(); st.Stolen != 1 || st.Open != 1 {
				t.Errorf("%+v", st)
			}
		},
		"Idle": func(t *testing.T, p *Pool[string, *link]) {
			if !p.Idle("x") {
				t.Error("not idle")
			}
		},
		"Full": func(t *testing.T, p *Pool[string, *link]) {
			if p.Full("x") || p.Full("y") {
				t.Error("full")
			}
		},
		"Acquire": func(t *testing.T, p *Pool[string, *link]) {
			if r, err := p.Acquire(t.Context(), "x"); err != nil || p.Stats().Created != 1 {
				t.Error(err)
			} else {
				r.Release()
			}
		},
		"Shutdown": func(t *testing.T, p *Pool[string, *link]) {
			p.Shutdown()
			if _, ok := p.Lend("x"); ok {
				t.Error("lent by a closed pool")
			}
			synctest.Wait()
			if st := p.Stats(); st.Open != 0 {
				t.Errorf("%+v", st)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
				stocked(t, p, 1)
				look(t, p)
			})
		})
	}
}

func TestTheShelfKeepsWhatWasUsedLast(t *testing.T) {
	bubble(t, limit(2), func(t *testing.T, s *server, p *Pool[string, *link]) {
		stocked(t, p, 2)
		a, b := loan(t, p, "x"), loan(t, p, "x")
		b.Release()
		a.Release()
		if n := shelved(p); n != 1 {
			t.Errorf("%d on the shelf, want 1", n)
		}
		lend(t, p, "y").Release() // in place of the one that was used least recently
		if l := loan(t, p, "x"); l.Value() != a.Value() {
			t.Error("closed what was used last")
		} else {
			l.Release()
		}
	})
}

func TestWhoFindsNothingIsToldWhenALoanComesBack(t *testing.T) {
	for name, ask := range map[string]func(p *Pool[string, *link]) bool{
		"Reserve":                     func(p *Pool[string, *link]) bool { _, ok := p.Reserve("x"); return ok },
		"Reserve of another selector": func(p *Pool[string, *link]) bool { _, ok := p.Reserve("y"); return ok },
		"Idle":                        func(p *Pool[string, *link]) bool { return p.Idle("x") },
		"Full":                        func(p *Pool[string, *link]) bool { return !p.Full("x") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
				stocked(t, p, 1)
				told := 0
				p.OnFree(func() { told++ })
				loan(t, p, "x").Release()
				l := loan(t, p, "x")
				if told != 0 {
					t.Error("told of what nobody asked for")
				}
				if ask(p) {
					t.Error("found what is lent")
				}
				if l.Release(); told != 1 {
					t.Errorf("told %d times, want once", told)
				}
				loan(t, p, "x").Release()
				if told != 1 || shelved(p) != 1 {
					t.Error("the shelf stays closed")
				}
			})
		})
	}
}

// What may happen between a giver's look at the shelf, his putting something there,
// and his second look.
func TestWhatIsPutOnAClosedShelfIsTakenBackByWhoPutItThere(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		stocked(t, p, 1)
		told := 0
		p.OnFree(func() { told++ })
		l, sh := loan(t, p, "x"), p.shelf.Load()
		refused(t, p, "x")
		if p.lay(sh, l.conn); told != 1 || p.lru.len != 1 {
			t.Errorf("told %d times, %d idle", told, p.lru.len)
		}
		loan(t, p, "x").Release()
		l = loan(t, p, "x")
		refused(t, p, "x")
		sh.places[0].conn.Store(l.conn)
		if st := p.Stats(); st.Idle != 0 || p.Idle("x") || sh.places[0].conn.Load() == nil {
			t.Error("somebody else took it, who tells nobody")
		}
		if _, ok := p.Lend("x"); ok {
			t.Error("lent from a closed shelf")
		}
		sh.places[0].conn.Store(nil)
		told = 0
		if p.unshelve(l.conn); told != 1 || !p.Idle("x") {
			t.Errorf("told %d times, %+v", told, p.Stats())
		}
	})
}

func TestAnEndedPoolLendsNothingFromItsShelf(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		stocked(t, p, 1)
		l, sh := loan(t, p, "x"), p.shelf.Load()
		p.Shutdown()
		sh.places[0].conn.Store(l.conn) // until the giver's second look
		if _, ok := p.Lend("x"); ok {
			t.Error("lent by a closed pool")
		}
		sh.places[0].conn.Store(nil)
		p.unshelve(l.conn)
	})
}

func TestTheShelfStaysClosedWhileSomebodyWaits(t *testing.T) {
	bubble(t, func(c cfg) { c.Max, c.MaxPerSelector = 2, 1 }, func(t *testing.T, s *server, p *Pool[string, *link]) {
		stocked(t, p, 1)
		lend(t, p, "y").Release()
		x, served := loan(t, p, "x"), make(chan *Reservation[string, *link])
		go func() { r, _ := p.Acquire(t.Context(), "x"); served <- r }()
		synctest.Wait()
		loan(t, p, "y").Release() // of no use to who waits
		if n := shelved(p); n != -1 {
			t.Errorf("%d on an open shelf", n)
		}
		x.Release()
		(<-served).Release()
	})
}

func TestConnectionsThatExpireWearOutOrAreCheckedAreNotShelved(t *testing.T) {
	for name, edit := range map[string]func(c cfg){
		"IdleTimeout": func(c cfg) { c.IdleTimeout = time.Minute },
		"MaxAge":      func(c cfg) { c.MaxAge = time.Minute },
		"MaxUses":     func(c cfg) { c.MaxUses = 5 },
		"Check": func(c cfg) {
			c.Check = func(context.Context, string, *link) error { return errBroken }
			c.CheckAfter = time.Minute
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, edit, func(t *testing.T, s *server, p *Pool[string, *link]) {
				lend(t, p, "x").Release()
				for range 4 {
					loan(t, p, "x").Release()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if _, ok := p.Lend("x"); ok {
					t.Error("lent what is not to be lent")
				}
			})
		})
	}
}

// One connection comes back while one goroutine asks for it and others look: whoever
// found nothing gets it, or is told. In a bubble one who is not waits for ever, and
// that is an error.
func TestALoanThatComesBackIsNotOverlooked(t *testing.T) {
	bubble(t, limit(1), func(t *testing.T, s *server, p *Pool[string, *link]) {
		var told atomic.Bool
		p.OnFree(func() { told.Store(true) })
		stocked(t, p, 1)
		for i := range effort.Times(1500) {
			l := loan(t, p, "x")
			told.Store(false)
			var wg sync.WaitGroup
			wg.Go(l.Release)
			if i%3 == 0 {
				wg.Go(func() { p.Stats() })
			}
			if i%2 == 0 {
				r, err := p.Acquire(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				r.Release()
			} else if r, ok := p.Reserve("x"); ok {
				r.Release()
			} else {
				wg.Wait()
				if !told.Load() {
					t.Fatal("not told")
				}
			}
			wg.Wait()
			loan(t, p, "x").Release() // the shelf is open again
		}
	})
}

func TestLoansFromManyGoroutinesAreOfOneEach(t *testing.T) {
	bubble(t, limit(4), func(t *testing.T, s *server, p *Pool[string, *link]) {
		stocked(t, p, 4)
		before := p.Stats().Reused
		var lent [64]atomic.Bool
		var loans atomic.Uint64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range effort.Times(500) {
					if g == 0 && i%50 == 0 {
						p.Stats()
					}
					l, ok := p.Lend("x")
					if !ok {
						continue
					}
					loans.Add(1)
					id := l.Value().id
					if lent[id].Swap(true) {
						t.Error("lent twice")
					}
					for range i % 100 {
						lent[id].Load()
					}
					lent[id].Store(false)
					l.Release()
				}
			})
		}
		wg.Wait()
		if st := p.Stats(); st.Reused != before+loans.Load() || st.Idle != 4 || st.InUse != 0 {
			t.Errorf("%d loans, %d before: %+v", loans.Load(), before, st)
		}
	})
}
