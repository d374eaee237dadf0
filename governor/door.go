package governor

import (
	"slices"
	"sync"
	"sync/atomic"
)

// door is the fan-in: the only way to the actor. It is a list and not a Go
// channel so that an idle governor has no buffer of MaxQueue, a batch costs one
// lock, and nobody who tells the actor something ever waits for it.
type door struct {
	// mu guards everything here. It is held for a few assignments; nothing is
	// called under it.
	mu         sync.Mutex
	head, tail *request // submitted, linked by next
	inbox      int      // how many those are
	msgs       []message
	seq        atomic.Uint64 // the number of the last request; for those of the inbox raised under mu, so that it is in order
	waiting    int           // accepted requests that have not started, but for guests: what MaxQueue bounds
	most       int
	slots      int      // not changed
	overflow   Overflow // not changed
	blocked    crowd    // the guests, and their submitters that wait for room
	places     places   // of guests that have started
	unplaced   bool     // lanes wait for places, as far as is known
	closed     bool
	word       *word
	common     *common // what all of a Group may have waiting; nil: no such bound
}

type msgKind uint8

const (
	msgBack    msgKind = iota // r's attempt is over, r goes on waiting
	msgCancel                 // r was cancelled
	msgWatch                  // w's context ended
	msgCommand                // do is to be called in the actor
)

// message is what anybody but a submitter tells the actor.
type message struct {
	kind msgKind
	r    *request
	w    *watch
	do   func()
}

// mostAhead is how many submissions may be in the inbox while the queue is full and
// the actor is to make room in it.
const mostAhead = 1024

