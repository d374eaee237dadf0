package governor

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// laneKey names a lane.
type laneKey struct {
	sel            *selector
	tenant, bucket string
	priority       int32
	kept           bool // its requests hold their slot and connection while they wait
}

// class is what requests have in common that ask for the same: the key of their
// lane, and the lane once the actor has brought them there.
type class struct {
	*laneKey
	weight int32 // of the tenant; 0: not asked, as for a request without a tenant
	lane   *lane
	att    *attempt // of the one request that runs; see attempt.class
}

// lane is the queue of one selector, tenant, bucket and priority, in submission
// order. The actor owns it.
type lane struct {
	class
	laneState
	key laneKey // what class names; not changed, even when nothing is left in the lane
}

func newLane(key *laneKey, weight int32) *lane {
	l := &lane{key: *key}
	l.class = class{laneKey: &l.key, weight: weight, lane: l}
	return l
}

// laneState is all of a lane that begins anew with it.
type laneState struct {
	head, tail *request       // in submission order, linked
	returned   heap[*history] // of those that came back, where their place was taken
	n          int

	list       *laneList // where it is linked, nil when nowhere
	prev, next *lane
	line       *line
	wait       time.Duration // how long the limit that refused it last said
	had, keeps uint8         // by level: lines in which its turn has come, and of which it is next though it waits in another
	parked     bool          // its requests are not counted in word.queued
	idx        int32         // in sched.timed
	at         int64         // when a timed lane becomes ready
	order      uint64        // in which it was put into sched.timed, or in turn

	turns  *turns // in which it waits for its turn, nil when in none
	share  *share // there, unless it is the only one
	credit int64  // what it has paid in sched.ready for its head
	owes   int64  // in the line that it joins next: what its last start cost more than was charged
	age    int64  // what it is sorted by in fair.ages
	eldest uint64 // what it is sorted by in rank.lanes

	ageIdx, eldestIdx int32
}

// scopes are what the attempt belongs to.
func (a *attempt) scopes() scopes { return a.key.scopes() }

func (l *lane) when() int64   { return l.at }
func (l *lane) index() *int32 { return &l.idx }

func (l *lane) scopes() scopes {
	return scopes{
		{},
		{Level: throttle.Selector, Key: l.sel.name},
		{Level: throttle.Tenant, Key: l.tenant},
		{Level: throttle.Bucket, Key: l.bucket},
	}
}

// first returns the request whose turn it is, nil when there is none.
func (l *lane) first() *request {
	if l.returned.len() > 0 {
		if r := l.returned.s[0].r; l.head == nil || r.order() < l.head.order() {
			return r
		}
	}
	return l.head
}

// all returns the requests in l in no particular order. They may be removed
// meanwhile.
func (l *lane) all() []*request {
	rs := make([]*request, 0, l.n)
	for _, h := range l.returned.s {
		rs = append(rs, h.r)
	}
	for r := l.head; r != nil; r = r.next {
		rs = append(rs, r)
	}
	return rs
}

// insert puts r at its place by submission order: at the tail if it is new. What
// comes back from an attempt, in any order, would have to look for its place, and
// is put into a heap.
func (l *lane) insert(r *request) {
	l.n++
	if l.tail != nil && l.tail.order() > r.order() {
		l.returned.fix(r.history())
		return
	}
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
}

func (l *lane) remove(r *request) {
	l.n--
	if r.hist != nil && r.hist.slot != 0 {
		l.returned.remove(r.hist)
		return
	}
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// laneList is an intrusive list of lanes.
type laneList struct{ head, tail *lane }

func (q *laneList) push(l *lane) {
	l.list, l.prev, l.next = q, q.tail, nil
	if q.tail == nil {
		q.head = l
	} else {
		q.tail.next = l
	}
	q.tail = l
}

func (q *laneList) pushFront(l *lane) {
	l.list, l.prev, l.next = q, nil, q.head
	if q.head == nil {
		q.tail = l
	} else {
		q.head.prev = l
	}
	q.head = l
}

func (l *lane) unlink() {
	q := l.list
	if q == nil {
		return
	}
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.list, l.prev, l.next = nil, nil, nil
}
