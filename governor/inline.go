package governor

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
)

// actorOnly keeps calls off the fast path. Only tests set it.
var actorOnly bool

// inline is the fast path: it runs fn on the caller's goroutine if nothing speaks
// against starting it this instant. Then it returns done, and the results are Do's.
// Otherwise it has left nothing behind, and the call has to be queued.
//
// It passes the same gate as others do, in the same order, and the commit is the
// last of it; see word. It overtakes nobody, since it needs an empty queue.
func inline[S comparable, C, R any](ctx context.Context, g *Governor[S, C], sel S, fn func(context.Context, C) (R, error)) (v R, err error, done bool) {
	c := g.core
	if fn == nil || ctx == nil || !c.healthy(ctx, &g.ask) {
		return v, nil, false
	}
	s := g.names.peek(sel)
	if s == nil {
		if s, err = g.names.get(sel, c); err != nil {
			return v, nil, false // the other path says so
		}
		s.refs.Add(-1)
	}
	in := &inlineCall{
		Context: ctx, sel: s, ask: &g.ask,
		// The order of these and of what follows matters; see word and receive.
		after: c.door.newest(), seq: c.gate.seq.Load(), began: c.now(),
	}
	call := inlined[S, C]{core: c, in: in}
	defer func() {
		switch call.stage {
		case entering:
			call.retreat() // refused, or a function of the user's has ended this
		case calling:
			out := outcome{kind: exited}
			if p := recover(); p != nil {
				out = outcome{panicked, &PanicError{p, debug.Stack()}}
			}
			t := &rerun[C, R]{fn: fn}
			call.settle(t, &t.request, out)
			v, err = t.result()
			done = true
		case leaving, reporting:
			call.leave() // a function of the user's has ended this
		}
	}()
	if !call.enter(g.conns, sel) {
		return v, nil, false
	}
	call.stage = calling
	v, err = fn(in, call.loan.Value())
	if err == nil && call.succeed(0) {
		call.leave()
		return v, nil, true
	}
	out := in.attempt().answer(err) // what it panics with is taken for the closure's
	call.stage = settled            // settle gives back everything by itself, whatever happens in it
	t := &rerun[C, R]{fn: fn, val: v}
	call.settle(t, &t.request, out)
	v, err = t.result()
	return v, err, true
}

// inlined is what an inline call has on its goroutine's stack.
type inlined[S comparable, C any] struct {
	core    *core
	in      *inlineCall
	cell    *cell
	loan    pool.Loan[S, C]
	permit  breaker.Permit
	stage   inlineStage
	keeps   bool // the slot stays in the cell
	lax     bool // the limits were not asked
	charged bool // they were, and are to be settled
	conn    bool // loan is one
}

type inlineStage uint8

const (
	settled   inlineStage = iota // nothing is to be given back, or somebody is at it
	entering                     // it has a slot and has not started
	calling                      // the closure runs
	leaving                      // it has returned well
	reporting                    // that is counted, and the breaker is told
)

// healthy reports whether nothing is known that speaks against an inline call.
func (c *core) healthy(ctx context.Context, ask *Ask) bool {
	return c.gate.word.calm() && !c.actorOnly && !ask.KeepConn && ask.valid() && ctx.Err() == nil
}

// enter brings the call to its start: slot, connection, limits, breaker, and last the
// commit. What was taken goes back in reverse when one of them refuses; permits of
// limits are lost then.
func (i *inlined[S, C]) enter(conns *pool.Pool[S, C], sel S) bool {
	c, in := i.core, i.in
	if c.tooLate(in, in.began) {
		return false
	}
	if i.cell, i.keeps = c.claim(in); i.cell == nil {
		return false
	}
	if conns != nil {
		if i.loan, i.conn = conns.Lend(sel); !i.conn {
			c.vacate(i.cell, i.keeps)
			return false
		}
	}
	i.stage = entering // if it stays so, the caller has it retreat
	return i.admitted()
}

// retreat gives back what a call has that does not start.
func (i *inlined[S, C]) retreat() {
	c, in := i.core, i.in
	i.stage = settled
	if i.charged {
		c.gate.burn(in.began, in)
		c.relimit()
	}
	if i.conn {
		i.loan.Unused()
	}
	c.vacate(i.cell, i.keeps)
}

// dated reports whether there is a latest start.
func (in *inlineCall) dated() bool {
	_, dies := in.Context.Deadline()
	return dies || !in.ask.StartBy.IsZero()
}

// tooLate reports whether the latest start has passed, which the other path says.
func (c *core) tooLate(in *inlineCall, now int64) bool {
	if at, ok := in.Context.Deadline(); ok && c.gate.ns(at) < now {
		return true
	}
	by := in.ask.StartBy
	return !by.IsZero() && c.gate.ns(by) < now
}

// admitted passes limits, breaker and commit, and begins what needs no place.
func (i *inlined[S, C]) admitted() bool {
	c, in := i.core, i.in
	if i.lax = !i.charged && c.gate.passes(int(in.ask.cost())); !i.lax && !i.charged {
		if i.charged = c.pays(in); !i.charged {
			return false
		}
	}
	if c.breaker != nil {
		var err error
		if i.permit, err = c.breaker.Acquire(c.gate.time(in.began)); err != nil {
			return false
		}
	}
	// Where others were asked in between, time may have passed.
	gone := (c.breaker != nil || !i.lax) && (in.cancelled() || in.dated() && c.tooLate(in, c.now()))
	if gone || !c.commits(in) {
		if c.breaker != nil {
			c.breaker.Report(i.permit, c.gate.time(in.began), breaker.Neutral, 0)
		}
		return false
	}
	if c.retry != nil {
		c.retry.Budget.Begin()
	}
	c.mindStuck()
	if c.bus.Active() {
		c.announce(in)
	}
	return true
}

