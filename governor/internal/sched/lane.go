package sched

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/governor/internal/fair"
	"github.com/flyball-go/flyball/throttle"
)

// Kind is what the scheduler has to know of a lane from its beginning.
type Kind struct {
	Tenant   string
	Priority int32
	Kept     bool // its requests hold their slot and connection while they wait
}

// Never is the Head.Seq of a lane in which nothing may make room.
const Never = math.MaxInt64

// Head is what the scheduler has to know of what comes first in a lane.
type Head struct {
	Cost  int32  // less than 1 counts as 1
	Seq   uint64 // the order in which the oldest was submitted that may make room; Never: none may
	Since int64  // when it began to wait, or what it was put before did, if that is earlier
}

// Scopes are what a lane belongs to, in the order of the levels.
type Scopes [throttle.Bucket + 1]throttle.Scope

// Lane is a lane as far as its turn goes. Begin makes a zero Lane, or one that was left
// with its last request, ready for use; then it must not be copied.
type Lane struct {
	fair.Queue // its Value is the Lane

	owner any

	line   *line
	delay  *delay // nil until something held it back
	had    uint8  // by level: lines in which its turn has come
	kept   bool   // as Kind says
	parked bool   // its requests are not counted by Count
	n      int32

	order     uint64 // in which it was put into Scheduler.timed
	idx       int32  // in Scheduler.timed
	eldestIdx int32  // in rank.lanes
	seq       uint64 // see Head

	credit int64 // what it has paid in Scheduler.ready for its head
	owes   int64 // in the line that it joins next: what its last start cost more than was charged
}

// delay is what a lane has that was held back. Most never are.
type delay struct {
	keeps *line         // the first of those of which it is next though it waits in another; see line.also
	wait  time.Duration // how long the limit that refused it last said
	at    int64         // when a timed lane becomes ready
}

// held returns l's delay, made when it has none.
func (l *Lane) held() *delay {
	if l.delay == nil {
		l.delay = new(delay)
	}
	return l.delay
}

// keeps returns the first of the lines that l keeps, nil when there is none.
func (l *Lane) keeps() *line {
	if l.delay == nil {
		return nil
	}
	return l.delay.keeps
}

// List is a list of lanes that wait for the same thing. The zero List is empty.
type List struct{ queues fair.List }

// Empty reports whether no lane is in q.
func (q *List) Empty() bool { return q.queues.First() == nil }

func (q *List) first() *Lane { return laneOf(q.queues.First()) }

// laneOf returns the lane that q is of.
func laneOf(q *fair.Queue) *Lane {
	if q == nil {
		return nil
	}
	return q.Value.(*Lane)
}

// Begin makes l a lane with nothing in it. owner is what Owner returns.
func (l *Lane) Begin(owner any, k Kind) {
	*l = Lane{Queue: fair.Queue{Value: l, Tenant: k.Tenant, Priority: k.Priority}, owner: owner, kept: k.Kept}
}

// Owner returns what Begin was told.
func (l *Lane) Owner() any { return l.owner }

// SetHead says what comes first in l from now on. Add, Remove and Started, which follow,
// see to what comes of it.
func (l *Lane) SetHead(h Head) { l.Cost, l.seq, l.Since = h.Cost, h.Seq, h.Since }

// SetWeight says what l's tenant weighs, up to fair.MaxWeight. Less than 1 counts as 1.
func (l *Lane) SetWeight(weight int32) { l.Weight = weight }

// Len returns how many requests are in l.
func (l *Lane) Len() int { return int(l.n) }

// Parked reports whether l has been taken out of turn.
func (l *Lane) Parked() bool { return l.parked }

// When and Index are for Scheduler.timed.
func (l *Lane) When() int64   { return l.delay.at }
func (l *Lane) Index() *int32 { return &l.idx }
