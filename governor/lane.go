package governor

import (
	"cmp"
	"slices"

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
	laneKey
	lane *lane
	att  *attempt // of the one request that runs; see attempt.class
}

// lane is the queue of one selector, tenant, bucket and priority, in submission
// order. The actor owns it.
type lane struct {
	class
	head, tail *request       // in submission order, linked
	returned   heap[*history] // of those that came back, where their place was taken
	n          int

	list       *laneList // where it is linked, nil when nowhere: it is being served, or empty
	prev, next *lane
	line       *line
	at         int64  // when a timed lane becomes ready
	order      uint64 // in which it was put into sched.timed, or in turn
	idx        int32  // in sched.timed
	parked     bool   // its requests are not counted in word.queued
}

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

// sched is the scheduler: which lane is next. It knows nothing of gates; what
// stands in a lane's way is said to it by park and until, and it says what is
// counted as ready. The actor owns it.
type sched struct {
	lanes map[laneKey]*lane
	ready laneList // served in turn
	kept  laneList // ready too, and in need of no slot
	timed heap[*lane]
	stamp uint64  // the last lane.order
	due   []*lane // buffer of tick

	lines     map[throttle.Scope]*line
	lineTimes heap[*line]

	count func(n int) // word.queue: requests in lanes that could go
	n     int         // requests in lanes
}

// lane returns the lane of key, nil when there would be more than most.
func (s *sched) lane(key laneKey, most int) *lane {
	if l := s.lanes[key]; l != nil {
		return l
	}
	if len(s.lanes) >= most {
		return nil
	}
	l := new(lane)
	l.class = class{laneKey: key, lane: l}
	s.lanes[key] = l
	return l
}

// add puts r into l at its place. counted says that r is already counted as
// queued, as what comes from the inbox is.
func (s *sched) add(l *lane, r *request, counted bool) {
	r.class.Store(&l.class)
	l.insert(r)
	s.n++
	switch {
	case l.parked && counted:
		s.count(-1)
	case !l.parked && !counted:
		s.count(1)
	}
	if l.list == nil && l.idx == 0 {
		s.link(l)
	} else if l.parked && l.first() == r {
		// It may wait for what its head needed; a new head may need less.
		s.wake(l)
	}
}

// remove takes r out of its lane for good. granted says that word.grant has
// already uncounted it.
func (s *sched) remove(r *request, granted bool) {
	l := r.lane()
	head := l.first() == r
	l.remove(r)
	s.n--
	if !l.parked && !granted {
		s.count(-1)
	}
	switch {
	case l.n == 0:
		s.drop(l)
	case head && l.parked:
		s.wake(l) // it may have waited for what its head needed
	}
}

// link puts l in turn, behind all others.
func (s *sched) link(l *lane) {
	s.stamp++
	l.order = s.stamp
	if l.kept {
		s.kept.push(l)
	} else {
		s.ready.push(l)
	}
}

// next returns the lane whose turn it is, nil when there is none. full says that
// there is no slot, so that only those can be served that keep one.
func (s *sched) next(full bool) *lane {
	k, l := s.kept.head, s.ready.head
	if full || l == nil || k != nil && k.order < l.order {
		return k
	}
	return l
}

// drop forgets an empty lane. Requests that run keep pointing to it for its key.
func (s *sched) drop(l *lane) {
	s.leaveLine(l)
	l.unlink()
	s.timed.remove(l)
	delete(s.lanes, l.laneKey)
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
	l.unlink()
	s.timed.remove(l)
	if !l.parked {
		l.parked = true
		s.count(-l.n)
	}
}

func (s *sched) in(l *lane) {
	l.unlink()
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
	case l.line.lanes.head == l:
		s.try(l.line)
	}
}

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
	s.tryLines(now)
}

// wakeTimed puts back everything that waits for a time.
func (s *sched) wakeTimed() { s.tick(forever) }

// turn moves l to the end of its ring.
func (s *sched) turn(l *lane) {
	l.unlink()
	s.link(l)
}
