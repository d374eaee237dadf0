package governor

import (
	"math"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
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
	stays := false
	if placed && over() > 0 {
		flows, known := c.flows(r, now)
		stays = flows || !known // a turn is not to take any longer, and places are few
	}
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
// with fewer others than there are slots, and not too many beyond MaxQueue.
func (c *core) squeeze(r *request, full error) (err error) {
	c.ask(func() {}) // it does what is due before it answers
	for again := true; again; {
		c.ask(func() {
			if again = c.behind; again {
				return
			}
			flows, known := c.flows(r, c.now())
			if again = !known; again {
				return
			}
			err = c.letIn(r, flows, full)
			// Who came just before it starts when this is over, if there are slots.
			again = err == full && !c.full() && !c.paused && c.hostAt == 0 && c.gate.word.queued() > 0
		})
	}
	return err
}

// letIn is the door of who may stay, if flows, in a queue that is full.
func (c *core) letIn(r *request, flows bool, full error) error {
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
// not wait for room if what is paused, or waits for limits, did not fill the queue; and
// whether that is known, for which lanes may be too many. pump has just come to its end.
func (c *core) flows(r *request, now int64) (flows, known bool) {
	own := 0
	if r.waiting() {
		own = 1
	}
	most := min(c.slots, c.door.limit())
	known = c.sift(now, most+own)
	if c.paused || c.hostAt != 0 {
		return false, true
	}
	if before := c.gate.word.queued() - c.coming - own; before >= most { // of which come nobody knows what they wait for
		return false, known
	}
	if c.observe {
		return true, true
	}
	asked := r.lane()
	sc := asked.scopes()
	for i := range sc {
		if c.queue.Awaited(sc[i]) {
			return false, true // others, who need more of it, are before it
		}
	}
	if st, _ := c.gate.look(now, &sc); st != nil {
		return false, true
	}
	if _, wait := c.gate.limited(now, &sc, r.price(), false); wait != 0 {
		return false, true
	}
	if c.breaker != nil && c.breaker.Ready(c.gate.time(now)) != nil {
		return false, true
	}
	return c.pool == nil || c.pool.idle(asked.sel.value) || !c.pool.notBefore(asked.sel.value).After(c.gate.time(now)), true
}

// sift takes the lanes out of turn whose scopes pause, or that wait for limits of their own,
// so that they are not taken for such that wait for a slot: while none is free nobody else
// has looked. It reports whether it has come to the end, or to enough requests that could
// go; else it has taken some out, and leaves the rest for the next time.
//
// It is one look for all who come in a turn of the actor: while the queue is full they may
// be many, and it goes through as many lanes as there are slots.
func (c *core) sift(now int64, enough int) (done bool) {
	if c.observe || c.paused || c.ample >= enough || !c.limitedBelow(throttle.Host) && !c.gate.word.held() {
		return true
	}
	most := max(enough, mostSteps)
	defer func() {
		clear(c.sifted)
		c.sifted = c.sifted[:0]
	}()
	for steps := 0; ; {
		could := 0
		for l := range c.queue.InTurn {
			if could >= enough {
				break
			}
			if steps++; steps > most {
				break
			}
			if l := l.Owner().(*lane); c.stands(l, now) {
				could += l.sched.Len()
			} else {
				c.sifted = append(c.sifted, l)
			}
		}
		if len(c.sifted) == 0 {
			if could >= enough {
				c.ample = could
			}
			return steps <= most
		}
		for _, l := range c.sifted {
			if c.aside(l, now); c.hostAt != 0 {
				return true
			}
		}
		c.sifted = c.sifted[:0] // some may be in turn again, as the next of their lines
	}
}

// stands reports whether aside would leave l in turn.
func (c *core) stands(l *lane, now int64) bool {
	sc := l.scopes()
	if c.queue.Joins(&l.sched, &sc) {
		return false
	}
	if st, _ := c.gate.look(now, &sc); st != nil {
		return false
	}
	per, wait := c.gate.limited(now, &sc, l.first().price(), false)
	return wait == 0 || wait == limiter.Never || per == throttle.Host
}

// aside takes l out of turn if its scopes pause, or it waits for a limit of its own; or
// everything, of which hostAt tells, if the host does.
func (c *core) aside(l *lane, now int64) {
	sc := l.scopes()
	if c.queue.Join(&l.sched, &sc) { // as pump has it
		return
	}
	if st, until := c.gate.look(now, &sc); st != nil {
		c.hold(l, st, until)
		return
	}
	r := l.first()
	if per, wait := c.limited(now, &sc, r.price(), false); wait != 0 && wait != limiter.Never && per != throttle.Host {
		c.waitInLine(l, r, sc[per], now, wait)
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
