package governor

import (
	"slices"

	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/throttle"
)

// laneKey names a lane.
type laneKey struct {
	sel            *selector
	tenant, bucket string
	priority       int32
	kept           bool // its requests hold their slot and connection while they wait
}

// class is what requests have in common that ask for the same: their lane.
type class struct {
	*lane
	att *attempt // of the one request that runs; see attempt.class
}

// lane is the queue of one selector, tenant, bucket and priority, in submission
// order. What is asked for is named by a lane, too, which becomes the queue if there is
// none; a call that does not have to wait needs no more of it.
type lane struct {
	class   class // of those in it, or who ask for it: names the lane
	laneKey       // not changed, even when nothing is left in the lane
	weight  int32 // of the tenant; 0: not asked, as for a request without a tenant

	*backlog // the actor's; nil while nothing is in the lane
}

// backlog is what waits in a lane.
type backlog struct {
	sched      sched.Lane
	head, tail *request   // in submission order, linked; none has been begun
	returned   *histories // of those that came back without having been begun, where their place was taken; nil: there was none
	begun      *histories // of those that have been; likewise

	size ranked[*lane] // in census.lanes
	in   [levels]inSet // in census.sets
}

// histories are those of requests, by their place.
type histories = heap.Heap[*history]

func newLane(key laneKey, weight int32) *lane {
	l := &lane{laneKey: key, weight: weight}
	l.class.lane = l
	return l
}

// begin makes l, in which nothing is, ready to be scheduled. b is what an empty lane has
// left; its sets are still known, for no other has been new since.
func (l *lane) begin(b *backlog) {
	in, its := b.in, b.size.of == l
	*b = backlog{}
	for level := range in {
		if s := in[level].set; its || s != nil && s.name == l.name(level) {
			b.in[level].set = s
		}
	}
	l.backlog = b
	l.sched.Begin(l, sched.Kind{Tenant: l.tenant, Priority: l.priority, Kept: l.kept})
	l.sched.SetWeight(l.weight)
}

// weigh says what l's tenant weighs.
func (l *lane) weigh(weight int32) {
	l.weight = weight
	l.sched.SetWeight(weight)
}

// scopes are what the attempt belongs to.
func (a *attempt) scopes() scopes { return a.key.scopes() }

func (k *laneKey) scopes() scopes {
	return scopes{
		{},
		{Level: throttle.Selector, Key: k.sel.name},
		{Level: throttle.Tenant, Key: k.tenant},
		{Level: throttle.Bucket, Key: k.bucket},
	}
}

// isIn reports whether k belongs to one of the scopes. Without a pause of the host that is
// mostly one, and there is no need to look it up.
func (k *laneKey) isIn(scopes []*scope) bool {
	return slices.ContainsFunc(scopes, func(st *scope) bool {
		return st.key.Level == throttle.Host || k.name(int(st.key.Level)-1) == st.key.Key
	})
}

// name returns the key of k's scope of a level.
func (k *laneKey) name(level int) string {
	return [levels]string{k.sel.name, k.tenant, k.bucket}[level]
}

// first returns the request whose turn it is, nil when there is none.
func (l *lane) first() *request { return earlier(l.begun, l.eldest()) }

// eldest returns the first that has not been begun, which may have to make room for
// others, nil when there is none.
func (l *lane) eldest() *request { return earlier(l.returned, l.head) }

// earlier returns the first of hs, unless r, which may be nil, comes before.
func earlier(hs *histories, r *request) *request {
	if hs != nil && hs.Len() > 0 {
		if h := hs.First().r; r == nil || h.order() < r.order() {
			return h
		}
	}
	return r
}

// tell tells the scheduler what comes first in l, which is not empty. A request that was
// put before another that has waited for longer, since it came back, does not make the
// lane younger.
func (l *lane) tell() {
	r := l.first()
	since, eldest := r.enqueued, uint64(sched.Never)
	if l.head != nil {
		since = min(since, l.head.enqueued)
	}
	if e := l.eldest(); e != nil {
		since, eldest = min(since, e.enqueued), e.seq
	}
	l.sched.SetHead(sched.Head{Cost: int32(r.price()), Seq: eldest, Since: since})
}

// all returns the requests in l in no particular order. They may be removed
// meanwhile.
func (l *lane) all() []*request {
	rs := l.droppable(make([]*request, 0, l.sched.Len()))
	if l.begun != nil {
		for h := range l.begun.All() {
			rs = append(rs, h.r)
		}
	}
	return rs
}

// droppable appends those to rs that have not been begun.
func (l *lane) droppable(rs []*request) []*request {
	if l.returned != nil {
		for h := range l.returned.All() {
			rs = append(rs, h.r)
		}
	}
	for r := l.head; r != nil; r = r.next {
		rs = append(rs, r)
	}
	return rs
}

// insert puts r at its place by submission order: at the tail if it is new. What
// comes back from an attempt, in any order, would have to look for its place, and
// is put into a heap: of its own if it has been begun, for then it makes no room for
// others.
func (l *lane) insert(r *request) {
	var hs **histories
	switch {
	case r.hist != nil && r.hist.begun():
		hs = &l.begun
	case l.tail != nil && l.tail.order() > r.order():
		hs = &l.returned
	}
	if hs != nil {
		if *hs == nil {
			*hs = new(histories)
		}
		(*hs).Fix(r.history())
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
	if r.hist != nil && r.hist.slot != 0 {
		if r.hist.begun() {
			l.begun.Remove(r.hist)
		} else {
			l.returned.Remove(r.hist)
		}
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
