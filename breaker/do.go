package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/internal/errtree"
)

// Do calls fn unless the breaker is open, and reports what came of it. It returns
// what fn returns or, when fn was not called, an *OpenError, which matches
// ErrOpen.
//
// An error that fn returns when ctx has ended is neither success nor failure:
// the caller cancelled, or had no more time. So a call that is to count as failed
// when it takes too long needs a timeout of its own, within fn. Of other errors
// Judge says what they are. When fn panics or calls runtime.Goexit that is a
// failure, and goes on to the caller.
//
// When a trial call ends with ctx, no other one is out and none was counted, the
// breaker is Open again as it was before, until the time it was open until: the
// next call is the trial.
//
// When ctx has ended before, fn is not called and the error matches ctx.Err()
// and context.Cause(ctx), and says by a method Refused() bool that there was no
// call. Do does not cut fn short: fn has to heed ctx itself. What fn returns, and
// these errors, go through Config.OnError. A nil ctx and a nil fn are refused with
// an error that matches ErrInvalid.
func Do[R any](ctx context.Context, b *Breaker, fn func(context.Context) (R, error)) (R, error) {
	return DoJudged(ctx, b, fn, nil)
}

// DoJudged is Do with a function that says what a call's result and error are, in
// place of Judge; it may use that. What it finds Neutral is ignored. It is not
// asked about an error after ctx has ended. An error that it finds a Failure can
// still open the breaker at once and say for how long, by Config.OpenOn and its
// RetryAfter. When judge panics, that is a failure. nil: as Do.
func DoJudged[R any](ctx context.Context, b *Breaker, fn func(context.Context) (R, error), judge func(R, error) Outcome) (R, error) {
	var r R
	if ctx == nil || fn == nil {
		return r, errCall
	}
	p, err := b.admit(ctx)
	if err != nil {
		return r, b.mapped(err)
	}
	began := b.clock(b.readsStart)
	judged := false
	defer func() {
		if !judged {
			b.settle(p, began, result{outcome: Failure})
		}
	}()
	r, err = fn(ctx)
	if err == nil && judge == nil {
		judged = true
		if !b.unmoved(p) {
			b.succeed(p, began)
		}
		return r, nil
	}
	var o result
	switch {
	case err != nil && ctx.Err() != nil:
		o = result{outcome: Neutral, cancelled: true}
	case judge != nil:
		o = b.classified(judge(r, err), err)
	default:
		o = b.classified(b.Judge(err), err)
	}
	judged = true
	b.settle(p, began, o)
	return r, b.mapped(err)
}

var errCall = invalid("nil context or function")

// mapped is err as Config.OnError has it.
func (b *Breaker) mapped(err error) error {
	if onError := b.core.cfg.OnError; err != nil && onError != nil {
		return onError(err)
	}
	return err
}

// Allow is Do in two steps, for calls that do not end where they begin: it admits
// a call, or returns an *OpenError. Then done must be called with the error that
// the call ended with, from any goroutine; only the first time counts. It takes
// context.Canceled for the end of the caller's ctx; of other errors Judge says
// what they are. Config.OnError is not asked. Costs two small allocations.
func (b *Breaker) Allow() (done func(error), err error) {
	p, err := b.admit(context.Background())
	if err != nil {
		return nil, err
	}
	w := &waiting{b: b, permit: p, began: b.clock(b.readsStart)}
	return w.done, nil
}

// waiting is a call that Allow admitted.
type waiting struct {
	b      *Breaker
	permit Permit
	began  time.Duration
	ended  atomic.Bool
}

func (w *waiting) done(err error) {
	if w.ended.Swap(true) {
		return
	}
	r := result{outcome: Failure}
	defer func() { w.b.settle(w.permit, w.began, r) }() // a failure, if what judges the error panics
	switch {
	case err == nil:
		r.outcome = Success
	case errors.Is(err, context.Canceled):
		r = result{outcome: Neutral, cancelled: true}
	default:
		r = w.b.classified(w.b.Judge(err), err)
	}
}

// Judge returns what an error of a call is, in this order: Success, when it is
// nil; Neutral, when it says by a method Refused() bool, itself or in its tree,
// that there was no call, as those of a layer within that refuses calls do, or
// when Config.Ignore is true of it; Failure, when Config.Failure is nil, or it or
// Config.OpenOn is true of it; otherwise Success.
func (b *Breaker) Judge(err error) Outcome {
	cfg := &b.core.cfg
	if err == nil {
		return Success
	}
	if errtree.Refused(err) {
		return Neutral
	}
	switch {
	case cfg.Ignore != nil && cfg.Ignore(err):
		return Neutral
	case cfg.Failure == nil || cfg.Failure(err) || cfg.OpenOn != nil && cfg.OpenOn(err):
		return Failure
	}
	return Success
}

// classified is the result of a call with outcome o and error err.
func (b *Breaker) classified(o Outcome, err error) result {
	if o > Failure {
		o = Neutral
	}
	r := result{outcome: o, ignored: o == Neutral, err: err}
	if o != Failure || err == nil {
		return r
	}
	cfg := &b.core.cfg
	r.trip = cfg.OpenOn != nil && cfg.OpenOn(err)
	r.hint, _ = errtree.RetryAfter(err)
	return r
}

// admit acquires a permit for a call of ctx's.
func (b *Breaker) admit(ctx context.Context) (Permit, error) {
	if ctx.Err() != nil {
		return 0, ended(ctx)
	}
	if id := b.id.Load(); passes(id) {
		return Permit(id), nil
	}
	return b.Acquire(time.Now())
}

// ended is the error for a ctx that ended before the call.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	text := fmt.Errorf("breaker: %w before the call", err)
	if cause != err {
		text = fmt.Errorf("breaker: %w before the call: %w", err, cause)
	}
	return errtree.SaysRefused(text, true)
}

// clock returns the time since core.begin; 0 when that is not needed.
func (b *Breaker) clock(needed bool) time.Duration {
	if !needed {
		return 0
	}
	return time.Since(b.core.begin)
}

// succeed gives the permit back of a call that began at began and succeeded.
func (b *Breaker) succeed(p Permit, began time.Duration) {
	at := b.clock(b.readsEnd)
	if b.count(p, at, at-began) { // without readsStart no call is too slow
		if b.core.cfg.OnEvent != nil {
			b.succeeded(time.Now(), at-began)
		}
		return
	}
	b.settle(p, began, result{outcome: Success})
}

// settle gives a permit back.
func (b *Breaker) settle(p Permit, began time.Duration, r result) {
	now := time.Now()
	if b.readsStart {
		r.took = now.Sub(b.core.begin) - began
	}
	b.report(p, now, r)
}
