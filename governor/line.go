package governor

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// line is where lanes wait for a scope narrower than the host, a tenant, selector or
// bucket: for its limit, or for the end of a cooldown and what the growth after it
// lets through. Only the one whose turn it is there is tried, when the limit said that
// it may go or the scope has changed; the others stay behind it without asking, so
// that what costs more is not overtaken for ever, and a start, or a change, costs the
// same however many wait. Turns are taken as in sched.ready, so that a line is as fair.
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
	at     int64 // when one is to be, forever if a change of the scope will tell; see soon
	idx    int32 // in sched.lineTimes
	limit  bool  // a limit has refused somebody, so that permits are waited for
	eager  bool  // the next is tried without waiting for the last; see hurry
	over   bool  // nothing keeps anybody any more: all may go
}

func (q *line) when() int64   { return q.at }
func (q *line) index() *int32 { return &q.idx }

// ahead returns the line that l has to join before it may ask the limits, nil if
// there is none.
func (s *sched) ahead(l *lane, sc *scopes) *line {
	if len(s.lines) == 0 || l.kept { // those ahead may wait for the slot that it keeps
		return nil
	}
	for level := range sc {
		if s.levels[level] > 0 && l.had&(1<<level) == 0 {
			if q := s.lines[sc[level]]; q != nil && q != l.line {
				return q
			}
		}
	}
	return nil
}

// line returns the line of scope, a new one if there is none.
func (s *sched) line(scope throttle.Scope) *line {
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
	q := s.line(scope)
	q.limit, q.eager, q.over = true, false, false
	if p := l.line; !s.stays(l, q) {
		if p != nil && p.limit && wait <= l.wait {
			l.keeps |= 1 << p.scope.Level
			l.line = nil
		}
		l.wait = wait
	}
	if q.next != nil && q.next.parked {
		s.letGo(l) // who keeps a line waits for no other keeper, lest they wait for each other
	}
	s.comeBack(l, q)
	if l.keeps != 0 && q.keeper == nil && q.lanes.next() == l {
		q.keeper = l
	} else {
		s.letGo(l) // others go first, and may for long
	}
	if q.next == nil && (q.idx == 0 || q.at == forever || q.keeper != nil || q.lanes.next() == l) {
		q.at = min(add(now, wait), forever-1) // see wakeTimed
		s.lineTimes.fix(q)
	}
}

// stays sees to it that l, which was refused, does not leave q, and reports whether it
// came from there.
func (s *sched) stays(l *lane, q *line) bool {
	if q.next == l {
		q.next = nil
		l.keeps &^= 1 << q.scope.Level
	}
	if l.line != q {
		return false
	}
	l.line = nil
	return true
}

// comeBack puts l before all others of q but who keeps other lines.
func (s *sched) comeBack(l *lane, q *line) {
	s.enter(l, q, ahead)
	if k := q.keeper; k != nil { // what it keeps back is more
		s.unlink(k)
		q.lanes.add(k, s.ageing, ahead)
	}
}

// waitForScope puts l, which a scope lets through at until at the earliest, or when it
// changes, into the line of scope, where its turn remains. It keeps no other line
// meanwhile: what is paused keeps nobody else from anything.
func (s *sched) waitForScope(l *lane, scope throttle.Scope, until int64) {
	q := s.line(scope)
	q.eager, q.over = false, false
	s.stays(l, q)
	s.letGo(l)
	l.wait = 0
	s.comeBack(l, q)
	if q.next == nil {
		q.at = until
		s.lineTimes.fix(q)
	}
}

// scopeChanged says that scope has, so that the one whose turn it is may pass. over says
// that nothing of it is left, and that no limit is of its level either.
func (s *sched) scopeChanged(scope throttle.Scope, over bool) {
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
// again, first comes back to q, or its weight would count for nothing there. But see
// hurry, for which q.at says since how many starts q waits: the lines of which that is
// so come before all times, in the order in which they began to.
func (s *sched) soon(q *line) {
	if q.next == nil {
		if q.at = s.starts - forever; q.eager {
			q.at--
		}
		s.lineTimes.fix(q)
	}
}

// hurry tries the lines whose time has come, and those that were to be tried when
// nothing else can be, if something has started since then all the same: so there is
// always something, for slots are short, and it might go on for ever. Those in line
// have had their turns, as everybody else, before they joined it; and where slots are
// what is short, it is there that weights count. So from then on who starts is not
// waited for, until somebody is refused.
func (s *sched) hurry(now int64) {
	for s.lineTimes.len() > 0 && s.budget > 0 {
		q := s.lineTimes.s[0]
		if q.at > now || q.at < 0 && q.at >= s.starts-forever {
			return
		}
		q.eager = q.at < 0
		s.budget--
		s.try(q)
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

// try puts the one of q whose turn it is in turn with all others, unless one is; if q
// is over, as many as can be now.
func (s *sched) try(q *line) {
	if q.next != nil {
		return
	}
	s.lineTimes.remove(q)
	for l := q.lanes.next(); l != nil; l = q.lanes.next() {
		if q.over && s.budget <= 0 {
			s.soon(q)
			return
		}
		q.lanes.started(l) // if it has not, it comes back as having paid
		if k := q.keeper; k != nil {
			if q.keeper = nil; k != l {
				s.letGo(k)
			}
		}
		if !q.over {
			q.next = l
			l.had |= 1 << q.scope.Level
			s.in(l)
			return
		}
		s.budget--
		l.line = nil
		s.in(l)
	}
	delete(s.lines, q.scope)
	s.levels[q.scope.Level]--
}

// tryLines tries all lines whose time has come, and reports whether there was one.
func (s *sched) tryLines(now int64) (any bool) {
	for s.budget > 0 {
		q, ok := s.lineTimes.due(now)
		if !ok {
			return any
		}
		q.eager = false
		s.budget--
		s.try(q)
		any = true
	}
	return true // and there may be more
}
