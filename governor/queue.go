package governor

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// arrive takes a submitted request into its lane.
func (c *core) arrive(r *request, now int64) {
	asked := r.lane()
	sc := asked.scopes()
	if err := c.hopeless(r, &sc, now); err != nil {
		c.turnAway(r, err) // before it is minded
		return
	}
	most := c.door.limit()
	keys := c.maxKeys
	if most <= keys {
		keys = math.MaxInt // no more lanes than requests; of guests each has a goroutine
	}
	l := c.queue.lane(asked, keys)
	if l == nil {
		c.turnAway(r, ErrTooManyKeys)
		return
	}
	l.weigh(cmp.Or(asked.weight, c.unnamed))
	c.join(l, r, true)
	if c.overflow >= DropOldest {
		c.bound(r, now, most)
	}
}

// join puts r into lane l, as waiting.
func (c *core) join(l *lane, r *request, counted bool) {
	r.moves(inLane)
	c.queue.add(l, r, counted)
	c.mind(r)
	c.fresh = append(c.fresh, r)
}

// hopeless returns why r need not wait: it would for too long, or could not
// start in time, or costs more than is ever to be had.
func (c *core) hopeless(r *request, sc *scopes, now int64) error {
	if c.observe {
		return nil
	}
	if r.small > 1 || r.flags&dated != 0 {
		wait := c.gate.known(now, sc, r.price())
		if wait == limiter.Never {
			return ErrNeverAdmissible
		}
		if r.flags&dated != 0 {
			wait = max(wait, c.unopened(r.sel(), now))
		}
		if err := c.tooLateIn(r, now, wait); err != nil {
			return err
		}
	}
	if c.breaker != nil && (!c.breakerWait || r.flags&dated != 0) {
		err := c.breaker.Ready(c.gate.time(now))
		if err != nil && !c.breakerWait {
			return err
		}
		if late := c.tooLateIn(r, now, breakerOpen(err)); late != nil {
			return late
		}
	}
	return c.tooLong(r, c.gate.cooldown(sc), now)
}

// unopened returns how long there will be no connection for sel at least, 0 when nobody
// knows.
func (c *core) unopened(sel *selector, now int64) time.Duration {
	if c.pool == nil {
		return 0
	}
	return max(0, c.pool.earliest(sel.value).Sub(c.gate.time(now)))
}

// sweepLate fails the requests in lanes, and of others, that would start too late if they
// have to wait so long, and returns the earliest latest start of those that are left.
func (c *core) sweepLate(lanes iter.Seq[*lane], others []*request, now int64, wait time.Duration) (earliest int64) {
	earliest = forever
	fail := func(r *request) {
		if err := c.tooLateIn(r, now, wait); err != nil {
			c.drop(r, err)
		} else {
			earliest = min(earliest, r.startBy())
		}
	}
	for l := range lanes {
		for _, r := range l.all() {
			fail(r)
		}
	}
	for _, r := range others {
		fail(r)
	}
	return earliest
}

// tooLateIn returns why r need not wait for something that takes so long at least, if
// that is known: its latest start comes before.
func (c *core) tooLateIn(r *request, now int64, wait time.Duration) error {
	if could := add(now, wait); r.flags&dated != 0 && wait < limiter.Unsure && r.lateAt(could) {
		return &LateError{By: c.gate.shown(r.startBy()), Could: c.gate.shown(could), Err: r.last(), heard: r.read()}
	}
	return nil
}

// tooLong returns why r cannot wait for cd.
func (c *core) tooLong(r *request, cd cooldown, now int64) error {
	if cd.until == 0 {
		return nil
	}
	last := r.last()
	switch {
	case c.maxWait >= 0 && cd.until-now > int64(c.maxWait) && cd.until-c.now() > int64(c.maxWait): // it may have begun after now
		return &CooldownError{Scope: cd.scope, Until: c.gate.shown(cd.until), Signal: cd.signal, Err: last, heard: r.read()}
	case r.lateAt(cd.until):
		return &LateError{By: c.gate.shown(r.startBy()), Could: c.gate.shown(cd.until), Err: last, heard: r.read()}
	}
	return nil
}

