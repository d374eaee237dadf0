package pool

import (
	"context"

	"github.com/flyball-go/flyball/event"
)

// check examines t.old, and lends it when it is well. Otherwise it has it closed,
// and reports false if a new one is to be opened in its place.
func (p *Pool[S, C]) check(t *task[S, C]) (done bool) {
	c := t.old
	ctx, cancel := context.WithTimeoutCause(t.base, p.cfg.OpenTimeout, ErrOpenTimeout)
	defer cancel()
	got := start(func() error { return p.cfg.Check(ctx, c.entry.sel, c.value) })
	var err error
	select {
	case err = <-got:
	case <-ctx.Done():
		// Whoever waits need not wait for a Check that ignores its ctx, but no
		// other connection can be opened while this one holds the place.
		p.unchecked(t, context.Cause(ctx))
		if err = <-got; err == nil && context.Cause(ctx) != ErrClosed {
			err = ErrOpenTimeout // it took longer than anybody would wait
		}
	}
	if err == nil {
		p.checked(t)
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n.reused--
	switch c.why = err; {
	case p.closed:
		err = ErrClosed
	case c.entry.backingOff():
		err = c.entry.last
	case !t.over:
		c.entry.places++ // that of the new one; its place in Pool.used it takes over
		return false
	}
	if p.closed {
		p.destroyLocked(c, ended)
	} else {
		p.destroyLocked(c, discarded)
	}
	if !t.over {
		t.over = true
		t.err = err
		close(t.done)
	}
	return true
}

// checked lends the examined connection, or if the reservation has left makes it
// an idle one.
func (p *Pool[S, C]) checked(t *task[S, C]) {
	now := p.now()
	p.mu.Lock()
	p.touchLocked(t.old, now)
	first, lent := p.deliverLocked(t, t.old)
	if !lent {
		p.n.reused--
		p.keepLocked(t.old, now)
	}
	p.mu.Unlock()
	if first {
		close(t.done)
	}
	if !lent {
		p.free()
	}
}

// unchecked decides the outcome of a task whose Check takes too long.
func (p *Pool[S, C]) unchecked(t *task[S, C], cause error) {
	if !p.settle(t) {
		return
	}
	if cause == ErrClosed {
		t.err = ErrClosed
		close(t.done)
		return
	}
	fault := &OpenError{Selector: t.entry.sel, Err: cause}
	t.err = fault
	p.mu.Lock()
	p.n.failed++
	p.mu.Unlock()
	close(t.done)
	p.emit(event.PoolFailed, t.entry.sel, 0, fault)
}
