package governor

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/throttle"
)

// settle ends an attempt: the signal first, then the decision, then everything
// goes back, the slot last. It runs deferred, so that it also runs when the
// closure ends its goroutine; and what goes back does so deferred once more,
// for adapters and predicates are the user's, too.
func (c *core) settle(a *attempt) (next *attempt) {
	a.look()
	if a.out.kind == ran && a.out.err == nil {
		if a.outlives() {
			return nil
		}
	} else {
		a.mu.Lock()
		a.ended, a.holds = true, 0 // a failed attempt holds nothing
		a.mu.Unlock()
	}
	a.over = c.now()
	f := fate{err: a.out.err}
	var refused []throttle.Scope
	defer func() { next = c.giveBack(a, f, refused) }()
	if a.out.kind == polled {
		if refused = c.heed(a); len(refused) > 0 {
			c.judge(a, a.out.said())
		}
	} else {
		c.attemptEnded(a, a.out.err)
		if a.out.kind == ran && a.out.err != nil {
			refused = c.learn(a, a.out.err)
		}
		if a.out.kind == ran {
			c.judge(a, a.out.err)
		}
	}
	f = c.decide(a, refused)
	return nil
}

// heed learns from what a poll has ended with beside its Again: it has ended well if that is no
// refusal, also when the adapter ends the goroutine over it.
func (c *core) heed(a *attempt) (refused []throttle.Scope) {
	var err error
	defer func() { c.attemptEnded(a, err) }()
	said := a.out.said()
	if refused = c.learn(a, said); len(refused) > 0 {
		err = said
	}
	return refused
}

// outlives reports whether holds keep what the attempt has, or kept it with an
// error that the adapter must hear. The request completes now, and before ended
// is set: whoever then releases the last hold gives the slot back, and Close,
// when it sees every slot free, must find the request complete.
func (a *attempt) outlives() bool {
	a.mu.Lock()
	if a.holds == 0 && a.held == nil {
		a.ended = true
		a.mu.Unlock()
		return false
	}
	a.mu.Unlock()
	a.r.class.Store(&a.key.class) // nobody who keeps the request keeps the attempt
	a.core.finish(a.r, a.n, nil, false)
	a.mu.Lock()
	a.ended = true
	last := a.holds == 0
	a.mu.Unlock()
	if last {
		a.core.settleHeld(a)
	}
	return true
}

// attemptEnded counts and tells that a closure, or its last hold, is over.
func (c *core) attemptEnded(a *attempt, err error) {
	if a.seq == 0 {
		return
	}
	if c.retry != nil {
		c.repeated(a.r)
		c.retry.Budget.End()
	}
	took := a.over - a.began
	c.calls.add(took)
	if c.observe {
		c.overdue(a, took)
	}
	c.emitFor(a.r, event.AttemptEnded, a.n, time.Duration(took), err)
}

// look notes who ended the attempt's context while the closure ran. It does so
// before the request completes: whoever has a result may cancel what it came
// from.
func (a *attempt) look() {
	if a.seq != 0 && a.Err() != nil {
		t := a.ill()
		t.midway, t.gone = context.Cause(a), a.r.cause() != nil
	}
}

// settleHeld ends an attempt whose closure had returned well when the last hold
// ended with its error. The request is complete.
func (c *core) settleHeld(a *attempt) {
	a.look()
	var held error
	if a.held != nil {
		held = *a.held
	}
	a.out = outcome{ran, held}
	a.over = c.now()
	c.attemptEnded(a, held)
	var refused []throttle.Scope
	defer func() {
		defer c.untrack(a)
		defer c.releaseSlot(a, true)
		defer func() {
			if a.lease != nil {
				c.returnConn(a)
			}
		}()
		c.free(a, refused)
	}()
	if held != nil {
		refused = c.learn(a, held)
		c.judge(a, held)
	}
}

// judge asks the pool whether err means that the connection is broken. Until it
// has said no, and it may end the goroutine instead, the connection is.
func (c *core) judge(a *attempt, err error) {
	if err != nil && c.pool != nil {
		a.bad = true
		a.bad = c.pool.isBad(err)
	}
}

// giveBack returns what the attempt holds and carries out f. Whoever has a result
// finds the connection idle and the slot free: they go back before. What goes on
// waiting is handed back before its slot. An attempt is tracked until either is
// done, so that the actor does not end before.
//
// Under KeepConn a request that has begun and goes on keeps both, and giveBack
// returns its next attempt when that is granted.
func (c *core) giveBack(a *attempt, f fate, refused []throttle.Scope) (next *attempt) {
	var end func(error) // not nil: a lease keeps the slot
	keep, wake := false, true
	defer func() { // also when a function of the user's ends the goroutine
		a.r.class.Store(&a.key.class)
		a.back = f.back
		switch {
		case keep:
			next = c.stay(a, f)
			return
		case end != nil:
			c.complete(a, f)
			if wake {
				c.wakeUp()
			}
			end(nil)
			return
		case f.back:
			c.handBack(a.r, f)
			c.gate.word.release()
			wake = true
		default:
			idle := c.bus.Wants(event.Idle)
			if idle { // which is not told before the end of the last
				c.finishing.Add(1)
			}
			wake = c.gate.word.release() || wake
			c.complete(a, f)
			if idle {
				c.finishing.Add(-1)
			}
			wake = wake || c.bus.Wants(event.Idle) // who listens may have come meanwhile
		}
		c.untrack(a)
		if wake { // whoever waits for the result need not wait for this
			c.help(a.over)
		}
	}()
	defer func() {
		if !keep && a.lease != nil {
			c.returnConn(a)
		}
	}()
	defer func() {
		stays := keep
		keep = false // for stay is on this goroutine, which what entrust calls may end
		end = c.entrust(a, &f)
		keep = stays && f.back
	}()
	wake = c.free(a, refused)
	keep = f.back && a.keeps()
	return nil
}

