package governor

import (
	"iter"
	"slices"

	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/throttle"
)

// queue is the lanes with their requests, the scheduler, which knows of the lanes
// alone, and how many wait where. It belongs to whoever has the turn.
type queue struct {
	sched.Scheduler
	lanes  lanes
	census census
}

// lane returns the lane in which those wait that ask for l, nil when there would be more
// than most.
func (q *queue) lane(l *lane, most int) *lane {
	if there := q.lanes.get(&l.laneKey); there != nil {
		return there
	}
	if q.lanes.len() >= most {
		return nil
	}
	return q.lanes.add(l)
}

// add puts r into l at its place. counted says that r is already counted as
// queued, as what comes from the inbox is.
func (q *queue) add(l *lane, r *request, counted bool) {
	r.class.Store(&l.class)
	l.insert(r)
	first := l.first() == r
	if first || l.eldest() == r { // else nothing of what was told has changed
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
	waited = q.Started(&l.sched, int32(r.price()))
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

// ahead returns the lane whose turn it is in the line of sc, nil when there is none.
func (q *queue) ahead(sc throttle.Scope) *lane {
	if l := q.First(sc); l != nil {
		return l.Owner().(*lane)
	}
	return nil
}

// lanesOf yields the lanes that belong to any of the scopes, of several more than once:
// there may be many lanes, and a cooldown for each selector, tenant or bucket. Each lane
// may be removed when it is yielded.
func (q *queue) lanesOf(scopes []*scope) iter.Seq[*lane] {
	if slices.ContainsFunc(scopes, func(st *scope) bool { return st.key.Level == throttle.Host }) {
		return q.lanes.all
	}
	return func(yield func(*lane) bool) {
		for _, st := range scopes {
			for l := range q.census.of(st.key) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// eldest returns the oldest request of the lowest priority that may make room, nil if
// there is none.
func (q *queue) eldest() *request {
	if l := q.Elders.Eldest(); l != nil {
		return l.Owner().(*lane).eldest()
	}
	return nil
}

// debt is what a start of a lane's tenant cost more than it was charged, or less.
type debt struct {
	lane   *lane // or another of its key
	cost   int
	waited int // what of the charge it had waited for while others started
}

// owe charges a tenant for what a start turned out to cost.
func (q *queue) owe(d debt) {
	owes := sched.Debt{Tenant: d.lane.tenant, Priority: d.lane.priority, Kept: d.lane.kept, Cost: d.cost, Waited: d.waited}
	if l := q.lanes.get(&d.lane.laneKey); l != nil {
		q.Owe(owes, &l.sched)
	} else {
		q.Owe(owes, nil)
	}
}
