package breaker

import (
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
)

// enter makes s the state, with nothing counted.
func (c *core) enter(now time.Time, s State) {
	c.id = c.next(s)
	c.window = c.newWindow(now, s)
	c.until, c.trials, c.before = time.Time{}, nil, nil
	switch s {
	case HalfOpen:
		if c.cfg.HalfOpenWait > 0 {
			c.until = now.Add(c.cfg.HalfOpenWait)
		}
	case ForcedOpen:
		c.count(now)
	default:
		c.opens, c.delay, c.cause = 0, 0, nil
	}
}

// count counts an opening of this cycle.
func (c *core) count(now time.Time) {
	if c.opens++; c.opens == 1 {
		c.first = now
	}
}

// open opens the breaker and keeps what is counted. The schedule, or OpenDelay,
// is asked first: it is the user's, and when it panics nothing has changed.
func (c *core) open(now time.Time, r result) {
	step := backoff.Step{Attempt: c.opens + 1, Prev: c.delay, Err: r.err}
	if c.opens > 0 {
		step.Elapsed = now.Sub(c.first)
	}
	delay := c.delayOf(now, step)
	c.id = c.next(Open)
	c.trials, c.before = nil, nil
	c.count(now)
	if c.delay = delay; r.err != nil {
		c.cause = r.err
	}
	if r.hint > 0 {
		delay = min(r.hint, c.cfg.MaxRetryAfter)
		if delay < r.hint {
			c.note(now, event.Event{Kind: event.Clamped, Delay: delay, Source: "RetryAfter", Err: r.err})
		}
	}
	c.until = now.Add(delay)
}

// delayOf returns how long the opening at now is to last.
func (c *core) delayOf(now time.Time, step backoff.Step) time.Duration {
	if c.cfg.OpenDelay != nil {
		return max(0, c.cfg.OpenDelay(c.stats(now), step))
	}
	delay, again := c.cfg.OpenFor.Next(step)
	switch {
	case again:
		return max(0, delay)
	case c.delay > 0:
		return c.delay
	}
	return defaultOpen
}

// restore makes the breaker open as it was before its trial: that was cancelled,
// and nobody has learned anything.
func (c *core) restore(now time.Time) {
	b := c.before
	c.id = c.next(Open)
	c.window, c.until, c.before = b.window, b.until, nil
	c.note(now, event.Event{Kind: event.BreakerState})
}

// transition makes s the state by hand. It has the effect that it has when the
// breaker does it. An open one remains so for hint, when that is more than 0.
func (c *core) transition(now time.Time, s State, hint time.Duration) {
	c.advance(now)
	if s == Open {
		c.open(now, result{hint: hint})
		c.cause = nil
	} else {
		c.enter(now, s)
	}
	c.note(now, event.Event{Kind: event.BreakerSet})
}

func (c *core) reset(now time.Time) {
	c.advance(now)
	if stateOf(c.id) != Closed {
		c.enter(now, Closed)
		c.note(now, event.Event{Kind: event.BreakerSet})
	} else {
		c.enter(now, Closed)
	}
	c.note(now, event.Event{Kind: event.BreakerReset})
}

// note takes down what happened. Of a changed state it adds which one.
func (c *core) note(now time.Time, e event.Event) {
	if c.cfg.OnEvent == nil && !(c.heard && changes(e.Kind)) {
		return
	}
	e.Time = now
	if e.Kind == event.BreakerState || e.Kind == event.BreakerSet {
		e.Source = stateOf(c.id).String()
		if stateOf(c.id) == Open {
			e.Until = c.until
		}
	}
	c.events = append(c.events, e)
}

// changes reports whether k is of what the breaker does, not of a call.
func changes(k event.Kind) bool {
	switch k {
	case event.BreakerState, event.BreakerSet, event.BreakerReset, event.BreakerRate, event.Clamped:
		return true
	}
	return false
}

func (c *core) noteResult(now time.Time, r result) {
	switch {
	case r.outcome == Success:
		c.note(now, event.Event{Kind: event.BreakerSuccess, Delay: r.took})
	case r.outcome == Failure:
		c.note(now, event.Event{Kind: event.BreakerFailure, Delay: r.took, Err: r.err})
	case r.ignored:
		c.note(now, event.Event{Kind: event.Ignored, Err: r.err})
	}
}
