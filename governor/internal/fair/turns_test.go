package fair

import (
	"fmt"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

// What a decision costs does not grow with the queues: those of one cost and weight
// have one tag of two, and ages are kept only where priorities differ.
func TestManyQueuesAreInTwoRounds(t *testing.T) {
	const queues, each = 100_000, 3
	var turns Turns
	left := make(map[*Queue]int)
	for i := range queues {
		q := &Queue{Tenant: fmt.Sprint(i), Cost: 1, Value: i}
		turns.Add(q, 1e9, 0)
		left[q] = each
	}
	for i := range queues * each {
		if n := turns.many.of[0].rounds.Len(); n > 2 || turns.many.of[0].ages.Len() > 0 || turns.many.order.Len() > 1 {
			t.Fatalf("after %d starts there are %d rounds and %d ages", i, n, turns.many.of[0].ages.Len())
		}
		q := turns.Next()
		if q.Value != i%queues {
			t.Fatalf("start %d is of queue %v", i, q.Value)
		}
		turns.Started(q)
		if left[q]--; left[q] == 0 {
			turns.Remove(q)
		}
	}
	if turns.Next() != nil || len(turns.many.of) != 0 {
		t.Errorf("%d levels are left", len(turns.many.of))
	}
}

// Virtual time begins again at zero when it has become too large, here twice at least.
func TestTenantsShareWhenVirtualTimeOverflows(t *testing.T) {
	var turns Turns
	for i, tenant := range []string{"one", "two"} {
		turns.Add(&Queue{Tenant: tenant, Weight: int32(i + 1), Cost: 1<<31 - 1, Value: i}, 0, 0)
	}
	var got [2]int
	each := effort.Times(300_000)
	for range 3 * each {
		q := turns.Next()
		got[q.Value.(int)]++
		turns.Started(q)
	}
	if got != [2]int{each, 2 * each} {
		t.Errorf("tenants of weight 1 and 2 started %v, want one to two", got)
	}
}

// Nor where queues differ in priority, weight and cost: what a decision changes in the
// heaps, of which each change costs O(log n), is a queue or two.
func TestDecisionsAmongAllKindsOfQueuesMoveFew(t *testing.T) {
	const queues = 100_000
	var turns Turns
	now := int64(0)
	for i := range queues {
		now++
		turns.Add(&Queue{
			Tenant: fmt.Sprint(i), Priority: int32(i % 4), Weight: int32(1 + i%2), Cost: int32(1 + i%10), Since: now, Value: i,
		}, 0.1, 0)
	}
	sorted := make([]int64, queues)
	moved := func() (n int) {
		for _, lv := range turns.many.of {
			for q := range lv.ages.All() {
				if at := lv.ages.At(q); at != sorted[q.Value.(int)] {
					sorted[q.Value.(int)] = at
					n++
				}
			}
		}
		return n
	}
	moved()
	started := make(map[int32]int)
	for i := range 20_000 {
		now++
		before := turns.many.rounds()
		q := turns.Next()
		q.Since = now
		turns.Started(q)
		started[q.Priority]++
		if made := turns.many.rounds() - before; made > 1 {
			t.Fatalf("decision %d made %d rounds", i, made)
		}
		if i%1000 == 0 {
			moved()
		} else if i%1000 == 1 {
			if n := moved(); n > 2 {
				t.Fatalf("decision %d sorted %d queues anew, want two at most", i, n)
			}
		}
	}
	ages := 0
	for _, lv := range turns.many.of {
		ages += lv.ages.Len()
	}
	if len(started) < 2 || ages != queues {
		t.Errorf("started %v by priority, of %d queues; want them of more than one", started, ages)
	}
}

func (ls *levels) rounds() (n int) {
	for _, lv := range ls.of {
		n += lv.rounds.Len()
	}
	return n
}

// All has each queue once, and those of a tenant in their order.
func TestAllYieldsWhatIsInTurn(t *testing.T) {
	var turns Turns
	want := 0
	check := func() {
		t.Helper()
		seen, last := map[*Queue]bool{}, map[string]int{}
		for q := range turns.All {
			key := fmt.Sprint(q.Tenant, q.Priority)
			if i := q.Value.(int); seen[q] || i < last[key] || q.Turns() != &turns {
				t.Errorf("of %s, %d comes after %d", key, i, last[key])
			}
			seen[q], last[key] = true, q.Value.(int)
		}
		if len(seen) != want {
			t.Errorf("%d of %d queues", len(seen), want)
		}
		for range turns.All {
			break
		}
	}
	var qs []*Queue
	check()
	for i := range 24 {
		q := &Queue{Tenant: fmt.Sprint(i % 3), Priority: int32(i % 4), Cost: int32(i % 2), Value: i}
		qs = append(qs, q)
		turns.Add(q, 1e9, 0)
		want++
		check()
	}
	for _, q := range qs {
		turns.Remove(q)
		want--
		check()
	}
}
