package governor

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Requests leave a lane from its head, or from anywhere when they are cancelled,
// and some of those that left come back, in any order, to their old place or put
// aside.
func TestLaneKeepsItsOrderWhateverComesBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := new(lane)
	var in, out []*request // the model
	var last uint64
	for range 4_000 {
		switch n := rng.IntN(8); {
		case n < 3 || len(in) == 0:
			last++
			r := &request{seq: last}
			l.insert(r)
			in = append(in, r)
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
			l.insert(r)
			in = append(in, r)
		}
		bySeq := func(a, b *request) int { return cmp.Compare(a.seq, b.seq) }
		all := l.all()
		slices.SortFunc(all, bySeq)
		slices.SortFunc(in, bySeq)
		if l.n != len(in) || !slices.Equal(all, in) {
			t.Fatalf("%d requests are in the lane, want %d", len(all), len(in))
		}
		if len(in) == 0 {
			if l.first() != nil {
				t.Fatal("an empty lane has a first")
			}
			continue
		}
		least := slices.MinFunc(in, func(a, b *request) int { return cmp.Compare(a.order(), b.order()) })
		if first := l.first(); first == nil || first.order() != least.order() {
			t.Fatalf("the first is %v, want one of order %d", first, least.order())
		}
	}
}
