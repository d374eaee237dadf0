package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/store"
)

// slotted are the processes of a test that share slots, each with a governor, and what
// their calls use.
type slotted struct {
	t     *testing.T
	m     *store.Memory
	most  int
	trips counting
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	inUse atomic.Int64
	ran   atomic.Int64 // slots times how long
	began time.Time
}

func newSlotted(t *testing.T, most int) *slotted {
	s := &slotted{t: t, m: memory(t), most: most, began: time.Now()}
	s.ctx, s.stop = context.WithCancel(t.Context())
	return s
}

// process is one more of them.
func (s *slotted) process(fate func() fate) *governor.Plain {
	net := &faulty{Store: s.m, count: &s.trips.n, fate: fate, delay: func() time.Duration { return time.Millisecond }}
	sync := syncer(s.t, store.SyncerConfig{Store: net})
	s.t.Cleanup(func() { sync.Close() })
	return s.governor(sync)
}

// governor is one of a process.
func (s *slotted) governor(sync *store.Syncer) *governor.Plain {
	slots, err := sync.Slots(store.SlotsConfig{Name: "acme", Max: s.most})
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", NoPace: true, Workers: 100, Limits: []governor.Limit{{Limiter: slots}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { g.Close() })
	return g
}

// call makes one that takes n slots for so long.
func (s *slotted) call(ctx context.Context, g *governor.Plain, n int, holds time.Duration) error {
	_, err := governor.Do(ctx, g.With(governor.Ask{Tenant: fmt.Sprint(n), Cost: n}), "", governor.Func(func(ctx context.Context) (int, error) {
		if k := s.inUse.Add(int64(n)); k > int64(s.most) {
			s.t.Errorf("%d slots of %d are used at once", k, s.most)
		}
		time.Sleep(holds)
		s.inUse.Add(-int64(n))
		s.ran.Add(int64(n) * int64(holds))
		return 0, nil
	}))
	return err
}

// caller counts what one goroutine's calls come to.
type caller struct {
	what   string
	made   int
	waited time.Duration // the longest
}

// calls makes calls of n slots, one after the other, until the end.
func (s *slotted) calls(g *governor.Plain, n int, holds time.Duration) *caller {
	c := &caller{what: fmt.Sprint(n)}
	s.wg.Go(func() {
		for s.ctx.Err() == nil {
			began := time.Now()
			err := s.call(s.ctx, g, n, holds)
			if c.waited = max(c.waited, time.Since(began)-holds); err == nil {
				c.made++
			}
		}
	})
	return c
}

// over ends it after d: no call has waited for longer than longest, and at least such a
// part of the slots was used, by no more than so many exchanges.
func (s *slotted) over(d, longest time.Duration, used float64, trips int, all ...*caller) {
	s.t.Helper()
	time.Sleep(d)
	s.stop()
	s.wg.Wait()
	sum, b := 0, new(strings.Builder)
	for _, c := range all {
		sum += c.made
		fmt.Fprintf(b, " %s: %d, %v;", c.what, c.made, c.waited)
		if c.waited > longest || c.made == 0 {
			s.t.Errorf("calls of %s: %d were made, and one waited for %v, want up to %v", c.what, c.made, c.waited, longest)
		}
	}
	part := float64(s.ran.Load()) / float64(s.most) / float64(d)
	n := int(s.trips.n.Load())
	if part < used || n > trips {
		s.t.Errorf("%.0f %% of the slots were used by %d calls, in %d exchanges; want %.0f %%, in %d", 100*part, sum, n, 100*used, trips)
	}
	s.t.Logf("%.0f %%, %d exchanges;%s", 100*part, n, b)
}

// each makes a process for each list of what its goroutines' calls take.
func (s *slotted) each(holds time.Duration, processes ...[]int) (all []*caller) {
	for i, sizes := range processes {
		g := s.process(nil)
		for _, n := range sizes {
			c := s.calls(g, n, holds)
			c.what = fmt.Sprintf("%d of process %d", n, i)
			all = append(all, c)
			time.Sleep(7 * time.Millisecond)
		}
	}
	return all
}

func of(n, size int) (all []int) {
	for range n {
		all = append(all, size)
	}
	return all
}

