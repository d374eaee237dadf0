package governor

import "github.com/flyball-go/flyball/throttle"

// line is where lanes wait for a limit narrower than the host: those of one
// tenant, selector or bucket, in the order in which they came. Only the first is
// tried, when the limit said that it may go; the others stay behind it without
// asking, so that what costs more is not overtaken for ever, and a start costs
// the same however many wait.
//
// A lane is in no line, among its lanes, or is its next.
type line struct {
	scope throttle.Scope
	lanes laneList
	next  *lane // the first, in turn to be tried
	at    int64 // when it is to be
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

// join puts l at the end of q.
func (s *sched) join(l *lane, q *line) {
	s.park(l, &q.lanes)
	l.line = q
}

// waitInLine puts l, which a limit of scope keeps back until at, to the front of
// the line of scope. If there is one, l was tried as its next.
func (s *sched) waitInLine(l *lane, scope throttle.Scope, at int64) {
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
	s.out(l)
	q.lanes.pushFront(l)
	l.line, q.at = q, at
	s.lineTimes.fix(q)
}

// leaveLine takes l out of its line, if it is in one.
func (s *sched) leaveLine(l *lane) {
	q := l.line
	if q == nil {
		return
	}
	l.line = nil
	switch {
	case q.next == l:
		q.next = nil
		s.try(q)
	case l.list == &q.lanes:
		first := q.lanes.head == l
		l.unlink()
		if first { // the time was its own
			s.try(q)
		}
	}
}

// try puts the first of q in turn, unless it is.
func (s *sched) try(q *line) {
	if q.next != nil {
		return
	}
	s.lineTimes.remove(q)
	l := q.lanes.head
	if l == nil {
		delete(s.lines, q.scope)
		return
	}
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
