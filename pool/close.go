package pool

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Shutdown begins to close the pool and does not wait: from now on nothing is
// reserved, those who wait in Acquire and Conn get ErrClosed, the contexts of
// Opens and Checks end, and idle connections are closed. Lent ones are closed
// when they are given back, and Opens that succeed nevertheless have their
// connection closed. See Done. Calling it again does nothing.
func (p *Pool[S, C]) Shutdown() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.attendLocked()
	p.onFree.Store(nil)
	if p.timer != nil {
		p.timer.Stop()
	}
	p.refuseLocked(nil, ErrClosed)
	for c := p.lru.oldest; c != nil; c = p.lru.oldest {
		p.takeLocked(c)
		p.destroyLocked(c, ended)
	}
	for _, e := range p.failing {
		e.failures = failures{}
		p.forgetLocked(e)
	}
	p.failing = nil
	p.mu.Unlock()
	p.end(ErrClosed)
	// Ends when the last connection is back and the last Open has returned; it
	// is what Done is the end of.
	go func() {
		p.puddle.Close()
		p.tasks.Wait()
		close(p.done)
	}()
}

// Done is closed when a pool that is being closed has nothing left: every
// connection is closed, and every Open, Check and Close has returned. A
// reservation that was given back, or never got a connection, is not waited for.
func (p *Pool[S, C]) Done() <-chan struct{} { return p.done }

// Close is Shutdown, and waits for Done: for ever if a connection is never given
// back or a hook never returns. It may be called again, by any number of
// goroutines; each waits. To wait for a limited time call Shutdown, and wait for
// Done or a timer.
func (p *Pool[S, C]) Close() {
	p.Shutdown()
	<-p.done
}

// destroyLocked has c closed, which nobody else may own any more. It only starts
// a goroutine, of puddle's, that calls destruct.
func (p *Pool[S, C]) destroyLocked(c *conn[S, C], r reason) {
	c.reason = r
	p.n.closing++
	switch r {
	case discarded:
		p.n.discarded++
	case stolen:
		p.n.stolen++
	}
	c.res.Destroy()
}

// destruct is puddle's destructor, which ends a connection. Puddle frees its
// place when this has returned. As Open, Close does not run on puddle's
// goroutine.
func (p *Pool[S, C]) destruct(c *conn[S, C]) {
	// Puddle's Close waits for this function and comes before Wait, so this Add
	// precedes Wait.
	p.tasks.Add(1)
	closed := make(chan struct{})
	go func() {
		defer p.tasks.Done()
		// Deferred, so that a hook that ends the goroutine changes nothing.
		defer func() {
			var err error
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			p.destroyed(c, err, closed)
		}()
		if p.cfg.Close != nil {
			p.cfg.Close(c.entry.sel, c.value)
		}
	}()
	<-closed
}

// destroyed frees the place of c, or passes it to the task that waits for it.
func (p *Pool[S, C]) destroyed(c *conn[S, C], err error, closed chan<- struct{}) {
	now := p.now()
	p.mu.Lock()
	p.n.open--
	p.n.closing--
	c.entry.places--
	if c.gone == nil {
		p.used--
	}
	p.grantLocked(now) // also if only MaxPerSelector was in the way
	p.forgetLocked(c.entry)
	p.mu.Unlock()
	close(closed)
	if c.gone != nil {
		close(c.gone)
	}
	if kind := c.reason.kind(); kind != event.None {
		if err == nil {
			err = c.why
		} else if c.why != nil {
			err = errors.Join(c.why, err)
		}
		defer p.emit(kind, c.entry.sel, 0, err) // also if free ends the goroutine
	}
	p.free()
}

// armLocked sets the timer to at, unless it is set to an earlier time.
func (p *Pool[S, C]) armLocked(at time.Time) {
	switch {
	case p.closed || !p.tickAt.IsZero() && !at.Before(p.tickAt):
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(time.Until(at), p.tick)
	default:
		p.timer.Reset(time.Until(at))
	}
	p.tickAt = at
}

// tick is called by the timer: it closes idle connections that have expired,
// forgets old failures, and serves those who waited for the end of a backoff. It
// sets the timer again only if there is something to wait for.
func (p *Pool[S, C]) tick() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.tickAt = time.Time{}
	var next time.Time
	for c := p.lru.oldest; c != nil; {
		newer := c.newer
		if c.why = p.unfit(c, now); c.why != nil {
			p.takeLocked(c)
			p.destroyLocked(c, discarded)
		} else {
			next = sooner(next, p.expiry(c))
		}
		c = newer
	}
	p.sweepLocked(now) // before the grant: it may end a backoff
	p.grantLocked(now)
	for w := p.waiters.first; w != nil; w = w.next {
		if now.Before(w.entry.until) { // by the clock from before the grant: it may have ended since
			next = sooner(next, w.entry.until)
		}
	}
	if len(p.failing) > 0 { // a whole sweep is worth it only now and then
		next = sooner(next, now.Add(failureMemory))
	}
	if !next.IsZero() {
		p.armLocked(next)
	}
}
