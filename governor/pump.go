package governor

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// mostSteps is how much of the queue the actor goes through before it looks at what
// else there is.
const mostSteps = 1024

// pump starts what can be started. Every turn of the loop starts a request,
// ends one, or takes a lane out of turn; after most of them it leaves the rest for
// another round, and the governor is behind.
func (c *core) pump(now int64, most int) {
	c.pumped()
	if c.paused || c.stage == closing {
		return
	}
	for c.queue.Budget = most; c.hostAt == 0 || c.byLimit; c.queue.Budget-- {
		if c.byLimit {
			if !c.queue.TryLines(now) {
				c.lineAt = c.queue.NextLine()
				return
			}
			c.hostAt, c.byLimit = 0, false // who comes out of a line may be before it
		}
		c.queue.Hurry(now)
		if c.queue.Budget <= 0 {
			c.behind = true
			return
		}
		full := c.full()
		c.gate.due(c.queue.owe) // before the next is chosen for a slot that came back
		l := c.queue.next(full)
		switch {
		case l != nil:
			c.serve(l, now, true)
		case full:
			return // whoever has just started in a line has not come back to it
		case !c.queue.TryLines(now):
			c.lineAt = c.queue.NextLine()
			return
		}
	}
}

// pumped forgets what kept pump from going on.
func (c *core) pumped() { c.hostAt, c.byLimit, c.lineAt, c.behind = 0, false, forever, false }

// serve lets the head of l through the gate, or finds what stands in its way. yields says
// that others may go before it that have a connection.
func (c *core) serve(l *lane, now int64, yields bool) {
	r, sc := l.first(), l.scopes()
	if err := r.cause(); err != nil {
		c.cancel(r)
		return
	}
	var ls lease
	pooled := c.pool != nil && !l.kept
	opening := false
	if c.queue.Join(&l.sched, &sc) { // before anything is asked: many may wait
		return
	}
	if !c.observe && !c.admits(l, &sc, r, now, pooled) { // before the pool: reserving may steal
		return
	}
	if pooled {
		var ok bool
		if ls, ok = c.pool.lend(l.sel.value); !ok && yields {
			if other := c.warmer(l); other != nil {
				c.serve(other, now, false)
				return
			}
		}
		if !ok {
			ls, ok = c.pool.reserve(l.sel.value)
		}
		if !ok {
			if err := c.pool.refusal(l.sel.value); err != nil {
				c.drop(r, err)
				return
			}
			if r.first(toldPool) {
				c.emit(event.Event{Kind: event.PoolWait, Request: r.seq, Source: l.sel.name})
			}
			if c.unopenedFor(l.sel, now); !r.waiting() {
				return
			}
			until := int64(forever)
			if at := c.pool.notBefore(l.sel.value); !at.IsZero() && int64(at.Sub(c.gate.base)) > now {
				until = int64(at.Sub(c.gate.base))
			}
			c.awaitConn(l, &sc, until)
			return
		}
		opening = !ls.Ready()
	}
	if c.observe {
		c.foresee(r, &sc, now)
	}
	a := c.attempt(r, l, ls)
	if !c.gate.enter(now, &sc, a, opening) {
		// A signal came in between, or the idle connection went: look again.
		unused(ls)
		return
	}
	if l.kept {
		c.gate.word.queue(-1)
	} else {
		c.gate.word.grant(c.slots) // only the actor grants, and it saw a free slot
	}
	a.waited = int32(c.queue.started(l))
	r.flags &^= toldLimit | toldPool // a later attempt may wait once more
	c.leave(r, true)
	c.watchStuck(now)
	c.start(a, now)
}

