package governor

import "github.com/flyball-go/flyball/governor/internal/sched"

// queue is the lanes with their requests, the scheduler, which knows of the lanes
// alone, and how many wait where. It belongs to whoever has the turn.
type queue struct {
	sched.Scheduler
	lanes  lanes
	census census
}

// lane returns the lane of key, nil when there would be more than most.
func (q *queue) lane(key laneKey, most int) *lane {
	if l := q.lanes.get(&key); l != nil {
		return l
	}
	if q.lanes.len() >= most {
		return nil
	}
	return q.lanes.add(&key)
}

// add puts r into l at its place. counted says that r is already counted as
// queued, as what comes from the inbox is.
func (q *queue) add(l *lane, r *request, counted bool) {
	r.class.Store(&l.class)
	l.insert(r)
	first := l.first() == r
	if first || l.head == r { // else nothing of what was told has changed
		l.tell()
	}
	q.Add(&l.sched, first, counted)
	q.census.counted(l)
}

// remove takes r, which does not start, out of its lane.
func (q *queue) remove(r *request) {
	l := r.lane()
	first := l.first() == r
	l.remove(r)
	if l.sched.Len() > 1 {
		l.tell()
	}
	q.Remove(&l.sched, first)
	q.census.counted(l)
	q.leave(l)
}

// started takes the head of l, which was next, out of it: it has a slot now, and
// whoever gave it that has uncounted it. For its result see sched.Scheduler.Started.
func (q *queue) started(l *lane) (waited int) {
	r := l.first()
	l.remove(r)
	if l.sched.Len() > 1 {
		l.tell()
	}
	waited = q.Started(&l.sched, r.cost)
	q.census.counted(l)
	q.leave(l)
	return waited
}

// leave forgets l when nothing is left in it. Those that run keep pointing to it for
// its key.
func (q *queue) leave(l *lane) {
	if l.sched.Len() == 0 {
		q.lanes.remove(l)
	}
}

// next returns the lane whose turn it is, nil when there is none. full says that there
// is no slot.
func (q *queue) next(full bool) *lane {
	if l := q.Next(full); l != nil {
		return l.Owner().(*lane)
	}
	return nil
}

// eldest returns the oldest request of the lowest priority, of those that are first in
// their lanes. Something waits.
func (q *queue) eldest() *request { return q.Elders.Eldest().Owner().(*lane).first() }

// debt is what a start of a lane's tenant cost more than it was charged, or less.
type debt struct {
	lane   *lane // or one like it; see selector.apart
	cost   int
	waited int // what of the charge it had waited for while others started
}

// owe charges a tenant for what a start turned out to cost.
func (q *queue) owe(d debt) {
	owes := sched.Debt{Tenant: d.lane.tenant, Priority: d.lane.priority, Cost: d.cost, Waited: d.waited}
	if l := q.lanes.get(&d.lane.key); l != nil {
		q.Owe(owes, &l.sched)
	} else {
		q.Owe(owes, nil)
	}
}
