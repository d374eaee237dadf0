package governor

import (
	"context"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
)

// launched is a submitted request that starts at once, with the call that it then is:
// one allocation holds both. It has its slot, its connection, and what it takes from the
// limits, from the beginning; a worker runs it as Do runs a call on its caller's goroutine,
// and it is settled as such a one. So it costs an attempt only if it does not go well, or
// somebody listens.
type launched[S comparable, C, R any] struct {
	closure[C, R]
	in   inlineCall
	loan pool.Loan[S, C]
	cell *cell // from the moment a worker takes it
}

// launches reports whether a submitted request can probably be launched.
func (c *core) launches(ctx context.Context, ask *Ask) bool {
	return ctx != nil && c.gate.word.likely(c.slots) && !c.observe && c.healthy(ctx, ask)
}

// launch starts t if nothing speaks against it, and reports whether it did. Otherwise it
// has left nothing behind.
func (t *launched[S, C, R]) launch(ctx context.Context, g *Governor[S, C], sel S) bool {
	c, r, in := g.core, &t.request, &t.in
	s := g.names.peek(sel)
	if s == nil {
		return false // who gets it a name says what is wrong with it
	}
	weight := int32(0)
	if !g.ask.plain() {
		weight = c.weigh(g.ask.Tenant) // the user's, and may end the goroutine: before anything is held
	}
	r.task, r.ctx = t, ctx
	r.class.Store(&s.lane(&g.ask, weight).class)
	r.wish(c, &g.ask)
	r.enqueued = c.now()
	if r.hist != nil {
		r.hist.submitted = r.enqueued
	}
	if r.flags&dated != 0 && r.startBy() < r.enqueued {
		return false
	}
	if ok, _ := c.gate.word.admit(c.slots); !ok {
		return false
	}
	lent, starts := false, false
	defer func() { // also when a function of the user's ends this
		if starts {
			return
		}
		if lent {
			t.loan.Unused()
		}
		c.releaseSlot(nil, false)
	}()
	if g.conns != nil {
		if t.loan, lent = g.conns.Lend(sel); !lent {
			return false
		}
	}
	*in = inlineCall{Context: (*launchContext)(r), sel: s, ask: &g.ask, began: r.enqueued}
	if !c.gate.passes(r.price()) {
		if !c.pays(in) {
			return false
		}
		r.flags |= paid
	}
	starts = true
	r.seq = c.door.number()           // now, so that what comes back is in its place
	r.status.move(Running, launching) // nobody knows of it yet
	if c.bus.Active() {
		c.used.Store(true)
		c.emitFor(r, event.Submitted, 0, 0, nil)
	}
	c.enlist(r, home(unsafe.Pointer(t))&(len(c.crews)-1))
	return true
}

// begin runs t on a worker, as inline does a call.
func (t *launched[S, C, R]) begin(c *core) {
	r, in := &t.request, &t.in
	call := inlined[S, C]{
		core: c, in: in, cell: t.cell, stage: entering,
		loan: t.loan, conn: t.loan != (pool.Loan[S, C]{}), charged: r.flags&paid != 0,
	}
	in.seq, in.began = c.gate.seq.Load(), c.now() // in this order, and before others look at in
	r.mu.Lock()
	r.status.unmark(launching) // from here on Cancel cancels in
	r.mu.Unlock()
	defer func() {
		switch call.stage {
		case entering: // refused, or a function of the user's has ended this
			call.retract(r, undone)
		case calling:
			out := outcome{kind: exited}
			if p := recover(); p != nil {
				out = outcome{panicked, &PanicError{p, debug.Stack()}}
			}
			c.settle(call.attempt(out))
		case reporting:
			if recover() != nil { // of the breaker, which is the user's
				c.count.hookPanics.Add(1)
			}
			call.conclude(r)
		case leaving: // a limiter has ended this, and with a panic the process
			call.conclude(r)
		}
	}()
	switch {
	case in.cancelled():
		call.retract(r, cancelled)
		return
	case r.flags&dated != 0 && r.lateAt(in.began):
		call.retract(r, late)
		return
	}
	if !call.admitted() {
		return
	}
	call.stage = calling
	v, err := t.fn(in, call.loan.Value())
	t.val = v
	if err == nil && call.succeed(in.began-r.enqueued) {
		call.conclude(r)
		return
	}
	out := in.attempt().answer(err) // what it panics with is taken for the closure's
	c.settle(call.attempt(out))
}

// call returns the call that t is while it runs for the first time.
func (t *launched[S, C, R]) call() *inlineCall { return &t.in }

// land puts the call that t is into a cell.
func (t *launched[S, C, R]) land(c *core) { t.cell = c.place(&t.in) }

// retract ends what a launched request has that does not start, with an attempt as if the
// actor had granted it, which says what becomes of it. From one place to the next it can
// be found all the time: see abandon.
func (i *inlined[S, C]) retract(r *request, why outcomeKind) {
	c, m := i.core, i.in.extend()
	i.stage = settled
	m.mu.Lock()
	a := m.att
	known := a != nil
	if !known {
		a = &attempt{
			core: c, r: r, key: r.lane(), cost: int32(r.price()), n: 1,
			granted: r.enqueued, lax: !i.charged, charged: i.charged, taken: r.enqueued,
		}
		a.class = class{a.key, a}
		m.att, m.ended = a, true
		m.told.Store(true)
	}
	m.mu.Unlock()
	if known {
		a = i.attempt(outcome{kind: why})
		a.seq, a.permitted = 0, false
		c.settle(a)
		return
	}
	i.in.cancel(nil)
	if i.conn {
		a.lease = i.loan
	}
	r.sel().refs.Add(1) // until it is complete
	r.class.Store(&a.class)
	c.count.submitted.Add(1)
	c.track(a, true)
	i.cell.call.Store(nil)
	a.out = outcome{kind: why}
	c.settle(a)
}

// conclude ends a call that went well. Whoever has the result finds the connection idle and
// the slot free; and until he can have it the cell keeps the governor from ending.
func (i *inlined[S, C]) conclude(r *request) {
	i.stage = settled
	if i.conn {
		i.loan.Release()
	}
	i.core.releaseSlot(nil, false)
	r.complete(nil, false, nil)
	i.cell.call.Store(nil)
	i.core.untracked()
}

// launchContext is the context of a launched request as that which its call runs under:
// by it the call finds the request.
type launchContext request

func (l *launchContext) Deadline() (time.Time, bool) { return l.ctx.Deadline() }
func (l *launchContext) Done() <-chan struct{}       { return l.ctx.Done() }
func (l *launchContext) Err() error                  { return l.ctx.Err() }
func (l *launchContext) Value(key any) any           { return l.ctx.Value(key) }
