package pool

import (
	"context"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/flyball-go/flyball/event"
)

// opened hands a new connection to the reservation, or if that has left makes it
// an idle one.
func (p *Pool[S, C]) opened(t *task[S, C], res *puddle.Resource[*conn[S, C]], took time.Duration) {
	now := time.Now()
	c, e := res.Value(), t.entry
	c.res, c.opened = res, now
	p.mu.Lock()
	p.n.opening--
	p.n.open++
	p.n.created++
	freed := !e.until.IsZero()
	if t.gen == e.gen || e.duds == 0 {
		e.opened()
	}
	c.gen = e.gen
	p.touchLocked(c, now)
	first, lent := p.deliverLocked(t, c)
	if !lent {
		p.keepLocked(c, now)
	} else if freed {
		p.grantLocked(now) // the end of a backoff
	}
	p.mu.Unlock()
	if first {
		close(t.done)
	}
	defer p.emit(event.PoolCreated, e.sel, took, nil) // also if free ends the goroutine
	if freed || !lent {
		p.free()
	}
}

// deliverLocked decides the task's outcome, if it is not decided, and lends c to
// the reservation if that still waits and the pool is not closed.
func (p *Pool[S, C]) deliverLocked(t *task[S, C], c *conn[S, C]) (first, lent bool) {
	if t.over {
		return false, false
	}
	t.over = true
	if p.closed {
		t.err = ErrClosed
		return true, false
	}
	t.r.conn = c // in stateBusy it is ours; without the swap nobody looks
	return true, t.r.state.CompareAndSwap(stateBusy, stateLent)
}

// failed decides the task's outcome, if it is not decided, and when Open has
// ended returns the place.
func (p *Pool[S, C]) failed(t *task[S, C], err error, ended bool) {
	e := t.entry
	first := p.settle(t)
	var fault *OpenError
	if first {
		if cause := context.Cause(t.ctx); cause != nil {
			err = cause // what Open made of it is of less interest
		}
		// Not decided by err, which may be that of another pool, used by Open. If
		// err is because ours is closed, ending has ended before.
		if p.ending.Err() != nil {
			t.err = ErrClosed
		} else {
			fault = &OpenError{Selector: e.sel, Err: err}
			t.err = fault
			p.backOff(e, t.gen, fault, notOpened)
		}
	}
	if ended {
		now := p.now()
		p.mu.Lock()
		p.n.opening--
		p.used--
		e.places--
		p.grantLocked(now)
		p.forgetLocked(e)
		p.mu.Unlock()
	}
	if first {
		close(t.done)
	}
	if fault != nil {
		defer p.emit(event.PoolFailed, e.sel, 0, fault) // also if free ends the goroutine
	}
	if ended {
		p.free()
	}
}

// settle reports whether the caller is the first to decide the task's outcome.
func (p *Pool[S, C]) settle(t *task[S, C]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !t.over
	t.over = true
	return first
}
