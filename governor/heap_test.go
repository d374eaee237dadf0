package governor

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type moment struct {
	at  int64
	idx int32
}

func (m *moment) when() int64   { return m.at }
func (m *moment) index() *int32 { return &m.idx }

func TestHeapGivesWhatIsDueInOrderWhateverIsMovedOrRemoved(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h heap[*moment]
	var in []*moment // the model
	for range 20_000 {
		switch n := rng.IntN(10); {
		case n < 5:
			m := &moment{at: rng.Int64N(1000)}
			h.fix(m)
			in = append(in, m)
		case n < 7 && len(in) > 0:
			m := in[rng.IntN(len(in))]
			m.at = rng.Int64N(1000)
			h.fix(m)
		case len(in) > 0:
			i := rng.IntN(len(in))
			h.remove(in[i])
			h.remove(in[i]) // does nothing
			in = slices.Delete(in, i, i+1)
		}
		next := int64(forever)
		for _, m := range in {
			next = min(next, m.at)
		}
		if h.len() != len(in) || h.next() != next {
			t.Fatalf("%d inside, the next at %d; want %d and %d", h.len(), h.next(), len(in), next)
		}
	}
	last := int64(-1)
	for h.len() > 0 {
		if m, ok := h.due(last - 1); ok {
			t.Fatalf("%d is due at %d", m.at, last)
		}
		m, ok := h.due(1000)
		if !ok || m.at < last || m.idx != 0 {
			t.Fatalf("%+v, %v after %d", m, ok, last)
		}
		last = m.at
	}
}

func TestHeapsMemoryFollowsWhatIsInIt(t *testing.T) {
	var h heap[*moment]
	for i := range int64(10_000) {
		h.fix(&moment{at: i})
	}
	for h.len() > 0 {
		h.due(forever)
	}
	if n := cap(h.s); n > 128 {
		t.Errorf("an empty heap has room for %d", n)
	}
}
