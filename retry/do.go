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
//     last error, at once.
//
// fn gets ctx, from the second call on one that descends from it and tells the
// attempt; see FromContext. Once ctx has ended, no attempt begins, not even the
// first, and a wait ends at once; but Do does not cut fn short: fn has to heed
// ctx itself. A cfg for which Validate returns an error, and a nil fn, are
// refused with an error that matches ErrInvalid.
//
// Everything happens on the caller's goroutine. What panics in fn, or in a
// function of cfg, passes through, as does runtime.Goexit. A call that succeeds
// at once allocates nothing.
func Do[R any](ctx context.Context, cfg Config, fn func(context.Context) (R, error)) (R, error) {
	var result R
	if fn == nil {
		return result, fmt.Errorf("%w: the function is nil", ErrInvalid)
	}
	if err := cfg.Validate(); err != nil {
		return result, err
	}
	if cfg.RetryOnResult != nil || cfg.BeforeRetry != nil || cfg.Budget != nil {
		return policy.Do(ctx, policy.Chain(&Retry{cfg, cfg.timed()}), fn) // they need a policy's call
	}
	if ctx.Err() != nil {
		return result, ended(ctx, 0, nil)
	}
	var start time.Time
	if cfg.timed() {
		start = time.Now()
	}
	result, err := fn(ctx)
	if err == nil {
		return result, nil
	}
	return repeat(ctx, cfg, start, fn, result, err)
}

// repeat goes on with a Do whose first attempt has failed. It is a function of
// its own so that a call that succeeds at once does not pay for what it needs.
func repeat[R any](ctx context.Context, cfg Config, start time.Time, fn func(context.Context) (R, error), result R, err error) (R, error) {
	r := run{cfg: &cfg, start: start}
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
