package sched

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// What is said to a schedModel, as to a Scheduler.

// join puts ml, which is next, into the line that it has to join first.
func (m *schedModel) join(ml *modelLane) bool {
	sc := ml.scopes()
	i := slices.IndexFunc(sc[:], func(sc throttle.Scope) bool {
		q := m.line(sc)
		return !ml.name.Kept && q != nil && q != ml.line && !q.over && !ml.had[sc.Level]
	})
	if i < 0 {
		return false
	}
	q := m.line(sc[i])
	m.letGo(ml)
	credit := min(-ml.owes, ml.price())
	m.enter(ml, q, paid{credit: credit})
	ml.owes += credit
	if b := q.next; b != nil && b.line == q && b.name.Priority < ml.name.Priority {
		q.next, b.line = nil, nil
		m.letGo(b)
		m.enter(b, q, paid{full: true, ahead: true})
		q.turns.undo(b, q.was)
		m.try(q)
	} else if q.turns.next() == ml {
		m.try(q)
	}
	return true
}

// refused puts ml, which is next and belongs to scope, into its line.
func (m *schedModel) refused(ml *modelLane, scope throttle.Scope, at int64, wait time.Duration) {
	if ml.name.Kept {
		m.park(ml, at)
		ml.apart = true
		return
	}
	q := m.made(scope)
	q.limit, q.eager, q.over = true, false, false
	p, tried := ml.line, q.next == ml
	if tried {
		q.next = nil
	}
	if p == q {
		ml.line = nil
	} else {
		if p != nil && p.limit && wait <= ml.wait {
			ml.line = nil // and is its next still
		}
		ml.wait = wait
	}
	if q.next != nil && q.next.parked {
		m.quit(ml)
		m.letGo(ml)
	}
	if k := m.back(ml, q, tried); k != nil || q.turns.next() != ml {
		m.letGo(ml)
	}
	if q.next == nil && (!q.timed || q.at == heap.Forever || m.keeper(q) != nil || q.turns.next() == ml) {
		q.timed, q.at = true, min(at, heap.Forever-1)
	}
}

// back puts ml before all others of q but who keeps other lines, which it returns. tried
// says that ml was q's next.
func (m *schedModel) back(ml *modelLane, q *modelLine, tried bool) *modelLane {
	m.quit(ml)
	k := m.keeper(q)
	if m.enter(ml, q, paid{full: true, ahead: true}); tried {
		q.turns.undo(ml, q.was)
	}
	if k != nil {
		q.turns.remove(k)
		q.turns.add(k, paid{full: true, ahead: true})
	}
	return k
}

// held puts ml, which is next and belongs to scope, into its line until that changes.
func (m *schedModel) held(ml *modelLane, scope throttle.Scope, until int64) {
	q := m.made(scope)
	q.eager, q.over = false, false
	tried := q.next == ml
	if tried {
		q.next = nil
	}
	if ml.line == q {
		ml.line = nil
	}
	m.quit(ml)
	m.letGo(ml)
	ml.wait = 0
	m.back(ml, q, tried)
	if q.next == nil {
		if q.timed && q.turns.next() != ml {
			until = min(until, q.at)
		}
		q.timed, q.at = true, until
	}
}

func (m *schedModel) changed(scope throttle.Scope, over bool) {
	q := m.line(scope)
	if q == nil {
		return
	}
	if ml := q.next; over && ml != nil {
		q.next = nil
		if ml.line == q {
			ml.line = nil
		}
	}
	q.over = over
	m.soon(q)
}

// put puts r into ml at its place.
func (m *schedModel) put(ml *modelLane, r *request) {
	fresh := len(ml.reqs) == 0
	since := int64(0)
	if !fresh {
		since = ml.since()
	}
	i, _ := slices.BinarySearchFunc(ml.reqs, r, func(a, b *request) int { return int(a.seq) - int(b.seq) })
	ml.reqs = slices.Insert(ml.reqs, i, r)
	if r.lane = ml; fresh {
		m.in(ml)
		return
	}
	m.told(ml, since, i == 0)
}

// told says that what comes first in ml, which waited since, may have changed. first says
// that it is another.
func (m *schedModel) told(ml *modelLane, since int64, first bool) {
	if ml.inTurn != nil {
		ml.inTurn.changed(ml, since)
	}
	if first {
		m.wake(ml)
	}
}

// take takes r out of its lane, where it is not to start.
func (m *schedModel) take(r *request) {
	ml := r.lane
	i := slices.Index(ml.reqs, r)
	if r.lane = nil; len(ml.reqs) == 1 {
		m.leave(ml)
		m.unlink(ml)
		m.ready.drop(ml)
		m.kept.drop(ml)
		ml.reqs = nil
		return
	}
	since := ml.since()
	ml.reqs = slices.Delete(ml.reqs, i, i+1)
	m.told(ml, since, i == 0)
}

// owe has ml's tenant pay for what a start cost more.
func (m *schedModel) owe(ml *modelLane, cost, waited float64) {
	m.turns(ml).owe(ml.name, cost, waited)
	worth := cost / ml.weight
	if q := ml.inTurn; q != nil && q != m.turns(ml) {
		ml.owes -= q.owe(ml.name, cost, 0)
		return
	}
	ml.owes += worth
}

// due is when the first line is to be tried.
func (m *schedModel) due() int64 {
	at := int64(heap.Forever)
	for _, q := range m.lines {
		if q.timed {
			at = min(at, q.at)
		}
	}
	return at
}

// hurries reports whether a line is to be tried before anything else is next.
func (m *schedModel) hurries(now int64) bool {
	at := m.due()
	return at <= now && (at >= 0 || at < m.starts-heap.Forever)
}
