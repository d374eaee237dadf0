package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/internal/current"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// inlineCall is the context of a closure that runs on the goroutine of Do, and all
// there is of a call that nobody asks about. What else an attempt has is made when it
// is needed: when the closure fails, asks for Done, holds what it has, and when
// somebody listens. It is not used again, for the closure may have kept it.
type inlineCall struct {
	context.Context // Do's
	more            atomic.Pointer[more]
	sel             *selector
	ask             *Ask
	began           int64
	seq             uint64 // as attempt.seq
	after           uint64 // of Do's: the request submitted last when it began
}

// more is what only some inline calls have.
type more struct {
	told atomic.Bool // the call is counted elsewhere, or just about to be
	cell *cell       // of a call that ends as an attempt; only for who ends it

	// mu guards what follows. Under it contexts are made and ended.
	mu     sync.Mutex
	ctx    context.Context // nil until somebody is to be told of its end
	cancel context.CancelCauseFunc
	att    *attempt // nil until needed
	seq    uint64   // of its request; 0: it has none yet
	stuck  bool     // it was reported as that
	ended  bool     // the call is over
}

// over stands for the more of a call that is over and never had one.
var over more

// extend returns in's more.
func (in *inlineCall) extend() *more {
	for {
		m := in.more.Load()
		if m != nil && m != &over {
			return m
		}
		next := &more{ended: m == &over}
		next.told.Store(next.ended)
		in.more.CompareAndSwap(m, next)
	}
}

// real returns the context that in stands for. The caller holds m.mu.
func (m *more) real(in *inlineCall) context.Context {
	if m.ctx == nil {
		m.ctx, m.cancel = context.WithCancelCause(in.Context)
		if limit := in.sel.core.cutOff(); limit > 0 {
			end := m.cancel
			timed, stop := context.WithDeadline(m.ctx, in.sel.core.gate.shown(in.end(limit))) // it compares by the wall clock, too
			m.ctx, m.cancel = timed, func(cause error) { end(cause); stop() }
		}
		if m.ended {
			m.cancel(nil)
		}
	}
	return m.ctx
}

// cutOff is how long an attempt may run; 0: as long as it likes.
func (c *core) cutOff() time.Duration {
	if c.observe {
		return 0
	}
	return c.attemptTimeout
}

// end is when the attempt's timeout is over.
func (in *inlineCall) end(limit time.Duration) int64 { return add(in.began, limit) }

// scopes are what the call belongs to.
func (in *inlineCall) scopes() scopes {
	return scopes{
		{},
		{Level: throttle.Selector, Key: in.sel.name},
		{Level: throttle.Tenant, Key: in.ask.Tenant},
		{Level: throttle.Bucket, Key: in.ask.Bucket},
	}
}

// cancel ends the context, as that of an attempt; without a cause because the
// attempt is over.
func (in *inlineCall) cancel(cause error) {
	m := in.extend()
	m.mu.Lock()
	m.ended = m.ended || cause == nil
	if m.ctx == nil && cause == nil {
		m.mu.Unlock()
		return
	}
	m.real(in)
	cancel := m.cancel
	m.mu.Unlock()
	cancel(cause) // not under mu: it calls what others have tied to the context
}

func (in *inlineCall) Done() <-chan struct{} {
	m := in.extend()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.real(in).Done()
}

