package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flyball-go/flyball/internal/effort"
)

func TestSchedulerServesAsIfItLookedAtEveryLane(t *testing.T) {
	instead := 0
	for seed := range uint64(effort.Times(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { instead += compareWithModel(t, seed) })
	}
	if instead == 0 {
		t.Error("no lane went instead of another")
	}
}

// compareWithModel also returns how many lanes went instead of another.
func compareWithModel(t *testing.T, seed uint64) (instead int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	pick := func(most int) int { return 1 + rng.IntN(most) }
	ageing := []float64{0, 40.37, 1000.37}[seed%3] // ages that are equal are in no order
	tenants, priorities, costs := pick(12), pick(4), pick(20)
	counted := 0
	s := &Scheduler{Count: func(n int) { counted += n }, Ageing: ageing}
	m := &fairModel{ageing: ageing}
	var parked List
	var seq uint64
	var all, began []*request
	back, was := make(map[*request]bool), make(map[*request]*modelLane)
	now := int64(0)
	for step := range 3000 {
		now += int64(pick(9))
		switch n := rng.IntN(21); {
		case n < 8:
			of := name{Kind{Tenant: fmt.Sprint(rng.IntN(tenants)), Priority: int32(rng.IntN(priorities))}, rng.IntN(3), 0}
			ml := m.lane(of, []int32{1, 2, 4, 16}[len(of.Tenant)%2+rng.IntN(3)])
			seq++
			r := &request{lane: ml, seq: seq, enqueued: now, cost: int32(pick(costs))}
			all = append(all, r)
			ml.reqs = append(ml.reqs, r)
			ml.tell()
			fresh, outside := ml.l.Len() == 0, rng.IntN(2) == 0
			if outside {
				counted++
			}
			s.Add(ml.l, fresh, outside)
			if fresh {
				m.put(ml)
			}
		case n < 15:
			l, want := s.Next(false), m.next()
			if (l == nil) != (want == nil) || l != nil && l != want.l {
				t.Fatalf("step %d: the next lane is %+v, want %+v", step, nameOf(l), want)
			}
			if l != nil && rng.IntN(3) == 0 {
				some := rng.IntN(3)
				wanted := func(ml *modelLane) bool { return ml.place%3 == some }
				could := m.instead(want, wanted)
				switch other := s.Instead(l, 1<<30, func(o *Lane) bool { return wanted(o.Owner().(*modelLane)) }); {
				case other == nil && len(could) > 0:
					t.Fatalf("step %d: nothing instead of %+v, want one of %d lanes", step, nameOf(l), len(could))
				case other != nil && !slices.Contains(could, other.Owner().(*modelLane)):
					t.Fatalf("step %d: %+v instead of %+v, want one of %d others", step, nameOf(other), nameOf(l), len(could))
				case other != nil:
					l, want = other, other.Owner().(*modelLane)
					instead++
				}
			}
			if l != nil {
				r := want.reqs[0]
				r.lane, was[r] = nil, want
				began = append(began, r)
				counted-- // as a grant does
				wanted := m.started(want)
				if l.Len() > 1 {
					want.tell()
				}
				if waited := s.Started(l, r.cost); waited != int(wanted) {
					t.Fatalf("step %d: it waited for %d, want %v", step, waited, wanted)
				}
			}
		case n == 15 && len(began) > 0: // it comes back, having been attempted or not
			i := rng.IntN(len(began))
			r := began[i]
			began = slices.Delete(began, i, i+1)
			ml := m.lane(was[r].name, int32(was[r].weight))
			if rng.IntN(2) == 0 || slices.ContainsFunc(ml.reqs, func(r *request) bool { return back[r] }) {
				r.enqueued = now
			}
			fresh, since := ml.l.Len() == 0, int64(0)
			if !fresh {
				since = ml.since()
			}
			back[r], r.lane = true, ml
			all = append(all, r)
			i, _ = slices.BinarySearchFunc(ml.reqs, r, func(a, b *request) int { return int(a.seq) - int(b.seq) })
			ml.late[r] = slices.ContainsFunc(ml.reqs[i:], func(o *request) bool { return !ml.late[o] })
			ml.reqs = slices.Insert(ml.reqs, i, r)
			ml.tell()
			s.Add(ml.l, i == 0, false)
			switch {
			case fresh, i == 0 && ml.inTurn == nil:
				m.put(ml)
			default:
				m.changed(ml, since)
			}
		case n < 17:
			began = slices.DeleteFunc(began, func(r *request) bool { return rng.IntN(4) == 0 }) // done
			all = slices.DeleteFunc(all, func(r *request) bool { return r.lane == nil })
			if len(all) == 0 {
				continue
			}
			r := all[rng.IntN(len(all))]
			ml := r.lane
			i := slices.Index(ml.reqs, r)
			switch {
			case len(ml.reqs) == 1:
				m.drop(ml)
			default:
				since := ml.since()
				ml.reqs = slices.Delete(ml.reqs, i, i+1)
				ml.tell()
				if m.changed(ml, since); i == 0 && ml.inTurn == nil {
					m.put(ml) // a new head may need less
				}
			}
			r.lane = nil
			s.Remove(ml.l, i == 0)
		case n < 19:
			l := s.Next(false)
			if n == 18 && len(m.inTurn()) > 0 {
				l = m.inTurn()[rng.IntN(len(m.inTurn()))].l
			}
			if l != nil {
				m.take(l.Owner().(*modelLane))
				s.Park(l, &parked)
			}
		case n == 19 && len(m.lanes) > 0:
			ml, cost, waited := m.lanes[rng.IntN(len(m.lanes))], rng.IntN(100)-60, rng.IntN(60)
			s.Owe(Debt{ml.name.Tenant, ml.name.Priority, false, cost, waited}, ml.l)
			m.owe(ml.name, float64(cost), float64(waited))
		default:
			if l := parked.first(); l != nil {
				m.put(l.Owner().(*modelLane))
				s.Wake(l)
			}
		}
		waits, could := 0, 0
		for _, ml := range m.lanes {
			waits += len(ml.reqs)
			if ml.inTurn != nil {
				could += len(ml.reqs)
			}
		}
		if s.Len() != waits || counted != could {
			t.Fatalf("step %d: %d requests wait, of which %d could go; want %d and %d", step, s.Len(), counted, waits, could)
		}
	}
	return instead
}

