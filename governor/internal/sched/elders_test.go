package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

// The slow reference looks at every lane.
func TestEldestIsThatOfALookAtEveryLane(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := &Scheduler{Count: func(int) {}, Elders: NewElders()}
		lanes := make(map[Kind]*lineup)
		of := func(name Kind) *lineup {
			if q := lanes[name]; q != nil && q.Len() > 0 {
				return q
			}
			lanes[name] = newLineup(name)
			return lanes[name]
		}
		names := make(map[uint64]Kind)
		var seq uint64
		var began []uint64
		for step := range 4000 {
			switch n := rng.IntN(10); {
			case n < 4:
				seq++
				names[seq] = Kind{Tenant: fmt.Sprint(rng.IntN(20)), Priority: int32(rng.IntN(5) - 2)}
				of(names[seq]).add(s, seq)
			case n < 6 && s.Len() > 0:
				began = append(began, s.Next(false).Owner().(*lineup).start(s))
			case n == 6 && len(began) > 0: // it comes back to its place
				i := rng.IntN(len(began))
				of(names[began[i]]).add(s, began[i])
				began = began[:0]
			case n == 7 && s.Len() > 0:
				for _, q := range lanes {
					if q.Len() > 0 {
						q.remove(s, rng.IntN(q.Len()))
						break
					}
				}
			}
			var want *lineup
			for _, q := range lanes {
				if q.Len() > 0 && (want == nil || q.Priority < want.Priority || q.Priority == want.Priority && q.seqs[0] < want.seqs[0]) {
					want = q
				}
			}
			switch got := s.Elders.Eldest(); {
			case got == nil && want == nil:
			case got == nil || want == nil || got.Owner() != want:
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, step, got, want)
			case rng.IntN(5) == 0:
				want.remove(s, 0)
			}
		}
	}
}

// A drop looked at every lane.
func TestDropLooksAtFewLanesHoweverManyThereAre(t *testing.T) {
	const most = 10_000
	s := &Scheduler{Count: func(int) {}, Elders: NewElders()}
	lanes := make([]*lineup, most)
	for i := range uint64(2 * most) {
		if lanes[i%most] == nil {
			lanes[i%most] = newLineup(Kind{Tenant: fmt.Sprint(i % most)})
		}
		lanes[i%most].add(s, i+1)
	}
	sorted := func() (sum uint64) {
		for _, q := range lanes {
			if q.eldestIdx != 0 {
				sum += uint64(s.Elders.ranks[q.Priority].lanes.At((*elder)(&q.Lane)))
			}
		}
		return sum
	}
	for i := range uint64(100) {
		before := sorted()
		q := s.Elders.Eldest().Owner().(*lineup)
		if q.seqs[0] != i+1 || sorted()-before > most {
			t.Fatalf("drop %d is of %d, and lanes were sorted anew by %d in all, want the last one's by %d", i, q.seqs[0], sorted()-before, most)
		}
		q.remove(s, 0)
	}
}