// Err looks at the clock where there is no timer yet.
func (in *inlineCall) Err() error {
	m := in.more.Load()
	if m == nil {
		if err := in.Context.Err(); err != nil {
			return err
		}
		limit := in.sel.core.cutOff()
		if limit == 0 || in.sel.core.now() < in.end(limit) {
			return nil
		}
		m = in.extend()
	} else if m == &over {
		m = in.extend()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil && !m.ended && in.sel.core.cutOff() == 0 {
		return in.Context.Err()
	}
	return m.real(in).Err()
}

func (in *inlineCall) Deadline() (time.Time, bool) {
	at, ok := in.Context.Deadline()
	if limit := in.sel.core.cutOff(); limit > 0 {
		if g := &in.sel.core.gate; !ok || in.end(limit) < g.ns(at) {
			return g.time(in.end(limit)), true
		}
	}
	return at, ok
}

// Value returns the attempt for the governor's own key, in itself when the call is
// over, and for that of retry.FromContext in. The rest is asked of the context that there is.
func (in *inlineCall) Value(key any) any {
	switch key {
	case token{}:
		if a := in.attempt(); a != nil {
			return a
		}
		return in // not of an outer call that may be running: see attemptOf
	case current.Key{}:
		return in
	}
	if m := in.more.Load(); m != nil && m != &over {
		m.mu.Lock()
		ctx := m.ctx
		m.mu.Unlock()
		if ctx != nil { // so that in passes for a context of package context
			return ctx.Value(key)
		}
	}
	return in.Context.Value(key)
}

// AttemptInfo is for retry.FromContext.
func (in *inlineCall) AttemptInfo() retry.Info {
	return retry.Info{Attempt: 1, Started: in.sel.core.gate.time(in.began)}
}

// attempt returns the attempt that in is, with a request of its own; nil when the
// call is over. From then on the call ends as others do: who asks before it has started
// must end it himself, for it may never start.
func (in *inlineCall) attempt() *attempt {
	if in.more.Load() == &over {
		return nil
	}
	m := in.extend()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.att == nil && !m.ended {
		m.told.Store(true)
		m.att = in.describe(m)
	}
	return m.att
}

// launched returns the request that was launched as in, nil for a call of Do.
func (in *inlineCall) launched() *request {
	r, _ := in.Context.(*launchContext)
	return (*request)(r)
}

// taken is when in was charged to the limits, if it was.
func (in *inlineCall) taken() int64 {
	if r := in.launched(); r != nil {
		return r.enqueued
	}
	return in.began
}

// cancelled reports whether who made the call wants it no more.
func (in *inlineCall) cancelled() bool {
	r := in.launched()
	return in.Context.Err() != nil || r != nil && r.status.has(cancelAsked)
}

// waits reports whether in is still to begin; then nothing else of it is to be looked at.
func (in *inlineCall) waits() bool {
	r := in.launched()
	return r != nil && r.status.has(launching)
}

// number returns that of the call's request. The caller holds m.mu.
func (in *inlineCall) number(m *more) uint64 {
	if m.seq == 0 {
		if r := in.launched(); r != nil {
			m.seq = r.seq
		} else {
			m.seq = in.sel.core.door.number()
		}
	}
	return m.seq
}

// foundStuck returns the number of the call's request, and whether it is to be reported:
// it is not over and has not been. It makes no attempt, since the call may be one that
// has not started, and will not, and then goes by the actor with another number.
func (in *inlineCall) foundStuck() (seq uint64, first bool) {
	if in.more.Load() == &over {
		return 0, false
	}
	m := in.extend()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck || m.ended {
		return 0, false
	}
	m.stuck = true
	return in.number(m), true
}

// told reports whether in is counted elsewhere, be it by its cell, or is just about
// to be. So nobody who asks after he has read the other counts counts it twice.
func (in *inlineCall) told() bool {
	m := in.more.Load()
	return m != nil && (m == &over || m.told.Load())
}

// describe makes the attempt and its request. The caller holds m.mu.
func (in *inlineCall) describe(m *more) *attempt {
	c := in.sel.core
	r := in.launched()
	var l *lane
	if r != nil {
		l = r.lane()
	} else {
		r = &request{ctx: in.Context, enqueued: in.began}
		l = in.sel.lane(in.ask, 0)
		r.status.move(Running, 0)
		r.wish(c, in.ask)
		r.seq = in.number(m)
		r.history().order = 2*in.after + 1
	}
	in.sel.refs.Add(1)
	a := &attempt{
		life: lifetime{in: in}, core: c, r: r, key: l,
		cost: int32(r.price()), n: 1, seq: in.seq, granted: in.began, began: in.began, taken: r.enqueued,
	}
	a.class = class{l, a}
	r.class.Store(&a.class)
	c.count.submitted.Add(1)
	c.count.started.Add(1)
	c.waits.add(in.began - r.enqueued)
	return a
}
