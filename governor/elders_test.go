package governor

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The slow reference looks at every lane.
func TestEldestIsThatOfALookAtEveryLane(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := &sched{count: func(int) {}, elders: newElders()}
		sel := new(selector)
		var seq uint64
		var began []*request
		for step := range 4000 {
			switch n := rng.IntN(10); {
			case n < 4:
				seq++
				l := s.lane(laneKey{sel: sel, tenant: fmt.Sprint(rng.IntN(20)), priority: int32(rng.IntN(5) - 2)}, forever)
				s.add(l, &request{seq: seq, cost: 1}, true)
			case n < 6 && s.n > 0:
				l := s.next(false)
				began = append(began, l.first())
				s.started(l)
			case n == 6 && len(began) > 0: // it comes back, to its place or put aside
				r := began[rng.IntN(len(began))]
				began = began[:0]
				if rng.IntN(2) == 0 {
					r.history().order = 2 * seq
				}
				s.add(s.lane(*r.class.Load().laneKey, forever), r, true)
			case n == 7 && s.n > 0:
				for l := range s.lanes.all {
					all := l.all()
					s.remove(all[rng.IntN(len(all))])
					break
				}
			}
			var want *request
			for l := range s.lanes.all {
				if r := l.first(); want == nil || l.priority < want.lane().priority || l.priority == want.lane().priority && r.seq < want.seq {
					want = r
				}
			}
			if got := s.elders.eldest(); got != want {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, step, got, want)
			}
			if want != nil && rng.IntN(5) == 0 {
				s.remove(want)
			}
		}
	}
}

// A drop looked at every lane.
func TestDropLooksAtFewLanesHoweverManyThereAre(t *testing.T) {
	const lanes = 10_000
	s := &sched{count: func(int) {}, elders: newElders()}
	sel := new(selector)
	for i := range uint64(2 * lanes) {
		s.add(s.lane(laneKey{sel: sel, tenant: fmt.Sprint(i % lanes)}, lanes), &request{seq: i + 1, cost: 1}, true)
	}
	sorted := func() (sum uint64) {
		for l := range s.lanes.all {
			sum += l.eldest
		}
		return sum
	}
	for i := range uint64(100) {
		before := sorted()
		r := s.elders.eldest()
		if r.seq != i+1 || sorted()-before > lanes {
			t.Fatalf("drop %d is of %d, and lanes were sorted anew by %d in all, want the last one's by %d", i, r.seq, sorted()-before, lanes)
		}
		s.remove(r)
	}
}

func TestOnlyARuleThatDropsWhatWaitsCostsAnything(t *testing.T) {
	for rule := Block; rule <= DropLower; rule++ {
		g, err := New(PlainConfig{Name: "test", Overflow: rule})
		if err != nil {
			t.Fatal(err)
		}
		if used := g.core.sched.elders != nil; used != (rule >= DropOldest) {
			t.Errorf("rule %d: %v", rule, used)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
