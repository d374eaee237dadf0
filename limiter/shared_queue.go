package limiter

import (
	"container/heap"
	"time"
)

// queue is the calls that wait. The Shared's mu guards it.
type queue struct {
	max    int
	newest bool // is served first
	len    int
	all    byAge
	lanes  map[string]*lane

	ready lanes // by age: whose first call is to be looked at, or waits for the Whole
	timed lanes // by time: whose first call waits for the limits of its key; and doors of crowds

	crowds map[roomy][]*crowd // those who wait for room in it; see crowd
}

// lane is the calls of one key, oldest first.
type lane struct {
	key   string
	calls byAge
	at    time.Time // when timed
	in    *lanes
	pos   int
	crowd *crowd // that it is in, or has been let out of; of a door, whose it is
}

// isDoor reports whether l is no lane but stands for a crowd among the timed ones.
func (l *lane) isDoor() bool { return l.crowd != nil && l == &l.crowd.door }

func newQueue(limit int, newest bool) *queue {
	q := &queue{max: limit, newest: newest, lanes: make(map[string]*lane), crowds: make(map[roomy][]*crowd)}
	q.all.which = 1
	q.ready.less = func(a, b *lane) bool { return (q.first(a).call < q.first(b).call) != newest }
	q.timed.less = func(a, b *lane) bool { return a.at.Before(b.at) }
	return q
}

// first returns the call of l that is served next.
func (q *queue) first(l *lane) *Reservation {
	if q.newest {
		return l.calls.newest
	}
	return l.calls.oldest
}

// ahead reports whether calls wait that a new one of key must not overtake.
func (q *queue) ahead(key string) bool {
	return !q.newest && (len(q.ready.heap) > 0 || q.lanes[key] != nil)
}

// add makes r wait.
func (q *queue) add(r *Reservation) {
	l := q.lanes[r.key]
	if l == nil {
		l = &lane{key: r.key}
		q.lanes[r.key] = l
	}
	r.lane = l
	l.calls.add(r)
	q.all.add(r)
	q.len++
	if q.first(l) == r {
		q.look(l)
	}
}

// remove takes r out.
func (q *queue) remove(r *Reservation) {
	l, first := r.lane, q.first(r.lane) == r
	r.lane = nil
	l.calls.remove(r)
	q.all.remove(r)
	q.len--
	switch {
	case l.calls.oldest == nil:
		q.takeOut(l)
		delete(q.lanes, l.key)
	case first:
		q.decided(l)
		q.look(l)
	}
}

// takeOut takes l out of the heap that it is in.
func (q *queue) takeOut(l *lane) {
	heap.Remove(l.in, l.pos)
	l.in = nil
	q.decided(l)
}

// look makes l, whose first call or whose permits are others now, be looked at.
func (q *queue) look(l *lane) {
	switch l.in {
	case &q.ready:
		heap.Fix(&q.ready, l.pos)
		return
	case nil:
	default:
		q.takeOut(l)
	}
	q.ready.put(l)
}

// lookAgain makes the lane of key be looked at.
func (q *queue) lookAgain(key string) {
	if l := q.lanes[key]; l != nil {
		q.look(l)
	}
}

// lookAll makes all lanes be looked at.
func (q *queue) lookAll() {
	for _, l := range q.lanes {
		q.look(l)
	}
}

// lookDue makes the lanes be looked at that wait for their time until now, and those of
// crowds whose turn it is.
func (q *queue) lookDue(now time.Time) {
	for len(q.timed.heap) > 0 && !now.Before(q.timed.heap[0].at) {
		if l := q.timed.heap[0]; l.isDoor() {
			q.open(l.crowd, now)
		} else {
			q.look(l)
		}
	}
}

// later makes l, of ready, wait until at.
func (q *queue) later(l *lane, at time.Time) {
	q.takeOut(l)
	l.at = at
	q.timed.put(l)
}

// lanes is a heap of lanes.
type lanes struct {
	heap []*lane
	less func(a, b *lane) bool
}

func (h *lanes) put(l *lane) {
	l.in = h
	heap.Push(h, l)
}

func (h *lanes) Len() int           { return len(h.heap) }
func (h *lanes) Less(a, b int) bool { return h.less(h.heap[a], h.heap[b]) }
func (h *lanes) Swap(a, b int) {
	h.heap[a], h.heap[b] = h.heap[b], h.heap[a]
	h.heap[a].pos, h.heap[b].pos = a, b
}

func (h *lanes) Push(x any) {
	l := x.(*lane)
	l.pos = len(h.heap)
	h.heap = append(h.heap, l)
}

func (h *lanes) Pop() any {
	last := len(h.heap) - 1
	l := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	return l
}

// byAge is calls by age, through one of their links.
type byAge struct {
	oldest, newest *Reservation
	which          int
}

func (l *byAge) add(r *Reservation) {
	if r.link[l.which].older = l.newest; l.newest == nil {
		l.oldest = r
	} else {
		l.newest.link[l.which].newer = r
	}
	l.newest = r
}

func (l *byAge) remove(r *Reservation) {
	k := &r.link[l.which]
	if k.older == nil {
		l.oldest = k.newer
	} else {
		k.older.link[l.which].newer = k.newer
	}
	if k.newer == nil {
		l.newest = k.older
	} else {
		k.newer.link[l.which].older = k.older
	}
	k.older, k.newer = nil, nil
}
