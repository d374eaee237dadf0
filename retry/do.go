package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
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
	if ctx.Err() != nil {
		return result, ended(ctx, 0, nil)
	}
	r := run{cfg: cfg, start: time.Now()}
	for call := ctx; ; {
		result, err := fn(call)
		if err == nil {
			return result, nil
		}
		if err := r.failed(ctx, err); err != nil {
			return result, err
		}
		call = &attempt{ctx, Info{Attempt: r.step.Attempt + 1, Last: err, First: r.start, Started: time.Now()}}
	}
}

// run is one call of Do, as far as it does not depend on the type of its result.
type run struct {
	cfg   Config
	start time.Time
	step  backoff.Step // the last failed attempt
}

// failed takes note of a failed attempt. It returns nil when it is time for the
// next, or the error that Do ends with.
func (r *run) failed(ctx context.Context, err error) error {
	s := &r.step
	s.Attempt++
	s.Elapsed = time.Since(r.start)
	s.Err = err
	wait, again, why := r.cfg.Next(*s)
	switch {
	case !again && why == Ignored:
		return err
	case !again:
		return &ExhaustedError{Attempts: s.Attempt, Elapsed: s.Elapsed, Reason: why, Err: err}
	}
	s.Prev = wait
	if ctx.Err() != nil {
		return ended(ctx, s.Attempt, err)
	}
	if deadline, ok := ctx.Deadline(); ok && wait >= time.Until(deadline) {
		return fmt.Errorf("retry: %w before the end of a wait of %v after attempt %d: %w", context.DeadlineExceeded, wait, s.Attempt, err)
	}
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		// Both may have been ready, and select takes either: ctx has the last word.
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	return ended(ctx, s.Attempt, err)
}

// ended is the error for a ctx that has ended after so many attempts, of which
// the last ended with err.
func ended(ctx context.Context, attempts int, err error) error {
	why, cause := ctx.Err(), context.Cause(ctx)
	if cause != why {
		why = fmt.Errorf("%w: %w", why, cause)
	}
	if attempts == 0 {
		return fmt.Errorf("retry: %w before the first attempt", why)
	}
	return fmt.Errorf("retry: %w after attempt %d: %w", why, attempts, err)
}
