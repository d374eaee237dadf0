package policy

import (
	"context"
	"fmt"
	"time"
)

// Call is one call on its way through a chain. It belongs to the goroutine that
// it is on and must not be kept after the handler returned.
type Call struct {
	ctx  context.Context
	op   operation
	base time.Time
	now  time.Duration // since base, and 1; 0: not read

	alive  bool    // the context had not ended when it was looked at last
	budget *Budget // the one that counts the call, innermost
	trail  *trail  // how far it came directly; nil: it never has
}

// operation is the typed half of a call.
type operation interface {
	run(ctx context.Context) error
	fork() (*Call, operation)
	adopt(from *Call)
}

// typed is a call with its function and its result.
type typed[R any] struct {
	Call
	fn  func(context.Context) (R, error)
	val R
}

// reset forgets everything of a call but what the next one has in common with it.
func (t *typed[R]) reset() {
	var none R
	t.ctx, t.alive, t.now, t.fn, t.val = nil, false, 0, nil, none
}

func (t *typed[R]) run(ctx context.Context) (err error) {
	if t.trail != nil && t.trail.ran {
		return t.trail.ended()
	}
	var none R
	t.val = none // nothing of an earlier attempt is left when fn does not return
	t.val, err = t.fn(ctx)
	return err
}

func (t *typed[R]) fork() (*Call, operation) {
	f := &typed[R]{fn: t.fn}
	return &f.Call, f
}

func (t *typed[R]) adopt(from *Call) { t.val = from.op.(*typed[R]).val }

func (c *Call) run() error {
	err := c.op.run(c.ctx)
	c.Later()
	return err
}

// Context returns the context that the layers further in are given.
func (c *Call) Context() context.Context { return c.ctx }

// WithContext runs next with ctx as the call's context, and restores it.
func (c *Call) WithContext(ctx context.Context, next Handler) error {
	outer := c.ctx
	c.ctx, c.alive = ctx, false
	defer func() { c.ctx, c.alive = outer, false }()
	return next(c)
}

// Err is why the call's context has ended, nil if it has not. Of a context that has
// not it looks once for all layers on the way in, and anew after Later and when the
// function has run: no time passes in between.
func (c *Call) Err() error {
	if c.alive {
		return nil
	}
	err := c.ctx.Err()
	c.alive = err == nil
	return err
}

// Now is the call's reading of the clock: one for all layers on the way in. It is
// taken when it is first asked for, and anew after Later and when the function has
// run.
func (c *Call) Now() time.Time { return c.base.Add(c.read()) }

// Since is Now().Sub(t), at less cost.
func (c *Call) Since(t time.Time) time.Duration { return c.read() + c.base.Sub(t) }

// read returns the reading of the clock, since base.
func (c *Call) read() time.Duration {
	if c.now == 0 {
		c.now = time.Since(c.base) + 1
	}
	return c.now - 1
}

// Later says that time has passed: a layer waited, ran a fork of the call, or
// called what may take its time. It says so before it goes on.
func (c *Call) Later() { c.now, c.alive = 0, false }

// Fork returns a copy of the call, with a result of its own, for another
// goroutine to take further with the given context.
func (c *Call) Fork(ctx context.Context) *Call {
	f, op := c.op.fork()
	f.ctx, f.op, f.base, f.budget = ctx, op, c.base, c.budget
	return f
}

// Adopt makes the result of a fork the call's own. The fork must have ended.
func (c *Call) Adopt(fork *Call) { c.op.adopt(fork) }

// Result returns the call's result so far. ok is false when the call's function
// has a result of another type.
func Result[R any](c *Call) (r R, ok bool) {
	t, ok := c.op.(*typed[R])
	if !ok {
		return r, false
	}
	return t.val, true
}

// SetResult replaces the call's result. It reports false, and does nothing, when
// the call's function has a result of another type.
func SetResult[R any](c *Call, r R) bool {
	t, ok := c.op.(*typed[R])
	if ok {
		t.val = r
	}
	return ok
}

// Predicate decides about a call that has come back with err.
type Predicate func(c *Call, err error) bool

// OnError makes a predicate of one on errors. It is not asked about success. It
// panics if match is nil: like a chain, a predicate is made when a program starts.
func OnError(match func(error) bool) Predicate {
	if match == nil {
		panic("policy: OnError of a nil function")
	}
	return func(_ *Call, err error) bool { return err != nil && match(err) }
}

// OnResult makes a predicate of one on results. It is not asked about errors, nor
// about calls with a result of another type. It panics if match is nil.
func OnResult[R any](match func(R) bool) Predicate {
	if match == nil {
		panic(fmt.Sprintf("policy: OnResult of a nil %T", match))
	}
	return func(c *Call, err error) bool {
		if err != nil {
			return false
		}
		r, ok := Result[R](c)
		return ok && match(r)
	}
}

// Any is true when one of the predicates is. It panics if one is nil.
func Any(preds ...Predicate) Predicate {
	for i, p := range preds {
		if p == nil {
			panic(fmt.Sprintf("policy: Any of a nil predicate, the one at %d", i))
		}
	}
	return func(c *Call, err error) bool {
		for _, p := range preds {
			if p(c, err) {
				return true
			}
		}
		return false
	}
}