func TestNoProcessIsStarvedOfSlots(t *testing.T) {
	for _, tt := range []struct {
		what      string
		most      int
		processes [][]int
		longest   time.Duration
		used      float64
		trips     int
	}{
		{"one that is content with all", 10, [][]int{of(10, 1), of(1, 1)}, 2 * time.Second, 0.99, 300},
		{"one that is content with all, and several that want more", 10, [][]int{of(10, 1), of(4, 1), of(20, 1)}, 2 * time.Second, 0.98, 500},
		{"more processes than slots", 1, [][]int{of(1, 1), of(1, 1), of(1, 1), of(1, 1), of(1, 1)}, 8 * time.Second, 0.98, 1000},
		{"more processes than slots, and more calls", 3, [][]int{of(4, 1), of(4, 1), of(4, 1), of(4, 1), of(4, 1)}, 5 * time.Second, 0.98, 2000},
		{"two of large calls", 10, [][]int{{6, 6}, {6, 6}}, 4 * time.Second, 0.59, 500},
		{"two of large calls beside small ones", 10, [][]int{{6, 6}, of(4, 1)}, 2 * time.Second, 0.99, 500},
		{"eight of large calls", 10, [][]int{{6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}}, 12 * time.Second, 0.58, 1500},
		{"a large one beside small ones", 10, [][]int{{6}, of(20, 1)}, 2 * time.Second, 0.98, 1000},
		{"one of all beside small ones", 10, [][]int{{10}, of(20, 1)}, 2 * time.Second, 0.95, 1200},
		{"small ones beside two of all", 10, [][]int{{10}, {10}, of(20, 1)}, 4 * time.Second, 0.95, 2500},
		{"small ones beside four of all", 10, [][]int{{10}, {10}, {10}, {10}, of(20, 1)}, 6 * time.Second, 0.95, 4000},
		{"all sizes", 10, [][]int{{10}, {6, 1}, {4, 3}, {3}, {2, 10}, {1}, {1}, {1}}, 30 * time.Second, 0.5, 6000},
		{"one process", 10, [][]int{{1, 10}}, time.Second, 0.15, 200},
		{"one process of many", 10, [][]int{append(of(12, 1), 10)}, time.Second, 0.98, 200},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlotted(t, tt.most)
				all := s.each(20*time.Millisecond, tt.processes...)
				s.over(60*time.Second, tt.longest, tt.used, tt.trips, all...)
			})
		})
	}
}

// Who waits asks the store now and then, and not for as long as it takes.
func TestACallThatWaitsForSlotsSeldomAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(t, 10)
		a := s.process(nil)
		b := s.process(nil)
		s.wg.Go(func() { s.call(s.ctx, a, 6, time.Minute) })
		time.Sleep(100 * time.Millisecond)
		s.wg.Go(func() { s.call(s.ctx, b, 6, time.Minute) })
		time.Sleep(100 * time.Millisecond)
		before := s.trips.n.Load()
		time.Sleep(50 * time.Second)
		if n := s.trips.n.Load() - before; n > 3*50 {
			t.Errorf("%d exchanges in 50 s of two processes that wait for nothing but the end of a call", n)
		}
		time.Sleep(10 * time.Second)
		if n := s.inUse.Load(); n != 6 {
			t.Errorf("%d slots are in use after the end of the first call, want 6", n)
		}
		time.Sleep(time.Minute)
		s.wg.Wait()
	})
}

// A call that is given up leaves nothing that keeps others from theirs.
func TestACallThatIsGivenUpIsNotInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(t, 10)
		a := s.process(nil)
		b := s.process(nil)
		for range 9 {
			s.calls(a, 1, 20*time.Millisecond)
		}
		s.wg.Go(func() { s.call(s.ctx, a, 1, time.Minute) }) // so that never are 10 free
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(s.ctx)
		s.wg.Go(func() { s.call(ctx, b, 10, 0) })
		time.Sleep(10 * time.Second)
		if n := s.inUse.Load(); n != 1 {
			t.Errorf("%d slots are in use while a call waits for all, want 1", n)
		}
		cancel()
		time.Sleep(3 * time.Second)
		before := s.ran.Load()
		time.Sleep(10 * time.Second)
		if n := time.Duration(s.ran.Load()-before) / 10; n < 89*time.Second/10 {
			t.Errorf("9 slots were used for %v each in 10 s, after a call that waited for all was given up", n*10/9)
		}
		other := s.calls(b, 1, 20*time.Millisecond)
		s.over(37*time.Second, 2*time.Second, 0, 400, other)
	})
}

// A process that dies in line holds the others up for half of a TTL, from when it was heard.
func TestADeadProcessIsNotInLine(t *testing.T) {
	for _, size := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlotted(t, 10)
			var dead atomic.Bool
			all := s.each(20*time.Millisecond, of(10, 1), of(3, 1))
			g := s.process(func() fate {
				if dead.Load() {
					return lost
				}
				return arrives
			})
			s.wg.Go(func() { s.call(s.ctx, g, size, 20*time.Millisecond) })
			time.Sleep(1010 * time.Millisecond) // it has just said that it stands in line
			dead.Store(true)
			before := s.ran.Load()
			time.Sleep(3 * time.Second)
			if n := time.Duration(s.ran.Load() - before); size == 10 && n > 15*time.Second {
				t.Errorf("slots were used for %v in 3 s while a call waits for all, and is first in line", n)
			}
			s.over(time.Minute, s.m.TTL()/2+2*time.Second, 0.8, 1000, all...)
		})
	}
}

