package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/throttle"
)

// Who waits in which line, who is tried and when is as if every lane and every line were
// looked at each time, whatever limits refuse and scopes hold; and when nothing does any
// more, everything starts.
func TestLinesAreServedAsIfEveryLaneWereLookedAt(t *testing.T) {
	for seed := range uint64(effort.Times(24)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newWalk(t, seed).run() })
	}
}

// walk does at random what a governor does, with a Scheduler and its model.
type walk struct {
	*testing.T
	rng     *rand.Rand
	s       *Scheduler
	m       *schedModel
	parked  List
	counted int
	now     int64
	seq     uint64
	step    int
	waiting []*request

	tenants, priorities, costs int
	limited                    [len(Scopes{})]bool // levels of which there is a limit
}

func newWalk(t *testing.T, seed uint64) *walk {
	rng := rand.New(rand.NewPCG(seed, 4))
	w := &walk{T: t, rng: rng, tenants: 1 + rng.IntN(5), priorities: 1 + rng.IntN(3), costs: 1 + rng.IntN(20)}
	ageing := []float64{0, 40.37, 1000.37}[seed%3] // ages that are equal are in no order
	w.s = &Scheduler{Count: func(n int) { w.counted += n }, Ageing: ageing}
	w.m = &schedModel{ready: fairModel{ageing: ageing}, kept: fairModel{ageing: ageing}}
	for level := throttle.Selector; level <= throttle.Bucket; level++ {
		w.limited[level] = rng.IntN(3) > 0
	}
	return w
}

func (w *walk) run() {
	for w.step = range 600 {
		w.now += int64(1 + w.rng.IntN(3)) // see newWalk
		switch n := w.rng.IntN(32); {
		case n < 9:
			w.add()
		case n < 24:
			w.pump(w.serve)
		case n == 24 && len(w.waiting) > 0:
			w.remove(w.waiting[w.rng.IntN(len(w.waiting))])
		case n < 27:
			w.change()
		case n == 27:
			w.s.WakeAll(&w.parked)
			for ml := w.longest(); ml != nil; ml = w.longest() {
				w.m.wake(ml)
			}
		case n == 28 && len(w.m.ready.lanes) > 0:
			ml, cost, waited := w.m.ready.lanes[w.rng.IntN(len(w.m.ready.lanes))], w.rng.IntN(100)-60, w.rng.IntN(60)
			w.s.Owe(Debt{ml.name.Tenant, ml.name.Priority, ml.name.Kept, cost, waited}, ml.l)
			w.m.owe(ml, float64(cost), float64(waited))
		case n == 29 && w.rng.IntN(4) == 0:
			w.s.WakeTimed()
			w.m.wakeUntil(heap.Forever)
			for _, q := range w.m.lines {
				if q.at < heap.Forever {
					q.at = min(q.at, 0)
				}
			}
		default:
			w.now += int64(w.rng.IntN(30))
			w.s.Tick(w.now)
			w.m.wakeUntil(w.now)
		}
		w.compare()
	}
	w.drain()
}

func (w *walk) add() {
	of := name{Kind{fmt.Sprint(w.rng.IntN(w.tenants)), int32(w.rng.IntN(w.priorities)), w.rng.IntN(8) == 0}, w.rng.IntN(3), w.rng.IntN(2)}
	ml := w.m.ready.lane(of, []int32{1, 2, 4, 16}[w.rng.IntN(4)])
	w.seq++
	r := &request{seq: w.seq, enqueued: w.now, cost: int32(1 + w.rng.IntN(w.costs))}
	if w.rng.IntN(4) == 0 && len(ml.reqs) > 0 && ml.reqs[0].seq > 1 { // it comes back
		r.seq = ml.reqs[0].seq - 1
	}
	w.waiting = append(w.waiting, r)
	w.m.put(ml, r)
	ml.tell()
	outside := w.rng.IntN(2) == 0
	if outside {
		w.counted++
	}
	w.s.Add(ml.l, ml.reqs[0] == r, outside)
}

func (w *walk) remove(r *request) {
	ml, i := r.lane, 0
	if i = slices.Index(ml.reqs, r); len(ml.reqs) > 1 {
		w.m.take(r)
		ml.tell()
	} else {
		w.m.take(r)
	}
	w.forget(r)
	w.s.Remove(ml.l, i == 0)
}

