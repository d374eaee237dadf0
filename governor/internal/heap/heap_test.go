package heap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

type moment struct {
	at  int64
	idx int32
}

// asked is how many things were moved, or asked for their time.
var asked int

func (m *moment) When() int64   { asked++; return m.at }
func (m *moment) Index() *int32 { asked++; return &m.idx }

func TestHeapGivesWhatIsDueInOrderWhateverIsMovedOrRemoved(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		compareWithModel(t, seed)
	}
}

func compareWithModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var h Heap[*moment]
	var in []*moment // the model
	for range 2000 {
		switch n := rng.IntN(10); {
		case n < 5:
			m := &moment{at: rng.Int64N(1000)}
			h.Fix(m)
			in = append(in, m)
		case n < 7 && len(in) > 0:
			m := in[rng.IntN(len(in))]
			m.at = rng.Int64N(1000)
			h.Fix(m)
		case len(in) > 0:
			i := rng.IntN(len(in))
			h.Remove(in[i])
			h.Remove(in[i]) // does nothing
			in = slices.Delete(in, i, i+1)
		}
		if rng.IntN(100) == 0 { // the same order, by other times
			for _, m := range in {
				m.at = max(0, m.at-100)
			}
			h.Refresh()
		}
		next := int64(Forever)
		for _, m := range in {
			if next = min(next, m.at); h.At(m) != m.at {
				t.Fatalf("something of %d is sorted by %d", m.at, h.At(m))
			}
		}
		if all := slices.Collect(h.All()); len(all) != len(in) || len(all) > 0 && all[0] != h.First() {
			t.Fatalf("All yields %d of %d", len(all), len(in))
		}
		if h.Len() != len(in) || h.Next() != next {
			t.Fatalf("%d inside, the next at %d; want %d and %d", h.Len(), h.Next(), len(in), next)
		}
	}
	last := int64(-1)
	for h.Len() > 0 {
		if m, ok := h.Due(last - 1); ok {
			t.Fatalf("%d is due at %d", m.at, last)
		}
		m, ok := h.Due(1000)
		if !ok || m.at < last || m.idx != 0 {
			t.Fatalf("%+v, %v after %d", m, ok, last)
		}
		last = m.at
	}
}

func TestHeapsMemoryFollowsWhatIsInIt(t *testing.T) {
	var h Heap[*moment]
	for i := range int64(10_000) {
		h.Fix(&moment{at: i})
	}
	for h.Len() > 0 {
		h.Due(Forever)
	}
	if n := cap(h.s); n > 128 {
		t.Errorf("an empty heap has room for %d", n)
	}
}

// What an operation costs grows with the logarithm of what is in the heap.
func TestOperationsMoveFewHoweverManyThereAre(t *testing.T) {
	const most = 100_000 // in seven layers, of eight times as many each
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap[*moment]
	all := make([]*moment, most)
	worst := 0
	count := func(op func()) {
		asked = 0
		op()
		worst = max(worst, asked)
	}
	for i := range all {
		all[i] = &moment{at: -int64(i)} // each goes to the top
		count(func() { h.Fix(all[i]) })
	}
	for range most {
		m := all[rng.IntN(most)]
		m.at = rng.Int64N(3) - 1<<40*rng.Int64N(2) // to the top or to the bottom
		count(func() { h.Fix(m) })
		m = all[rng.IntN(most)]
		count(func() { h.Remove(m) })
		count(func() { h.Fix(m) })
	}
	for h.Len() > 0 {
		count(func() { h.Due(Forever) })
	}
	if worst > 12 {
		t.Errorf("of %d things an operation moved, or asked, up to %d, want a dozen", most, worst)
	}
}
