package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/policy"
)

// Do calls fn until it succeeds, fails with an error that is not retried, or cfg
// ends it, and returns the last call's result, with an error when that failed:
//
//   - an error that cfg does not retry, as it is;
//   - an *ExhaustedError, when no attempts or no time were left;
//   - when another attempt was due but ctx ended first: an error that matches
//     ctx.Err(), context.Cause(ctx) and the last error. When ctx's deadline comes
//     before the wait's end, one that matches context.DeadlineExceeded and the
//     last error, at once; but a result that RetryOnResult would have repeated is
//     then returned without one, unless cfg has FailOnResult.
//
// An error says by a method Refused() bool that nothing was sent only if every
// attempt was refused, or none began. One that is not retried is wrapped if it
// would say so wrongly.
//
// fn gets ctx, from the second call on one that descends from it and tells the
// attempt; see FromContext. Once ctx has ended, no attempt begins, not even the
// first, and a wait ends at once; but Do does not cut fn short: fn has to heed
// ctx itself. A cfg for which Validate returns an error, a nil ctx and a nil fn
// are refused with an error that matches ErrInvalid.
//
// Everything happens on the caller's goroutine. What panics in fn, or in a
// function of cfg, passes through, as does runtime.Goexit. A call that succeeds
// at once allocates nothing, but cfg is looked through each time; and with a
// Budget, RetryOnResult or BeforeRetry a Retry is made of it for each call, which
// takes several allocations. DoWith, by a Retry that New made before, does
// without either.
func Do[R any](ctx context.Context, cfg Config, fn func(context.Context) (R, error)) (R, error) {
	var none R
	if err := cfg.invalid(); err != nil {
		return none, err
	}
	if cfg.layered() {
		return DoWith(ctx, newRetry(cfg), fn)
	}
	if ctx == nil || fn == nil {
		return none, errCall
	}
	if ctx.Err() != nil {
		return none, cfg.mapped(notBegun(ctx))
	}
	var start time.Time
	if cfg.timed() {
		start = time.Now()
	}
	result, err := fn(ctx)
	if err == nil {
		return result, nil
	}
	return repeat(ctx, cfg.kept(), start, fn, result, err)
}

// DoWith is Do by the Config of r, which New has looked through.
func DoWith[R any](ctx context.Context, r *Retry, fn func(context.Context) (R, error)) (R, error) {
	var none R
	if ctx == nil || fn == nil {
		return none, errCall
	}
	if r.chain != nil {
		return policy.Do(ctx, r.chain, fn)
	}
	if ctx.Err() != nil {
		return none, r.cfg.mapped(notBegun(ctx))
	}
	var start time.Time
	if r.timed {
		start = time.Now()
	}
	result, err := fn(ctx)
	if err == nil {
		return result, nil
	}
	return repeat(ctx, &r.cfg, start, fn, result, err)
}

var errCall = fmt.Errorf("%w: nil context or function", ErrInvalid)

// kept returns a copy on the heap, for a call whose first attempt has failed.
func (c Config) kept() *Config { return &c }

// repeat goes on with a Do whose first attempt has failed. It is a function of
// its own so that a call that succeeds at once does not pay for what it needs.
func repeat[R any](ctx context.Context, cfg *Config, start time.Time, fn func(context.Context) (R, error), result R, err error) (R, error) {
	r := run{cfg: cfg, start: start}
	for {
		again, final := r.failed(ctx, err)
		if !again {
			return result, final
		}
		if result, err = fn(r.context(ctx)); err == nil {
			r.succeeded()
			return result, nil
		}
	}
}