func (w *walk) forget(r *request) {
	w.waiting = slices.DeleteFunc(w.waiting, func(o *request) bool { return o == r })
}

// pump does what a governor does for the next start.
func (w *walk) pump(serve func(*modelLane)) bool {
	for w.m.hurries(w.now) {
		w.try(true)
	}
	w.s.Budget, w.m.budget = 1, 1
	w.s.Hurry(w.now) // no other line
	full := w.rng.IntN(5) == 0
	want := w.m.next(full)
	w.same(w.s.Next(full), want, "next")
	switch {
	case want != nil:
		sc := want.scopes()
		wanted := w.m.join(want)
		if w.s.Join(want.l, &sc) != wanted {
			w.Fatalf("step %d: %v has to join a line: %t, want %t", w.step, want.name, !wanted, wanted)
		}
		if !wanted {
			serve(want)
		}
		return true
	case full:
		return true
	}
	if w.m.due() > w.now {
		return w.s.TryLines(w.now)
	}
	w.try(false)
	return true
}

// try has the line tried whose time has come, of several of the same time any.
func (w *walk) try(hurried bool) {
	at, budget := w.m.due(), 1
	if w.s.NextLine() != at {
		w.Fatalf("step %d: a line is to be tried at %d, want %d", w.step, w.s.NextLine(), at)
	}
	q := w.m.line(w.s.lineTimes.First().scope)
	if q == nil || !q.timed || q.at != at {
		w.Fatalf("step %d: the first line is %+v, want one of %d", w.step, q, at)
	}
	if q.over {
		budget += w.rng.IntN(len(q.turns.inTurn()) + 1)
	}
	w.m.budget, w.s.Budget = budget-1, budget
	if q.eager = hurried && q.at < 0; hurried {
		w.s.Hurry(w.now)
	} else {
		w.s.TryLines(w.now)
	}
	w.m.try(q)
	w.compare()
}

// serve starts what is first in ml, or has something keep it back.
func (w *walk) serve(ml *modelLane) {
	sc := ml.scopes()
	level := throttle.Selector + throttle.Level(w.rng.IntN(3))
	wait := time.Duration(10 * (1 + w.rng.IntN(3))) // often as long as another
	at := w.now + int64(wait)
	switch n := w.rng.IntN(20); {
	case n < 8 && w.limited[level]:
		w.s.WaitInLine(ml.l, sc[level], at, wait)
		w.m.refused(ml, sc[level], at, wait)
	case n < 10 && !ml.name.Kept:
		if w.rng.IntN(2) == 0 {
			at = heap.Forever
		}
		w.s.WaitForScope(ml.l, sc[level], at)
		w.m.held(ml, sc[level], at)
	case n == 10:
		w.s.Park(ml.l, &w.parked)
		w.m.park(ml, 0)
	case n == 11:
		w.s.ParkUntil(ml.l, &w.parked, at)
		w.m.park(ml, at)
	default:
		w.start(ml)
	}
}

func (w *walk) start(ml *modelLane) {
	r := ml.reqs[0]
	w.forget(r)
	w.counted-- // as a grant does
	wanted := w.m.started(ml)
	if ml.l.Len() > 1 {
		ml.tell()
	}
	if waited := w.s.Started(ml.l, r.cost); waited != int(wanted) {
		w.Fatalf("step %d: it waited for %d, want %v", w.step, waited, wanted)
	}
}

// change has a scope change.
func (w *walk) change() {
	if len(w.m.lines) == 0 {
		return
	}
	q := w.m.lines[w.rng.IntN(len(w.m.lines))]
	over := !w.limited[q.scope.Level] && w.rng.IntN(2) == 0
	w.s.ScopeChanged(q.scope, over)
	w.m.changed(q.scope, over)
}

// longest is who is in the list of those that were parked for longest.
func (w *walk) longest() (first *modelLane) {
	for _, ml := range w.m.ready.lanes {
		if ml.listed != 0 && !ml.apart && (first == nil || ml.listed < first.listed) {
			first = ml
		}
	}
	return first
}
