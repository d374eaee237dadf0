package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
)

// TimeoutConfig says how long a call may take.
type TimeoutConfig struct {
	// Name appears in events and errors.
	Name string

	// After is when the call's context ends, counted from when the call passes
	// this layer. 0 means 1 s.
	After time.Duration

	// AfterFor, when there is one, says it for each call instead, from the
	// call's context. What is not more than 0 means After.
	AfterFor func(ctx context.Context) time.Duration

	// StuckAfter is how long after the end of its context the function may
	// still run before an event says so. 0 means as long as the timeout; less
	// than 0: no event does. It needs OnEvent.
	StuckAfter time.Duration

	// Abandon makes the layer return even if the function does not. For this
	// the call goes on on another goroutine, which ends when the function does.
	// What it returns then, and a panic, are nobody's; layers further out no
	// longer see that it runs. A Bulkhead further in does.
	Abandon bool

	// Grace is how long after the end of its context a function that Abandon
	// applies to may take to return. 0 means a hundredth of the timeout, less
	// than 0 no time at all, so that a function that heeds its context may be
	// abandoned too.
	Grace time.Duration

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. What panics in it passes
	// through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of TimedOut, Stuck and Abandoned, the second on a goroutine
	// of its own. It is called under no lock, and waited for. A panic in it is
	// dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// Timeout bounds how long a call may take by ending its context. It waits for
// the function to return, unless it is told to Abandon it: what does not heed its
// context is not cut short.
//
// A function that succeeds, however late, has succeeded. An error that comes
// after the end is a *TimeoutError around it. The end of the caller's own
// context, whatever its deadline, is no timeout: the error stays as it is. So it
// does when both ended while nobody looked, the caller's by being cancelled.
//
// A call costs one allocation: its context, which is not used again, since its
// function may keep it. That makes a timer when it is first asked for its Done
// channel, which is five more. A call that has a deadline which comes before costs
// nothing: its function is given the caller's context as it is. To be able to tell
// that a call is stuck, it is twelve more; with Abandon, twelve and a goroutine.
//
// Results must not depend on the context, which ends when the call returns: a
// response's body has to be read inside.
type Timeout struct {
	cfg       TimeoutConfig
	abandoned atomic.Int64
}

// NewTimeout returns a Timeout. The error names a field that is out of range.
func NewTimeout(cfg TimeoutConfig) (*Timeout, error) {
	if cfg.After < 0 {
		return nil, outOfRange("TimeoutConfig.After", cfg.After, "0 or more")
	}
	if cfg.After == 0 {
		cfg.After = time.Second
	}
	return &Timeout{cfg: cfg}, nil
}

// Layer returns TimeoutLayer.
func (t *Timeout) Layer() Layer { return TimeoutLayer }

// String describes the timeout: "timeout(1s)".
func (t *Timeout) String() string {
	settings := []string{t.cfg.After.String()}
	if t.cfg.AfterFor != nil {
		settings = append(settings, "by call")
	}
	if t.cfg.Abandon {
		settings = append(settings, "abandons")
	}
	return describe("timeout", t.cfg.Name, settings...)
}

// Abandoned returns how many functions run that were abandoned.
func (t *Timeout) Abandoned() int { return int(t.abandoned.Load()) }

// Wrap puts the timeout around next.
func (t *Timeout) Wrap(next Handler) Handler {
	h := t.wait
	if t.cfg.Abandon {
		h = t.leave
	}
	return mapped(func(c *Call) error { return h(c, next) }, t.cfg.OnError)
}

// after is how long the call may take.
func (t *Timeout) after(c *Call) time.Duration {
	if t.cfg.AfterFor != nil {
		if d := t.cfg.AfterFor(c.ctx); d > 0 {
			return d
		}
	}
	return t.cfg.After
}

// begin returns the call's context. Each call has a cause of its own: that of a
// Timeout further out is not taken for it.
func (t *Timeout) begin(c *Call, after time.Duration) *timeoutContext {
	return &timeoutContext{Context: c.ctx, at: c.Now().Add(after), over: TimeoutError{Name: t.cfg.Name, After: after}}
}

func (t *Timeout) wait(c *Call, next Handler) error {
	watches, after := t.cfg.OnEvent != nil && t.cfg.StuckAfter >= 0, t.after(c)
	if d, ok := c.ctx.Deadline(); ok && !watches && before(d, c.Now().Add(after)) {
		return next(c) // whose context ends in time, and by no fault of this layer
	}
	ctx := t.begin(c, after)
	defer ctx.end()
	if !watches {
		return t.judge(ctx, c.WithContext(ctx, next))
	}
	return t.judge(ctx, t.watched(ctx, c, next))
}

func (t *Timeout) watched(ctx *timeoutContext, c *Call, next Handler) error {
	defer t.watch(ctx, ctx.over.After)()
	return c.WithContext(ctx, next)
}

// judge makes a timeout of what a function returned after the end of its time.
func (t *Timeout) judge(ctx *timeoutContext, err error) error {
	if err == nil || context.Cause(ctx) != error(&ctx.over) {
		return err
	}
	e := &TimeoutError{Name: ctx.over.Name, After: ctx.over.After, Err: err} // others may read over
	report(t.cfg.OnEvent, event.Event{Kind: event.TimedOut, Name: e.Name, Delay: e.After, Err: e})
	return e
}
