package governor

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Requests leave a lane from its head, or from anywhere when they are cancelled,
// and some of those that left come back, in any order.
func TestLaneKeepsSubmissionOrderWhateverComesBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := new(lane)
	var in, out []*request // the model; in is in order
	var last uint64
	for range 4_000 {
		switch n := rng.IntN(8); {
		case n < 3 || len(in) == 0:
			last++
			r := &request{seq: last}
			l.insert(r)
			in = append(in, r)
		case n < 5:
			r := in[0]
			l.remove(r)
			in, out = in[1:], append(out, r)
		case n < 6:
			i := rng.IntN(len(in))
			l.remove(in[i])
			out = append(out, in[i])
			in = slices.Delete(in, i, i+1)
		case len(out) > 0:
			i := rng.IntN(len(out))
			r := out[i]
			out = slices.Delete(out, i, i+1)
			l.insert(r)
			at, _ := slices.BinarySearchFunc(in, r.seq, func(r *request, seq uint64) int { return int(r.seq) - int(seq) })
			in = slices.Insert(in, at, r)
		}
		all := l.all()
		slices.SortFunc(all, func(a, b *request) int { return int(a.seq) - int(b.seq) })
		if l.n != len(in) || !slices.Equal(all, in) {
			t.Fatalf("%d requests are in the lane, want %d", len(all), len(in))
		}
		if len(in) > 0 && l.first() != in[0] || len(in) == 0 && l.first() != nil {
			t.Fatal("another request than the oldest is the first")
		}
	}
}
