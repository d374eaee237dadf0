package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

// run is one call and its repetitions, as far as it does not depend on who makes
// them.
type run struct {
	cfg   *Config
	start time.Time    // of the first attempt; zero until it is needed
	step  backoff.Step // the last attempt
	taken bool         // a repetition of Config.Budget is
	sent  bool         // an attempt was not refused further in
}

// failed takes note of an attempt that ended with err, decides, and waits. It
// reports whether there is to be another attempt, and if not the call's error,
// which is nil for a result that nothing is done about.
func (r *run) failed(ctx context.Context, err error) (again bool, final error) {
	r.giveBack()
	s := &r.step
	now := time.Now()
	if r.start.IsZero() {
		r.start = now
	}
	s.Attempt++
	s.Elapsed = now.Sub(r.start)
	s.Err = err
	r.sent = r.sent || !errtree.Refused(err)
	wait, again, why := r.cfg.Next(*s)
	// To wait adds nothing to the load, so the budget is taken only after it. But who
	// could not repeat now does not wait in the hope that he can then.
	if again && !r.affordable() {
		again, why = false, OutOfBudget
	}
	if !again {
		return false, r.over(why)
	}
	if hint, _ := RetryAfter(err); hint > wait {
		r.emit(event.Event{Kind: event.Clamped, Delay: wait, Source: "RetryAfter", Err: err})
	}
	s.Prev = wait
	if stop := r.wait(ctx, wait); stop != nil {
		return false, r.stopped(ctx, stop)
	}
	if r.taken = r.cfg.Budget.Take(); !r.taken {
		r.outOfBudget()
		return false, r.over(OutOfBudget)
	}
	return true, nil
}

// affordable reports whether the budget has a repetition at present.
func (r *run) affordable() bool {
	if r.cfg.Budget == nil {
		return true
	}
	s := r.cfg.Budget.State()
	if s.Repetitions >= s.Most {
		r.outOfBudget()
		return false
	}
	return true
}

func (r *run) outOfBudget() {
	r.emit(event.Event{Kind: event.BudgetSpent, Attempt: r.step.Attempt + 1, Err: r.step.Err})
}

// over is the error of a call whose last attempt is not repeated.
func (r *run) over(why Reason) error {
	s := &r.step
	if why == Ignored {
		r.emit(event.Event{Kind: event.Ignored, Attempt: s.Attempt, Err: s.Err})
		return r.cfg.mapped(errtree.Made(s.Err, r.sent))
	}
	r.emit(event.Event{Kind: event.GaveUp, Attempt: s.Attempt, Err: s.Err})
	if r.resultWillDo() {
		return nil
	}
	return r.cfg.mapped(&ExhaustedError{
		Name: r.cfg.Name, Attempts: s.Attempt, Elapsed: s.Elapsed, Reason: why, Err: s.Err, sent: r.sent,
	})
}

// stopped is the error of a call that stop ends before its next attempt.
func (r *run) stopped(ctx context.Context, stop error) error {
	r.emit(event.Event{Kind: event.GaveUp, Attempt: r.step.Attempt, Err: stop})
	if r.resultWillDo() && ctx.Err() == nil {
		return nil
	}
	return r.cfg.mapped(errtree.SaysRefused(stop, !r.sent))
}

// resultWillDo reports whether the last attempt had a result that is returned when
// there is no other attempt.
func (r *run) resultWillDo() bool { return r.step.Err == ErrResult && !r.cfg.FailOnResult }

// wait waits before the next attempt, and tells of it before. Its error says that
// ctx does not allow it.
func (r *run) wait(ctx context.Context, d time.Duration) error {
	s := &r.step
	if ctx.Err() != nil {
		return ended(ctx, s.Attempt, s.Err)
	}
	if deadline, ok := ctx.Deadline(); ok && r.cfg.Wait == nil && d >= time.Until(deadline) {
		return tooLate(d, s.Attempt, s.Err)
	}
	r.emit(event.Event{Kind: event.Retry, Attempt: s.Attempt, Delay: d, Err: s.Err})
	if err := r.sleep(ctx, d); err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("retry: wait after attempt %d: %w", s.Attempt, err), s.Err)
	}
	if ctx.Err() != nil { // the timer may have been ready, too, and select takes either: ctx has the last word
		return ended(ctx, s.Attempt, s.Err)
	}
	return nil
}

// sleep lets d pass, or less when ctx ends.
func (r *run) sleep(ctx context.Context, d time.Duration) error {
	if r.cfg.Wait != nil {
		return r.cfg.Wait(ctx, d)
	}
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// context is that of the next attempt.
func (r *run) context(ctx context.Context) context.Context {
	return &attempt{ctx, Info{Attempt: r.step.Attempt + 1, Last: r.step.Err, Started: time.Now()}}
}

// succeeded takes note of the end of a call without an error.
func (r *run) succeeded() {
	r.giveBack()
	if r.step.Attempt > 0 {
		r.emit(event.Event{Kind: event.Recovered, Attempt: r.step.Attempt + 1})
	}
}

func (r *run) giveBack() {
	if r.taken {
		r.taken = false
		r.cfg.Budget.GiveBack()
	}
}

func (r *run) emit(e event.Event) {
	if r.cfg.OnEvent != nil {
		e.Name = r.cfg.Name
		event.Tell(r.cfg.OnEvent, e)
	}
}

func (c *Config) mapped(err error) error {
	if c.OnError != nil {
		return c.OnError(err)
	}
	return err
}

// timed reports whether anything depends on when the first attempt began. If not,
// the clock is read only when that has failed: reading it takes longer than all
// the rest.
func (c *Config) timed() bool { return c.MaxElapsed > 0 || c.Backoff != nil && !timeless(c.Backoff) }

// timeless reports whether s does not look at Step.Elapsed.
func timeless(s backoff.Schedule) bool {
	switch s := s.(type) {
	case nil, backoff.Constant, backoff.Linear, backoff.Exponential, backoff.Fibonacci, backoff.Decorrelated, backoff.Times:
		return true
	case backoff.FullJitter:
		return timeless(s.Of)
	case backoff.EqualJitter:
		return timeless(s.Of)
	case backoff.FactorJitter:
		return timeless(s.Of)
	}
	return false
}

// tooLate is the error for a wait that would outlast the context.
func tooLate(wait time.Duration, attempts int, err error) error {
	text := fmt.Errorf("retry: %w before the end of a wait of %v after attempt %d", context.DeadlineExceeded, wait, attempts)
	if err == nil {
		return text
	}
	return fmt.Errorf("%w: %w", text, err)
}

// notBegun is the error for a ctx that ended before the first attempt.
func notBegun(ctx context.Context) error { return errtree.SaysRefused(ended(ctx, 0, nil), true) }

// ended is the error for a ctx that has ended after so many attempts, of which
// the last ended with err.
func ended(ctx context.Context, attempts int, err error) error {
	why, cause := ctx.Err(), context.Cause(ctx)
	if cause != why {
		why = fmt.Errorf("%w: %w", why, cause)
	}
	switch {
	case attempts == 0:
		return fmt.Errorf("retry: %w before the first attempt", why)
	case err == nil:
		return fmt.Errorf("retry: %w after attempt %d", why, attempts)
	}
	return fmt.Errorf("retry: %w after attempt %d: %w", why, attempts, err)
}
