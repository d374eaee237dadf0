package governor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

// Requests leave a lane from its head, or from anywhere when they are cancelled,
// and some of those that left come back, in any order, to their old place or put
// aside.
func TestLaneKeepsItsOrderWhateverComesBack(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareLaneWithModel(t, seed) })
	}
}

func compareLaneWithModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	l := &lane{backlog: new(backlog)}
	var in, out []*request // the model
	late, stamps := make(map[*request]bool), make(map[*request]int)
	stamp := 0
	insert := func(r *request) {
		stamp++
		stamps[r] = stamp
		late[r] = slices.ContainsFunc(in, func(o *request) bool { return !late[o] && o.order() > r.order() })
		l.insert(r)
		in = append(in, r)
	}
	var last uint64
	for range 1000 {
		switch n := rng.IntN(8); {
		case n < 3 || len(in) == 0:
			last++
			insert(&request{seq: last, small: uint16(1 + rng.Int32N(9)), enqueued: rng.Int64N(1000)})
		case n < 6:
			i := rng.IntN(len(in))
			if n < 5 {
				i = slices.Index(in, l.first())
			}
			l.remove(in[i])
			out = append(out, in[i])
			in = slices.Delete(in, i, i+1)
		case len(out) > 0:
			i := rng.IntN(len(out))
			r := out[i]
			out = slices.Delete(out, i, i+1)
			if n == 7 {
				r.history().order = last
			}
			insert(r)
		}
		bySeq := func(a, b *request) int { return cmp.Compare(a.seq, b.seq) }
		all := l.all()
		slices.SortFunc(all, bySeq)
		slices.SortFunc(in, bySeq)
		if !slices.Equal(all, in) {
			t.Fatalf("%d requests are in the lane, want %d", len(all), len(in))
		}
		if len(in) == 0 {
			if l.first() != nil {
				t.Fatal("an empty lane has a first")
			}
			continue
		}
		least := slices.MinFunc(in, func(a, b *request) int { return cmp.Compare(a.order(), b.order()) })
		first := l.first()
		if first == nil || first.order() != least.order() {
			t.Fatalf("the first is %v, want one of order %d", first, least.order())
		}
		since := first.enqueued
		regular := slices.DeleteFunc(slices.Clone(in), func(r *request) bool { return late[r] })
		if len(regular) > 0 {
			since = min(since, slices.MinFunc(regular, func(a, b *request) int {
				return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(stamps[a], stamps[b]))
			}).enqueued)
		}
		l.tell()
		if int(l.sched.Cost) != first.price() || l.sched.Since != since {
			t.Fatalf("the scheduler is told of cost %d since %d, want %d since %d", l.sched.Cost, l.sched.Since, first.price(), since)
		}
	}
}
