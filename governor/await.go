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
	r.mu.Lock()
	v, err := r.val, r.failure()
	r.mu.Unlock()
	return v, err
}

// Done returns a channel that is closed when the request is complete.
func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.marks&chimed != 0 {
		r.marks &^= chimed
		r.done <- struct{}{} // has room: who listens asks for this channel, too
		r.done = nil
	}
	if r.done == nil {
		r.done = make(chan struct{})
		if r.state == Done {
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
	r.mu.Lock()
	state := r.state
	r.mu.Unlock()
	if state == Done {
		return nil
	}
	c := r.core()
	if a := attemptOf(ctx, c); a != nil && (a.r == r || state != Running && r.class.Load().att == nil && (c.spent(r.sel()) || c.runsInto(ctx, r.lane(), int(r.cost)))) {
		return &executed{ErrReentrant} // the request goes on
	}
	// A closure that is soon over mostly is so when whatever else is ready has had its
	// turn, which costs a third of what it does to be put to sleep and woken.
	runtime.Gosched()
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

// listen waits until the request is done or over is closed, if nobody else listens or
// has asked for Done; who comes later ends it. The first, and mostly the only, one who
// waits needs no channel of the request's own: a chime has one place and is used again
// and again. What is sent there is sent once, by who takes the mark chimed away, and it
// is taken out before the chime is given back. It reports whether the request is done.
func (r *request) listen(c *core, over <-chan struct{}) (done bool) {
	r.mu.Lock()
	if done = r.state == Done; done || r.done != nil {
		r.mu.Unlock()
		return done
	}
	chime := c.chime()
	r.done = chime
	r.marks |= chimed
	r.mu.Unlock()
	select {
	case <-chime:
	case <-over:
		r.mu.Lock()
		mine := r.marks&chimed != 0 // else it has been taken away: only who set it can have
		if mine {
			r.marks &^= chimed
			r.done = nil
		}
		r.mu.Unlock()
		if !mine {
			<-chime
		}
	}
	c.chimes.Put(chime)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == Done
}

// resident reports whether somebody waits for r to be granted. Else a worker is to run
// it.
func (r *request) resident() bool {
	return r.task.awaited() || r.hist != nil && r.hist.kept != nil
}