// commits is the last look of a call before its closure, and reports whether it may start.
// What was launched has been accepted, and so is run by Shutdown. Where Close finds it
// waiting in its cell it is not cancelled, and sees here that Close is at it.
func (c *core) commits(in *inlineCall) bool {
	if in.launched() != nil {
		return !c.gate.word.held() && !c.stopping.Load()
	}
	return c.gate.word.admitted()
}

// pays takes from the limits for a call, if they and the breaker let it pass.
func (c *core) pays(in *inlineCall) bool {
	if c.breaker != nil && c.breaker.Ready(c.gate.time(in.began)) != nil {
		return false // before the limits: a call that it refuses is to cost nothing
	}
	return c.gate.takeNow(in)
}

// mindStuck sees to it that the actor looks for what is stuck.
func (c *core) mindStuck() {
	if c.stuckAfter > 0 && !c.timed.Load() && c.timed.CompareAndSwap(false, true) {
		c.wakeUp() // to set its timer
	}
}

// announce tells of an inline call that starts.
func (c *core) announce(in *inlineCall) {
	a := in.attempt()
	c.used.Store(true)
	if in.launched() == nil { // else that was told when it was
		c.emitFor(a.r, event.Submitted, 0, 0, nil)
	}
	c.emitFor(a.r, event.Started, 1, time.Duration(in.began-a.r.enqueued), nil)
	if c.bus.Wants(event.Depleted) && c.taken() >= c.slots {
		c.wakeUp()
	}
}

// succeed ends a call of which nothing is to be told, and that has waited for so long,
// and reports whether it was one. Everything is counted before anything goes back, which
// is to be done next.
func (i *inlined[S, C]) succeed(waited int64) bool {
	c, in := i.core, i.in
	now := c.now()
	took := now - in.began
	late := c.attemptTimeout > 0 && took >= int64(c.attemptTimeout)
	// With that, and as long as in has no more, its own Err is that of Do's context.
	if late || in.Context.Err() != nil || !in.more.CompareAndSwap(nil, &over) {
		return false
	}
	i.stage = leaving
	if c.retry != nil {
		c.retry.Budget.End()
	}
	b := bucket(took)
	brief := b < quick && waited < int64(unit)
	if !brief || !i.lax { // else it is enough that the cell counts it
		c.gate.accepted(now, in, i.lax, brief)
	}
	if brief {
		i.cell.ended[b].Add(1)
	} else {
		c.count.submitted.Add(1)
		c.count.started.Add(1)
		c.waits.add(waited)
		c.calls.add(took)
		c.count.succeeded.Add(1)
	}
	if !i.lax {
		c.relimit()
	}
	if c.breaker != nil {
		i.stage = reporting
		c.breaker.Report(i.permit, c.gate.time(now), breaker.Success, time.Duration(took))
		if c.gate.word.minded() {
			c.wakeUp() // it may have changed
		}
	}
	return true
}

// leave gives the connection and the slot back.
func (i *inlined[S, C]) leave() {
	i.stage = settled
	if i.conn {
		i.loan.Release()
	}
	i.core.vacate(i.cell, i.keeps)
}

// inlineStats adds what cells count. waits and calls were read before s, which was
// read before this.
func (c *core) inlineStats(s *Stats, waits, calls *tally) {
	sums, all := c.cells.sum()
	begun, m := all, &c.most
	select {
	case <-c.done: // no call is under way any more: what was said meanwhile gives way to what is so
		m.submitted, m.started, m.waited = 0, 0, 0
	default:
		for in := range c.cells.running {
			if !in.told() && !in.waits() {
				begun++
			}
		}
	}
	s.Submitted += begun + uint64(c.launching()) // last: they go from the crew to the cell, never back
	s.Started += begun
	s.Succeeded += all
	// A call that ends just now is in neither count for a moment, and one that was on its
	// way in, and has to be queued after all, is in none until it is.
	waited := waits.sum()
	m.submitted, m.started, m.waited = max(m.submitted, s.Submitted), max(m.started, s.Started), max(m.waited, waited+begun)
	s.Submitted, s.Started = m.submitted, m.started
	waits.plus(m.waited - waited)
	calls.plus(sums[:]...)
}

// stuckInline looks for inline calls that run for longer than StuckAfter, and sees
// to it that the actor looks again as long as there are calls.
func (c *core) stuckInline(now int64, stuck []event.Event) []event.Event {
	for in := range c.cells.running {
		if in.waits() {
			continue
		}
		at := add(in.began, c.stuckAfter)
		if at > now {
			c.nextStuck = min(c.nextStuck, at)
			c.timed.Store(true)
		} else if seq, first := in.foundStuck(); first {
			stuck = append(stuck, event.Event{Kind: event.Stuck, Request: seq, Attempt: 1, Delay: time.Duration(now - in.began)})
		}
	}
	return stuck
}
