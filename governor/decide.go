package governor

import (
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// maxProbes is how often a request may be refused as the probe before it lets the
// others of its lane try, each time: the vendor may mean it alone. If they get through, it is
// no probe any more, and its refusals count.
const maxProbes = 5

// fate is what becomes of a request after an attempt.
type fate struct {
	back  bool          // it goes on waiting
	pause time.Duration // at least so long, by itself
	err   error         // otherwise: its result
	own   bool          // err is the governor's

	dropped bool // as if the actor had dropped it from the queue
}

// decide says what becomes of the request.
func (c *core) decide(a *attempt, refused []throttle.Scope) fate {
	r, err := a.r, a.out.err
	if r.hist != nil {
		r.hist.signal = nil
	}
	switch a.out.kind {
	case exited:
		if a.body {
			return fate{}
		}
		c.count.panics.Add(1)
		return fate{err: ErrGoexit, own: true}
	case panicked:
		c.count.panics.Add(1)
		return fate{err: err, own: true}
	case undone:
		return fate{back: true}
	case cancelled:
		return fate{err: c.cancelError(r), own: true}
	case late:
		return fate{err: c.because(r, c.lateError(r)), own: true}
	case broken:
		if c.breakerWait {
			r.history()
			return fate{back: true, pause: breakerDelay(err)}
		}
		return fate{err: c.because(r, err), own: true}
	case unopened:
		h := r.history()
		h.opens++
		if h.opens >= c.openAttempts || c.permanent(err) {
			return fate{err: c.because(r, err), own: true}
		}
		return fate{back: true}
	case polled:
		return c.poll(a, refused)
	}
	if err == nil {
		if r.hist != nil && r.hist.failed > 0 {
			c.emit(event.Event{Kind: event.Recovered, Request: r.seq, Attempt: a.n})
		}
		return fate{}
	}
	h := r.history()
	now := c.now()
	h.last = a.n
	if h.attempts++; h.attempts == 1 {
		h.first = a.began
	}
	h.running += time.Duration(now - a.began)
	h.err = err
	limited := len(refused) > 0
	if h.heard = a.read; !limited {
		h.guesses = 0
	}
	if !limited {
		h.sent = true
		h.failed++
	} else if !a.probe {
		h.limited++
	} else {
		h.probes++
		h.aside = h.probes >= maxProbes
	}
	switch {
	case c.observe:
		return c.letBe(a, refused, now)
	case a.final, r.flags&noRetry != 0:
		return fate{err: c.returned(err)}
	case r.cause() != nil:
		return fate{err: c.returned(err)} // the closure has returned: its word is the last
	case limited && h.limited >= c.limitedAttempts:
		return c.giveUp(a)
	case limited:
		return c.requeue(a, refused[0], now)
	case c.retry == nil:
		return fate{err: c.returned(err)}
	}
	return c.again(a, now)
}

// requeue sends a request back that the vendor refused. It is not part of decide, which every
// attempt calls: the scopes take a worker's stack beyond its first size.
func (c *core) requeue(a *attempt, refused throttle.Scope, now int64) fate {
	ill, sc := a.ails(), a.scopes()
	until := max(add(now, ill.pause), c.gate.cooldown(&sc).until)
	c.emit(event.Event{Kind: event.Requeued, Request: a.r.seq, Attempt: a.n, Scope: refused.String(), Until: c.gate.shown(until)})
	a.r.hist.signal = ill.signal
	return fate{back: true, pause: ill.pause}
}

// again asks the retry policy.
func (c *core) again(a *attempt, now int64) fate {
	h := a.r.hist
	wait, again, exhausted := c.next(backoff.Step{
		Attempt: h.failed, Prev: h.prev, Elapsed: time.Duration(now - h.first), Err: h.err,
	})
	switch {
	case again && !c.retry.Budget.Take():
		c.emit(event.Event{Kind: event.BudgetSpent, Request: a.r.seq, Attempt: a.n + 1, Err: h.err})
		return c.giveUp(a)
	case again:
		h.repeats.Store(true)
		h.prev = wait
		if hint, _ := retry.RetryAfter(h.err); hint > wait {
			c.count.clamped.Add(1)
			c.emit(event.Event{Kind: event.Clamped, Request: a.r.seq, Attempt: a.n, Delay: wait, Err: h.err})
		}
		c.count.retried.Add(1)
		c.emit(event.Event{Kind: event.Retry, Request: a.r.seq, Attempt: a.n, Delay: wait, Err: h.err})
		return fate{back: true, pause: wait}
	case exhausted:
		return c.giveUp(a)
	}
	c.emit(event.Event{Kind: event.Ignored, Request: a.r.seq, Attempt: a.n, Err: h.err})
	return fate{err: c.returned(h.err)}
}

// repeated gives a repetition of r back to the budget, if it has one: when the
// attempt has ended, or r without it.
func (c *core) repeated(r *request) {
	if h := r.hist; h != nil && h.repeats.CompareAndSwap(true, false) {
		c.retry.Budget.GiveBack()
	}
}

// next guards against predicates and schedules that panic: no retry.
func (c *core) next(step backoff.Step) (wait time.Duration, again, exhausted bool) {
	defer func() {
		if recover() != nil {
			c.count.hookPanics.Add(1)
			wait, again, exhausted = 0, false, false
		}
	}()
	wait, again, why := c.retry.Next(step)
	return wait, again, why > retry.Ignored
}

func (c *core) giveUp(a *attempt) fate {
	err := c.gaveUp(a.r, nil)
	c.count.gaveUp.Add(1)
	c.emit(event.Event{Kind: event.GaveUp, Request: a.r.seq, Attempt: a.n, Err: err})
	return fate{err: err, own: true}
}

// gaveUp is the error of a request that was attempted and is ended by reason.
func (c *core) gaveUp(r *request, reason error) error {
	h := r.hist
	return &GaveUpError{
		Attempts: h.attempts, Waited: max(0, time.Duration(c.now()-h.submitted)-h.running),
		Reason: reason, Err: h.err, sent: h.sent, heard: h.heard,
	}
}

// stopError is the error of a waiting request that is ended by reason.
func (c *core) stopError(r *request, reason error) error {
	if r.hist == nil || r.hist.err == nil {
		return reason
	}
	return c.gaveUp(r, reason)
}

// because is reason as the error of a request that it ends. A reason that says
// that the call was never made is not all there is to say when it was.
func (c *core) because(r *request, reason error) error {
	if r.hist != nil && r.hist.sent && IsRefused(reason) {
		return c.gaveUp(r, reason)
	}
	return reason
}

func (c *core) cancelError(r *request) error {
	e := &CanceledError{Cause: r.cause(), ctx: r.ctx.Err()}
	if e.Cause == nil { // only the attempt's context ended: the governor closes
		return c.stopError(r, ErrClosed)
	}
	if h := r.hist; h != nil {
		e.Err, e.sent, e.heard = h.err, h.sent, h.heard
	}
	return e
}
