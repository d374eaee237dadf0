package pool

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// The end of a wait and the end of its context meet in every way, very often: no
// place is lost, none is made up, and nobody waits for one that is there.
func TestAcquireRacingWithCancelConservesPlaces(t *testing.T) {
	rounds := effort.Times(5000)
	const places, users = 2, 8
	s := newServer(t)
	p := s.pool(func(c cfg) { c.Max, c.OnEvent = places, nil })
	patience, enough := context.WithTimeout(t.Context(), time.Duration(effort.Times(10))*time.Minute)
	defer enough()
	var got, left, held atomic.Int64
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			for i := range rounds / users {
				ctx, cancel := context.WithCancel(patience)
				switch i % 4 {
				case 0:
					go cancel()
				case 1:
					time.AfterFunc(time.Duration(i%50)*time.Microsecond, cancel)
				case 2:
					if u%2 == 0 {
						cancel()
					}
				}
				sel := "a"
				if i%8 == 0 {
					sel = "b"
				}
				r, err := p.Acquire(ctx, sel)
				switch {
				case err == nil:
					got.Add(1)
					if n := held.Add(1); n > places {
						t.Errorf("%d hold one of %d places", n, places)
					}
					held.Add(-1)
					if i%16 == 0 {
						r.Discard(nil)
					} else {
						r.Release()
					}
				case patience.Err() != nil:
					t.Error("somebody waits for ever")
					cancel()
					return
				case errors.Is(err, context.Canceled):
					left.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if got.Load() == 0 || left.Load() == 0 {
		t.Errorf("%d got one, %d left: the race was not tried", got.Load(), left.Load())
	}
	var rs []*Reservation[string, *link]
	for range places {
		r, err := p.Acquire(patience, "z")
		if err != nil {
			t.Fatalf("a place is lost: %v", err)
		}
		rs = append(rs, r)
	}
	refused(t, p, "z")
	for _, r := range rs {
		r.Release()
	}
	s.consistent(p)
	s.finish(p)
}

// Nothing that is compared with a later time may come from the wall clock, which
// can be set. It is not in a bubble, where no time has a monotonic reading.
func TestWallClockIsNeverCounted(t *testing.T) {
	s := newServer(t)
	p := s.pool(func(c cfg) { c.MaxAge, c.IdleTimeout = time.Hour, time.Hour })
	r := lend(t, p, "x")
	monotonic := func(what string, at time.Time) {
		t.Helper()
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is of the wall clock: %v", what, at)
		}
	}
	monotonic("the time of opening", r.conn.opened)
	r.Release()
	monotonic("the time of use", r.conn.idleAt)
	monotonic("the time of the timer", p.tickAt)
	s.onOpen = func(context.Context, string, int) error { return errors.New("down") }
	if _, err := p.Acquire(t.Context(), "y"); err == nil {
		t.Fatal("no error")
	}
	monotonic("the end of a backoff", p.NotBefore("y"))
	p.mu.Lock()
	monotonic("the time of a failure", p.sels["y"].at)
	p.mu.Unlock()
	s.finish(p)
}