// warmer returns a lane to be served before l, which has no idle connection, and whose
// new one would take the place of one that this lane can use: else, with as many
// selectors as there is room for in the pool or more, whoever is next would close what the
// one after him needs. No tenant pays for it, and a lane waits longer by as long as a few
// calls last, at most; see sched.Scheduler.Instead. Mostly a connection of its own has
// come back by then, if it has one. nil: there is no such lane.
func (c *core) warmer(l *lane) *lane {
	sel, ok := c.pool.displaces(l.sel.value)
	if !ok {
		return nil
	}
	other := c.queue.Instead(&l.sched, overtakes*c.slots, func(o *sched.Lane) bool {
		return o.Owner().(*lane).sel.value == sel
	})
	if other == nil {
		return nil
	}
	return other.Owner().(*lane)
}

// overtakes is how many later lanes may go before one of the same tenant, for each slot.
const overtakes = 4

// admits reports whether cooldowns, breaker and limits let r pass, and if not takes
// its lane, or everything, out of turn, or ends r.
func (c *core) admits(l *lane, sc *scopes, r *request, now int64, pooled bool) bool {
	if st, until := c.gate.look(now, sc); st != nil {
		c.hold(l, st, until)
		return false
	}
	if c.breaker != nil {
		if err := c.breaker.Ready(c.gate.time(now)); err != nil {
			c.broken(r, err, now)
			return false
		}
	}
	return c.affordable(l, sc, r, now, pooled)
}

// affordable reports whether the limits admit r, and if not takes its lane, or
// everything, out of turn until they may.
func (c *core) affordable(l *lane, sc *scopes, r *request, now int64, pooled bool) bool {
	if c.gate.passes(r.price()) && !c.gate.word.held() { // as enter has it, or they might never agree
		return true
	}
	opening := pooled && !c.pool.idle(l.sel.value)
	per, wait := c.limited(now, sc, r.price(), opening)
	if wait != 0 && wait != limiter.Never && r.flags&dated != 0 { // others may have taken what there was when it came
		if err := c.tooLateIn(r, now, c.gate.known(now, sc, r.price())); err != nil {
			c.drop(r, err)
			return false
		}
	}
	switch {
	case wait == 0:
		return true
	case wait == limiter.Never:
		c.drop(r, ErrNeverAdmissible)
	case wait == untilOpened && per > throttle.Selector:
		c.queue.Park(&l.sched, &c.dry.opening)
	case wait == untilOpened:
		c.awaitConn(l, sc, forever)
	case per == throttle.Host && c.onlyOpening(sc, r, now, opening):
		c.awaitConn(l, sc, add(now, wait))
		c.limitTold(r, sc[per], wait)
	case per == throttle.Host:
		c.byLimit = true
		if c.hostAt = add(now, wait); c.hostAt != c.hostTold {
			c.hostTold = c.hostAt
			c.emit(event.Event{Kind: event.LimitRefused, Scope: sc[per].String(), Delay: wait})
		}
	default:
		c.waitInLine(l, r, sc[per], now, wait)
	}
	return false
}

// limited is gate.limited for what then waits until it is asked again.
func (c *core) limited(now int64, sc *scopes, n int, opening bool) (per throttle.Level, wait time.Duration) {
	per, wait = c.gate.limited(now, sc, n, opening)
	if wait != 0 && !c.limitWait.Swap(true) {
		// What an attempt gives back from here on makes the actor ask again. It may
		// have done so just before.
		per, wait = c.gate.limited(now, sc, n, opening)
	}
	return per, wait
}

// waitInLine takes l out of turn, of which r is the first, until the limit of sc, which
// says that this is wait from now, admits it.
func (c *core) waitInLine(l *lane, r *request, sc throttle.Scope, now int64, wait time.Duration) {
	c.queue.WaitInLine(&l.sched, sc, add(now, wait), wait)
	c.limitTold(r, sc, wait)
}

// limitTold tells once of a request that a limit keeps it back, however often it is asked
// again.
func (c *core) limitTold(r *request, sc throttle.Scope, wait time.Duration) {
	if r.first(toldLimit) {
		c.emit(event.Event{Kind: event.LimitRefused, Scope: sc.String(), Delay: wait})
	}
}

