package governor

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// fate is what becomes of a request after an attempt.
type fate struct {
	back  bool          // it goes on waiting
	pause time.Duration // at least so long, by itself
	err   error         // otherwise: its result
	own   bool          // err is the governor's
}

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
	f := fate{err: a.out.err}
	var refused []throttle.Scope
	defer func() { next = c.giveBack(a, f, refused) }()
	if a.out.kind == ran && a.out.err != nil {
		refused = c.learn(a, a.out.err)
	}
	a.bad = a.bad || a.out.kind == ran && a.out.err != nil && c.pool != nil && c.pool.isBad(a.out.err)
	f = c.decide(a, refused)
	return nil
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

// look notes who ended the attempt's context while the closure ran. It does so
// before the request completes: whoever has a result may cancel what it came
// from.
func (a *attempt) look() {
	if a.seq != 0 && a.Context.Err() != nil {
		a.midway = context.Cause(a.Context)
		a.gone = a.r.cause() != nil
	}
}

// settleHeld ends an attempt whose closure had returned well when the last hold
// ended with a.held. The request is complete.
func (c *core) settleHeld(a *attempt) {
	a.look()
	a.out = outcome{ran, a.held}
	var refused []throttle.Scope
	defer func() {
		defer c.untrack(a)
		defer c.releaseSlot(a, true)
		c.free(a, refused)
		if a.lease != nil {
			c.returnConn(a)
		}
	}()
	if a.held != nil {
		refused = c.learn(a, a.held)
		a.bad = c.pool != nil && c.pool.isBad(a.held)
	}
}

// learn asks the adapter about err and records every signal in the gate: the
// receipt. It returns the scopes that were paused.
func (c *core) learn(a *attempt, err error) (refused []throttle.Scope) {
	if c.vendor == nil {
		return nil
	}
	at, now := time.Now(), c.now()
	sigs, bad := readSignals(c.vendor, err, at)
	if bad != nil {
		c.count.badVendor.Add(1)
		c.emit(event.Event{Kind: event.BadVendor, Request: a.r.seq, Attempt: a.n, Err: bad})
	}
	for _, sig := range sigs {
		sig.Scope = own(sig.Scope, &a.key.laneKey)
		sc := c.received(sig, at, now, a, err)
		refused = append(refused, sc)
		if sig.NoRetry {
			a.final = true
		}
	}
	if len(sigs) > 0 {
		c.count.limited.Add(1)
		c.wakeUp()
	}
	return refused
}

// received puts one signal, whose scope is resolved, into the gate. a is nil
// for signals from outside.
func (c *core) received(sig throttle.Signal, at time.Time, now int64, a *attempt, err error) throttle.Scope {
	clamped := c.clamp(&sig, at)
	began, req, n := c.gate.seq.Load(), uint64(0), 0
	if a != nil {
		began, req, n = a.seq, a.r.seq, a.n
	}
	ch := change{scope: sig.Scope}
	if sig.Scope.Level == throttle.Request {
		d := sig.Delay
		if d == throttle.Unknown {
			d = c.gate.guessDelay(backoff.Step{Attempt: a.r.history().limited + 1})
		}
		a.pause = max(a.pause, d)
		ch.until = add(now, d)
	} else {
		ch = c.gate.receive(now, began, sig.Scope, sig)
	}
	c.emit(event.Event{Kind: event.Learned, Request: req, Attempt: n, Scope: sig.Scope.String(), Delay: sig.Delay, Source: sig.Source, Err: err})
	if clamped || ch.scope != sig.Scope {
		c.count.clamped.Add(1)
		c.emit(event.Event{Kind: event.Clamped, Scope: ch.scope.String(), Delay: sig.Delay, Source: sig.Source})
	}
	if ch.kind != event.None {
		if ch.fresh {
			c.count.cooldowns.Add(1)
		}
		c.emit(event.Event{Kind: ch.kind, Scope: ch.scope.String(), Until: c.gate.time(ch.until), Delay: time.Duration(ch.until - now), Source: sig.Source})
	}
	return ch.scope
}

// clamp turns what a vendor said into a delay that can be used: Unknown, or
// MinCooldown to MaxCooldown.
func (c *core) clamp(sig *throttle.Signal, at time.Time) (clamped bool) {
	if !sig.Until.IsZero() {
		sig.Delay = max(0, sig.Until.Sub(at))
	}
	switch d := sig.Delay; {
	case d == throttle.Unknown:
	case d < 0:
		sig.Delay, clamped = throttle.Unknown, true
	case d < c.minCooldown:
		sig.Delay = c.minCooldown
	case d > c.maxCooldown:
		sig.Delay, clamped = c.maxCooldown, true
	}
	return clamped
}

// decide says what becomes of the request.
func (c *core) decide(a *attempt, refused []throttle.Scope) fate {
	r, err := a.r, a.out.err
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
			return fate{back: true}
		}
		return fate{err: c.because(r, err), own: true}
	case unopened:
		h := r.history()
		h.opens++
		if h.opens >= c.openAttempts || retry.IsPermanent(err) {
			return fate{err: c.because(r, err), own: true}
		}
		return fate{back: true}
	}
	if err == nil {
		if r.hist != nil && r.hist.sent {
			c.emit(event.Event{Kind: event.Recovered, Request: r.seq, Attempt: a.n})
		}
		return fate{}
	}
	h := r.history()
	now := c.now()
	if h.attempts++; h.attempts == 1 {
		h.first = a.began
	}
	h.running += time.Duration(now - a.began)
	h.err = err
	limited := len(refused) > 0
	if !limited {
		h.sent = true
		h.failed++
	} else if !a.probe {
		h.limited++
	}
	switch {
	case a.final, r.flags&noRetry != 0:
		return fate{err: err}
	case r.cause() != nil:
		return fate{err: err} // the closure has returned: its word is the last
	case limited && h.limited >= c.limitedAttempts:
		return c.giveUp(a)
	case limited:
		c.emit(event.Event{Kind: event.Requeued, Request: r.seq, Attempt: a.n, Scope: refused[0].String()})
		return fate{back: true, pause: a.pause}
	case c.retry == nil:
		return fate{err: err}
	}
	return c.again(a, now)
}

