package governor

import (
	"context"
)

// Func makes a closure that needs no connection fit Submit and Do of a Plain
// governor. For Stream write the function out, with a struct{} for the connection:
// there, as elsewhere, that saves the 24 bytes that Func takes for each closure.
func Func[R any](fn func(context.Context) (R, error)) func(context.Context, struct{}) (R, error) {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, _ struct{}) (R, error) { return fn(ctx) }
}

// Submit hands fn to g and returns at once, unless the queue is full and
// Config.Overflow is Block: then it waits for room, or until the request has started, if
// not too many have that came to a full queue and are not done, or is done, as it is when
// ctx ends while it waits. (With another Overflow it may wait for a decision of
// the scheduler, but for no request.) It never returns nil: a request that is refused is
// already done, with the reason as its error.
//
// sel picks the connection and is part of what a signal can pause. A Plain
// governor has no connections: pass "", or a name to pause by.
//
// fn is called with a context that descends from ctx, so that it carries ctx's
// values, ends when ctx does, when the attempt's timeout passes, when the
// request is cancelled and when the governor is closed. When ctx ends before fn
// started, fn is not called. fn may be called again after an attempt that the
// vendor refused, or that Config.Retry repeats; never twice at once.
// retry.FromContext tells it which attempt it is.
//
// The error that fn returns is the request's, as it is. Only one that satisfies
// IsRefused, because a call inside fn was refused, is wrapped in one that does not:
// fn was executed.
//
// Nothing obtained from the connection may be used after fn returned. Whoever
// needs it longer uses Stream or Hold.
func Submit[S comparable, C, R any](ctx context.Context, g *Governor[S, C], sel S, fn func(context.Context, C) (R, error)) *Request[R] {
	err := error(nil)
	if fn == nil {
		err = ErrNilFunc
	} else if g.launches(ctx, &g.ask) {
		t := new(launched[S, C, R])
		if t.fn = fn; !t.launch(ctx, g, sel) {
			g.submit(ctx, &t.request, &t.closure, sel, 0, nil)
		}
		return &t.Request
	}
	t := &closure[C, R]{fn: fn}
	g.submit(ctx, &t.request, t, sel, 0, err)
	return &t.Request
}

// Do submits fn, waits until it has returned for good, and returns its result.
// When ctx ends while fn waits, Do returns at once; when fn runs, Do returns
// after fn did.
//
// fn runs on the caller's goroutine, and runtime.Goexit in fn ends that, when all is
// given back; only what follows a failed call that did not have to wait runs on a
// worker, where Do returns ErrGoexit. A panic in fn is returned as a *PanicError. When
// Close has given fn up, Do returns ErrAbandoned, but not before fn returns if that is
// on its goroutine, and Config.Vendor, Retry and Breaker have looked at its error. In a
// healthy governor Do costs a small part of what Submit and Result do; see the
// package's comment.
//
// Inside a closure of the same governor Do returns ErrReentrant unless a slot
// is spare, and permits of each limit that the closure holds some of while it runs
// (limiter.Releaser), for which nobody waits. That is looked at when it is called: where
// calls of different costs or priorities come later, and wait for what the closure holds,
// a call inside it should have a deadline.
func Do[S comparable, C, R any](ctx context.Context, g *Governor[S, C], sel S, fn func(context.Context, C) (R, error)) (R, error) {
	if v, err, ran := inline(ctx, g, sel, fn); ran {
		return v, err
	}
	err := error(nil)
	if fn == nil {
		err = ErrNilFunc
	} else if g.reentrant(ctx, sel) {
		err = ErrReentrant
	}
	t := newAttended(g.core, fn)
	if g.submit(ctx, &t.request, t.task, sel, 0, err) {
		a, bell := t.listenFor(g.core)
		if bell != nil { // here: a frame less while it waits
			<-bell
			a = t.heard(g.core, bell)
		}
		t.attend(a, bell == nil)
	}
	return t.result()
}

// closure is a request with its function: one allocation holds both.
type closure[C, R any] struct {
	Request[R]
	fn func(context.Context, C) (R, error)
}

func (t *closure[C, R]) open(ctx context.Context, l lease) error {
	return dial[C](ctx, l)
}

func (t *closure[C, R]) run(a *attempt) error { return call(a, &t.request, t.fn, &t.val) }

// dial makes the connection of l ready.
func dial[C any](ctx context.Context, l lease) error {
	_, err := l.(conner[C]).Conn(ctx)
	return err
}

