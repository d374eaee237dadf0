package fair

import "math"

// Queue is a queue of one tenant and priority, as far as taking turns goes: of what is
// in it only what comes first matters. One that is in turn has something in it.
type Queue struct {
	Value any // the owner's; nothing here looks at it

	// Since and Cost are what the owner says of what is first in the queue: when the
	// oldest at the head began to wait, in nanoseconds, and its cost, of which less than
	// 1 counts as 1. When they have changed otherwise than by a start, Changed is called.
	Since int64
	Cost  int32

	Weight   int32 // of the tenant, 1 to MaxWeight; less counts as 1
	Priority int32 // not changed while in turn, and nor is Tenant
	ageIdx   int32 // in level.ages
	Tenant   string

	list       *List // where it is linked, nil when nowhere
	prev, next *Queue

	turns *Turns // in which it waits for its turn, nil when in none
	share *share // there, unless it is the only one
	due   uint64 // share.gone when it would be its turn, if nobody went before who comes after it
}

const (
	perCost = 1 << 16 // virtual time of a cost of 1 at a weight of 1

	// MaxWeight is the highest weight.
	MaxWeight = perCost
)

// Turns returns where q waits for its turn, nil when nowhere.
func (q *Queue) Turns() *Turns { return q.turns }

// Price is the virtual time that what is first in q costs.
func (q *Queue) Price() uint64 {
	return uint64(max(1, q.Cost)) * perCost / uint64(max(1, q.Weight))
}

// Worth is the virtual time of a cost, which may be negative, for q.
func (q *Queue) Worth(cost int) int64 { return int64(cost) * perCost / int64(max(1, q.Weight)) }

// Bought is how much of a cost a virtual time is worth for q.
func (q *Queue) Bought(virtual int64, cost int32) int {
	most := int64(max(1, cost))
	bought := int(min(virtual, most*perCost) * int64(max(1, q.Weight)) / perCost)
	return min(bought, int(most))
}

// aged is a queue in level.ages.
type aged Queue

func (q *aged) When() int64   { return (*Queue)(q).ageOf(q.turns.many.ageing) }
func (q *aged) Index() *int32 { return &q.ageIdx }

// ageOf is the time since when q waits, moved back by ageing for each step of its
// priority, as a number that sorts like it.
func (q *Queue) ageOf(ageing float64) int64 {
	b := int64(math.Float64bits(float64(q.Since) - float64(q.Priority)*ageing))
	return b ^ int64(uint64(b>>63)>>1)
}

// Older reports whether what is first in q waits for longer than what is in o, by ageing
// for every step between their priorities.
func (q *Queue) Older(o *Queue, ageing float64) bool { return q.ageOf(ageing) < o.ageOf(ageing) }

// List is an intrusive list of queues. A queue is in one at most: that of its tenant
// while it is in turn, or one of whoever keeps it out of turn. The zero List is empty.
type List struct{ head, tail *Queue }

// First returns the first of l, nil when there is none.
func (l *List) First() *Queue { return l.head }

// Push adds q, which is in no list, as the last.
func (l *List) Push(q *Queue) {
	q.list, q.prev, q.next = l, l.tail, nil
	if l.tail == nil {
		l.head = q
	} else {
		l.tail.next = q
	}
	l.tail = q
}

func (l *List) pushFront(q *Queue) {
	q.list, q.prev, q.next = l, nil, l.head
	if l.head == nil {
		l.tail = q
	} else {
		l.head.prev = q
	}
	l.head = q
}

// Listed reports whether q is in a list.
func (q *Queue) Listed() bool { return q.list != nil }

// Unlink takes q out of the list that it is in, if it is in one. It is not for what is
// in turn: see Turns.Remove.
func (q *Queue) Unlink() {
	l := q.list
	if l == nil {
		return
	}
	if q.prev == nil {
		l.head = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.tail = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.list, q.prev, q.next = nil, nil, nil
}
