package governor

import (
	"math"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/throttle"
)

// bound makes room if r has filled the queue beyond MaxQueue. What could start does not
// wait, unless too many have come already that did so, and may have come back.
func (c *core) bound(r *request, now int64, most int) {
	over := func() int { return c.queue.Len() + c.backoffs - most }
	if over() <= 0 {
		return
	}
	placed := c.door.place(r)
	if placed {
		r.place |= beyond
		c.pump(now, math.MaxInt)
	}
	if !r.waiting() {
		return
	}
	stays := placed && over() > 0 && c.flows(r, now)
	if placed && !stays {
		r.place &^= beyond
		c.door.over(r)
	}
	if over() > 0 {
		c.makeRoom(r, stays)
	}
}

// squeeze asks the actor whether r may stay though the queue is full; otherwise full is
// why not. What could start does not wait, so that there may be room after all. And what is
// paused, or waits for limits of its own, keeps nobody out who waits for nothing but a slot
// with no more than there are slots, and not too many beyond MaxQueue.
func (c *core) squeeze(r *request, full error) (err error) {
	c.ask(func() {}) // it does what is due before it answers
	for again := true; again; {
		c.ask(func() {
			if again = c.behind; !again {
				err = c.letIn(r, full)
				// Who came just before it starts when this is over, if there are slots.
				again = err == full && !c.full() && !c.paused && c.hostAt == 0 && c.gate.word.queued() > 0
			}
		})
	}
	return err
}

func (c *core) letIn(r *request, full error) error {
	flows := c.flows(r, c.now())
	d := &c.door
	d.mu.Lock()
	defer d.mu.Unlock()
	placed := false
	if d.full() {
		if placed = flows && d.places.take(r, d.spare()); !placed {
			return full
		}
	}
	err := d.add(r, false)
	if err != nil {
		d.places.giveBack(r)
	} else if placed {
		r.place |= beyond
	}
	return err
}

// flows reports whether nothing but slots keeps r back, with so few others that it would
// not wait for room if what is paused did not fill the queue. pump has just come to its
// end.
func (c *core) flows(r *request, now int64) bool {
	c.sift(now)
	most := c.door.limit()
	before := c.gate.word.queued() - c.coming // of which nobody knows what they wait for
	if r.waiting() {
		before--
	}
	if c.paused || c.hostAt != 0 || before >= min(c.slots, most) {
		return false
	}
	if c.observe {
		return true
	}
	asked := r.lane()
	sc := asked.scopes()
	for i := range sc {
		if c.queue.Awaited(sc[i]) {
			return false // others, who need more of it, are before it
		}
	}
	if st, _ := c.gate.look(now, &sc); st != nil {
		return false
	}
	if _, wait := c.gate.limited(now, &sc, r.price(), false); wait != 0 {
		return false
	}
	if c.breaker != nil && c.breaker.Ready(c.gate.time(now)) != nil {
		return false
	}
	return c.pool == nil || c.pool.idle(asked.sel.value) || !c.pool.notBefore(asked.sel.value).After(c.gate.time(now))
}

// sift takes the lanes that are next out of turn whose scopes pause, so that they are not
// taken for such that wait for a slot: while none is free nobody else has looked.
func (c *core) sift(now int64) {
	if c.observe || c.paused {
		return
	}
	for range mostSteps {
		l := c.queue.next(false)
		if l == nil {
			return
		}
		sc := l.scopes()
		if c.queue.Join(&l.sched, &sc) { // as pump has it
			continue
		}
		st, until := c.gate.look(now, &sc)
		if st == nil {
			return
		}
		if c.hold(l, st, until); st.key.Level == throttle.Host {
			return // of which hostAt tells
		}
	}
}

// makeRoom makes room in a queue that r has filled beyond MaxQueue. stays says that r
// itself need not go.
func (c *core) makeRoom(r *request, stays bool) {
	v, err := c.queue.eldest(), ErrDropped
	if c.overflow == DropLower && v.lane().priority >= r.lane().priority {
		v, err = r, ErrQueueFull
	}
	if v != r || !stays {
		c.overflown(v, err)
	}
}

func (c *core) overflown(v *request, err error) {
	c.count.overflow.Add(1)
	c.emit(event.Event{Kind: event.Overflow, Request: v.seq, Err: err})
	c.drop(v, c.stopError(v, err))
}
