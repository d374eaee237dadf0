package governor

// unhindered reports whether what comes from the inbox, first and those behind it, may start
// without a lane, one request after the other: nothing waits in one, they all ask for the
// same, which has them in this order, and there is a slot for each. msgs is what came with
// them: of a Pause, or of what comes back to its lane, each of them is to know.
func (c *core) unhindered(first *request, msgs []message) bool {
	return first != nil && len(msgs) == 0 && c.queue.Len() == 0 && c.gate.word.ample(c.slots) && alike(first)
}

// alike reports whether r and those behind it ask for the same lane.
func alike(r *request) bool {
	l := r.lane()
	for r = r.next; r != nil; r = r.next {
		if other := r.lane(); other != l && other.laneKey != l.laneKey {
			return false
		}
	}
	return true
}

// direct starts r, which has just come from the inbox, if what pump would ask has nothing
// against it, and reports whether it did; else it has left nothing behind. To be put into
// a lane, found there and taken out again is a third of what a call through the actor
// costs. As of calls on the fast path, the scheduler does not know of it.
func (c *core) direct(r *request, now int64) bool {
	if r.flags&dated != 0 && r.lateAt(now) || r.cause() != nil {
		return false
	}
	if c.breaker != nil && c.breaker.Ready(c.gate.time(now)) != nil {
		return false
	}
	l := r.lane()
	sc := l.scopes()
	if !c.gate.passes(r.price()) {
		if _, wait := c.gate.limited(now, &sc, r.price(), false); wait != 0 {
			return false
		}
	}
	var ls lease
	if c.pool != nil {
		var ok bool
		if ls, ok = c.pool.lend(l.sel.value); !ok {
			return false
		}
	}
	a := c.attempt(r, l, ls)
	if !c.gate.enter(now, &sc, a, false) { // a signal came in between
		unused(ls)
		return false
	}
	c.gate.word.grant(c.slots)
	c.goes(r, true)
	c.watchStuck(now)
	c.start(a, now)
	return true
}
