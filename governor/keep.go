package governor

import (
	"context"
	"sync/atomic"
	"time"
)

// Keeper is an error of a closure of Held with which something comes that is read
// later, such as the body of an answer that is a failure. So the Lease of a request
// that ends with it can be kept as that of one that went well. It is the closure's error
// itself that is asked, not what that wraps.
type Keeper interface {
	error

	// Settled is told what becomes of the request, on the goroutine of the attempt and
	// while its slot is taken: it must be quick. With again the request goes on, and is
	// to hold nothing while it waits: what came with the error is to be let go, though
	// the request may still end with it, when it cannot wait as long as it thought.
	// Otherwise the request is over, and Settled reports whether slot and context are
	// kept until Lease.Release. Limits and breaker have heard of the error by then; that
	// of Release nobody hears.
	Settled(again bool) (keep bool)
}

// note sees to it that what an attempt of l's call has is kept: until Release where it
// went well, and otherwise as a Keeper says.
func (l *Lease) note(ctx context.Context, err error) {
	if err == nil {
		l.hold(Hold(ctx))
		return
	}
	if k, ok := err.(Keeper); ok {
		if a, _ := ctx.Value(token{}).(*attempt); a != nil {
			t := a.ill()
			t.keeper, t.lease = k, l
		}
	}
}

// entrust tells a's Keeper, if there is one, what becomes of the request, which it ends
// where waiting would be of no use. When the lease keeps slot and context, end is to be
// called once the request is complete: that, or Release if it comes later, gives them
// back.
func (c *core) entrust(a *attempt, f *fate) (end func(error)) {
	if a.trouble == nil || a.trouble.keeper == nil {
		return nil
	}
	return c.entrustTo(a, f)
}

// entrustTo is entrust where there is a Keeper: most attempts have none, and this needs
// more of a worker's stack than the first that it has.
func (c *core) entrustTo(a *attempt, f *fate) (end func(error)) {
	t := a.ails()
	defer func() {
		if end == nil { // free has left it to this
			a.cancel(nil)
		}
	}()
	if f.back {
		if err := c.futile(a, f.pause); err != nil {
			*f = fate{err: c.because(a.r, err), own: true, dropped: true}
		}
	}
	if !c.says(false, func() bool { return t.keeper.Settled(f.back) }) || f.back {
		return nil
	}
	var ends atomic.Int32
	end = func(error) {
		if ends.Add(1) == 2 {
			a.cancel(nil)
			c.releaseSlot(a, true)
			c.untrack(a)
		}
	}
	t.lease.hold(end)
	return end
}

// futile is why a request that is to be attempted again after a pause of its own need
// not wait: what the actor would say of it as soon as it has it.
func (c *core) futile(a *attempt, pause time.Duration) error {
	r, now := a.r, c.now()
	if pause <= 0 {
		sc := a.scopes()
		return c.hopeless(r, &sc, now)
	}
	h := r.history()
	h.until = add(now, pause)
	switch {
	case c.maxWait >= 0 && pause > c.maxWait && !c.observe:
		return c.pausedTooLong(h)
	case r.lateAt(h.until):
		return &LateError{By: c.gate.shown(r.startBy()), Could: c.gate.shown(h.until), Err: h.err, heard: h.heard}
	}
	sc := a.scopes()
	if err := c.tooLong(r, c.gate.cooldown(&sc), h.until); err != nil && !c.observe {
		return err
	}
	if c.breaker != nil && !c.breakerWait && !c.observe { // see tripped
		return c.breaker.Ready(c.gate.time(now))
	}
	return nil
}
