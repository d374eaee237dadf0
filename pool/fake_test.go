package pool

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
)

var errBroken = errors.New("broken")

var none context.Context // nil

// link is a fake connection.
type link struct {
	id  int
	sel string
}

// server opens and closes links, counts them and can be told to misbehave. Its
// hook functions are called without its lock.
type server struct {
	t  *testing.T
	mu sync.Mutex

	opens   int // calls of Open
	open    int // links that are open
	most    int // the most that ever were
	bySel   map[string]int
	mostSel int
	closed  map[int]int // times that a link was closed
	events  []event.Event
	inUse   map[int]bool

	onOpen  func(ctx context.Context, sel string, n int) error // n: which call, from 1
	onClose func(l *link)
	onCheck func(ctx context.Context, l *link) error
}

func newServer(t *testing.T) *server {
	return &server{t: t, bySel: map[string]int{}, closed: map[int]int{}, inUse: map[int]bool{}}
}

func (s *server) dial(ctx context.Context, sel string) (*link, error) {
	s.mu.Lock()
	s.opens++
	n := s.opens
	s.mu.Unlock()
	if s.onOpen != nil {
		if err := s.onOpen(ctx, sel, n); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.bySel[sel]++
	s.most = max(s.most, s.open)
	s.mostSel = max(s.mostSel, s.bySel[sel])
	return &link{id: n, sel: sel}, nil
}

func (s *server) hangUp(sel string, l *link) {
	if l.sel != sel {
		s.t.Errorf("link of %q closed as one of %q", l.sel, sel)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed[l.id]++
		s.open--
		s.bySel[sel]--
		if s.inUse[l.id] {
			s.t.Errorf("link %d closed while in use", l.id)
		}
	}()
	if s.onClose != nil {
		s.onClose(l)
	}
}

func (s *server) check(ctx context.Context, sel string, l *link) error {
	if s.onCheck == nil {
		return nil
	}
	return s.onCheck(ctx, l)
}

func (s *server) heard(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *server) kinds(k event.Kind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func (s *server) last(k event.Kind) (last event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == k {
			last = e
		}
	}
	return last
}

func (s *server) config() Config[string, *link] {
	return Config[string, *link]{
		Open: s.dial, Close: s.hangUp, OnEvent: s.heard,
		IsBad: func(err error) bool { return errors.Is(err, errBroken) },
	}
}

// pool makes a pool of s, which edit may change, and at the end of the test
// closes it and looks whether all is well.
func (s *server) pool(edit func(*Config[string, *link])) *Pool[string, *link] {
	s.t.Helper()
	cfg := s.config()
	if edit != nil {
		edit(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// finish closes p and looks whether anything is left, of p or of s.
func (s *server) finish(p *Pool[string, *link]) {
	s.t.Helper()
	p.Shutdown()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute): // a hook takes milliseconds, or seconds of a bubble's
		p.mu.Lock()
		defer p.mu.Unlock()
		lost := 0 // nobody's, if it is not in use
		for c := p.lru.oldest; c != nil; c = c.newer {
			lost++
		}
		if sh := p.shelf.Load(); sh != nil {
			for i := range sh.places {
				if sh.places[i].conn.Load() != nil {
					lost++
				}
			}
			s.t.Logf("the shelf is open: %v", sh.open.Load())
		}
		s.t.Fatalf("Close hangs: %d idle or on the shelf, %d places used, %+v, %+v", lost, p.used, p.n, p.puddle.Stat())
	}
	s.consistent(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != 0 {
		s.t.Errorf("%d links open after Close", s.open)
	}
	for id, n := range s.closed {
		if n != 1 {
			s.t.Errorf("link %d was closed %d times", id, n)
		}
	}
	if s.most > p.Max() {
		s.t.Errorf("%d links were open at once, Max is %d", s.most, p.Max())
	}
	if m := p.cfg.MaxPerSelector; m > 0 && s.mostSel > m {
		s.t.Errorf("%d links of a selector were open at once, MaxPerSelector is %d", s.mostSel, m)
	}
	if st := p.Stats(); st.Open != 0 || st.Opening != 0 || st.Closing != 0 || st.Waiting != 0 || int(st.Created) != len(s.closed) {
		s.t.Errorf("after Close: %+v, and %d links closed", st, len(s.closed))
	}
	// Puddle strikes a resource off its list just after it tells its Close.
	for i := 0; p.puddle.Stat().TotalResources() != 0; i++ {
		if i == 10_000 {
			s.t.Errorf("puddle has %d resources after Close", p.puddle.Stat().TotalResources())
			break
		}
		time.Sleep(time.Millisecond)
	}
}

// consistent compares the bookkeeping of p with itself.
func (s *server) consistent(p *Pool[string, *link]) {
	s.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used < 0 || p.used > p.cfg.Max {
		s.t.Errorf("%d places used of %d", p.used, p.cfg.Max)
	}
	n, waiting := 0, 0
	var before *conn[string, *link]
	for c := p.lru.oldest; c != nil; c = c.newer {
		if c.older != before || before != nil && before.last >= c.last {
			s.t.Error("lru out of order")
		}
		before = c
		n++
	}
	if p.lru.newest != before || n != p.lru.len {
		s.t.Errorf("lru of %d has %d", p.lru.len, n)
	}
	for sel, e := range p.sels {
		n -= len(e.idle)
		for w := e.oldest; w != nil; w = w.newer {
			waiting++
		}
		for i, c := range e.idle {
			if c.entry != e || i > 0 && e.idle[i-1].last >= c.last {
				s.t.Errorf("idle list of %q out of order", sel)
			}
		}
		if e.sel != sel || e.places < len(e.idle) || e.places == 0 && e.oldest == nil && !e.remembered() {
			s.t.Errorf("entry %q: %+v", sel, e)
		}
	}
	if n != 0 || waiting != p.waiters.len {
		s.t.Errorf("%d idle connections in no list, or in two; %d waiting of %d", n, waiting, p.waiters.len)
	}
}

// lend reserves and gets a link.
func lend(t *testing.T, p *Pool[string, *link], sel string) *Reservation[string, *link] {
	t.Helper()
	r, ok := p.Reserve(sel)
	if !ok {
		t.Fatalf("Reserve(%q) is false", sel)
	}
	l, err := r.Conn(context.Background())
	if err != nil {
		t.Fatalf("Conn of %q: %v", sel, err)
	}
	if l.sel != sel {
		t.Fatalf("got a link of %q for %q", l.sel, sel)
	}
	return r
}

func refused(t *testing.T, p *Pool[string, *link], sel string) {
	t.Helper()
	if r, ok := p.Reserve(sel); ok {
		t.Fatalf("Reserve(%q) is true, ready %v", sel, r.Ready())
	}
}

// ignore waits for d whatever becomes of ctx.
func ignore(d time.Duration) func(context.Context, string, int) error {
	return func(context.Context, string, int) error { time.Sleep(d); return nil }
}

func goexit() error { runtime.Goexit(); return nil }

func isRefused(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Refused() bool
	}](err)
	return ok && r.Refused()
}