// anybodyMinds reports whether a request that waits may be one for which it is too
// long to wait until last.
func (c *core) anybodyMinds(now, last int64) bool {
	return c.maxWait >= 0 && last-now > int64(c.maxWait) || c.minding > 0 && last >= c.earliest
}

// sweep fails the requests that new cooldowns, of which the last ends at last, make
// wait too long. changed are the scopes that have changed. It looks at the lanes of
// those, and into those in which anybody could mind, and at what waits out a backoff,
// unless nobody can.
//
// Where it has looked at all that waits, because the whole host pauses, it knows the
// earliest latest start of those that are left. So that of one that is gone brings no
// later sweep about.
func (c *core) sweep(now, last int64, changed []*scope) {
	if !c.gate.word.held() || c.observe || !c.anybodyMinds(now, last) {
		return
	}
	all := slices.ContainsFunc(changed, func(st *scope) bool { return st.key.Level == throttle.Host })
	earliest := int64(forever)
	for l := range c.queue.lanesOf(changed) {
		sc := l.scopes()
		cd := c.gate.cooldown(&sc)
		if cd.until == 0 || c.minding == 0 && (c.maxWait < 0 || cd.until-now <= int64(c.maxWait)) {
			all = false
			continue
		}
		for _, r := range l.all() {
			if err := c.tooLong(r, cd, now); err != nil {
				c.drop(r, err)
			} else {
				earliest = min(earliest, r.startBy())
			}
		}
	}
	for _, r := range c.away(func(k *laneKey) bool { return k.isIn(changed) }) {
		sc := r.lane().scopes()
		if err := c.tooLong(r, c.gate.cooldown(&sc), r.hist.until); err != nil { // till then it does not wait for that
			c.drop(r, err)
		} else {
			earliest = min(earliest, r.startBy())
		}
	}
	if all {
		c.earliest = earliest
	}
}

// away returns the requests that wait in no lane, of the lanes that are wanted. It costs
// a look at each of them.
func (c *core) away(wanted func(*laneKey) bool) (rs []*request) {
	if c.backoffs == 0 {
		return nil
	}
	for t := range c.timers.All() {
		if r := (*request)(t); r.is(inTimers) && wanted(&r.lane().laneKey) {
			rs = append(rs, r)
		}
	}
	return rs
}

// expire deals with requests whose time has come: a latest start, the end of a
// backoff.
func (c *core) expire(now int64) {
	for {
		t, ok := c.timers.Due(now)
		if !ok {
			return
		}
		r := (*request)(t)
		if r.is(inTimers) && r.hist.until <= now { // waited out
			c.rejoin(r, now)
			continue
		}
		c.drop(r, c.lateError(r))
	}
}

func (c *core) lateError(r *request) error {
	return &LateError{By: c.gate.shown(r.startBy()), Err: r.last(), heard: r.read()}
}

// cancel ends a waiting request whose context ended, or that was cancelled.
func (c *core) cancel(r *request) { c.drop(r, c.cancelError(r)) }

// drop takes a waiting request out of the queue and completes it with err, or
// because of it when an attempt was made before.
func (c *core) drop(r *request, err error) {
	err = c.because(r, err)
	if r.is(inLane) {
		c.queue.remove(r)
	} else {
		c.backoffs--
	}
	c.leave(r, false)
	c.end(r, err)
}

// turnAway completes a request from the inbox that gets no lane.
func (c *core) turnAway(r *request, err error) {
	c.queue.Count(-1)
	c.goes(r, false)
	c.end(r, err)
}

// end completes a request that is in the actor's hands.
func (c *core) end(r *request, err error) {
	resident := r.resident()
	c.finish(r, 0, err, true)
	if resident {
		r.send(ended)
	}
}

// leave undoes what waiting did to r, but for its lane. starts says that it leaves for a
// slot.
func (c *core) leave(r *request, starts bool) {
	r.moves(nowhere)
	if r.flags&dated != 0 {
		c.minding--
	}
	if r.hist != nil {
		c.timers.Remove((*timer)(r))
	}
	c.watches.remove(r)
	if starts {
		c.ample = 0
	}
	c.goes(r, starts)
}

