package governor

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"github.com/flyball-go/flyball/breaker"
)

// Lease is what a call made by Held still has when it has returned: its slot, its
// permits and its context. The zero Lease is ready for one call, and must not be
// copied after it.
type Lease struct {
	// Ask is what the call wishes. The zero Ask: what the governor's view does.
	Ask Ask

	state atomic.Uint32 // a leaseState

	// What follows is written before state becomes leased, and read after.
	later   func(error) // of Hold, for a call that did not run inline
	in      inlineCall  // so that it is no allocation of its own
	cell    *cell
	permit  breaker.Permit
	keeps   bool
	lax     bool
	charged bool
}

const (
	vacant   uint32 = iota // nothing is held yet
	leased                 // until Release
	released               // nothing is, and will be
)

// Held is Do for a result that is read later, such as a response's body: when fn has
// succeeded, what the call has is kept until l.Release, as by Hold, which for a call
// on the fast path costs nothing beyond the Lease. A call that fails holds nothing,
// unless its error is a Keeper.
// fn may be called on another goroutine than the caller's, and the call's outcome is
// told to limits and breaker with Release. As with Hold, a Lease that is forgotten
// for longer than Config.StuckAfter raises an event, and Close waits for it.
func Held[R any](ctx context.Context, g *Plain, sel string, l *Lease, fn func(context.Context) (R, error)) (R, error) {
	ask := &g.ask
	if l.Ask != (Ask{}) {
		ask = &l.Ask
	}
	if v, err, ran := heldInline(ctx, g, ask, sel, l, fn); ran {
		return v, err
	}
	if ask == &l.Ask {
		g = g.With(l.Ask)
	}
	return Do(ctx, g, sel, holding(l, fn))
}

// holding is fn with what its outcome keeps.
func holding[R any](l *Lease, fn func(context.Context) (R, error)) func(context.Context, struct{}) (R, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, _ struct{}) (R, error) {
		v, err := fn(ctx)
		l.note(ctx, err)
		return v, err
	}
}

// hold makes release what Release calls. It calls it itself when Release was called
// before: by fn, or since the governor was closed and had given the call up.
func (l *Lease) hold(release func(error)) {
	l.later = release
	if !l.state.CompareAndSwap(vacant, leased) {
		release(nil)
	}
}

// heldInline is inline for Held; see there.
func heldInline[R any](ctx context.Context, g *Plain, ask *Ask, sel string, l *Lease, fn func(context.Context) (R, error)) (v R, err error, done bool) {
	c := g.core
	if fn == nil || ctx == nil || g.conns != nil || !c.healthy(ctx, ask) {
		return v, nil, false
	}
	s := g.names.peek(sel)
	if s == nil {
		if s, err = g.names.get(sel, c); err != nil {
			return v, nil, false
		}
		s.refs.Add(-1)
	}
	in := &l.in
	*in = inlineCall{
		Context: ctx, sel: s, ask: ask,
		// In this order, as in inline.
		after: c.door.newest(), seq: c.gate.seq.Load(), began: c.now(),
	}
	call := inlined[string, struct{}]{core: c, in: in}
	defer func() {
		switch call.stage {
		case entering:
			call.retreat() // refused, or a function of the user's has ended this
		case calling:
			out := outcome{kind: exited}
			if p := recover(); p != nil {
				out = outcome{panicked, &PanicError{p, debug.Stack()}}
			}
			t := &rerun[struct{}, R]{fn: holding(l, fn)}
			call.settle(t, &t.request, out)
			v, err = t.result()
			done = true
		}
	}()
	if !call.enter(nil, sel) {
		return v, nil, false
	}
	call.stage = calling
	v, err = fn(in)
	if err == nil && !in.told() {
		call.stage = settled
		l.cell, l.permit, l.keeps, l.lax, l.charged = call.cell, call.permit, call.keeps, call.lax, call.charged
		if !l.state.CompareAndSwap(vacant, leased) { // Release has been called, by fn or beside it
			l.state.Store(leased)
			l.Release(nil)
		}
		return v, nil, true
	}
	a := in.attempt()
	l.note(in, err)
	out := a.answer(err) // what it panics with is taken for the closure's
	call.stage = settled
	t := &rerun[struct{}, R]{fn: holding(l, fn), val: v}
	call.settle(t, &t.request, out)
	v, err = t.result()
	return v, err, true
}

// Release gives back what the call has, once its result has been read: err says how
// that went and is read by the adapter as a closure's, but the call is not repeated.
// Only the first call counts; one that comes before fn has returned does so, as if err
// were nil, when it has. It may come from any goroutine.
func (l *Lease) Release(err error) {
	if l.state.Swap(released) != leased {
		return
	}
	if l.later != nil {
		l.later(err)
		return
	}
	call := inlined[string, struct{}]{
		core: l.in.sel.core, in: &l.in, cell: l.cell, permit: l.permit, keeps: l.keeps, lax: l.lax, charged: l.charged,
	}
	defer func() {
		if call.stage == leaving || call.stage == reporting {
			call.leave() // a limiter or a breaker, which are the user's, has ended this
		}
	}()
	if err == nil && call.succeed(0) {
		call.leave()
		return
	}
	a := l.in.attempt()
	a.mu.Lock()
	if err != nil {
		told := err // so that only an error costs an allocation
		a.held = &told
	}
	a.mu.Unlock()
	t := &rerun[struct{}, struct{}]{}
	call.settle(t, &t.request, outcome{kind: ran})
}
