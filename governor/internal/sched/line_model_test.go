package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// lineState is where a lane waits, as far as that is not for its turn.
type lineState struct {
	line   *modelLine
	had    [len(Scopes{})]bool
	wait   time.Duration
	owes   float64
	parked bool
	listed int   // when it was parked; 0: it is not
	apart  bool  // for a limit, by itself
	at     int64 // until when it is there; 0: until it is woken
	order  int
}

// modelLine is a line.
type modelLine struct {
	scope              throttle.Scope
	turns              fairModel
	next               *modelLane
	was                modelTurn // before that
	timed              bool      // it has a time
	at                 int64
	limit, eager, over bool
}

// schedModel is a Scheduler that looks at all lanes and lines for everything.
type schedModel struct {
	ready  fairModel // knows of all lanes
	kept   fairModel // of those that keep their slots
	both   bool      // next had to choose
	mine   bool      // and who started then was one of kept
	lines  []*modelLine
	budget int
	starts int64
	stamp  int
}

func (m *schedModel) tick() int { m.stamp++; return m.stamp }

func (m *schedModel) line(scope throttle.Scope) *modelLine {
	for _, q := range m.lines {
		if q.scope == scope {
			return q
		}
	}
	return nil
}

func (m *schedModel) made(scope throttle.Scope) *modelLine {
	q := m.line(scope)
	if q == nil {
		q = &modelLine{scope: scope, turns: fairModel{ageing: m.ready.ageing}}
		m.lines = append(m.lines, q)
	}
	return q
}

// keeps are the lines of which ml is next though it waits for another, or is its next.
func (m *schedModel) keeps(ml *modelLane) (kept []*modelLine) {
	for _, q := range m.lines {
		if q.next == ml && q != ml.line {
			kept = append(kept, q)
		}
	}
	return kept
}

// keeper is the one of q, in which it waits, that keeps other lines.
func (m *schedModel) keeper(q *modelLine) *modelLane {
	for _, ml := range q.turns.inTurn() {
		if len(m.keeps(ml)) > 0 {
			return ml
		}
	}
	return nil
}

func (m *schedModel) next(full bool) (next *modelLane) {
	kept, other := m.kept.next(), m.ready.next()
	if m.both = !full && kept != nil && other != nil; !m.both {
		if full || kept != nil {
			return kept
		}
		return other
	}
	for _, ml := range []*modelLane{kept, other} {
		than := other
		if ml == other {
			than = kept
		}
		aged := m.ready.ageing > 0 && ml.age(m.ready.ageing) < than.age(m.ready.ageing)
		if (ml == kept) != m.mine && (m.turns(ml).top() >= than.name.Priority || aged) {
			return ml
		}
	}
	if m.mine { // the other would have been it
		return kept
	}
	return other
}

// turns are where ml is in turn.
func (m *schedModel) turns(ml *modelLane) *fairModel {
	if ml.name.Kept {
		return &m.kept
	}
	return &m.ready
}

// first is who is next of a line, or would be.
func (q *modelLine) first() *modelLane {
	if q.next != nil {
		return q.next
	}
	return q.turns.next()
}

func (m *schedModel) unlink(ml *modelLane) {
	ml.listed, ml.at = 0, 0
	switch ml.inTurn {
	case nil:
	case m.turns(ml):
		m.turns(ml).take(ml)
	default:
		ml.inTurn.remove(ml)
	}
}

func (m *schedModel) in(ml *modelLane) {
	m.unlink(ml)
	ml.parked = false
	m.turns(ml).put(ml)
}

func (m *schedModel) out(ml *modelLane) {
	m.unlink(ml)
	ml.parked = true
}

func (m *schedModel) park(ml *modelLane, at int64) {
	m.leave(ml)
	m.out(ml)
	ml.listed, ml.at, ml.order, ml.apart = m.tick(), at, m.tick(), false
}

func (m *schedModel) wake(ml *modelLane) {
	switch {
	case !ml.parked:
	case ml.line == nil:
		m.in(ml)
	case ml.line.turns.next() == ml:
		m.try(ml.line)
	}
}

// wakeUntil wakes those whose time has come, in the order in which they began to wait.
func (m *schedModel) wakeUntil(now int64) {
	var due []*modelLane
	for _, ml := range m.ready.lanes {
		if ml.at != 0 && ml.at <= now {
			due = append(due, ml)
		}
	}
	slices.SortFunc(due, func(a, b *modelLane) int { return cmp.Compare(a.order, b.order) })
	for _, ml := range due {
		m.wake(ml)
	}
}

// started is what others have got while the head of ml, which is next, waited.
func (m *schedModel) started(ml *modelLane) (waited float64) {
	m.starts++
	if ml.line == nil {
		ml.owes = 0
	}
	m.leave(ml)
	if m.both {
		m.both, m.mine = false, ml.name.Kept
	}
	last := len(ml.reqs) == 1
	if waited = m.turns(ml).started(ml); !ml.name.Kept {
		return waited
	}
	if last {
		m.ready.drop(ml) // which knows of all
	}
	return 0
}

func (m *schedModel) leave(ml *modelLane) {
	m.quit(ml)
	m.letGo(ml)
	ml.had, ml.wait = [len(ml.had)]bool{}, 0
}

// quit takes ml out of its line.
func (m *schedModel) quit(ml *modelLane) {
	q := ml.line
	switch ml.line = nil; {
	case q == nil:
	case q.next == ml:
		q.next = nil
		m.soon(q)
	default:
		first := q.turns.next() == ml
		if q.turns.remove(ml); first {
			m.soon(q)
		}
	}
}

func (m *schedModel) letGo(ml *modelLane) {
	for _, q := range m.keeps(ml) {
		q.next = nil
		m.soon(q)
	}
}

func (m *schedModel) soon(q *modelLine) {
	if q.next != nil {
		return
	}
	q.timed, q.at = true, m.starts-heap.Forever
	if q.eager {
		q.at--
	}
}

func (m *schedModel) try(q *modelLine) {
	if q.next != nil {
		return
	}
	q.timed = false
	for ml := q.turns.next(); ml != nil; ml = q.turns.next() {
		if q.over && m.budget <= 0 {
			m.soon(q)
			return
		}
		q.was = q.turns.whose(ml)
		q.turns.turn(ml, false)
		if k := m.keeper(q); k != nil && k != ml {
			m.letGo(k) // others go first, and may for long
		}
		if !q.over {
			q.next = ml
			ml.had[q.scope.Level] = true
			m.in(ml)
			return
		}
		m.budget--
		ml.line = nil
		m.in(ml)
	}
	m.lines = slices.DeleteFunc(m.lines, func(o *modelLine) bool { return o == q })
}

func (m *schedModel) enter(ml *modelLane, q *modelLine, p paid) {
	m.quit(ml)
	m.out(ml)
	q.turns.add(ml, p)
	ml.line = q
}
