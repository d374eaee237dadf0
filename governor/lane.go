package governor

import "github.com/flyball-go/flyball/throttle"

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
}

// lane is the queue of one selector, tenant, bucket and priority, in submission
// order. The actor owns it.
type lane struct {
	class
	head, tail *request
	n          int

	list       *laneList // where it is linked, nil when nowhere: it is being served, or empty
	prev, next *lane
	at         int64 // when a timed lane becomes ready
	idx        int32 // in sched.timed
	parked     bool  // its requests are not counted in word.queued
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

// insert puts r at its place by submission order. What comes back from an
// attempt is old and belongs near the head; what is new, at the tail. Either
// way the walk is over requests that are running or were, not over the queue.
func (l *lane) insert(r *request) {
	l.n++
	if l.tail == nil || l.tail.seq < r.seq {
		r.prev, r.next = l.tail, nil
		if l.tail == nil {
			l.head = r
		} else {
			l.tail.next = r
		}
		l.tail = r
		return
	}
	at := l.head
	for at.seq < r.seq {
		at = at.next
	}
	r.prev, r.next = at.prev, at
	if at.prev == nil {
		l.head = r
	} else {
		at.prev.next = r
	}
	at.prev = r
}

func (l *lane) remove(r *request) {
	l.n--
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
	l.class = class{key, l}
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
	} else if l.parked && l.head == r {
		// It may wait for what its head needed; a new head may need less.
		s.wake(l)
	}
}

// remove takes r out of its lane for good. granted says that word.grant has
// already uncounted it.
func (s *sched) remove(r *request, granted bool) {
	l := r.lane()
	head := l.head == r
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

func (s *sched) link(l *lane) {
	if l.kept {
		s.kept.push(l)
	} else {
		s.ready.push(l)
	}
}

// drop forgets an empty lane. Requests that run keep pointing to it for its key.
func (s *sched) drop(l *lane) {
	l.unlink()
	s.timed.remove(l)
	delete(s.lanes, l.laneKey)
}

// park takes l out of turn until wake, in list q of whatever holds it.
func (s *sched) park(l *lane, q *laneList) {
	l.unlink()
	s.timed.remove(l)
	s.uncount(l)
	q.push(l)
}

// until takes l out of turn until at.
func (s *sched) until(l *lane, at int64) {
	l.unlink()
	s.uncount(l)
	l.at = at
	s.timed.fix(l)
}

// parkUntil takes l out of turn until wake or at, whichever comes first.
func (s *sched) parkUntil(l *lane, q *laneList, at int64) {
	s.park(l, q)
	l.at = at
	s.timed.fix(l)
}

func (s *sched) uncount(l *lane) {
	if !l.parked {
		l.parked = true
		s.count(-l.n)
	}
}

// wake puts a parked or timed lane back in turn.
func (s *sched) wake(l *lane) {
	if !l.parked {
		return
	}
	l.unlink()
	s.timed.remove(l)
	l.parked = false
	s.count(l.n)
	s.link(l)
}

// wakeAll puts every lane of q back in turn.
func (s *sched) wakeAll(q *laneList) {
	for q.head != nil {
		s.wake(q.head)
	}
}

// wakeTimed puts every lane that waits for a time back in turn.
func (s *sched) wakeTimed() {
	for s.timed.len() > 0 {
		s.wake(s.timed.s[len(s.timed.s)-1])
	}
}

// tick puts the lanes back whose time has come.
func (s *sched) tick(now int64) {
	for {
		l, ok := s.timed.due(now)
		if !ok {
			return
		}
		s.wake(l)
	}
}

// turn moves l to the end of its ring.
func (s *sched) turn(l *lane) {
	q := l.list
	l.unlink()
	q.push(l)
}
