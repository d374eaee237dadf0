package governor

import (
	"context"
	"runtime/debug"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/pool"
)

// launched is a submitted request that starts at once, with the call that it then is:
// one allocation holds both. It has its slot, and its connection, from the beginning; a
// worker runs it as Do runs a call on its caller's goroutine, and it is settled as such
// a one. So it costs an attempt only if it does not go well.
type launched[S comparable, C, R any] struct {
	closure[C, R]
	in   inlineCall
	loan pool.Loan[S, C]
	cell *cell // from the moment a worker takes it
}

// launches reports whether a submitted request can probably be launched. What has to ask
// a limit is not: it might have to wait, and that would be known to its worker only.
func (c *core) launches(ctx context.Context, ask *Ask) bool {
	return ctx != nil && c.gate.word.likely(c.slots) && c.gate.lax.Load() && ask.Cost <= 1 &&
		!c.observe && !c.bus.Active() && c.healthy(ctx, ask)
}

// launch starts t if nothing speaks against it, and reports whether it did. Otherwise it
// has left nothing behind.
func (t *launched[S, C, R]) launch(ctx context.Context, g *Governor[S, C], sel S) bool {
	c, r := g.core, &t.request
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
	if g.conns != nil {
		lent := false
		defer func() { // also when it panics
			if !lent {
				c.releaseSlot(nil, false)
			}
		}()
		if t.loan, lent = g.conns.Lend(sel); !lent {
			return false
		}
	}
	r.seq = c.door.number() // now, so that what comes back is in its place
	t.in = inlineCall{Context: (*launchContext)(r), sel: s, ask: &g.ask}
	r.status.move(Running, launching) // nobody knows of it yet
	c.enlist(r, home(unsafe.Pointer(t))&(len(c.crews)-1))
	return true
}

// enlist has a worker of the crew with number at launch r.
func (c *core) enlist(r *request, at int) {
	w := &c.crews[at]
	w.mu.Lock()
	w.launching++
	fresh := c.push(w, r)
	w.mu.Unlock()
	if fresh {
		go w.work()
	}
}

// begin runs t on a worker, as inline does a call.
func (t *launched[S, C, R]) begin(c *core) {
	r, in := &t.request, &t.in
	call := inlined[S, C]{
		core: c, in: in, cell: t.cell, stage: entering,
		loan: t.loan, conn: t.loan != (pool.Loan[S, C]{}),
	}
	in.seq, in.began = c.gate.seq.Load(), c.now() // in this order, and before others look at in
	r.mu.Lock()
	gone := r.status.has(cancelAsked)
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
		case leaving:
			if recover() != nil { // of the breaker, which is the user's
				c.count.hookPanics.Add(1)
			}
			call.conclude(r)
		}
	}()
	switch {
	case gone, r.ctx.Err() != nil, in.more.Load() != nil && in.Err() != nil:
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
			granted: r.enqueued, lax: !i.charged, charged: i.charged, taken: i.in.began,
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
	c.track(a, first, true)
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