// enter puts r into the inbox. What finds the queue full neither starts later for that
// than it could, nor waits without need:
//
// Under Block it comes as a guest. It waits in its lane as everybody else, so that what
// fills the queue, and may be paused for hours, is not in its way, and the actor sees what
// it waits for and for how long. But it does not count in waiting, and its submitter is
// kept until it counts, starts or is done: that is what kept is for; who waits for the
// result anyway, as Do does, is not. So guests are bounded by the goroutines that wait, and
// those that have started, and may come back when nobody waits any more, by places.
//
// Under Reject, and for a closure's own Submit, for which nobody may wait, the actor says
// whether it may stay; see squeeze. Under the rules that drop the actor comes after to make
// room, and enter waits for it when submitters have run far ahead: by mostAhead, and one
// each. So what waits is bounded there, too.
func (d *door) enter(r *request) (kept *blocked, err error) {
	c := r.core()
	if d.common.full() {
		c.settled() // what could start does not wait
	}
	awaited := r.task.awaited() // by a goroutine that is there as long as it is
	d.mu.Lock()
	if d.full() && (d.overflow <= Reject || d.inbox >= mostAhead) {
		d.mu.Unlock()
		switch {
		case d.overflow == Reject:
			return nil, c.squeeze(r, ErrQueueFull)
		case d.overflow > Reject:
			c.ask(func() {}) // it takes what is there before it answers
		case !awaited && attemptOf(r.ctx, c) != nil:
			return nil, c.squeeze(r, ErrReentrant) // the room might be made by the very closure that waits
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if d.overflow != Block || !d.full() {
		return nil, d.add(r, false)
	}
	if err := d.add(r, true); err != nil {
		return nil, err
	}
	if kept = d.blocked.join(r); awaited {
		kept = nil
	}
	return kept, nil
}

// full reports whether who comes now has to wait for room. The caller holds mu.
func (d *door) full() bool { return d.waiting >= d.most && !d.closed }

// spare is how many places there are. What runs has one, too; that of the requests of two
// lanes as many have come back as there are slots, say since the vendor pauses them, leaves
// enough for all slots to a third. The caller holds mu.
func (d *door) spare() int { return max(4*d.slots, d.most/4) }

// add puts r into the inbox, and counts it unless it is a guest. The caller holds mu.
func (d *door) add(r *request, guest bool) error {
	switch {
	case d.closed:
		return ErrClosed
	case guest:
		r.place = nowhere | asGuest
	case !d.common.add(1):
		return ErrQueueFull
	default:
		d.waiting++
	}
	r.seq = d.seq.Add(1)
	d.word.queue(1) // before it is visible: invariant 1
	if d.tail == nil {
		d.head = r
	} else {
		d.tail.next = r
	}
	d.tail = r
	d.inbox++
	return nil
}

// placeFor reports whether r may start: it is no guest whose submitter would be let go by
// that, or there is a place for it.
func (d *door) placeFor(r *request) bool {
	if r.task.awaited() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := placeKey(r)
	if d.blocked.of[r] == nil || d.places.free(&key, d.spare()) {
		return true
	}
	d.unplaced = true
	return false
}

// anyPlace reports whether there is a place for a lane that has none, of those that wait;
// otherwise over tells when there is one.
func (d *door) anyPlace() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unplaced = true
	return d.places.taken < d.spare()
}

// tryPlace has r take a place, if there is one for it.
func (d *door) tryPlace(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.place(r)
}

// place is tryPlace. The caller holds mu.
func (d *door) place(r *request) bool {
	key := placeKey(r)
	if !d.places.free(&key, d.spare()) {
		return false
	}
	d.takePlace(r)
	return true
}

// takePlace has r take a place, also if there is none. The caller holds mu.
func (d *door) takePlace(r *request) {
	key := placeKey(r)
	d.places.take(&key)
	r.place |= asPlaced
}

// parts lets the submitter of r go, which came as a guest and starts now, or is done, and
// reports whether r did not count yet. One that starts has a place until over.
func (d *door) parts(r *request, starts bool) (guest bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocked.of[r]
	if b == nil {
		return false
	}
	d.blocked.letGo(b)
	if starts && !r.task.awaited() {
		d.takePlace(r)
	}
	return true
}

// over gives the place of r back, and reports whether lanes wait for one.
func (d *door) over(r *request) (awaited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.placeBack(r)
	awaited, d.unplaced = d.unplaced, false
	return awaited
}

// placeBack gives the place of r back. The caller holds mu.
func (d *door) placeBack(r *request) {
	key := placeKey(r)
	d.places.giveBack(&key)
}

// leave makes room for n requests: for guests, which count from now on, also in what a
// Group may have waiting, about which they were not asked. It reports whether that lets lanes
// go on that wait for places. The caller holds mu.
func (d *door) leave(n int) (stirs bool) {
	d.waiting -= n
	for d.waiting < d.most && !d.blocked.empty() {
		d.waiting++
		d.common.leave(-1)
		d.blocked.next()
		stirs = d.unplaced
	}
	if stirs {
		d.unplaced = false
	}
	return stirs
}

// left makes room for n requests that wait no more; negative: that wait again.
// rest says that no request is in a lane. It reports what leave does.
func (d *door) left(n int, rest bool) (stirs bool) {
	if n == 0 && !(rest && d.word.v.Load()&waitsBit != 0) {
		return false
	}
	d.common.leave(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	stirs = d.leave(n)
	if rest && !d.returning() && d.waiting < d.most { // what waits out a backoff fills the queue, too
		d.word.rests()
	}
	return stirs
}

// returning reports whether a request is on its way back. The caller holds mu.
func (d *door) returning() bool {
	return slices.ContainsFunc(d.msgs, func(m message) bool { return m.kind == msgBack })
}

// number returns a number for a request that does not come through the door.
func (d *door) number() uint64 { return d.seq.Add(1) }

// post leaves a message for the actor.
func (d *door) post(m message) {
	d.mu.Lock()
	if m.kind == msgBack {
		d.word.waits() // under mu, as the end of waits is
	}
	d.msgs = append(d.msgs, m)
	d.mu.Unlock()
}

// take empties the inbox of its submissions, n, and messages; or takes the first most
// submissions when there are more.
func (d *door) take(buf []message, most int) (first *request, n int, msgs []message, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if first, n = d.head, d.inbox; n > most {
		last := first
		for range most - 1 {
			last = last.next
		}
		d.head, last.next = last.next, nil
		d.inbox -= most
		return first, most, buf, true
	}
	d.head, d.tail, d.inbox = nil, nil, 0
	buf = append(buf, d.msgs...)
	clear(d.msgs)
	d.msgs = d.msgs[:0]
	if cap(d.msgs) > 1024 {
		d.msgs = nil
	}
	return first, n, buf, false
}

// close lets nobody in any more, neither here nor past the door.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.word.shut()
}

// newest returns the number of the request submitted last.
func (d *door) newest() uint64 { return d.seq.Load() }

// limit returns MaxQueue.
func (d *door) limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

// resize changes MaxQueue, and with it how many places there are. It reports whether
// lanes wait for places.
func (d *door) resize(most int) (stirs bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = most
	stirs = d.leave(0) || d.unplaced
	d.unplaced = false
	return stirs
}

// empty reports whether no request is left for the actor to take. Commands do not
// count: who gave one does without the actor when that has ended.
func (d *door) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.head == nil && !d.returning()
}