// goes undoes what r counts that waits no more. If it comes back it counts as all others.
func (c *core) goes(r *request, starts bool) {
	guest := r.place&asGuest != 0
	r.place &^= asGuest
	switch {
	case !guest || !c.door.parts(r, starts):
		c.left++
	case starts && !r.task.awaited():
		r.place |= beyond
	}
}

// back takes a request that has come back from an attempt.
func (c *core) back(r *request, now int64) {
	if r.place&beyond != 0 && c.door.returns(r) {
		r.place = r.place&^beyond | asGuest
	} else {
		c.left-- // it waits again
	}
	c.backoffs++
	r.moves(inTimers)
	c.mind(r)
	h := r.hist
	if h != nil && h.begun() {
		r.enqueued = now
	}
	long := h != nil && c.maxWait >= 0 && h.until-now > int64(c.maxWait) && h.until-c.now() > int64(c.maxWait) // the pause may have begun after now
	switch {
	case c.stage == closing, c.stage == draining && c.shutdownDrop:
		c.drop(r, c.stopError(r, ErrClosed))
	case r.cause() != nil: // said while the attempt was being settled
		c.cancel(r)
	case h == nil || h.until <= now:
		c.rejoin(r, now)
	case long && !c.observe:
		c.drop(r, c.pausedTooLong(h))
	case r.lateAt(h.until):
		c.drop(r, &LateError{By: c.gate.shown(r.startBy()), Could: c.gate.shown(h.until), Err: h.err, heard: h.heard})
	default:
		sc := r.lane().scopes()
		if err := c.tooLong(r, c.gate.cooldown(&sc), h.until); err != nil && !c.observe { // as sweep has it
			c.drop(r, err)
			return
		}
		if long {
			c.wouldRefuse(r, c.pausedTooLong(h))
		}
		c.timers.Fix((*timer)(r))
		c.fresh = append(c.fresh, r)
	}
}

// pausedTooLong is why a request that is to wait by itself cannot.
func (c *core) pausedTooLong(h *history) error {
	e := &CooldownError{Scope: throttle.Scope{Level: throttle.Request}, Until: c.gate.shown(h.until), Err: h.err, heard: h.heard}
	if h.signal != nil {
		e.Signal = *h.signal
	}
	return e
}

// mind counts a request that has a latest start, and sees to it that the actor
// wakes for it.
func (c *core) mind(r *request) {
	if r.flags&dated != 0 {
		if by := r.startBy(); c.minding == 0 || by < c.earliest {
			c.earliest = by
		}
		c.minding++
		if r.flags&ctxDeadline == 0 {
			c.timers.Fix((*timer)(r))
		}
	}
}

// rejoin puts a request that waited by itself back into its lane, at its place.
// It was accepted, so neither MaxKeys nor MaxQueue can refuse it now.
func (c *core) rejoin(r *request, now int64) {
	c.backoffs--
	if r.flags&dated != 0 {
		c.minding-- // join minds it again
	}
	r.setState(Queued)
	if r.hist != nil && r.hist.polled {
		r.hist.polled, r.enqueued = false, now // the time before is what it asked for
	}
	if r.hist != nil && r.hist.aside {
		r.hist.aside, r.hist.order = false, 2*c.door.newest()
	}
	was := r.lane()
	asked := was
	if kept := r.hist != nil && r.hist.kept != nil; kept != was.kept {
		asked = newLane(was.laneKey, 0)
		asked.kept = kept
	}
	l := c.queue.lane(asked, math.MaxInt)
	if r.hist != nil && r.hist.yields {
		r.hist.yields = false
		switch first := l.eldest(); {
		case first != nil && first.order() > r.order():
			r.hist.order = first.order() + 1
		case first == nil && l.sched.Len() > 0: // all have been begun, and take turns
			r.hist.order = 2 * c.door.number() // before all that come later
		}
	}
	if l.weight == 0 || l.sched.Len() == 0 { // its lane is not the one it left, or was that of others
		l.weigh(cmp.Or(was.weight, c.unnamed))
	}
	c.join(l, r, false)
	sc := l.scopes()
	if err := c.hopeless(r, &sc, now); err != nil {
		c.drop(r, err)
	}
}