// Any processes make any calls, and give some up; some die.
func TestNoCallWaitsForeverForSlotsAtRandom(t *testing.T) {
	for i := range effort.Times(6) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				s := newSlotted(t, 1+r.IntN(20))
				what := new(strings.Builder)
				fmt.Fprint(what, seed, ": ", s.most, " slots")
				var all []*caller
				callers := 0
				for i := range 1 + r.IntN(6) {
					var dead atomic.Bool
					g := s.process(func() fate {
						if dead.Load() {
							return lost
						}
						return arrives
					})
					dies := i > 0 && r.IntN(4) == 0
					for range 1 + r.IntN(4) {
						n := 1 + r.IntN(s.most)
						if r.IntN(2) == 0 {
							n = 1 + r.IntN(min(s.most, 2))
						}
						c := s.calls(g, n, time.Duration(1+r.IntN(100))*time.Millisecond)
						c.what = fmt.Sprintf("%d of process %d", n, i)
						fmt.Fprint(what, ", ", c.what)
						if callers++; !dies {
							all = append(all, c)
						}
					}
					if r.IntN(3) == 0 {
						n, patience, pause := 1+r.IntN(s.most), time.Duration(r.IntN(4000))*time.Millisecond, time.Duration(r.IntN(4000))*time.Millisecond
						fmt.Fprint(what, ", ", n, " for ", patience, " each ", pause)
						s.wg.Go(func() {
							for s.ctx.Err() == nil {
								ctx, cancel := context.WithTimeout(s.ctx, patience)
								s.call(ctx, g, n, 10*time.Millisecond)
								cancel()
								time.Sleep(pause)
							}
						})
					}
					if dies {
						fmt.Fprint(what, " dies")
						at := time.Duration(r.IntN(30_000)) * time.Millisecond
						s.wg.Go(func() { sleep(s.ctx, at); dead.Store(true) })
					}
				}
				t.Log(what)
				s.over(5*time.Minute, time.Duration(callers+10)*5*time.Second, 0, 100_000, all...)
			})
		})
	}
}

// Two governors of a process use the same slots. That one's call waits for more than comes
// free holds up none of the other's, which take few.
func TestAnOwnersLargeCallHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(t, 10)
		elsewhere := s.process(nil)
		s.wg.Go(func() { s.call(s.ctx, elsewhere, 5, time.Hour) })
		time.Sleep(time.Second)
		sync := syncer(t, store.SyncerConfig{Store: s.m})
		t.Cleanup(func() { sync.Close() })
		large, small := s.governor(sync), s.governor(sync)
		s.wg.Go(func() { s.call(s.ctx, large, 10, 0) })
		time.Sleep(10 * time.Millisecond)
		c := s.calls(small, 1, 20*time.Millisecond)
		time.Sleep(900 * time.Millisecond) // before the large one stands in line, for which all wait
		s.stop()
		time.Sleep(time.Hour)
		s.wg.Wait()
		if c.made < 40 {
			t.Errorf("%d calls of 20ms were made in 900ms beside one that waits", c.made)
		}
	})
}

// Two governors of a process make calls of different sizes by the same slots.
func TestNoOwnerIsStarvedOfSlots(t *testing.T) {
	for _, others := range []bool{false, true} {
		for _, sizes := range [][]int{{1, 10}, {1, 6}, {3, 4}} {
			synctest.Test(t, func(t *testing.T) {
				s := newSlotted(t, 10)
				var all []*caller
				if others {
					all = s.each(20*time.Millisecond, of(20, 1))
				}
				sync := syncer(t, store.SyncerConfig{Store: &faulty{Store: s.m, count: &s.trips.n, delay: func() time.Duration { return time.Millisecond }}})
				t.Cleanup(func() { sync.Close() })
				for i, n := range sizes {
					g := s.governor(sync)
					for range max(2, 20-4*n) {
						all = append(all, s.calls(g, n, time.Duration(20+i)*time.Millisecond))
					}
				}
				s.over(time.Minute, 15*time.Second, 0.6, 30_000, all...)
			})
		}
	}
}

// Calls that are given up after a moment, one after the other, are not one that waits.
func TestCallsThatAreGivenUpSoonAreNotInLine(t *testing.T) {
	for _, pause := range []time.Duration{600 * time.Millisecond, 1800 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlotted(t, 10)
			a, b := s.process(nil), s.process(nil)
			for range 9 {
				s.calls(a, 1, 20*time.Millisecond)
			}
			s.wg.Go(func() { s.call(s.ctx, a, 1, time.Hour) })
			time.Sleep(time.Second)
			s.ran.Store(0)
			for range 20 {
				ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
				s.call(ctx, b, 10, 0)
				cancel()
				time.Sleep(pause)
			}
			if n, want := time.Duration(s.ran.Load()), 20*9*(pause+100*time.Millisecond); n < want*95/100 {
				t.Errorf("each %v: slots were used for %v of %v", pause, n, want)
			}
			s.stop()
			time.Sleep(time.Hour)
			s.wg.Wait()
		})
	}
}

