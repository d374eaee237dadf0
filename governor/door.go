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
	most       atomic.Int64  // Config.MaxQueue; written under mu
	slots      int           // not changed
	overflow   Overflow      // not changed
	blocked    crowd         // the guests, and their submitters that wait for room
	places     places        // of those that have started
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
// those that have started, and may come back when nobody waits any more, by places: who
// finds none starts, too, but its submitter is kept until it does, or is done.
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
func (d *door) full() bool { return d.waiting >= d.limit() && !d.closed }

// spare is how many places there are. What runs has one, too; that of the requests of two
// lanes as many have come back as there are slots, say since the vendor pauses them, leaves
// enough for all slots to a third. The caller holds mu.
func (d *door) spare() int { return max(4*d.slots, d.limit()/4) }

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

// place has r take a place, if there is one for it.
func (d *door) place(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.places.take(r, d.spare())
}

// parts is told that r, which came as a guest, starts now, or is done, and reports whether
// it did not count yet. Its submitter is let go, unless there is no place for one that starts.
func (d *door) parts(r *request, starts bool) (guest bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocked.of[r]
	if b == nil {
		return false
	}
	d.blocked.remove(b)
	if starts && !r.task.awaited() && !d.places.take(r, d.spare()) {
		d.places.owed.add(b)
	} else {
		close(b.room)
	}
	return true
}

// returns is told that r comes back from an attempt, and reports whether it is a guest
// again: its submitter still waits.
func (d *door) returns(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.places.forget(r)
	if b != nil {
		d.blocked.add(b)
		d.leave(0) // it may find room, of which nobody else would tell it
	}
	return b != nil
}

// over is told that r is done, and lets its submitter go if that still waits. Its place is
// the next one's.
func (d *door) over(r *request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.places.forget(r); b != nil {
		close(b.room)
	}
	if d.places.giveBack(r) {
		d.places.settle(d.spare())
	}
}

// leave makes room for n requests: for guests, which count from now on, also in what a
// Group may have waiting, about which they were not asked; and then for those that run
// without a place, whose submitters need wait no more. The caller holds mu.
func (d *door) leave(n int) {
	d.waiting -= n
	for d.waiting < d.limit() && !d.blocked.empty() {
		d.waiting++
		d.common.leave(-1)
		d.blocked.next()
	}
	for n := d.limit() - d.waiting; n > 0 && !d.places.owed.empty(); n-- {
		d.places.owed.next() // it counts when it comes back, as who came when there was room
	}
}

// left makes room for n requests that wait no more; negative: that wait again.
// rest says that no request is in a lane.
func (d *door) left(n int, rest bool) {
	if n == 0 && !(rest && d.word.v.Load()&waitsBit != 0) {
		return
	}
	d.common.leave(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave(n)
	if rest && !d.returning() && d.waiting < d.limit() { // what waits out a backoff fills the queue, too
		d.word.rests()
	}
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
func (d *door) limit() int { return int(d.most.Load()) }

// resize changes MaxQueue, and with it how many places there are.
func (d *door) resize(most int) {
	d.mu.Lock()
	d.most.Store(int64(most))
	d.leave(0)
	d.places.settle(d.spare())
	d.mu.Unlock()
}

// empty reports whether no request is left for the actor to take. Commands do not
// count: who gave one does without the actor when that has ended.
func (d *door) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.head == nil && !d.returning()
}
