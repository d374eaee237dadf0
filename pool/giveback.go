package pool

import "time"

// putBack takes back a connection in good order. When it was not used, it keeps
// its place in the order of use, and its idle time goes on.
func (p *Pool[S, C]) putBack(c *conn[S, C], used bool) {
	now := p.now()
	p.mu.Lock()
	if used {
		c.uses++
		p.touchLocked(c, now)
		if c.uses == 1 {
			c.entry.duds = 0
		}
	} else {
		p.n.reused--
	}
	p.keepLocked(c, now)
	p.reopenLocked()
	p.mu.Unlock()
	p.free()
}

// keepLocked makes c idle and serves those who wait, or closes c when it is
// unfit or the pool is closed.
func (p *Pool[S, C]) keepLocked(c *conn[S, C], now time.Time) {
	if p.closed {
		p.destroyLocked(c, ended)
	} else if c.why = p.unfit(c, now); c.why != nil {
		p.destroyLocked(c, discarded)
	} else {
		p.idleLocked(c)
		p.grantLocked(now)
	}
}

// unreserve gives back a reservation of a new connection: its place, or that of
// old, which would have been closed for it.
func (p *Pool[S, C]) unreserve(e *entry[S, C], old *conn[S, C]) {
	now := p.now()
	p.mu.Lock()
	e.places--
	if old == nil {
		p.used--
		p.grantLocked(now)
	} else {
		p.keepLocked(old, now)
	}
	p.forgetLocked(e)
	p.mu.Unlock()
	p.free()
}

// discard takes back a connection that is not to be used again.
func (p *Pool[S, C]) discard(c *conn[S, C], cause error) {
	// Deferred, since IsBad runs here and may even end the goroutine.
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.why = cause
		p.destroyLocked(c, discarded)
	}()
	if c.uses == 0 && p.IsBad(cause) {
		// Before the place is free, lest somebody opens in between.
		p.backOff(c.entry, c.gen, &OpenError{Selector: c.entry.sel, Err: cause}, dud)
	}
}

// free tells the OnFree functions.
func (p *Pool[S, C]) free() {
	if fns := p.onFree.Load(); fns != nil {
		p.tell(*fns)
	}
}

// tell calls fns, all of them whatever one does. A panic is dropped: it is not the
// giver's fault, who would otherwise get it. Goexit cannot be, and goes on when the rest
// have been called.
func (p *Pool[S, C]) tell(fns []func()) {
	told := 0
	defer func() {
		if told < len(fns) {
			_ = recover()
			p.panics.Add(1)
			p.tell(fns[told+1:])
		}
	}()
	for ; told < len(fns); told++ {
		fns[told]()
	}
}
