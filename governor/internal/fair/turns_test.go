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
		if n := turns.many.of[0].rounds.Len(); n > 2 || turns.many.ages.Len() > 0 || turns.many.order.Len() > 1 {
			t.Fatalf("after %d starts there are %d rounds and %d ages", i, n, turns.many.ages.Len())
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
