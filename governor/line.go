package governor

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// line is where lanes wait for a limit narrower than the host: those of one
// tenant, selector or bucket. Only the one whose turn it is there is tried, when
// the limit said that it may go; the others stay behind it without asking, so
// that what costs more is not overtaken for ever, and a start costs the same
// however many wait. Turns are taken as in sched.ready, so that a line is as fair.
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
	lanes  turns
	next   *lane // in sched.ready, to be tried; or, as a keeper, waiting in another line
	keeper *lane // the one of lanes that is next of other lines, too; nil: none
	at     int64 // when one is to be
	idx    int32 // in sched.lineTimes
}

func (q *line) when() int64   { return q.at }
func (q *line) index() *int32 { return &q.idx }

// ahead returns the line that l has to join before it may ask the limits, nil if
// there is none.
func (s *sched) ahead(l *lane, sc *scopes, limits []limit) *line {
	if len(s.lines) == 0 || l.kept { // those ahead may wait for the slot that it keeps
		return nil
	}
	for _, limit := range limits {
		if q := s.lines[sc[limit.Per]]; q != nil && q != l.line && l.had&(1<<limit.Per) == 0 {
			return q
		}
	}
	return nil
}

// join puts l into q. If its turn is before that of those who wait there, which
// may need more or be less urgent, it is tried at once; what is less urgent and about
// to be tried goes back for that.
func (s *sched) join(l *lane, q *line) {
	credit := min(-l.owes, int64(l.price()))
	s.enter(l, q, credit)
	l.owes += credit // what was given back beyond its head's price is for its next one's
	if b := q.next; b != nil && b.line == q && b.priority < l.priority {
		q.next, b.line = nil, nil
		s.enter(b, q, ahead)
		s.try(q)
	} else if q.lanes.next() == l {
		s.try(q)
	}
}

func (s *sched) enter(l *lane, q *line, credit int64) {
	s.quitLine(l)
	s.out(l)
	q.lanes.add(l, s.ageing, credit)
	l.line = q
}

// waitInLine puts l, which a limit of scope keeps back for wait, into the line of
// scope, where its turn remains. One that keeps its slot waits by itself.
func (s *sched) waitInLine(l *lane, scope throttle.Scope, now int64, wait time.Duration) {
	if l.kept {
		s.parkUntil(l, &s.apart, add(now, wait))
		return
	}
	q := s.lines[scope]
	if q == nil {
		q = &line{scope: scope}
		if s.lines == nil {
			s.lines = make(map[throttle.Scope]*line)
		}
		s.lines[scope] = q
	}
	if q.next == l {
		q.next = nil // it does not leave
		l.keeps &^= 1 << scope.Level
	}
	if p := l.line; p == q {
		l.line = nil
	} else {
		if p != nil && wait <= l.wait {
			l.keeps |= 1 << p.scope.Level
			l.line = nil
		}
		l.wait = wait
	}
	if q.next != nil && q.next.parked {
		s.letGo(l) // who keeps a line waits for no other keeper, lest they wait for each other
	}
	s.enter(l, q, ahead)
	if k := q.keeper; k != nil { // what it keeps back is more
		s.unlink(k)
		q.lanes.add(k, s.ageing, ahead)
	}
	if l.keeps != 0 && q.keeper == nil && q.lanes.next() == l {
		q.keeper = l
	} else {
		s.letGo(l) // others go first, and may for long
	}
	if q.next == nil && (q.idx == 0 || q.keeper != nil || q.lanes.next() == l) {
		q.at = add(now, wait)
		s.lineTimes.fix(q)
	}
}

// leaveLine takes l out of its line, if it is in one, and forgets its turns.
func (s *sched) leaveLine(l *lane) {
	s.quitLine(l)
	s.letGo(l)
	l.had, l.wait = 0, 0
}

func (s *sched) quitLine(l *lane) {
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
	first := q.lanes.next() == l
	s.unlink(l)
	if first { // the time was its own
		s.soon(q)
	}
}

// soon has q tried when nothing else can be: what has just started, and is in turn
// again, first comes back to q, or its weight would count for nothing there.
func (s *sched) soon(q *line) {
	if q.next == nil {
		q.at = 0
		s.lineTimes.fix(q)
	}
}

// letGo lets the others go on in the lines that l keeps.
func (s *sched) letGo(l *lane) {
	if l.keeps == 0 {
		return
	}
	sc, keeps := l.scopes(), l.keeps
	l.keeps = 0
	for level := range sc {
		if q := s.lines[sc[level]]; keeps&(1<<level) != 0 && q.next == l {
			q.next = nil
			s.soon(q)
		}
	}
}

// try puts the one of q whose turn it is in turn with all others, unless one is.
func (s *sched) try(q *line) {
	if q.next != nil {
		return
	}
	s.lineTimes.remove(q)
	l := q.lanes.next()
	if l == nil {
		delete(s.lines, q.scope)
		return
	}
	q.lanes.started(l) // if it has not, it comes back as having paid
	if k := q.keeper; k != nil {
		if q.keeper = nil; k != l {
			s.letGo(k)
		}
	}
	q.next = l
	l.had |= 1 << q.scope.Level
	s.in(l)
}

// tryLines tries all lines whose time has come, and reports whether there was one.
func (s *sched) tryLines(now int64) (any bool) {
	for {
		q, ok := s.lineTimes.due(now)
		if !ok {
			return any
		}
		s.try(q)
		any = true
	}
}
