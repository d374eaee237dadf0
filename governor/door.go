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
	slots      int
	overflow   Overflow // not changed
	blocked    *crowd   // submitters that wait for room; nil until one does
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

// enter puts r into the inbox. One that finds the queue full comes as a guest, which
// does not count:
//
// Under Block it waits in its lane as everybody else, so that neither a full queue nor
// who fills it, and may be paused for hours, is in its way; what it waits for, and for
// how long, the actor sees. Only its submitter is kept until there is room: kept is
// not nil then. Who waits for the result anyway, as Do does, waits for nothing here. So
// the guests are bounded by the goroutines of who submits.
//
// Under Reject nobody may be kept: asks says that the actor is to be asked, which lets
// the guest stay or not; see bound. Under the rules that drop there are no guests: the
// actor comes after to make room, and enter waits for it when submitters have run far
// ahead, by mostAhead, and one each. So what waits is bounded there, too.
func (d *door) enter(r *request) (kept *blocked, asks bool, err error) {
	if d.common.full() {
		r.core().settled() // what could start does not wait
	}
	d.mu.Lock()
	stays := false
	switch full := d.waiting >= d.most && !d.closed; {
	case full && d.overflow == Block:
		d.mu.Unlock()
		if stays = r.task.awaited(); !stays && attemptOf(r.ctx, r.core()) != nil {
			return nil, false, ErrReentrant // the room might be made by the very closure that waits
		}
		d.mu.Lock()
	case full && d.overflow >= DropOldest && d.inbox >= mostAhead:
		d.mu.Unlock()
		r.core().ask(func() {}) // it takes what is there before it answers
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, ErrClosed
	}
	switch {
	case d.overflow >= DropOldest || d.waiting < d.most:
		if !d.common.add(1) {
			return nil, false, ErrQueueFull
		}
		d.waiting++
	case d.common.full():
		return nil, false, ErrQueueFull
	default:
		r.place = guest
		asks = d.overflow == Reject
		if d.overflow == Block && !stays {
			if d.blocked == nil {
				d.blocked = &crowd{of: make(map[*request]*blocked), tenants: make(map[string]*queueOfTenant)}
			}
			kept = d.blocked.join(r)
		}
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
	return kept, asks, nil
}

// abide waits until the submitter of r need not be kept any more: there is room, or r
// has started or is done.
func (d *door) abide(r *request, b *blocked) {
	select {
	case <-b.room:
	case <-r.Done(): // it is not in turn any more
		d.mu.Lock()
		delete(d.blocked.of, r)
		d.mu.Unlock()
	}
}

// lets lets the submitter of r go, a guest that starts or waits for slots only, and says
// that r counts from now on; unless too many wait beyond MaxQueue already, but for left
// that have just left: what starts at once and comes back, to be repeated or to ask
// again, would be without bound otherwise.
func (d *door) lets(r *request, left int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.blocked.who(r) // nil: who waits for the result is not kept, and r never counts
	if b == nil || d.waiting-left >= d.most+d.spare() {
		return false
	}
	d.blocked.release(b)
	r.place &^= guest
	return true
}

// parts is for a guest that waits no more. If its submitter was not let go, it gets its
// turn again when the guest returns, and is let go when that is done.
func (d *door) parts(r *request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.blocked.who(r); b != nil {
		d.blocked.leave(b)
	}
}

// returns is for a guest that waits again: so does its submitter, if it still did.
func (d *door) returns(r *request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.blocked.who(r); b != nil {
		d.blocked.enter(b)
		d.leave(0)
	}
}

// spare is how many may wait beyond MaxQueue that came when it was reached, could start
// and have come back, or wait for nothing but a slot. The caller holds mu.
func (d *door) spare() int { return max(d.slots, d.most/4) }

// leave makes room for n requests. The caller holds mu, and has the turn if anybody
// is blocked.
func (d *door) leave(n int) {
	d.waiting -= n
	for !d.blocked.empty() && d.waiting < d.most && d.common.add(1) {
		d.waiting++
		d.blocked.next().place &^= guest
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
}

// newest returns the number of the request submitted last.
func (d *door) newest() uint64 { return d.seq.Load() }

// limit returns MaxQueue.
func (d *door) limit() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

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
