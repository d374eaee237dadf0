package limiter

import (
	"container/heap"
	"slices"
	"time"
)

// crowd is lanes, by age, whose keys have no place in the same limiters, one of which at
// least has no room for one more key. Room for one key is of use to one of them: so the
// first is let out, to be looked at, and only when it has what it waited for, or waits for
// something else, the next. A crowd stands among the timed lanes by its door.
//
// That nobody waits while there is room: all is under the Shared's mu, and whenever that is
// free the following holds of a crowd that is not empty.
//
//   - Either its door is among the timed lanes, and there is no room before its time; or
//     one that was let out is ready, and waits for the Whole like everybody behind it.
//   - Room comes by time, of which the door's is the first; or by what a limiter is told of
//     a key: then told has the door looked at before mu is free again; or by an Update,
//     after which everybody is looked at.
//   - A lane that is let out may find that somebody else has taken the room. Then there is
//     none, and it comes back to a crowd, with its age. Whatever it finds, its being
//     decided puts the door back, and serve goes on to look at doors until none is due.
//   - A key gets a place by a call of its own alone. If that was one that overtook those
//     that wait, which the newest may, enter has them looked at.
type crowd struct {
	lanes
	limiters []roomy
	out      *lane // was let out, and is ready; nil when there is none
	door     lane  // timed while the crowd is not empty and nobody is out
}

// room returns how long it is until there is room for one more key in all limiters.
func (c *crowd) room(now time.Time) (wait time.Duration) {
	for _, l := range c.limiters {
		wait = max(wait, l.room(now))
	}
	return wait
}

// wait puts l, of ready, into the crowd that waits for room in limiters, which have none.
func (q *queue) wait(l *lane, limiters []roomy) {
	q.takeOut(l)
	c := q.crowdOf(limiters)
	if o := c.out; o != nil { // which finds no room, either, when it is looked at; until then l may be before it
		o.crowd, c.out = nil, nil
	}
	l.crowd = c
	c.put(l)
	q.tend(c)
}

// crowdOf returns the crowd of limiters, a new one if there is none.
func (q *queue) crowdOf(limiters []roomy) *crowd {
	for _, c := range q.crowds[limiters[0]] {
		if slices.Equal(c.limiters, limiters) {
			return c
		}
	}
	c := &crowd{lanes: lanes{less: q.ready.less}, limiters: slices.Clone(limiters)}
	c.door.crowd = c
	for _, l := range limiters {
		q.crowds[l] = append(q.crowds[l], c)
	}
	return c
}

// open lets the first one of c out if there is room. Else it says when there may be.
func (q *queue) open(c *crowd, now time.Time) {
	if wait := c.room(now); wait > 0 {
		c.door.at = now.Add(wait)
		heap.Fix(&q.timed, c.door.pos)
		return
	}
	l := c.heap[0]
	q.look(l)
	l.crowd, c.out = c, l
	q.tend(c)
}

// decided is for a lane that is not any more where its crowd has put it.
func (q *queue) decided(l *lane) {
	c := l.crowd
	if c == nil || l.in == &c.lanes {
		return
	}
	l.crowd = nil
	if c.out == l {
		c.out = nil
	}
	q.tend(c)
}

// tend puts the door of c where it belongs. One that comes back is looked at at once.
func (q *queue) tend(c *crowd) {
	switch wanted := c.out == nil && len(c.heap) > 0; {
	case wanted == (c.door.in != nil):
	case wanted:
		c.door.at = time.Time{}
		q.timed.put(&c.door)
	default:
		heap.Remove(&q.timed, c.door.pos)
		c.door.in = nil
	}
}

// told is for a limiter that may have more room now.
func (q *queue) told(l roomy) {
	for _, c := range q.crowds[l] {
		if c.door.in != nil {
			c.door.at = time.Time{}
			heap.Fix(&q.timed, c.door.pos)
		}
	}
}
