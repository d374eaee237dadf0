package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// chaos makes s do anything, with durations of up to about scale.
func (s *server) chaos(scale time.Duration) {
	nap := func() {
		if rand.IntN(2) == 0 {
			time.Sleep(rand.N(scale))
		}
	}
	s.onOpen = func(ctx context.Context, _ string, _ int) error {
		nap()
		switch rand.IntN(12) {
		case 0:
			return io.EOF
		case 1:
			return marked{true}
		case 2:
			panic("open")
		case 3:
			return goexit()
		case 4:
			<-ctx.Done() // hangs, heeds ctx
			return ctx.Err()
		case 5:
			time.Sleep(20 * scale) // hangs, and succeeds late
		}
		return nil
	}
	s.onCheck = func(ctx context.Context, _ *link) error {
		nap()
		switch rand.IntN(12) {
		case 0:
			return errBroken
		case 1:
			panic("check")
		case 2:
			return goexit()
		case 3:
			<-ctx.Done()
			return ctx.Err()
		case 4:
			time.Sleep(20 * scale)
		}
		return nil
	}
	s.onClose = func(*link) {
		nap()
		switch rand.IntN(8) {
		case 0:
			panic("close")
		case 1:
			_ = goexit()
		}
	}
}

func randomConfig(c cfg, s *server, scale time.Duration) {
	c.Max = 1 + rand.IntN(6)
	c.MaxPerSelector = rand.IntN(4)
	c.OpenTimeout = 5 * scale
	c.MaxUses = rand.IntN(5)
	switch rand.IntN(3) {
	case 0:
		c.MaxAge = 10 * scale
	case 1:
		c.IdleTimeout = 3 * scale
	}
	if rand.IntN(2) == 0 {
		c.Check, c.CheckAfter = s.check, rand.N(2*scale)
	}
}

// use does something random with a connection, as one of many. It reports
// whether the pool is closed.
func (s *server) use(t *testing.T, p *Pool[string, *link], scale time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.Context(), rand.N(8*scale))
	defer cancel()
	sel := string(rune('a' + rand.IntN(4)))
	var r *Reservation[string, *link]
	var err error
	if rand.IntN(2) == 0 {
		if r, err = p.Acquire(ctx, sel); err != nil {
			return err == ErrClosed
		}
	} else {
		var ok bool
		if r, ok = p.Reserve(sel); !ok {
			p.NotBefore(sel)
			p.Full(sel)
			p.Idle(sel)
			time.Sleep(rand.N(scale))
			return p.ending.Err() != nil
		}
		if rand.IntN(8) == 0 {
			r.Release() // not needed
			return false
		}
		if rand.IntN(8) == 0 {
			late := make(chan struct{})
			go func() { defer close(late); time.Sleep(rand.N(scale)); _, _ = r.Conn(ctx) }()
			defer func() { <-late }()
			time.Sleep(rand.N(scale))
			if rand.IntN(2) == 0 {
				r.Release()
			} else {
				r.Discard(errBroken)
			}
			return false
		}
	}
	l, err := r.Conn(ctx)
	if err != nil {
		if !isRefused(err) {
			t.Errorf("no refusal: %v", err)
		}
		r.Release()
		return err == ErrClosed
	}
	s.mu.Lock()
	if s.inUse[l.id] || s.closed[l.id] != 0 || l.sel != sel {
		t.Errorf("link %d of %q for %q: in use %v, closed %d times", l.id, l.sel, sel, s.inUse[l.id], s.closed[l.id])
	}
	s.inUse[l.id] = true
	s.mu.Unlock()
	time.Sleep(rand.N(scale))
	s.mu.Lock()
	delete(s.inUse, l.id)
	s.mu.Unlock()
	switch rand.IntN(6) {
	case 0:
		r.Discard(errBroken)
		r.Release()
	case 1:
		r.Discard(nil)
	default:
		r.Release()
		r.Discard(errBroken)
	}
	return false
}

func (s *server) stress(t *testing.T, p *Pool[string, *link], scale, length time.Duration) {
	var users sync.WaitGroup
	var freed atomic.Int64
	p.OnFree(func() { freed.Add(1) })
	for range 12 {
		users.Go(func() {
			for !s.use(t, p, scale) {
			}
		})
	}
	for range 10 {
		time.Sleep(length / 10)
		s.consistent(p)
	}
	p.Shutdown()
	users.Wait()
	s.finish(p)
	if p.used != 0 || len(p.sels) != 0 {
		t.Errorf("%d places used at the end, %d selectors", p.used, len(p.sels))
	}
}

// In virtual time many random histories are cheap, and what hangs is found.
func TestRandomHistories(t *testing.T) {
	var created, failed, stolen, discarded, reused uint64
	for i := range effort.Times(15) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.chaos(time.Second)
				p := s.pool(func(c cfg) { randomConfig(c, s, time.Second) })
				s.stress(t, p, time.Second, time.Minute)
				st := p.Stats()
				created, failed, stolen = created+st.Created, failed+st.Failed, stolen+st.Stolen
				discarded, reused = discarded+st.Discarded, reused+st.Reused
			})
		})
	}
	t.Logf("created %d, failed %d, stolen %d, discarded %d, reused %d", created, failed, stolen, discarded, reused)
	if min(created, failed, stolen, discarded, reused) == 0 {
		t.Error("that did not exercise everything")
	}
}

// In real time goroutines meet in ways that a bubble does not show.
func TestRandomHistoriesInRealTime(t *testing.T) {
	for range effort.Times(1) {
		s := newServer(t)
		s.chaos(200 * time.Microsecond)
		p := s.pool(func(c cfg) {
			randomConfig(c, s, 200*time.Microsecond)
			c.OpenBackoff = nil
		})
		s.stress(t, p, 200*time.Microsecond, 300*time.Millisecond)
	}
}

// Whatever happened before, a connection can be had again when the server is
// well: no history loses a place.
func TestAfterAnyHistoryAllPlacesCanBeUsed(t *testing.T) {
	for i := range effort.Times(4) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble(t, func(c cfg) { c.Max = 3 }, func(t *testing.T, s *server, p *Pool[string, *link]) {
				s.chaos(time.Second)
				var users sync.WaitGroup
				for range 6 {
					users.Go(func() {
						for range 20 {
							s.use(t, p, time.Second)
						}
					})
				}
				users.Wait()
				time.Sleep(10 * time.Minute) // late Opens end
				synctest.Wait()
				s.onOpen, s.onCheck, s.onClose = nil, nil, nil
				var rs []*Reservation[string, *link]
				for range 3 {
					r, err := p.Acquire(t.Context(), "z")
					if err != nil {
						t.Fatal(err)
					}
					rs = append(rs, r)
				}
				if r, ok := p.Reserve("z"); ok || !p.Full("z") {
					t.Error("one too many", r)
				}
				for _, r := range rs {
					r.Discard(errors.New("done"))
				}
			})
		})
	}
}
