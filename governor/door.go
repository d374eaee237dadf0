package governor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
	places     places   // of guests
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
// result anyway, as Do does, is not. Guests are bounded by places, or, of those of Do, by
// the goroutines that wait; for a place a submitter waits outside.
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
	switch {
	case d.overflow != Block || !d.full():
		return nil, d.add(r, false)
	case awaited:
		_, err = d.invite(r, false)
		return nil, err
	}
	if key := placeKey(r); !d.places.free(&key, d.spare()) { // as it is while others of its lane wait outside
		if err := d.waitOutside(r, &key); err != nil {
			return nil, err
		}
		if !d.full() {
			err = d.add(r, false)
			d.leave(0) // its place, or the room that a Group has none for, is the next one's
			return nil, err
		}
	}
	return d.invite(r, true)
}

// waitOutside waits until there is room, or a place for a lane of key, which nobody has
// taken before r has. The caller holds mu, which is not held meanwhile.
func (d *door) waitOutside(r *request, key *laneKey) error {
	o := d.places.join(key)
	d.mu.Unlock()
	err := r.abide(o.let)
	d.mu.Lock()
	d.places.leave(o)
	if o.room {
		d.waiting--
	}
	if o.placed {
		d.places.giveBack(key)
	}
	if err != nil {
		d.leave(0) // it is the next one's
	}
	return err
}

// invite puts r into the inbox as a guest, which takes a place if it is placed. The caller
// holds mu.
func (d *door) invite(r *request, placed bool) (*blocked, error) {
	if err := d.add(r, true); err != nil {
		return nil, err
	}
	if placed {
		key := placeKey(r)
		d.places.take(&key)
	}
	return d.blocked.join(r, placed), nil
}

// full reports whether who comes now has to wait for room. The caller holds mu.
func (d *door) full() bool { return d.waiting >= d.most && !d.closed }

// spare is how many places there are beyond MaxQueue. What runs has one, too: half of
// them, which a lane may have, are enough for all slots. The caller holds mu.
func (d *door) spare() int { return max(2*d.slots, d.most/4) }

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

// abide waits outside, as long as r can still start.
func (r *request) abide(let <-chan struct{}) error {
	var by time.Time
	var late <-chan time.Time
	if r.flags&(dated|ctxDeadline) == dated {
		by = r.core().gate.time(r.startBy())
		timer := time.NewTimer(time.Until(by))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-let:
		return nil
	case <-r.ctx.Done():
		return &CanceledError{Cause: context.Cause(r.ctx), ctx: r.ctx.Err()}
	case <-late:
		return &LateError{By: by}
	}
}

// parts lets the submitter of r go, which came as a guest and starts now, or is done, and
// reports whether r did not count yet, and whether it keeps its place until over.
func (d *door) parts(r *request, starts bool) (guest, placed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocked.of[r]
	if b == nil {
		return false, false
	}
	d.blocked.letGo(b)
	if b.placed && !starts {
		d.placeBack(r)
	}
	return true, b.placed && starts
}

// over gives the place back of one that came as a guest, has started, and is done.
func (d *door) over(r *request) {
	d.mu.Lock()
	d.placeBack(r)
	d.mu.Unlock()
}

// placeBack gives the place of r back. The caller holds mu.
func (d *door) placeBack(r *request) {
	key := placeKey(r)
	d.places.giveBack(&key)
	d.places.letIn(d.spare())
}

// leave makes room for n requests: for guests, which count from now on, also in what a
// Group may have waiting, about which they were not asked; then for who waits outside. The
// caller holds mu.
func (d *door) leave(n int) {
	d.waiting -= n
	for d.waiting < d.most && !d.blocked.empty() {
		d.waiting++
		d.common.leave(-1)
		if b := d.blocked.next(); b.placed {
			key := placeKey(b.r)
			d.places.giveBack(&key)
		}
	}
	for d.waiting < d.most && d.places.letOne() {
		d.waiting++
	}
	d.places.letIn(d.spare())
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
	if rest && !d.returning() && d.waiting < d.most { // what waits out a backoff fills the queue, too
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
	for d.places.letOne() {
		d.waiting++ // it finds the door closed
	}
}

// newest returns the number of the request submitted last.
func (d *door) newest() uint64 { return d.seq.Load() }

// limits returns MaxQueue, and how many more may be there; see spare.
func (d *door) limits() (most, spare int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most, d.spare()
}

// resize changes MaxQueue.
func (d *door) resize(most int) {
	d.mu.Lock()
	d.most = most
	d.leave(0)
	d.mu.Unlock()
}

// empty reports whether no request is left for the actor to take. Commands do not
// count: who gave one does without the actor when that has ended.
func (d *door) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.head == nil && !d.returning()
}