// again asks the retry policy.
func (c *core) again(a *attempt, now int64) fate {
	h := a.r.hist
	wait, again, exhausted := next(c.retry, backoff.Step{
		Attempt: h.failed, Prev: h.prev, Elapsed: time.Duration(now - h.first), Err: h.err,
	})
	switch {
	case again:
		h.prev = wait
		c.count.retried.Add(1)
		c.emit(event.Event{Kind: event.Retry, Request: a.r.seq, Attempt: a.n, Delay: wait, Err: h.err})
		return fate{back: true, pause: wait}
	case exhausted:
		return c.giveUp(a)
	}
	c.emit(event.Event{Kind: event.Ignored, Request: a.r.seq, Attempt: a.n, Err: h.err})
	return fate{err: h.err}
}

// next guards against predicates and schedules that panic: no retry.
func next(cfg *retry.Config, step backoff.Step) (wait time.Duration, again, exhausted bool) {
	defer func() {
		if recover() != nil {
			wait, again, exhausted = 0, false, false
		}
	}()
	wait, again, why := cfg.Next(step)
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
		Reason: reason, Err: h.err, sent: h.sent,
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
		e.Err, e.sent = h.err, h.sent
	}
	return e
}

// giveBack returns what the attempt holds and carries out f. Whoever has a result
// finds the connection idle and the slot free: they go back before. What goes on
// waiting is handed back before its slot. An attempt is tracked until either is
// done, so that the actor does not end before.
//
// Under KeepConn a request that goes on keeps both, and giveBack returns its
// next attempt when that is granted.
func (c *core) giveBack(a *attempt, f fate, refused []throttle.Scope) (next *attempt) {
	keep := f.back && a.r.flags&keepConn != 0 && !a.bad && a.midway == nil && (a.out.kind == ran || a.out.kind == undone)
	wake := true
	defer func() { // also when a predicate of the user's ends the goroutine
		switch {
		case keep:
			next = c.stay(a, f)
			return
		case f.back:
			c.handBack(a.r, f)
			c.releaseSlot(a, true)
		default:
			c.releaseSlot(a, wake)
			n := a.n
			if a.out.kind > panicked {
				n-- // this one did not start
			}
			c.finish(a.r, n, f.err, f.own)
		}
		c.untrack(a)
	}()
	wake = c.free(a, refused)
	if !keep && a.lease != nil {
		c.returnConn(a)
	}
	return nil
}

// handBack returns the request to the actor. It is the last touch: from then on
// the request is the actor's.
func (c *core) handBack(r *request, f fate) {
	if f.pause > 0 {
		r.hist.until = add(c.now(), f.pause)
	} else if r.hist != nil {
		r.hist.until = 0
	}
	r.mu.Lock()
	if r.state != Done {
		r.att, r.state = nil, Queued
		if f.pause > 0 {
			r.state = Waiting
		}
	}
	r.mu.Unlock()
	c.door.post(message{kind: msgBack, r: r})
}

// stay hands the request back and waits, with its slot and connection, until it
// is granted again. It returns nil when the request ended in the queue.
func (c *core) stay(a *attempt, f fate) *attempt {
	h := a.r.history()
	h.kept = a
	if h.grant == nil {
		h.grant = make(chan *attempt, 1)
	}
	c.handBack(a.r, f)
	c.untrack(a)
	c.wakeUp()
	next := <-h.grant
	if next == nil {
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
	now := c.now()
	o := a.out
	if a.seq != 0 {
		c.calls.add(now - a.began)
		if c.bus.Wants(event.AttemptEnded) {
			c.emit(event.Event{Kind: event.AttemptEnded, Request: a.r.seq, Attempt: a.n, Delay: time.Duration(now - a.began), Err: o.err})
		}
	}
	if a.opening { // others may have waited for this one to start, or to fail
		c.retime.Store(true)
		c.freed()
	}
	wake = c.gate.leave(now, &a.scopes, a, o.kind == ran && o.err == nil, refused)
	if a.permitted {
		a.permitted = false
		c.breaker.Report(a.permit, time.Now(), a.verdict(refused), time.Duration(now-a.began))
		wake = true // it may have opened, or closed
	}
	if a.timeout != nil {
		a.timeout()
	}
	a.cancel(nil)
	a.seq = 0
	return wake
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
	switch o := a.out; {
	case a.midway != nil:
		ls.Discard(a.midway)
	case a.bad, o.kind == panicked:
		ls.Discard(o.err)
	case o.kind == exited && !a.body:
		ls.Discard(ErrGoexit)
	default:
		ls.Release()
	}
}

// verdict is what the breaker makes of the attempt.
func (a *attempt) verdict(refused []throttle.Scope) breaker.Outcome {
	switch o := a.out; {
	case a.seq == 0, len(refused) > 0, a.body:
		return breaker.Neutral
	case o.kind == ran && o.err == nil:
		return breaker.Success
	case o.kind == ran && a.gone:
		return breaker.Neutral
	case o.kind > panicked:
		return breaker.Neutral
	}
	return breaker.Failure
}
