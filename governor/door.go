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
	waiting    int           // accepted requests that have not started: what MaxQueue bounds
	most       int
	overflow   Overflow
	blocked    *crowd // submitters that wait for room; nil until one does
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

// enter puts r into the inbox, waiting for room under Block, and under the rules that
// drop for the actor to come after when submitters have run far ahead of it: by
// mostAhead, and one each. So what waits is bounded.
func (d *door) enter(r *request) error {
	if d.common.full() {
		r.core().settled() // what could start does not wait
	}
	d.mu.Lock()
	if d.waiting >= d.most && !d.closed {
		switch d.overflow {
		case Reject:
			d.mu.Unlock()
			r.core().settled() // what could start does not wait
			d.mu.Lock()
			if d.waiting >= d.most && !d.closed {
				d.mu.Unlock()
				return ErrQueueFull
			}
		case Block:
			d.mu.Unlock()
			if attemptOf(r.ctx, r.core()) != nil {
				return ErrReentrant // the room might be made by the very closure that waits
			}
			if err := d.block(r); err != nil {
				return err
			}
			d.mu.Lock()
			d.waiting-- // the room it was given, taken below
		case DropOldest, DropLower:
			if d.inbox >= mostAhead {
				d.mu.Unlock()
				r.core().ask(func() {}) // it takes what is there before it answers
				d.mu.Lock()
			}
		}
	}
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	if !d.common.add(1) {
		d.leave(0) // room it may have been given is the next one's
		return ErrQueueFull
	}
	d.waiting++
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

// block waits for room, in turn with others, until r's context ends or its latest
// start has passed. Without an error the caller has room that counts in waiting,
// unless the door closed.
func (d *door) block(r *request) error {
	d.mu.Lock()
	if d.waiting < d.most && d.blocked.empty() || d.closed {
		d.waiting++ // there is room after all
		d.mu.Unlock()
		return nil
	}
	if d.blocked == nil {
		d.blocked = &crowd{tenants: make(map[string]*queueOfTenant)}
	}
	b := d.blocked.join(r.class.Load().tenant)
	d.mu.Unlock()
	err := r.abide(b.room)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.in {
		d.leave(1) // room came and nobody will use it: the next one's
	} else {
		d.blocked.leave(b)
	}
	return err
}

// abide waits for room, as long as r can still start.
func (r *request) abide(room <-chan struct{}) error {
	var by time.Time
	var late <-chan time.Time
	if r.flags&(dated|ctxDeadline) == dated {
		by = r.core().gate.time(r.startBy())
		timer := time.NewTimer(time.Until(by))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-room:
		return nil
	case <-r.ctx.Done():
		return &CanceledError{Cause: context.Cause(r.ctx), ctx: r.ctx.Err()}
	case <-late:
		return &LateError{By: by}
	}
}

// leave makes room for n requests. The caller holds mu.
func (d *door) leave(n int) {
	d.waiting -= n
	for !d.blocked.empty() && d.waiting < d.most {
		d.admit()
	}
}

// admit gives room to the next who waits for it. The caller holds mu.
func (d *door) admit() {
	b := d.blocked.next()
	b.in = true
	d.waiting++
	close(b.room)
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
	if rest && !d.returning() {
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
	for !d.blocked.empty() {
		d.admit() // it finds the door closed
	}
}

// newest returns the number of the request submitted last.
func (d *door) newest() uint64 { return d.seq.Load() }

// limit returns MaxQueue.
func (d *door) limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
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