// onlyOpening reports whether r waits for the limits just because it has to open a
// connection while others do. Who has an idle one need not wait with it.
func (c *core) onlyOpening(sc *scopes, r *request, now int64, opening bool) bool {
	if !opening {
		return false
	}
	_, wait := c.gate.limited(now, sc, r.price(), false)
	return wait == 0
}

// hold takes l, or everything, out of turn until st changes or until.
func (c *core) hold(l *lane, st *scope, until int64) {
	switch {
	case st.key.Level == throttle.Host:
		c.hostAt = until // never park on the host: 100,000 lanes would have to be woken
	case !l.kept:
		c.queue.WaitForScope(&l.sched, st.key, until)
	case until == forever:
		c.queue.Park(&l.sched, &st.kept)
	default:
		c.queue.ParkUntil(&l.sched, &st.kept, until)
	}
}

// limitedBy reports whether there is a limit of that level.
func (c *core) limitedBy(level throttle.Level) bool {
	return slices.ContainsFunc(c.limits, func(l limit) bool { return l.Per == level })
}

// limitedBelow reports whether there is a limit of another level.
func (c *core) limitedBelow(level throttle.Level) bool {
	return slices.ContainsFunc(c.limits, func(l limit) bool { return l.Per != level })
}

// tripped fails everything that waits when the breaker has opened; if that is waited
// for, what would start too late then: once, for no latest start that is left is as early.
func (c *core) tripped(now int64) {
	if c.breaker == nil || c.observe || c.queue.Len()+c.backoffs == 0 || c.breakerWait && c.minding == 0 {
		return
	}
	err := c.breaker.Ready(c.gate.time(now))
	switch {
	case err == nil:
	case !c.breakerWait:
		c.dropAll(err)
	default:
		if wait := breakerOpen(err); wait > 0 && add(now, wait) >= c.earliest {
			c.earliest = c.sweepLate(c.queue.lanes.all, c.away(func(*laneKey) bool { return true }), now, wait)
		}
	}
}

// unopenedFor fails what waits for a connection of sel and would start too late when one
// can be opened: once for each time at which it can.
func (c *core) unopenedFor(sel *selector, now int64) {
	wait := c.unopened(sel, now)
	until := add(now, wait)
	if wait == 0 || until == sel.unopened || c.minding == 0 || until < c.earliest {
		return
	}
	sel.unopened = until
	c.sweepLate(func(yield func(*lane) bool) {
		for l := range c.queue.census.of(throttle.Scope{Level: throttle.Selector, Key: sel.name}) {
			if l.sel == sel && !yield(l) { // others may have its text
				return
			}
		}
	}, c.away(func(k *laneKey) bool { return k.sel == sel }), now, wait)
}

// broken treats r before an open breaker.
func (c *core) broken(r *request, err error, now int64) {
	if !c.breakerWait {
		c.drop(r, err)
		return
	}
	if late := c.tooLateIn(r, now, breakerOpen(err)); late != nil {
		c.drop(r, late)
		return
	}
	c.hostAt = add(now, breakerDelay(err))
}

// breakerOpen is how long a breaker that says err refuses everything, 0 when it does not
// say.
func breakerOpen(err error) time.Duration {
	after, _ := retry.RetryAfter(err)
	return max(0, after)
}

// breakerDelay is how long to wait for a breaker before asking again. When it
// does not say, and it changes with a call that ends, the actor is woken by that.
func breakerDelay(err error) time.Duration {
	if after, _ := retry.RetryAfter(err); after > 0 {
		return max(time.Millisecond, min(time.Second, after))
	}
	return time.Second
}

// freed says that the pool may have something for lanes that wait for it. Where
// none does nobody need be woken: the actor says that one does before it asks the
// pool for the last time.
func (c *core) freed() {
	if c.gate.word.minded() {
		c.poolFreed.Store(true)
		c.wakeUp()
	}
}
