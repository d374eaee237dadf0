package sched

import (
	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// compare compares everything that can be asked, and that nothing waits for what will
// never come.
func (w *walk) compare() {
	w.Helper()
	w.same(w.s.Next(false), w.m.next(false), "next")
	w.same(w.s.Next(true), w.m.next(true), "next without a slot")
	if at, want := w.s.NextLine(), w.m.due(); at != want {
		w.Fatalf("step %d: a line is to be tried at %d, want %d", w.step, at, want)
	}
	waits, could, timed := 0, 0, int64(heap.Forever)
	for _, ml := range w.m.ready.lanes {
		waits += len(ml.reqs)
		if !ml.parked {
			could += len(ml.reqs)
		}
		if ml.at != 0 {
			timed = min(timed, ml.at)
		}
		w.laneIsSame(ml)
	}
	if w.s.Len() != waits || w.counted != could {
		w.Fatalf("step %d: %d requests wait, of which %d could go; want %d and %d", w.step, w.s.Len(), w.counted, waits, could)
	}
	if at := w.s.NextTimed(); at != timed {
		w.Fatalf("step %d: a lane is due at %d, want %d", w.step, at, timed)
	}
	var levels [len(Scopes{})]int32
	for _, q := range w.m.lines {
		levels[q.scope.Level]++
		w.same(w.s.First(q.scope), q.first(), "first in line for "+q.scope.String())
		if (q.next == nil) != q.timed || q.first() == nil && q.at > w.now {
			w.Fatalf("step %d: the line of %v waits for nothing", w.step, q.scope)
		}
		after := q // who keeps a line may wait for one that keeps another, but not in a circle
		for range w.m.lines {
			if after != nil && after.next != nil {
				after = after.next.line
			}
		}
		if after != nil && after.next != nil && after.next.parked {
			w.Fatalf("step %d: the line of %v waits for itself", w.step, q.scope)
		}
	}
	if w.s.levels != levels || len(w.s.lines) != len(w.m.lines) {
		w.Fatalf("step %d: there are lines of %v, want %v", w.step, w.s.levels, levels)
	}
}

// laneIsSame compares where a lane waits, and what it keeps others from meanwhile.
func (w *walk) laneIsSame(ml *modelLane) {
	w.Helper()
	of := func(q *line) throttle.Scope {
		if q == nil {
			return throttle.Scope{}
		}
		return q.scope
	}
	var want throttle.Scope
	if ml.line != nil {
		want = ml.line.scope
	}
	if of(ml.l.line) != want || ml.l.Parked() != ml.parked {
		w.Fatalf("step %d: %v waits for %v: %t; want %v: %t", w.step, ml.name, of(ml.l.line), ml.l.Parked(), want, ml.parked)
	}
	kept := make(map[throttle.Scope]bool)
	for q := ml.l.keeps(); q != nil; q = q.also {
		kept[q.scope] = true
	}
	keeps := w.m.keeps(ml)
	same := len(keeps) == len(kept)
	for _, q := range keeps {
		same = same && kept[q.scope]
	}
	if !same {
		w.Fatalf("step %d: %v keeps %v, want %d", w.step, ml.name, kept, len(keeps))
	}
	if q := ml.l.line; q != nil && ml.parked && len(keeps) > 0 && q.keeper != ml.l {
		w.Fatalf("step %d: %v keeps others, and the line that it waits in does not know", w.step, ml.name)
	}
}

func (w *walk) same(l *Lane, want *modelLane, what string) {
	w.Helper()
	switch {
	case l == nil && want == nil, l != nil && want != nil && l == want.l:
	case want == nil:
		w.Fatalf("step %d: %s is %v, want none", w.step, what, nameOf(l))
	default:
		w.Fatalf("step %d: %s is %v, want %v", w.step, what, nameOf(l), want.name)
	}
}

// drain lets everything pass, and sees that everything starts.
func (w *walk) drain() {
	for _, q := range w.m.lines {
		w.s.ScopeChanged(q.scope, false)
		w.m.changed(q.scope, false)
	}
	w.s.WakeAll(&w.parked)
	for ml := w.longest(); ml != nil; ml = w.longest() {
		w.m.wake(ml)
	}
	for turns := 0; len(w.waiting) > 0; turns++ {
		if w.step++; turns > 100_000 {
			w.Fatalf("%d requests never start", len(w.waiting))
		}
		if !w.pump(w.start) {
			at := min(w.s.NextLine(), w.s.NextTimed())
			if at == heap.Forever {
				w.Fatalf("%d requests wait for nothing", len(w.waiting))
			}
			w.now = max(w.now, at)
			w.s.Tick(w.now)
			w.m.wakeUntil(w.now)
		}
		w.compare()
	}
	if len(w.m.lines) > 0 || w.s.lineTimes.Len() > 0 {
		// Lines whose last lane has gone are forgotten when they are tried.
		for w.m.due() < heap.Forever {
			w.try(false)
		}
	}
}
