package sched

import (
	"cmp"
	"slices"

	"github.com/flyball-go/flyball/governor/internal/fair"
	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/throttle"
)

// Scheduler says which lane is next. It knows nothing of gates; what stands in a lane's
// way is said to it by Park and its like, and it says what is counted as ready. Count
// has to be set, and Elders made if it is wanted, before anything is added; otherwise
// the zero Scheduler is ready for use.
type Scheduler struct {
	// Ageing is what a step of priority is worth in nanoseconds of waiting; 0: nothing
	// ages. It does not change.
	Ageing float64

	// Count is told how many more requests, or fewer if it is negative, are in lanes
	// that could go.
	Count func(n int)

	// Budget is how many steps more may be taken before there is something else to be
	// looked at: a lane that is served, or comes back from where it waited. The owner
	// counts those that are served.
	Budget int

	// Elders finds what goes first when room has to be made; nil: nobody asks.
	Elders *Elders

	ready fair.Turns
	kept  fair.Turns // of those that need no slot; see Next
	apart List       // of them those that wait for a limit
	both  bool       // Next had the choice between kept and ready
	keeps bool       // and the last to start was of kept
	timed heap.Heap[*Lane]
	stamp uint64  // how many steps there were; by it Lane.order
	due   []*Lane // buffer of Tick
	n     int     // requests in lanes

	lines     map[throttle.Scope]*line
	levels    [len(Scopes{})]int32 // how many of them are of each
	lineTimes heap.Heap[*line]
	starts    int64
}

// Len returns how many requests are in lanes.
func (s *Scheduler) Len() int { return s.n }

// Steps returns how often lanes have been put in turn or have started, or begun to wait
// for a time: a measure of what was done.
func (s *Scheduler) Steps() uint64 { return s.stamp }

// NextTimed returns when Tick is to be called, and NextLine when TryLines is, by
// themselves; heap.Forever when there is no such time. One of NextLine's that is less
// than 0 has come already.
func (s *Scheduler) NextTimed() int64 { return s.timed.Next() }
func (s *Scheduler) NextLine() int64  { return s.lineTimes.Next() }

// Add says that there is a request more in l. first says that it is what comes first
// now, and counted that it is already counted, as what comes from the outside is.
func (s *Scheduler) Add(l *Lane, first, counted bool) {
	l.n++
	s.Elders.older(l)
	s.n++
	switch {
	case l.parked && counted:
		s.Count(-1)
	case !l.parked && !counted:
		s.Count(1)
	}
	switch {
	case !l.Listed() && l.Turns() == nil && l.idx == 0:
		s.link(l)
	default:
		s.changed(l, first)
	}
}

// changed says that what is said of l's head may have. first says that it is another.
func (s *Scheduler) changed(l *Lane, first bool) {
	if q := l.Turns(); q != nil {
		q.Changed(&l.Queue)
	}
	if first && l.parked {
		s.Wake(l) // it may wait for what its head needed; a new head may need less
	}
}

// Remove says that there is a request less in l, which did not start. first says that
// it was the one that comes first.
func (s *Scheduler) Remove(l *Lane, first bool) {
	if l.n == 1 {
		s.drop(l)
	}
	l.n--
	s.n--
	if !l.parked {
		s.Count(-1)
	}
	if l.n == 0 {
		return
	}
	s.Elders.older(l)
	s.changed(l, first)
}

// Started says that what came first in l, which was next or Instead, has started: it has a slot
// now, and whoever gave it that has uncounted it. cost is what it costs; what comes
// first now has been said by SetHead, unless nothing does. Started returns what others
// have started, in costs and by the weight of l's tenant, while that waited for what it
// costs.
func (s *Scheduler) Started(l *Lane, cost int32) (waited int) {
	s.starts++
	if l.line == nil {
		l.owes = 0 // of starts that no line has seen
	}
	s.leaveLine(l) // the next may be tried
	last := l.n == 1
	if !last {
		s.Elders.older(l)
	}
	l.n--
	s.n--
	s.stamp++
	if s.both {
		s.both, s.keeps = false, l.kept
	}
	if l.kept {
		s.kept.Started(&l.Queue)
	} else if virtual := s.ready.Started(&l.Queue); virtual > 0 {
		waited = l.Bought(virtual, cost)
	}
	if last {
		s.drop(l)
	}
	return waited
}

// link puts l in turn.
func (s *Scheduler) link(l *Lane) {
	s.stamp++
	q := &s.ready
	if l.kept {
		q = &s.kept
	}
	q.Add(&l.Queue, s.Ageing, l.credit)
	l.credit = 0
}

