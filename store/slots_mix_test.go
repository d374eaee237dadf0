package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// slotters are the processes of a test that share slots, and what they did.
type slotters struct {
	t     *testing.T
	m     *store.Memory
	most  int // slots
	began time.Time
	end   time.Time
	trips counting
	wg    sync.WaitGroup

	mu     sync.Mutex
	inUse  int
	calls  int
	used   time.Duration // slots times how long
	waited time.Duration // the longest that a call did which was not given up
	which  string
}

// slotter is one of them. Its calls of one size are in order; of several, whoever looks
// first when there are slots gets them.
type slotter struct {
	*slotters
	name  string
	limit *store.Slots
	dead  atomic.Bool // does not reach the store any more
	mu    sync.Mutex
	line  map[int][]chan struct{} // the calls that wait, by size
	woken chan struct{}           // closed, and made anew
}

func (s *slotters) process(name string) *slotter {
	p := &slotter{slotters: s, name: name, line: make(map[int][]chan struct{}), woken: make(chan struct{})}
	net := &faulty{Store: s.m, count: &s.trips.n, delay: func() time.Duration { return time.Millisecond }}
	net.fate = func() fate {
		if p.dead.Load() {
			return lost
		}
		return arrives
	}
	sync := syncer(s.t, store.SyncerConfig{Store: net})
	s.t.Cleanup(func() { sync.Close() })
	var err error
	if p.limit, err = sync.Slots(store.SlotsConfig{Name: "acme", Max: s.most}); err != nil {
		s.t.Fatal(err)
	}
	p.limit.OnChange(p.wake)
	return p
}

func (p *slotter) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.woken)
	p.woken = make(chan struct{})
}

// call makes one that takes n slots, unless it has not begun within patience, and says
// for how long it has waited.
func (p *slotter) call(n int, holds, patience time.Duration) (waited time.Duration, ok bool) {
	came, me := time.Now(), make(chan struct{})
	p.mu.Lock()
	p.line[n] = append(p.line[n], me)
	p.mu.Unlock()
	defer func() {
		defer p.wake()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.line[n] = slices.DeleteFunc(p.line[n], func(c chan struct{}) bool { return c == me })
	}()
	for {
		p.mu.Lock()
		wait, woken := time.Hour, p.woken
		if len(p.line[n]) > 0 && p.line[n][0] == me {
			if wait = p.limit.Wait(time.Now(), "", n); wait == 0 {
				p.limit.Take(time.Now(), "", n)
				p.line[n] = p.line[n][1:]
			}
		}
		p.mu.Unlock()
		if wait == 0 {
			p.wake()
		}
		waited = time.Since(came)
		switch {
		case wait == 0:
			p.slotters.mu.Lock()
			p.calls++
			p.used += time.Duration(n) * holds
			if p.inUse += n; p.inUse > p.most {
				p.t.Errorf("%d slots of %d are used at once", p.inUse, p.most)
			}
			if waited > p.waited {
				p.waited, p.which = waited, fmt.Sprintf("one of %d of %s", n, p.name)
			}
			p.slotters.mu.Unlock()
			time.Sleep(holds)
			p.slotters.mu.Lock()
			p.inUse -= n
			p.slotters.mu.Unlock()
			p.mu.Lock()
			p.limit.Release(time.Now(), "", n)
			p.mu.Unlock()
			p.wake()
			return waited, true
		case wait == limiter.Never || waited >= patience:
			return waited, false
		}
		select {
		case <-woken:
		case <-time.After(min(wait, patience-waited)):
		}
	}
}

// calls makes calls of n slots, one after the other.
func (p *slotter) makes(n int, holds time.Duration) {
	p.wg.Go(func() {
		for time.Now().Before(p.end) && !p.dead.Load() {
			if wait, ok := p.call(n, holds, time.Until(p.end)); !ok && !p.dead.Load() {
				p.slotters.mu.Lock()
				if wait > p.waited {
					p.waited, p.which = wait, fmt.Sprintf("one of %d of %s, without end", n, p.name)
				}
				p.slotters.mu.Unlock()
			}
		}
	})
}

func newSlotters(t *testing.T, most int, lasts time.Duration) *slotters {
	return &slotters{t: t, m: memory(t), most: most, began: time.Now(), end: time.Now().Add(lasts)}
}

// over ends a test in which no call may wait for longer, nor more exchanges be made per
// call, and at least so much of the slots be used.
func (s *slotters) over(longest time.Duration, trips int, used float64) {
	s.t.Helper()
	s.wg.Wait()
	part := float64(s.used) / float64(s.most) / float64(time.Since(s.began))
	if s.waited > longest || int(s.trips.n.Load()) > trips*s.calls+300 || part < used {
		s.t.Errorf("%d calls, %d exchanges, %.0f %% of the slots used, and %v waited %s; want up to %d per call, %.0f %%, %v",
			s.calls, s.trips.n.Load(), 100*part, s.waited, s.which, trips, 100*used, longest)
	}
	s.t.Logf("%d calls, %d exchanges, %.0f %% used, %v waited %s", s.calls, s.trips.n.Load(), 100*part, s.waited, s.which)
}

