package governor

import (
	"cmp"
	"slices"

	"github.com/flyball-go/flyball/throttle"
)

// sched is the scheduler: which lane is next. It knows nothing of gates; what
// stands in a lane's way is said to it by park and until, and it says what is
// counted as ready. It belongs to whoever has the turn.
type sched struct {
	lanes lanes
	ready turns
	kept  laneList // in turn, too, and in need of no slot
	apart laneList // kept ones that wait for a limit
	timed heap[*lane]
	stamp uint64  // the last lane.order
	due   []*lane // buffer of tick

	lines     map[throttle.Scope]*line
	levels    [len(scopes{})]int32 // how many of them are of each
	lineTimes heap[*line]
	starts    int64

	// budget is how many steps more pump may take before the actor looks at what
	// else there is: a lane that is served, or comes back from where it waited.
	budget int

	ageing float64 // Config.Ageing in nanoseconds; 0: never

	count func(n int) // word.queue: requests in lanes that could go
	n     int         // requests in lanes

	elders *elders
}

// lane returns the lane of key, nil when there would be more than most.
func (s *sched) lane(key laneKey, most int) *lane {
	if l := s.lanes.get(&key); l != nil {
		return l
	}
	if s.lanes.len() >= most {
		return nil
	}
	return s.lanes.add(&key)
}

// add puts r into l at its place. counted says that r is already counted as
// queued, as what comes from the inbox is.
func (s *sched) add(l *lane, r *request, counted bool) {
	r.class.Store(&l.class)
	l.insert(r)
	s.elders.older(l)
	s.n++
	switch {
	case l.parked && counted:
		s.count(-1)
	case !l.parked && !counted:
		s.count(1)
	}
	switch {
	case l.list == nil && l.turns == nil && l.idx == 0:
		s.link(l)
	case l.first() == r:
		s.changed(l)
	}
}

// changed says that l has another head.
func (s *sched) changed(l *lane) {
	if l.turns != nil {
		l.turns.changed(l)
	}
	if l.parked {
		s.wake(l) // it may wait for what its head needed; a new head may need less
	}
}

// remove takes r, which does not start, out of its lane.
func (s *sched) remove(r *request) {
	l := r.lane()
	head := l.first() == r
	if l.n == 1 {
		s.drop(l)
	}
	l.remove(r)
	s.n--
	if !l.parked {
		s.count(-1)
	}
	if head && l.n > 0 {
		s.elders.older(l)
		s.changed(l)
	}
}

// started takes the head of l, which was next, out of it: it has a slot now, and
// whoever gave it that has uncounted it. It returns what others have started, in costs
// and by the weight of l's tenant, while that waited for what the head costs.
func (s *sched) started(l *lane) (waited int) {
	s.starts++
	if l.line == nil {
		l.owes = 0 // of starts that no line has seen
	}
	s.leaveLine(l) // the next may be tried
	r, last := l.first(), l.n == 1
	if !last {
		l.remove(r)
		s.elders.older(l)
	}
	s.n--
	s.stamp++
	l.order = s.stamp
	if l.kept {
		l.unlink()
		s.kept.push(l)
	} else if virtual := s.ready.started(l); virtual > 0 {
		cost := int64(max(1, r.cost))
		waited = int(min(virtual, cost*perCost) * int64(max(1, l.weight)) / perCost)
		waited = min(waited, int(cost))
	}
	if last {
		s.drop(l)
		l.remove(r)
	}
	return waited
}

// link puts l in turn.
func (s *sched) link(l *lane) {
	s.stamp++
	l.order = s.stamp
	if l.kept {
		s.kept.push(l)
	} else {
		s.ready.add(l, s.ageing, l.credit)
		l.credit = 0
	}
}

// unlink takes l out of turn, and out of any list.
func (s *sched) unlink(l *lane) {
	q := l.turns
	if q == nil {
		l.unlink()
	} else if credit := q.remove(l); q == &s.ready {
		l.credit = credit
	}
}

// next returns the lane whose turn it is, nil when there is none. full says that
// there is no slot, so that only those can be served that keep one. They and the
// others take turns: the one of the two goes that is in turn for longer.
func (s *sched) next(full bool) *lane {
	k := s.kept.head
	if full {
		return k
	}
	l := s.ready.next()
	if l == nil || k != nil && k.order < l.order {
		return k
	}
	return l
}

// drop forgets l with its last request. Those that run keep pointing to it for its
// key.
func (s *sched) drop(l *lane) {
	s.leaveLine(l)
	s.unlink(l)
	s.timed.remove(l)
	s.elders.remove(l)
	s.lanes.remove(l)
}

// park takes l out of turn until wake, in list q of whatever holds it.
func (s *sched) park(l *lane, q *laneList) {
	s.leaveLine(l)
	s.out(l)
	q.push(l)
}

// parkUntil takes l out of turn until wake or at, whichever comes first.
func (s *sched) parkUntil(l *lane, q *laneList, at int64) {
	s.park(l, q)
	s.stamp++
	l.at, l.order = at, s.stamp
	s.timed.fix(l)
}

// out takes l out of wherever it is, and in puts it in turn.
func (s *sched) out(l *lane) {
	s.unlink(l)
	s.timed.remove(l)
	if !l.parked {
		l.parked = true
		s.count(-l.n)
	}
}

func (s *sched) in(l *lane) {
	s.unlink(l)
	s.timed.remove(l)
	l.parked = false
	s.count(l.n)
	s.link(l)
}

// wake puts a parked or timed lane back in turn. One that is in a line stays
// there unless it is the first.
func (s *sched) wake(l *lane) {
	switch {
	case !l.parked:
	case l.line == nil:
		s.in(l)
	case l.line.lanes.next() == l:
		s.try(l.line)
	}
}

// awaited reports whether lanes wait in line for scope.
func (s *sched) awaited(scope throttle.Scope) bool { return s.lines[scope] != nil }

// wakeAll puts every lane of q back in turn.
func (s *sched) wakeAll(q *laneList) {
	for q.head != nil {
		s.wake(q.head)
	}
}

// tick puts the lanes back whose time has come, in the order in which they began
// to wait: a heap would let the same ones go first again and again.
func (s *sched) tick(now int64) {
	for {
		l, ok := s.timed.due(now)
		if !ok {
			break
		}
		s.due = append(s.due, l)
	}
	slices.SortFunc(s.due, func(a, b *lane) int { return cmp.Compare(a.order, b.order) })
	for _, l := range s.due {
		s.wake(l)
	}
	clear(s.due)
	s.due = s.due[:0]
}

// wakeTimed puts back everything that waits for a time.
func (s *sched) wakeTimed() {
	s.tick(forever)
	for _, q := range s.lineTimes.s {
		if q.at < forever { // those are last in the heap, which stays in order, and wait for no limit
			q.at = min(q.at, 0)
		}
	}
}