// unlink takes l out of turn, and out of any list.
func (s *Scheduler) unlink(l *Lane) {
	q := l.Turns()
	if q == nil {
		l.Unlink()
	} else if credit := q.Remove(&l.Queue); q == &s.ready || q == &s.kept {
		l.credit = credit
	}
}

// Next returns the lane whose turn it is, nil when there is none. full says that
// there is no slot, so that only those can be served that keep one. These have turns of
// their own, since they have them as well when nobody else can: what they get then is
// nobody's, and is charged to nobody who waits for a slot. Where both could go they and the
// others take turns, unless all of the one are of a lower priority than what is next of the
// other, and what is next of them has not aged.
func (s *Scheduler) Next(full bool) *Lane {
	k, l := laneOf(s.kept.Next()), laneOf(s.ready.Next())
	s.both = !full && k != nil && l != nil
	switch {
	case full || l == nil:
		return k
	case k == nil:
		return l
	}
	next, other := l, k
	if !s.keeps {
		next, other = k, l
	}
	if next.Turns().Top() < other.Priority && !(s.Ageing > 0 && next.Older(&other.Queue, s.Ageing)) {
		return other
	}
	return next
}

// InTurn yields the lanes that are in turn. Nothing changes s meanwhile.
func (s *Scheduler) InTurn(yield func(*Lane) bool) {
	for _, t := range [...]*fair.Turns{&s.ready, &s.kept} {
		for q := range t.All {
			if !yield(laneOf(q)) {
				return
			}
		}
	}
}

// Instead returns a lane that is wanted and may start before l, which is next and keeps no
// slot: its tenant is l's, or is in turn as well, so that nobody's share is the less for
// it. Of the lanes of a tenant at most so many go before one that come after it. It looks
// at some tens of lanes; nil when there is none.
func (s *Scheduler) Instead(l *Lane, times int, wanted func(*Lane) bool) *Lane {
	if l.Turns() != &s.ready {
		return nil
	}
	return laneOf(s.ready.Instead(&l.Queue, times, mostLooked, func(q *fair.Queue) bool { return wanted(laneOf(q)) }))
}

// mostLooked is how many lanes Instead looks at.
const mostLooked = 64

// drop forgets l with its last request.
func (s *Scheduler) drop(l *Lane) {
	s.leaveLine(l)
	s.unlink(l)
	s.timed.Remove(l)
	s.Elders.remove(l)
}

// Park takes l out of turn until Wake, in list q of whatever holds it.
func (s *Scheduler) Park(l *Lane, q *List) {
	s.leaveLine(l)
	s.out(l)
	q.queues.Push(&l.Queue)
}

// ParkUntil takes l out of turn until Wake or at, whichever comes first.
func (s *Scheduler) ParkUntil(l *Lane, q *List, at int64) {
	s.Park(l, q)
	s.stamp++
	l.held().at, l.order = at, s.stamp
	s.timed.Fix(l)
}

// out takes l out of wherever it is, and in puts it in turn.
func (s *Scheduler) out(l *Lane) {
	s.unlink(l)
	s.timed.Remove(l)
	if !l.parked {
		l.parked = true
		s.Count(-int(l.n))
	}
}

func (s *Scheduler) in(l *Lane) {
	s.unlink(l)
	s.timed.Remove(l)
	l.parked = false
	s.Count(int(l.n))
	s.link(l)
}

// Wake puts a parked or timed lane back in turn. One that is in a line stays
// there unless it is the first.
func (s *Scheduler) Wake(l *Lane) {
	switch {
	case !l.parked:
	case l.line == nil:
		s.in(l)
	case l.line.lanes.Next() == &l.Queue:
		s.try(l.line)
	}
}

// WakeAll puts every lane of q back in turn.
func (s *Scheduler) WakeAll(q *List) {
	for !q.Empty() {
		s.Wake(q.first())
	}
}

// Tick puts the lanes back whose time has come, in the order in which they began
// to wait: a heap would let the same ones go first again and again.
func (s *Scheduler) Tick(now int64) {
	for {
		l, ok := s.timed.Due(now)
		if !ok {
			break
		}
		s.due = append(s.due, l)
	}
	if len(s.due) == 0 {
		return
	}
	slices.SortFunc(s.due, func(a, b *Lane) int { return cmp.Compare(a.order, b.order) })
	for _, l := range s.due {
		s.Wake(l)
	}
	clear(s.due)
	s.due = s.due[:0]
}

// WakeTimed puts back everything that waits for a time.
func (s *Scheduler) WakeTimed() {
	s.Tick(heap.Forever)
	for q := range s.lineTimes.All() {
		if q.at < heap.Forever { // those are last in the heap, which stays in order, and wait for no limit
			q.at = min(q.at, 0)
		}
	}
	s.lineTimes.Refresh()
}