// keeps reports whether a, which goes on, keeps its slot and its connection.
func (a *attempt) keeps() bool {
	if a.r.flags&keepConn == 0 || a.bad || a.ails().midway != nil || a.r.hist != nil && a.r.hist.aside {
		return false
	}
	switch a.out.kind {
	case ran, polled:
		return true
	case undone, broken: // it kept them before, or has nothing yet that is worth it
		return a.r.hist != nil && a.r.hist.begun()
	}
	return false
}

// handBack returns the request to the actor. It is the last touch: from then on
// the request is the actor's.
func (c *core) handBack(r *request, f fate) {
	if f.pause > 0 {
		r.hist.until = add(c.now(), f.pause)
	} else if r.hist != nil {
		r.hist.until = 0
	}
	if f.pause > 0 {
		r.setState(Waiting)
	} else {
		r.setState(Queued)
	}
	c.door.post(message{kind: msgBack, r: r})
}

// stay hands the request back and waits, with its slot and connection, until it
// is granted again. It returns nil when the request ended in the queue.
func (c *core) stay(a *attempt, f fate) *attempt {
	h := a.r.history()
	h.kept = a
	c.handBack(a.r, f)
	c.untrack(a)
	c.wakeUp()
	next, _ := a.r.receive(c)
	if next == nil {
		a.back = false
		if a.lease != nil {
			c.returnConn(a)
		}
		c.releaseSlot(a, true)
		c.untrack(a)
	}
	return next
}

// free ends the attempt's part in everything but its connection and its slot.
// It reports whether the actor must look again.
func (c *core) free(a *attempt, refused []throttle.Scope) (wake bool) {
	o := a.out
	if o.err != nil {
		a.over = c.now() // functions of the user's have run since
	}
	now := a.over
	opening, charged := a.opening, a.charged
	wake = c.gate.leave(now, a, o.good() && len(refused) == 0, refused)
	if a.seq != 0 || charged {
		c.relimit()
	}
	if opening { // others may have waited for this one to start, or to fail; now they find it gone
		c.retime.Store(true)
		c.freed()
	}
	if a.ails().keeper == nil { // else see entrust
		a.cancel(nil)
	}
	if a.permitted {
		a.permitted = false
		wake = true // it may have opened, or closed
		c.report(a, time.Duration(now-a.began), refused)
	}
	a.seq = 0
	return wake
}

// report tells the breaker what came of a. It is the user's, and so is the error that
// it looks at: when it panics over that it is told of a failure.
func (c *core) report(a *attempt, took time.Duration, refused []throttle.Scope) {
	defer func() {
		if recover() != nil {
			c.count.hookPanics.Add(1)
		}
	}()
	verdict, err := breaker.Failure, a.out.err
	defer func() { // also when Judge does not return
		r, ok := c.breaker.(ErrorReporter)
		if !ok || verdict != breaker.Failure {
			c.breaker.Report(a.permit, time.Now(), verdict, took)
			return
		}
		if a.out.kind == exited {
			err = ErrGoexit
		}
		r.ReportError(a.permit, time.Now(), verdict, took, err)
	}()
	verdict = a.verdict(refused)
	if own, _ := beside(err); own != nil { // of others it may say when to come again, but not here
		err = own
	}
}

// relimit has the actor ask the limits again, where lanes wait for them: they were
// told something, and may say otherwise now.
func (c *core) relimit() {
	if c.limitWait.Load() {
		c.retime.Store(true)
		c.wakeUp()
	}
}

// releaseSlot gives the slot back and wakes the actor if it waits for one.
func (c *core) releaseSlot(a *attempt, wake bool) {
	if c.gate.word.release() || wake || c.bus.Wants(event.Idle) {
		c.wakeUp()
	}
}

// returnConn gives the connection back, or has it closed when it may be broken.
func (c *core) returnConn(a *attempt) {
	ls := a.lease
	a.lease = nil
	ill := a.ails()
	switch o := a.out; {
	case ill.gone:
		ls.Discard(nil) // the caller left in mid-call: that says nothing about the pool's server
	case ill.midway != nil:
		ls.Discard(ill.midway)
	case a.bad, o.kind == panicked:
		ls.Discard(o.err)
	case o.kind == exited && !a.body:
		ls.Discard(ErrGoexit)
	case o.kind > panicked:
		unused(ls)
	default:
		ls.Release()
	}
}

// verdict is what the breaker makes of the attempt.
func (a *attempt) verdict(refused []throttle.Scope) breaker.Outcome {
	switch o := a.out; {
	case a.seq == 0, len(refused) > 0, a.body, a.ails().stalled:
		return breaker.Neutral
	case o.good():
		return breaker.Success
	case o.kind == ran && a.ails().gone:
		return breaker.Neutral
	case o.kind > panicked:
		return breaker.Neutral
	}
	if a.out.kind != ran {
		return breaker.Failure
	}
	err := a.out.err
	if own, others := beside(err); own != nil {
		err = own
	} else if others && !isAgain(err) {
		return breaker.Neutral // of a call to another vendor, perhaps
	}
	if j, ok := a.core.breaker.(Judge); ok {
		return j.Judge(err)
	}
	return breaker.Failure
}
