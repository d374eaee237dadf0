package governor

import (
	"context"
	"runtime"
)

// Result waits until the request is complete and returns its result. When ctx
// ends first it returns the cause, and the request goes on: leaving cancels
// nothing. A result that is there is returned whatever ctx's state. Called
// again it returns the same.
//
// Inside a closure of the same governor, for a request that has no slot yet
// while none is spare, or waits for a limit on concurrency of which the closure has
// permits, it returns an error that matches ErrReentrant instead of waiting for itself;
// the request goes on.
func (r *Request[R]) Result(ctx context.Context) (R, error) {
	if err := r.wait(ctx); err != nil {
		var none R
		return none, err
	}
	return r.result()
}

// Done returns a channel that is closed when the request is complete.
func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.has(chimed) {
		r.status.unmark(chimed)
		r.done <- struct{}{} // has room: who listens asks for this channel, too
		r.done = nil
	}
	if r.done == nil {
		r.done = make(chan struct{})
		if r.status.state() == Done {
			close(r.done)
		}
	}
	return r.done
}

// wait blocks until the request is done or ctx is.
func (r *request) wait(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	state := r.status.state()
	if state == Done {
		return nil
	}
	c := r.core()
	if a := attemptOf(ctx, c); a != nil && (a.r == r || c.waitsIn(ctx, r)) {
		return &executed{ErrReentrant} // the request goes on
	}
	// A closure that is soon over mostly is so when whatever else is ready has had its
	// turn, which costs a third of what it does to be put to sleep and woken.
	runtime.Gosched()
	if r.status.state() == Done {
		return nil
	}
	if r.listen(c, ctx.Done()) { // also if ctx has ended: the result wins
		return nil
	}
	done := r.Done()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // both: the result wins
		return nil
	default:
		return context.Cause(ctx)
	}
}

// waitsIn reports whether r waits, and what it waits for may be what the closure has that ctx
// is of.
func (c *core) waitsIn(ctx context.Context, r *request) (waits bool) {
	granted := func() bool { return r.status.state() >= Running || r.class.Load().att != nil }
	if granted() || !c.spent(r.sel()) && !c.runsInto(ctx, r.lane(), r.price()) {
		return false
	}
	c.ask(func() { waits = !granted() }) // it may have got the last slot just before that was looked at
	return waits
}

// listen waits until the request is done or over is closed, if nobody else listens or
// has asked for Done; who comes later ends it. The first, and mostly the only, one who
// waits needs no channel of the request's own: a chime has one place and is used again
// and again. What is sent there is sent once, by who takes the mark chimed away, and it
// is taken out before the chime is given back. It reports whether the request is done.
func (r *request) listen(c *core, over <-chan struct{}) (done bool) {
	r.mu.Lock()
	if done = r.status.state() == Done; done || r.done != nil {
		r.mu.Unlock()
		return done
	}
	chime := c.chime()
	r.done = chime
	r.status.mark(chimed)
	r.mu.Unlock()
	select {
	case <-chime:
	case <-over:
		r.mu.Lock()
		mine := r.status.has(chimed) // else it has been taken away: only who set it can have
		if mine {
			r.status.unmark(chimed)
			r.done = nil
		}
		r.mu.Unlock()
		if !mine {
			<-chime
		}
	}
	c.chimes.Put(chime)
	return r.status.state() == Done
}

// resident reports whether somebody waits for r to be granted. Else a worker is to run
// it.
func (r *request) resident() bool {
	return r.task.awaited() || r.hist != nil && r.hist.kept != nil
}
