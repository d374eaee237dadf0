package sched

import "github.com/flyball-go/flyball/governor/internal/heap"

// soon has q tried when nothing else can be: what has just started, and is in turn
// again, first comes back to q, or its weight would count for nothing there. But see
// Hurry, for which q.at says since how many starts q waits: the lines of which that is
// so come before all times, in the order in which they began to.
func (s *Scheduler) soon(q *line) {
	if q.next == nil {
		if q.at = s.starts - heap.Forever; q.eager {
			q.at--
		}
		s.lineTimes.Fix(q)
	}
}

// Hurry tries the lines whose time has come, and those that were to be tried when
// nothing else can be, if something has started since then all the same: so there is
// always something, for slots are short, and it might go on for ever. Those in line
// have had their turns, as everybody else, before they joined it; and where slots are
// what is short, it is there that weights count. So from then on who starts is not
// waited for, until somebody is refused.
func (s *Scheduler) Hurry(now int64) {
	for s.lineTimes.Len() > 0 && s.Budget > 0 {
		q := s.lineTimes.First()
		if q.at > now || q.at < 0 && q.at >= s.starts-heap.Forever {
			return
		}
		q.eager = q.at < 0
		s.Budget--
		s.try(q)
	}
}

// letGo lets the others go on in the lines that l keeps.
func (s *Scheduler) letGo(l *Lane) {
	q := l.keeps()
	if q != nil {
		l.delay.keeps = nil
	}
	for q != nil {
		also := q.also
		q.next, q.also = nil, nil
		s.soon(q)
		q = also
	}
}

// try puts the one of q whose turn it is in turn with all others, unless one is; if q
// is over, as many as can be now.
func (s *Scheduler) try(q *line) {
	if q.next != nil {
		return
	}
	s.lineTimes.Remove(q)
	for l := laneOf(q.lanes.Next()); l != nil; l = laneOf(q.lanes.Next()) {
		if q.over && s.Budget <= 0 {
			s.soon(q)
			return
		}
		q.was = q.lanes.Try(&l.Queue) // if it does not start, it comes back as having paid
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
		s.Budget--
		l.line = nil
		s.in(l)
	}
	delete(s.lines, q.scope)
	s.levels[q.scope.Level]--
}

// TryLines tries all lines whose time has come, and reports whether there was one.
func (s *Scheduler) TryLines(now int64) (any bool) {
	for s.Budget > 0 {
		q, ok := s.lineTimes.Due(now)
		if !ok {
			return any
		}
		q.eager = false
		s.Budget--
		s.try(q)
		any = true
	}
	return true // and there may be more
}
