package fair

import (
	"fmt"
	"testing"
)

// A start takes 10 ms and ageing is a second. What comes first in a queue of no end has
// just come, and nothing costs more than 1 but what is called heavy. The heavy ones wait
// for the others of their priority, and nobody else does.
func TestNoPriorityWaitsForWhatAnotherPassesOver(t *testing.T) {
	const ms = 1_000_000
	type queue struct {
		name     string
		priority int32
		cost     int32
		endless  bool
		within   int // starts from when it is the oldest; 0: never asked
	}
	light := func(priority int32) queue { return queue{fmt.Sprint("light", priority), priority, 1, true, 0} }
	heavy := func(priority, cost int32, within int) queue {
		return queue{fmt.Sprint("heavy", priority), priority, cost, false, within}
	}
	for _, tt := range []struct {
		name   string
		queues []queue
	}{
		{"the highest", []queue{light(1), heavy(1, 1e9, 0), {"low", 0, 1, false, 3}}},
		{"the highest, of many", []queue{light(1), heavy(1, 1e9, 0), {"other", 1, 1e8, false, 0}, {"low", 0, 1, false, 3}}},
		{"one between", []queue{light(2), light(1), heavy(1, 1e9, 0), {"low", 0, 1, false, 5}}},
		{"all above", []queue{light(2), heavy(2, 1e9, 0), light(1), heavy(1, 1e9, 0), {"low", 0, 1, false, 5}}},
		{"its own", []queue{light(1), light(0), heavy(0, 1000, 2005)}}, // half the starts are for its priority
		{"its own, and the highest", []queue{light(1), heavy(1, 1e9, 0), light(0), heavy(0, 1000, 2005)}},
		{"its own, and those between", []queue{ // in which they take turns
			light(4), light(3), heavy(3, 1e9, 0), light(2), heavy(2, 1e9, 0), light(1), heavy(1, 1e9, 0),
			light(0), heavy(0, 1000, 8100), {"low", 0, 1, false, 17},
		}},
		{"what came in its order", []queue{ // so that the oldest goes first between them
			light(3), light(2), light(1), heavy(1, 1000, 8000), {"low", 0, 1, false, 10},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var turns Turns
			wanted := make(map[string]int64)
			top := tt.queues[0].priority
			for i, q := range tt.queues {
				turns.Add(&Queue{Tenant: q.name, Priority: q.priority, Cost: q.cost, Since: int64(i), Value: q}, 1000*ms, 0)
				if q.within > 0 {
					wanted[q.name] = int64(top-q.priority)*1000*ms + int64(q.within)*10*ms
				}
			}
			for now, all := int64(0), len(wanted); len(wanted) > 0; now += 10 * ms {
				q := turns.Next()
				of := q.Value.(queue)
				if latest, ok := wanted[of.name]; ok {
					if delete(wanted, of.name); now > latest {
						t.Errorf("%s started after %d ms, want %d at most", of.name, now/ms, latest/ms)
					}
				}
				q.Since = now
				turns.Started(q)
				if !of.endless {
					turns.Remove(q)
				}
				if now > 200_000*ms {
					t.Fatalf("of %d there have not started after %d s: %v", all, now/ms/1000, wanted)
				}
			}
		})
	}
}