// call calls the closure of r. Nobody reads the value meanwhile: who does so reads none
// of a request that was abandoned, and others are not done.
func call[C, R any](a *attempt, r *request, fn func(context.Context, C) (R, error), val *R) error {
	var conn C
	if a.lease != nil {
		conn = a.lease.(conner[C]).Value()
	}
	v, err := fn(a, conn)
	*val = v
	return err
}

// conner is the typed half of a lease.
type conner[C any] interface {
	Conn(ctx context.Context) (C, error)
	Value() C
}

// submit brings r to the door, and reports whether it got in. err refuses it
// beforehand.
func (g *Governor[S, C]) submit(ctx context.Context, r *request, t task, sel S, f flags, err error) bool {
	c := g.core
	r.task, r.ctx, r.flags = t, ctx, f
	switch {
	case err != nil:
	case ctx == nil:
		r.ctx, err = context.Background(), ErrNilContext
	case !g.ask.valid():
		err = ErrAsk
	default:
		var s *selector
		w := int32(0)
		if !g.ask.plain() {
			w = c.weigh(g.ask.Tenant) // the user's, and may end the goroutine: before anything is held
		}
		if s, err = g.names.get(sel, c); err == nil {
			r.class.Store(&s.lane(&g.ask, w).class)
		}
	}
	if err == nil {
		asking := true
		defer func() { // a function of the user's has ended this
			if asking {
				r.sel().refs.Add(-1)
			}
		}()
		err = c.admit(r, &g.ask)
		asking = false
		if err == ErrClosed && c.evicted() {
			next, e := g.successor(ctx)
			if e == nil {
				r.sel().refs.Add(-1)
				r.class.Store(nil)
				return next.submit(ctx, r, t, sel, f, nil)
			}
			if err = e; !c.says(false, func() bool { return IsRefused(e) }) {
				err = &unsent{e} // Config's, of the user's
			}
		}
	}
	if err != nil {
		c.refuse(r, err)
	}
	return err == nil
}

// wish notes what is asked for.
func (r *request) wish(c *core, ask *Ask) {
	if cost := ask.cost(); cost < large {
		r.small = uint16(cost)
	} else {
		r.small = large
		r.history().cost = cost
	}
	if ask.NoRetry {
		r.flags |= noRetry
	}
	if ask.KeepConn && r.flags&stream == 0 {
		r.flags |= keepConn
	}
	deadline, dies := r.ctx.Deadline()
	switch by := ask.StartBy; {
	case dies && (by.IsZero() || c.gate.ns(by) >= c.gate.ns(deadline)): // they may be of two clocks
		r.flags |= dated | ctxDeadline
	case !by.IsZero():
		r.flags |= dated
		r.history().startBy = c.gate.ns(by)
	}
}

// admit takes r in, or says why not.
func (c *core) admit(r *request, ask *Ask) error {
	r.wish(c, ask)
	if err := r.ctx.Err(); err != nil {
		return &CanceledError{Cause: context.Cause(r.ctx), ctx: err}
	}
	now := c.now()
	r.enqueued = now
	if r.hist != nil {
		r.hist.submitted = now
	}
	if by := r.startBy(); by < now {
		return &LateError{By: c.gate.shown(by), Could: c.gate.shown(now)}
	}
	kept, err := c.door.enter(r)
	if err != nil {
		return err
	}
	if c.gate.word.likely(c.slots) {
		c.help(now)
	} else {
		c.wakeUp() // a turn would grow the stack of who has to wait
	}
	if kept != nil {
		<-kept.room
	}
	return nil
}

// selector is one value of S that requests use.
type selector struct {
	core  *core
	value any // an S
	name  string
	plain *lane // of the zero Ask, in which nothing is ever

	_    [64]byte // what precedes is read by every call, what follows is written by each that is queued
	refs refs     // requests, from submission to completion; see names

	unopened int64 // until when no connection can be opened, as far as who waits has been told; the actor's
}

// lane returns the lane that a request for s asks for whose tenant has the given weight.
// Nobody else knows of it but where it is the plain one.
func (s *selector) lane(a *Ask, weight int32) *lane {
	if a.plain() {
		return s.plain
	}
	return newLane(laneKey{sel: s, tenant: a.Tenant, bucket: a.Bucket, priority: int32(a.Priority)}, weight)
}
