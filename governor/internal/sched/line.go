package sched

import (
	"time"

	"github.com/flyball-go/flyball/governor/internal/fair"
	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// line is where lanes wait for a scope narrower than the host, a tenant, selector or
// bucket: for its limit, or for the end of a cooldown and what the growth after it
// lets through. Only the one whose turn it is there is tried, when the limit said that
// it may go or the scope has changed; the others stay behind it without asking, so
// that what costs more is not overtaken for ever, and a start, or a change, costs the
// same however many wait. Turns are taken as in Scheduler.ready, so that a line is as
// fair.
//
// A lane is in no line, among its lanes, or is its next. One that needs several
// limits waits for its turn in the line of each, one after the other and once for
// a start: then it is tried whatever lines there are, and when a limit refuses it,
// waits before all others there. Permits of two limits that others wait for, too,
// may never be there at the same time by themselves. So the second time it keeps the
// others from what it leaves, but only for a wait that is not longer than that which
// it had there, which costs that limit about one start and no slow limit a quick one.
type line struct {
	scope  throttle.Scope
	lanes  fair.Turns
	next   *Lane     // in Scheduler.ready, to be tried; or, as a keeper, waiting in another line
	was    fair.Turn // before it was next, if it has to come back
	keeper *Lane     // the one of lanes that is next of other lines, too; nil: none
	at     int64     // when one is to be, heap.Forever if a change of the scope will tell; see soon
	idx    int32     // in Scheduler.lineTimes
	also   *line     // the next of those that delay.keeps begins with, in the order of their levels
	limit  bool      // a limit has refused somebody, so that permits are waited for
	eager  bool      // the next is tried without waiting for the last; see Hurry
	over   bool      // nothing keeps anybody any more: all may go
}

func (q *line) When() int64   { return q.at }
func (q *line) Index() *int32 { return &q.idx }

// ahead returns the line that l has to join before it may ask the limits, nil if
// there is none.
func (s *Scheduler) ahead(l *Lane, sc *Scopes) *line {
	if len(s.lines) == 0 || l.kept { // those ahead may wait for the slot that it keeps
		return nil
	}
	for level := range sc {
		if s.levels[level] > 0 && l.had&(1<<level) == 0 {
			if q := s.lines[sc[level]]; q != nil && q != l.line && !q.over {
				return q
			}
		}
	}
	return nil
}

// line returns the line of scope, a new one if there is none.
func (s *Scheduler) line(scope throttle.Scope) *line {
	q := s.lines[scope]
	if q == nil {
		q = &line{scope: scope}
		if s.lines == nil {
			s.lines = make(map[throttle.Scope]*line)
		}
		s.lines[scope] = q
		s.levels[scope.Level]++
	}
	return q
}

// Joins reports whether Join would find a line for l.
func (s *Scheduler) Joins(l *Lane, sc *Scopes) bool { return s.ahead(l, sc) != nil }

// Join has l, which is next, join the line that it has to wait in before it may ask
// the limits, and reports whether there is one. sc are what it belongs to.
func (s *Scheduler) Join(l *Lane, sc *Scopes) bool {
	q := s.ahead(l, sc)
	if q != nil {
		s.join(l, q)
	}
	return q != nil
}

// join puts l into q. If its turn is before that of those who wait there, which
// may need more or be less urgent, it is tried at once; what is less urgent and about
// to be tried goes back for that. Neither keeps another line any more: it could wait for
// who waits there.
func (s *Scheduler) join(l *Lane, q *line) {
	s.letGo(l) // others go first there, and may for long
	credit := min(-l.owes, int64(l.Price()))
	s.enter(l, q, credit)
	l.owes += credit // what was given back beyond its head's price is for its next one's
	if b := q.next; b != nil && b.line == q && b.Priority < l.Priority {
		q.next, b.line = nil, nil
		s.letGo(b)
		s.enter(b, q, fair.Ahead)
		q.lanes.Undo(&b.Queue, q.was)
		s.try(q)
	} else if q.lanes.Next() == &l.Queue {
		s.try(q)
	}
}

func (s *Scheduler) enter(l *Lane, q *line, credit int64) {
	s.quitLine(l)
	s.out(l)
	q.lanes.Add(&l.Queue, s.Ageing, credit)
	l.line = q
}

// WaitInLine puts l, which is next and which a limit of scope keeps back for wait, that
// is until at, into the line of scope, where its turn remains. One that keeps its slot
// waits by itself.
func (s *Scheduler) WaitInLine(l *Lane, scope throttle.Scope, at int64, wait time.Duration) {
	if l.kept {
		s.ParkUntil(l, &s.apart, at)
		return
	}
	q := s.line(scope)
	q.limit, q.eager, q.over = true, false, false
	p, tried := l.line, q.next == l
	if !s.stays(l, q) {
		d := l.held()
		if p != nil && p.limit && wait <= d.wait {
			d.keep(p)
			l.line = nil
		}
		d.wait = wait
	}
	if q.next != nil && q.next.parked {
		s.letGo(l) // who keeps a line waits for no other keeper, lest they wait for each other
	}
	s.comeBack(l, q, tried)
	if l.keeps() != nil && q.keeper == nil && q.lanes.Next() == &l.Queue {
		q.keeper = l
	} else {
		s.letGo(l) // others go first, and may for long
	}
	if q.next == nil && (q.idx == 0 || q.at == heap.Forever || q.keeper != nil || q.lanes.Next() == &l.Queue) {
		q.at = min(at, heap.Forever-1) // see WakeTimed
		s.lineTimes.Fix(q)
	}
}

// stays sees to it that l, which was refused, does not leave q, and reports whether it
// came from there.
func (s *Scheduler) stays(l *Lane, q *line) bool {
	if q.next == l {
		q.next = nil
		if l.delay != nil {
			l.delay.unkeep(q)
		}
	}
	if l.line != q {
		return false
	}
	l.line = nil
	return true
}

// keep has the lane, which is next of q and goes to another line, remain that.
func (d *delay) keep(q *line) {
	at := &d.keeps
	for *at != nil && (*at).scope.Level < q.scope.Level {
		at = &(*at).also
	}
	q.also, *at = *at, q
}

// unkeep has the lane keep q no more, if it did.
func (d *delay) unkeep(q *line) {
	for at := &d.keeps; *at != nil; at = &(*at).also {
		if *at == q {
			*at, q.also = q.also, nil
			return
		}
	}
}

// comeBack puts l before all others of q but who keeps other lines. tried says that it
// was q's next.
func (s *Scheduler) comeBack(l *Lane, q *line, tried bool) {
	if s.enter(l, q, fair.Ahead); tried {
		q.lanes.Undo(&l.Queue, q.was)
	}
	if k := q.keeper; k != nil { // what it keeps back is more
		s.unlink(k)
		q.lanes.Add(&k.Queue, s.Ageing, fair.Ahead)
	}
}

// WaitForScope puts l, which is next and which a scope lets through at until at the
// earliest, or when it changes, into the line of scope, where its turn remains. It keeps
// no other line meanwhile: what is paused keeps nobody else from anything.
func (s *Scheduler) WaitForScope(l *Lane, scope throttle.Scope, until int64) {
	q := s.line(scope)
	q.eager, q.over = false, false
	tried := q.next == l
	s.stays(l, q)
	s.letGo(l)
	if l.delay != nil {
		l.delay.wait = 0
	}
	s.comeBack(l, q, tried)
	if q.next == nil {
		if q.idx != 0 && q.lanes.Next() != &l.Queue {
			until = min(until, q.at) // which is that of who goes before it
		}
		q.at = until
		s.lineTimes.Fix(q)
	}
}

// Awaited reports whether lanes wait in line for scope.
func (s *Scheduler) Awaited(scope throttle.Scope) bool { return s.lines[scope] != nil }

// First returns the lane whose turn it is, or was last, in the line of scope, nil if
// there is none.
func (s *Scheduler) First(scope throttle.Scope) *Lane {
	switch q := s.lines[scope]; {
	case q == nil:
		return nil
	case q.next != nil:
		return q.next
	default:
		return laneOf(q.lanes.Next())
	}
}

// ScopeChanged says that scope has, so that the one whose turn it is may pass. over says
// that nothing of it is left, and that no limit is of its level either.
func (s *Scheduler) ScopeChanged(scope throttle.Scope, over bool) {
	q := s.lines[scope]
	if q == nil {
		return
	}
	if l := q.next; over && l != nil { // it is one of many now
		s.stays(l, q)
	}
	q.over = over
	s.soon(q)
}

// leaveLine takes l out of its line, if it is in one, and forgets its turns.
func (s *Scheduler) leaveLine(l *Lane) {
	s.quitLine(l)
	s.letGo(l)
	l.had = 0
	if l.delay != nil {
		l.delay.wait = 0
	}
}

func (s *Scheduler) quitLine(l *Lane) {
	q := l.line
	if q == nil {
		return
	}
	l.line = nil
	if q.keeper == l {
		q.keeper = nil
	}
	if q.next == l {
		q.next = nil
		s.soon(q)
		return
	}
	first := q.lanes.Next() == &l.Queue
	s.unlink(l)
	if first { // the time was its own
		s.soon(q)
	}
}
