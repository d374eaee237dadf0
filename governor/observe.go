package governor

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// What follows is for a governor that only observes; see Config.Observe. Of each
// attempt is told, by each of what would have held it back once, before it starts, and when
// it has ended.

// foresee tells what would keep r from starting now.
func (c *core) foresee(r *request, sc *scopes, now int64) {
	if cd := c.gate.cooldown(sc); cd.until > now {
		if err := c.tooLong(r, cd, now); err != nil {
			c.wouldRefuse(r, err)
		} else {
			c.wouldWait(r, cd.scope, time.Duration(cd.until-now), cd.signal.Source)
		}
		return
	}
	if st, until := c.gate.look(now, sc); st != nil {
		d := time.Duration(0) // not known
		if until != forever {
			d = time.Duration(until - now)
		}
		c.wouldWait(r, st.key, d, "growth after a cooldown")
		return
	}
	per, wait := c.gate.limited(now, sc, r.price(), false)
	switch {
	case wait == 0:
	case wait == limiter.Never:
		c.wouldRefuse(r, ErrNeverAdmissible)
	default:
		if err := c.tooLateIn(r, now, wait); err != nil {
			c.wouldRefuse(r, err)
		} else {
			c.wouldWait(r, sc[per], wait, "limit")
		}
	}
}

// foreseeBroken tells that a breaker would have stopped r.
func (c *core) foreseeBroken(r *request, err error) {
	if c.breakerWait {
		c.wouldWait(r, throttle.Scope{}, breakerDelay(err), "breaker")
	} else {
		c.wouldRefuse(r, err)
	}
}

// letBe is decide for an attempt that failed: the request is not repeated, and
// what would have become of it is told.
func (c *core) letBe(a *attempt, refused []throttle.Scope, now int64) fate {
	r, h := a.r, a.r.hist
	switch {
	case a.final, r.flags&noRetry != 0, r.cause() != nil:
	case len(refused) > 0 && h.limited >= c.limitedAttempts:
		c.wouldRefuse(r, c.gaveUp(r, nil))
	case len(refused) > 0:
		sc := a.scopes()
		cd := c.gate.cooldown(&sc)
		if until := add(now, a.ails().pause); cd.until < until {
			cd = cooldown{scope: throttle.Scope{Level: throttle.Request}, until: until}
		}
		if err := c.tooLong(r, cd, now); err != nil {
			c.wouldRefuse(r, err)
		} else {
			c.wouldWait(r, cd.scope, time.Duration(cd.until-now), cd.signal.Source)
		}
	case c.retry != nil:
		wait, again, exhausted := c.next(backoff.Step{Attempt: h.failed, Elapsed: time.Duration(now - h.first), Err: h.err})
		budget := c.retry.Budget.State()
		switch {
		case again && budget.Repetitions < budget.Most:
			c.wouldWait(r, throttle.Scope{Level: throttle.Request}, wait, "retry")
		case again, exhausted:
			c.wouldRefuse(r, c.gaveUp(r, nil))
		}
	}
	return fate{err: c.returned(h.err)}
}

// overdue tells that a would have been cut off.
func (c *core) overdue(a *attempt, took int64) {
	if c.attemptTimeout > 0 && took > int64(c.attemptTimeout) {
		c.wouldRefuse(a.r, context.DeadlineExceeded)
	}
}

func (c *core) wouldWait(r *request, sc throttle.Scope, d time.Duration, source string) {
	c.count.wouldWait.Add(1)
	if c.bus.Wants(event.WouldWait) {
		c.emit(event.Event{Kind: event.WouldWait, Request: r.seq, Scope: sc.String(), Delay: d, Source: source})
	}
}

func (c *core) wouldRefuse(r *request, err error) {
	c.count.wouldRefuse.Add(1)
	c.emit(event.Event{Kind: event.WouldRefuse, Request: r.seq, Err: err})
}
