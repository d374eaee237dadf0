package governor

import "github.com/flyball-go/flyball/throttle"

// line is where lanes wait for a limit narrower than the host: those of one
// tenant, selector or bucket. Only the one whose turn it is there is tried, when
// the limit said that it may go; the others stay behind it without asking, so
// that what costs more is not overtaken for ever, and a start costs the same
// however many wait. Turns are taken as in sched.ready, so that a line is as fair.
//
// A lane is in no line, among its lanes, or is its next.
type line struct {
	scope throttle.Scope
	lanes turns
	next  *lane // in sched.ready, to be tried
	at    int64 // when one is to be
	idx   int32 // in sched.lineTimes
}

func (q *line) when() int64   { return q.at }
func (q *line) index() *int32 { return &q.idx }

// ahead returns the line that l has to join before it may ask the limits, nil if
// there is none.
func (s *sched) ahead(l *lane, sc *scopes, limits []limit) *line {
	if len(s.lines) == 0 {
		return nil
	}
	for _, limit := range limits {
		if q := s.lines[sc[limit.Per]]; q != nil && q != l.line {
			return q
		}
	}
	return nil
}

// join puts l into q. If its turn is before that of those who wait there, which
// may need more or be less urgent, it is tried at once.
func (s *sched) join(l *lane, q *line) {
	s.enter(l, q, 0)
	if q.lanes.next() == l {
		s.try(q)
	}
}

func (s *sched) enter(l *lane, q *line, credit uint64) {
	s.leaveLine(l)
	s.out(l)
	q.lanes.add(l, s.ageing, credit)
	l.line = q
}

// waitInLine puts l, which a limit of scope keeps back until at, into the line of
// scope, where its turn remains. If there is a line, l was tried as its next.
func (s *sched) waitInLine(l *lane, scope throttle.Scope, at int64) {
	if l.line != nil && l.line.scope != scope {
		s.leaveLine(l) // the next there may be tried
	}
	q := s.lines[scope]
	if q == nil {
		q = &line{scope: scope}
		if s.lines == nil {
			s.lines = make(map[throttle.Scope]*line)
		}
		s.lines[scope] = q
	}
	if l.line == q {
		q.next, l.line = nil, nil // it does not leave
	}
	s.enter(l, q, ahead)
	q.at = at
	s.lineTimes.fix(q)
}

// leaveLine takes l out of its line, if it is in one.
func (s *sched) leaveLine(l *lane) {
	q := l.line
	if q == nil {
		return
	}
	l.line = nil
	if q.next == l {
		q.next = nil
		s.try(q)
		return
	}
	first := q.lanes.next() == l
	s.unlink(l)
	if first { // the time was its own
		s.try(q)
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
	q.next = l
	s.in(l)
}

// tryLines tries all lines whose time has come.
func (s *sched) tryLines(now int64) {
	for {
		q, ok := s.lineTimes.due(now)
		if !ok {
			return
		}
		s.try(q)
	}
}