// A process in which something runs has its part, and no more: its next call waits for that.
func TestWhoRunsDoesNotStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotted(t, 10)
		a := s.process(nil)
		b := s.process(nil)
		s.wg.Go(func() { s.call(s.ctx, a, 3, time.Minute) })
		time.Sleep(time.Second)
		for range 7 {
			s.calls(b, 1, 20*time.Millisecond)
		}
		time.Sleep(time.Second)
		s.wg.Go(func() { s.call(s.ctx, a, 6, time.Minute) })
		s.ran.Store(0)
		time.Sleep(50 * time.Second)
		if n := time.Duration(s.ran.Load()); n < 49*7*time.Second {
			t.Errorf("7 slots were used for %v in 50 s beside a process that uses 3", n)
		}
		time.Sleep(12 * time.Second)
		if n := s.inUse.Load(); n < 6 {
			t.Errorf("%d slots are in use, and a call waited for 6", n)
		}
		s.stop()
		time.Sleep(time.Minute)
		s.wg.Wait()
	})
}

// The answers of a store do not make who waits ask again at once.
func TestWhoWaitsForTheEndOfACallAsksSeldom(t *testing.T) {
	for name, tt := range map[string]struct {
		elsewhere int // slots that another process uses for a minute
		wait      func(s *slotted, large, small *governor.Plain)
	}{
		"two owners in line": {10, func(s *slotted, large, small *governor.Plain) {
			s.wg.Go(func() { s.call(s.ctx, large, 10, time.Second) })
			time.Sleep(10 * time.Millisecond)
			s.wg.Go(func() { s.call(s.ctx, small, 1, time.Second) })
			time.Sleep(5 * time.Second)
		}},
		"beside what is kept for another owner": {5, func(s *slotted, large, small *governor.Plain) {
			s.wg.Go(func() { s.call(s.ctx, small, 2, 20*time.Second) }) // so that this process is not in line
			time.Sleep(100 * time.Millisecond)
			s.wg.Go(func() { s.call(s.ctx, large, 8, time.Second) })
			time.Sleep(2 * time.Second) // it has waited for an Interval
			s.wg.Go(func() { s.call(s.ctx, small, 1, time.Second) })
			time.Sleep(time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlotted(t, 10)
				elsewhere := s.process(nil)
				s.wg.Go(func() { s.call(s.ctx, elsewhere, tt.elsewhere, time.Minute) })
				time.Sleep(time.Second)
				sync := syncer(t, store.SyncerConfig{Store: &faulty{Store: s.m, count: &s.trips.n, delay: func() time.Duration { return time.Millisecond }}})
				t.Cleanup(func() { sync.Close() })
				tt.wait(s, s.governor(sync), s.governor(sync))
				before := s.trips.n.Load()
				time.Sleep(10 * time.Second)
				if n := s.trips.n.Load() - before; n > 60 {
					t.Errorf("%d exchanges in 10 s of two processes that wait for nothing but the end of a call", n)
				}
				time.Sleep(time.Hour)
				s.stop()
				s.wg.Wait()
			})
		})
	}
}

// A call that waits stands in line, though others of its governor come, wait for a moment, and are given up.
func TestCallsThatAreGivenUpStarveNoOther(t *testing.T) {
	for _, pp := range [][2]time.Duration{{400, 400}, {900, 400}, {600, 700}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlotted(t, 3)
			a, b := s.process(nil), s.process(nil)
			for range 3 {
				s.calls(a, 1, 200*time.Millisecond)
			}
			c := s.calls(b, 3, 50*time.Millisecond)
			s.wg.Go(func() {
				for s.ctx.Err() == nil {
					ctx, cancel := context.WithTimeout(s.ctx, pp[0]*time.Millisecond)
					s.call(ctx, b, 2, 10*time.Millisecond)
					cancel()
					time.Sleep(pp[1] * time.Millisecond)
				}
			})
			time.Sleep(2 * time.Minute)
			s.stop()
			s.wg.Wait()
			if n := s.trips.n.Load(); c.waited > 15*time.Second || n > 2000 {
				t.Errorf("%d ms each %d ms: %d calls of 3 slots, and one waited for %v; %d exchanges in 2 min", pp[0], pp[0]+pp[1], c.made, c.waited, n)
			}
		})
	}
}

// 4: numbers that a Bucket may have.
