package governor

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/flyball-go/flyball/governor/internal/sched"
)

func TestLongestLanesAreThoseOfAWholeSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 9, 10, 11, 19, 20, 21, 1000} {
		s := &queue{Scheduler: sched.Scheduler{Count: func(int) {}}}
		var want []LaneStats
		sel := &selector{name: "s"}
		for i := range n {
			l := s.lane(laneKey{sel: sel, tenant: fmt.Sprint(i)}, n)
			for range 1 + rng.IntN(1+n/20) {
				s.add(l, &request{cost: 1}, true)
			}
			want = append(want, LaneStats{Selector: "s", Tenant: l.tenant, Waiting: l.sched.Len()})
		}
		slices.SortFunc(want, func(a, b LaneStats) int {
			return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Tenant, b.Tenant))
		})
		if got := s.longest(10); !reflect.DeepEqual(got, want[:min(n, 10):min(n, 10)]) {
			t.Errorf("of %d: %v, want %v", n, got, want[:min(n, 10)])
		}
	}
}