func nameOf(l *Lane) any {
	if l == nil {
		return "none"
	}
	return l.Owner().(*modelLane).name
}

// What is behind the first counts for a lane's age when it has waited for longer; and no
// more when it has been cancelled.
func TestLaneIsAsOldAsItIsSaidToBe(t *testing.T) {
	s := &Scheduler{Count: func(int) {}, Ageing: 1000}
	lanes := [2]Lane{}
	for priority := range lanes {
		l := &lanes[priority]
		l.Begin(priority, Kind{Tenant: "t", Priority: int32(priority)})
		l.SetHead(Head{Cost: 1})
		s.Add(l, true, false)
	}
	lanes[0].SetHead(Head{Cost: 1, Since: -2000})
	s.Add(&lanes[0], false, false)
	if l := s.Next(false); l.Owner() != 0 {
		t.Errorf("next is the lane of priority %v, want that of 0, which has aged by 2", l.Owner())
	}
	lanes[0].SetHead(Head{Cost: 1})
	s.Remove(&lanes[0], false)
	if l := s.Next(false); l.Owner() != 1 {
		t.Errorf("next is the lane of priority %v, want that of 1, as neither has aged", l.Owner())
	}
}

// Where lanes of a kind go instead of others, whenever there is one: of two tenants that
// always want something each has its half at any time; and while a lane is in turn so many
// others of its tenant start at most as are before it, and so many more. Lanes come and go.
func TestWhoGoesInsteadOfAnotherTakesNothingFromAnybody(t *testing.T) {
	const lanes, times = 7, 5
	s := &Scheduler{Count: func(int) {}}
	var got, inTurn [2]int
	var parked List
	var all []*Lane
	before, started := make(map[*Lane]int), make(map[*Lane]int) // others of its tenant, since it is in turn
	for i := range 2 * lanes {
		l := new(Lane)
		l.Begin(i, Kind{Tenant: fmt.Sprint(i % 2)})
		l.SetHead(Head{Cost: 1})
		for range 10_000 {
			s.Add(l, l.Len() == 0, false)
		}
		before[l] = inTurn[i%2]
		inTurn[i%2]++
		all = append(all, l)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	often := 0
	for range 10_000 {
		l, kind := s.Next(false), rng.IntN(2)
		if other := s.Instead(l, times, func(o *Lane) bool { return o.Owner().(int)/2 == kind }); other != nil {
			if other == l || other.Owner().(int)/2 != kind {
				t.Fatalf("lane %v instead of %v, want another of kind %d", other.Owner(), l.Owner(), kind)
			}
			l = other
		}
		tenant := l.Owner().(int) % 2
		for _, other := range all {
			if other != l && other.Owner().(int)%2 == tenant && !other.Parked() {
				started[other]++
			}
		}
		switch n := started[l] - before[l] - times; {
		case n > 0:
			t.Fatalf("%d others have started before a lane that was behind %d", started[l], before[l])
		case n == 0:
			often++
		}
		before[l], started[l] = inTurn[tenant]-1, 0
		got[tenant]++
		s.Started(l, 1)
		if d := got[0] - got[1]; d < -1 || d > 1 {
			t.Fatalf("the tenants have started %v", got)
		}
		switch l := all[rng.IntN(len(all))]; {
		case rng.IntN(8) > 0:
		case l.Parked():
			s.Wake(l)
			before[l], started[l] = inTurn[l.Owner().(int)%2], 0
			inTurn[l.Owner().(int)%2]++
		case inTurn[l.Owner().(int)%2] > 2 && s.Next(false) != l: // else it would be before all others afterwards
			s.Park(l, &parked)
			inTurn[l.Owner().(int)%2]--
		}
	}
	if often < 4*lanes {
		t.Errorf("as many as may have started before a lane %d times, want more than once for each", often)
	}
}

// Nor may more go before the others because one is before them that has come back to its
// turn.
func TestWhoComesBackToItsTurnLetsNoMoreOvertakeTheOthers(t *testing.T) {
	s := &Scheduler{Count: func(int) {}}
	var lanes [3]Lane
	for i := range lanes {
		l := &lanes[i]
		l.Begin(i, Kind{Tenant: "t"})
		l.SetHead(Head{Cost: 1})
		for range 10 {
			s.Add(l, l.Len() == 0, false)
		}
	}
	last := func(l *Lane) bool { return l == &lanes[2] }
	for i := range 2 {
		l := s.Instead(s.Next(false), 2, last)
		if l == nil {
			t.Fatalf("the last lane went before the others %d times, want 2", i)
		}
		s.Started(l, 1)
	}
	var parked List
	s.Park(s.Next(false), &parked)
	s.Wake(parked.first())
	if l := s.Next(false); l != &lanes[0] || s.Instead(l, 2, last) != nil {
		t.Errorf("lane %v is next, and others go before it; want 0, and none does", l.Owner())
	}
}