// Whatever other calls the process itself makes, and other processes make that wait for
// nothing, each call begins.
func TestABigCallBeginsBesideSmallOnes(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(s *slotters)
	}{
		{"of its own process alone", func(s *slotters) {
			p := s.process("a")
			for range 12 {
				p.makes(1, 20*time.Millisecond)
			}
			p.makes(10, 20*time.Millisecond)
		}},
		{"of its own process", func(s *slotters) {
			a, b := s.process("a"), s.process("b")
			for range 12 {
				a.makes(1, 20*time.Millisecond)
				b.makes(1, 20*time.Millisecond)
			}
			a.makes(6, 20*time.Millisecond)
		}},
		{"of its own process, two of them", func(s *slotters) {
			a, b := s.process("a"), s.process("b")
			for range 4 {
				a.makes(1, 20*time.Millisecond)
				b.makes(1, 20*time.Millisecond)
			}
			a.makes(6, 20*time.Millisecond)
			a.makes(8, 20*time.Millisecond)
			b.makes(10, 20*time.Millisecond)
		}},
		{"of a process that has all it wants", func(s *slotters) {
			a, b := s.process("a"), s.process("b")
			for range 10 {
				a.makes(1, 20*time.Millisecond)
			}
			time.Sleep(time.Second)
			b.makes(6, 20*time.Millisecond)
		}},
		{"of a process that has all it wants, and small itself", func(s *slotters) {
			a, b := s.process("a"), s.process("b")
			for range 10 {
				a.makes(1, 20*time.Millisecond)
			}
			time.Sleep(time.Second)
			b.makes(1, 20*time.Millisecond)
		}},
		{"of more processes than there are slots", func(s *slotters) {
			for i := range 13 {
				s.process(fmt.Sprint(i)).makes(1, 20*time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlotters(t, 10, 12*time.Second)
				tt.do(s)
				s.over(5*time.Second, 14, 0.4)
			})
		})
	}
}

// A call that was given up in its turn costs the others a moment, however often.
func TestTurnsThatAreGivenUpCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotters(t, 10, 30*time.Second)
		a, b := s.process("a"), s.process("b")
		for range 10 {
			a.makes(1, 20*time.Millisecond)
		}
		s.wg.Go(func() {
			for time.Now().Before(s.end) {
				b.call(10, 0, 5*time.Millisecond)
				time.Sleep(10 * time.Second)
			}
		})
		s.over(3*time.Second, 2, 0.75)
	})
}

// A node that waits for more than others say there is is told so, and keeps nobody back.
func TestSlotsThatAreNotThereAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotters(t, 10, 15*time.Second)
		a, b, c := s.process("a"), s.process("b"), s.process("c")
		for range 10 {
			a.makes(1, 20*time.Millisecond)
		}
		refused := make(chan time.Duration, 1)
		s.wg.Go(func() {
			time.Sleep(time.Second)
			for { // it has begun many by then
				if wait, ok := b.call(10, 20*time.Millisecond, 20*time.Second); !ok {
					refused <- wait
					return
				}
			}
		})
		time.Sleep(5 * time.Second)
		if err := c.limit.SetMax(8); err != nil {
			t.Fatal(err)
		}
		c.call(1, 0, time.Second)
		if wait := <-refused; wait > 3*time.Second {
			t.Errorf("a call of 10 slots of 8 waits %v", wait)
		}
		made := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.calls
		}
		time.Sleep(2 * time.Second) // until what c has is back
		before := made()
		time.Sleep(5 * time.Second)
		if n := made() - before; n < 5*50*8*95/100 {
			t.Errorf("%d calls in 5 s beside one that there are not enough slots for", n)
		}
		s.over(3*time.Second, 3, 0.6)
	})
}

// Processes of any number and calls of any size, that are given up, and die: none waits
// for ever, and slots are neither more than there are nor idle for long.
func TestSlotsOfManyAtRandom(t *testing.T) {
	for i := range effort.Times(8) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				most := 1 + r.IntN(20)
				s := newSlotters(t, most, 40*time.Second)
				what := fmt.Sprint(most, " slots:")
				dies, callers := r.IntN(3), 0
				for i := range 1 + r.IntN(6) {
					p := s.process(fmt.Sprint(i))
					for range 1 + r.IntN(4) {
						n := 1 + r.IntN(most)
						if r.IntN(2) == 0 {
							n = 1 + r.IntN(min(most, 2))
						}
						p.makes(n, time.Duration(1+r.IntN(50))*time.Millisecond)
						callers++
						what += fmt.Sprint(" ", p.name, ":", n)
					}
					if r.IntN(3) == 0 {
						n, patience := 1+r.IntN(most), time.Duration(r.IntN(500))*time.Millisecond
						s.wg.Go(func() {
							for time.Now().Before(s.end) {
								p.call(n, 10*time.Millisecond, patience)
								time.Sleep(patience + time.Second)
							}
						})
						what += fmt.Sprint(" and ", n, " for ", patience)
					}
					if i > 0 && i <= dies {
						at := time.Duration(r.IntN(10_000)) * time.Millisecond
						s.wg.Go(func() { time.Sleep(at); p.dead.Store(true) })
						what += " dies"
					}
				}
				t.Log(seed, what)
				longest := time.Duration(callers+3) * time.Second
				if dies > 0 {
					longest += 11 * time.Second // they have what they have for a TTL
				}
				s.over(longest, 25, 0)
			})
		})
	}
}
