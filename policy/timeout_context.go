package policy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// timeoutContext is the context of a call that may take so long: the one that
// context.WithDeadlineCause would make, which it makes when somebody is to be told
// of its end. Until then it is one allocation, and nothing to stop. Each call has
// one of its own, which is never used again: its function may have kept it.
type timeoutContext struct {
	context.Context // the caller's
	at              time.Time
	over            TimeoutError // the cause, when the time is over

	state atomic.Int32
	mu    sync.Mutex // held to make real; meanwhile the caller's context is asked, which knows nothing of this one

	// Set before state is realized, and not changed after.
	real   context.Context
	cancel context.CancelFunc
}

const (
	untouched int32 = iota
	returned        // so has the call, before anybody was to be told
	making          // real, with mu
	realized
)

// realize returns the real context.
func (l *timeoutContext) realize() context.Context {
	if l.state.Load() == realized {
		return l.real
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state.Load() == realized:
	case !l.state.CompareAndSwap(untouched, making): // the call has returned, whatever became of the caller's context since
		l.real, l.cancel = context.WithCancel(context.WithoutCancel(l.Context))
		l.cancel()
	case l.first():
		l.real, l.cancel = context.WithDeadlineCause(context.WithoutCancel(l.Context), l.at, &l.over)
	default:
		now := time.Now() // by which package context compares at with a deadline of the wall clock alone
		l.real, l.cancel = context.WithDeadlineCause(l.Context, now.Add(l.at.Sub(now)), &l.over)
	}
	l.state.Store(realized)
	return l.real
}

// first reports whether this context ended before the caller's, when both have by
// their deadlines. When the caller's was cancelled nobody can tell.
func (l *timeoutContext) first() bool {
	if l.Context.Err() != context.DeadlineExceeded || time.Until(l.at) > 0 {
		return false
	}
	d, ok := l.Context.Deadline()
	return ok && !before(d, l.at)
}

// before reports whether d comes before at, which is by the clock of a chain. A d without a
// monotonic reading does so by the wall clock of now, which may have been set since that of
// the chain was read.
func before(d, at time.Time) bool {
	if d != d.Round(0) {
		return d.Before(at)
	}
	return time.Until(d) < time.Until(at)
}

// end ends the context.
func (l *timeoutContext) end() {
	if !l.state.CompareAndSwap(untouched, returned) {
		l.realize() // by somebody else, who is at it or has done
		l.cancel()
	}
}

func (l *timeoutContext) Deadline() (time.Time, bool) {
	if d, ok := l.Context.Deadline(); ok && before(d, l.at) {
		return d, true
	}
	return l.at, true
}

func (l *timeoutContext) Done() <-chan struct{} { return l.realize().Done() }

// Err looks at the clock where there is no timer. What it says is over is
// realized: context.Cause, which asks for Err before it asks Value, depends on it.
func (l *timeoutContext) Err() error {
	if l.state.Load() == untouched && l.Context.Err() == nil && time.Until(l.at) > 0 {
		return nil
	}
	return l.realize().Err()
}

// Value is that of the real context, when there is one, which thereby passes for
// one of package context's own: others are tied to it without a goroutine.
func (l *timeoutContext) Value(key any) any {
	if l.state.Load() == realized {
		return l.real.Value(key)
	}
	return l.Context.Value(key)
}
