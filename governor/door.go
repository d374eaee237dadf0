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
	slots      int           // not changed
	overflow   Overflow      // not changed
	blocked    *crowd        // the guests, and their submitters that wait for room; nil until one does
	ebb        chan struct{} // nil unless somebody waits outside; see ebbs
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
// result anyway, as Do does, is not. So the guests are bounded by the goroutines of those who submit. Each may start, let its submitter go, and
// come back to wait for hours; when as many are there beyond most as spare allows, the next
// stay outside.
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
	if d.full() {
		d.mu.Unlock()
		switch {
		case d.overflow == Reject:
			return nil, c.squeeze(r, ErrQueueFull)
		case d.overflow == Block && !awaited && attemptOf(r.ctx, c) != nil:
			return nil, c.squeeze(r, ErrReentrant) // the room might be made by the very closure that waits
		}
		d.mu.Lock()
		switch {
		case d.overflow >= DropOldest && d.inbox >= mostAhead:
			d.mu.Unlock()
			c.ask(func() {}) // it takes what is there before it answers
			d.mu.Lock()
		case d.overflow == Block && !awaited:
			for d.full() && d.over() >= d.spare() {
				ebb := d.ebbs()
				d.mu.Unlock()
				if err := r.abide(ebb); err != nil {
					return nil, err
				}
				d.mu.Lock()
			}
		}
	}
	defer d.mu.Unlock()
	guest := d.overflow == Block && d.full()
	if err := d.add(r, guest); err != nil || !guest {
		return nil, err
	}
	if d.blocked == nil {
		d.blocked = newCrowd()
	}
	if kept = d.blocked.join(r); awaited {
		kept = nil
	}
	return kept, nil
}

// full reports whether who comes now has to wait for room. The caller holds mu.
func (d *door) full() bool { return d.waiting >= d.most && !d.closed }

// over is how many wait beyond MaxQueue, and spare how many may of those that came when it
// was reached, and could start. The caller holds mu.
func (d *door) over() int  { return d.waiting - d.most }
func (d *door) spare() int { return max(d.slots, d.most/4) }

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

// ebbs returns what is closed when fewer wait beyond MaxQueue than may, or the door is
// closed. The caller holds mu.
func (d *door) ebbs() <-chan struct{} {
	if d.ebb == nil {
		d.ebb = make(chan struct{})
	}
	return d.ebb
}

// ebbed closes that. The caller holds mu.
func (d *door) ebbed() {
	if d.ebb != nil {
		close(d.ebb)
		d.ebb = nil
	}
}

// abide waits outside until ebb is closed, as long as r can still start.
func (r *request) abide(ebb <-chan struct{}) error {
	var by time.Time
	var late <-chan time.Time
	if r.flags&(dated|ctxDeadline) == dated {
		by = r.core().gate.time(r.startBy())
		timer := time.NewTimer(time.Until(by))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ebb:
		return nil
	case <-r.ctx.Done():
		return &CanceledError{Cause: context.Cause(r.ctx), ctx: r.ctx.Err()}
	case <-late:
		return &LateError{By: by}
	}
}

// parts lets the submitter of r go, which came as a guest and starts now, or is done, and
// reports whether r did not count yet.
func (d *door) parts(r *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.blocked.part(r)
}

// leave makes room for n requests, first for the guests. The caller holds mu.
func (d *door) leave(n int) {
	d.waiting -= n
	for !d.blocked.empty() && d.waiting < d.most && d.common.add(1) {
		d.waiting++
		d.blocked.next()
	}
	if d.over() < d.spare() {
		d.ebbed()
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
	d.leave(n)
	if rest && !d.returning() && d.waiting < d.most { // what waits out a backoff fills the queue, too
		d.word.rests()
	}
	d.mu.Unlock()
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

// take empties the inbox, or takes the first submissions when there are more than
// most.
func (d *door) take(buf []message, most int) (first *request, msgs []message, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, n := d.head, d.inbox
	if n > most {
		last := r
		for range most - 1 {
			last = last.next
		}
		d.head, last.next = last.next, nil
		d.inbox -= most
		return r, buf, true
	}
	d.head, d.tail, d.inbox = nil, nil, 0
	buf = append(buf, d.msgs...)
	clear(d.msgs)
	d.msgs = d.msgs[:0]
	if cap(d.msgs) > 1024 {
		d.msgs = nil
	}
	return r, buf, false
}

// close lets nobody in any more, neither here nor past the door.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.word.shut()
	d.ebbed()
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
