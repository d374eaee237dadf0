package governor

import (
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/throttle"
)

// Again returns an error by which a closure says that there is no result yet, and
// that it is to be called again no sooner than d from now: for a vendor's job that
// is begun by one call and asked for by others until it is done.
//
//	func(ctx context.Context, c *Client) (Report, error) {
//		status, err := c.Poll(ctx, job)
//		if err == nil && !status.Done {
//			return Report{}, governor.Again(30 * time.Second)
//		}
//		return status.Report, err
//	}
//
// The slot and the connection go back at once, except under Ask.KeepConn, and so
// does what a Hold kept. After d the request returns to its place in its lane (each
// fifth time to one behind the first that waits there for its first call, or behind all
// if there is none, lest they wait for ever) and passes the gate as before: it is charged
// to the limits, and waits for cooldowns. While it waits it counts in Config.MaxQueue, but
// never has to leave for that.
//
// Again is no failure: limits and the breaker hear of a success, and neither
// Config.Retry nor Ask.NoRetry has a say. It is no attempt either: what
// retry.FromContext, LimitedAttempts and Config.Retry count, they count anew from
// the next call on. retry.FromContext has a Last that matches ErrAgain then.
//
// There is no bound on how often, but for Ask.StartBy and the context. When d is
// more than Config.MaxWait, or ends after the latest start, the request fails at once
// with a *GaveUpError whose Reason is a *CooldownError of the Request level or a
// *LateError. Less than Config.MinCooldown is as long as that; less than 0 is also
// told as a Clamped event.
//
// The error may be wrapped. When the vendor's adapter finds a rate limit in what it is
// wrapped with, that is learned: the request waits for the vendor's pause, too, and limits
// and the breaker hear of a refusal; but it is no attempt either, unless the vendor said not
// to repeat it (throttle.Signal.NoRetry), which ends it. The value that the closure returns with it is dropped.
// Outside the closures of a governor it is an error like others; in those of Stream,
// after the first item, too.
func Again(d time.Duration) error { return &againError{d} }

type againError struct{ after time.Duration }

func (e *againError) Error() string { return fmt.Sprintf("governor: ask again in %v", e.after) }

// Is reports whether target is ErrAgain.
func (e *againError) Is(target error) bool { return target == ErrAgain }

// pending stands for an error with an Again in it where another governor must not
// take it for its own.
type pending struct{ err error }

func (e *pending) Error() string        { return e.err.Error() }
func (e *pending) Is(target error) bool { return target == ErrAgain }

// stale stands for an error with an Again in it that comes too late. What else is in it
// can be found.
type stale struct{ err error }

func (e *stale) Error() string        { return e.err.Error() }
func (e *stale) Is(target error) bool { return errors.Is(e.err, target) }

func (e *stale) As(target any) bool {
	if _, ok := target.(**againError); ok {
		return false
	}
	return errors.As(e.err, target)
}

// tooLate is err without its Again.
func tooLate(err error) error {
	if _, ok := errors.AsType[*againError](err); ok {
		return &stale{err}
	}
	return err
}

// answer is the outcome of a closure that returned err. It is looked at in here,
// where a panic in an Unwrap of the user's is taken for one of the closure.
func (a *attempt) answer(err error) outcome {
	if err == nil {
		return outcome{kind: ran}
	}
	e, ok := errors.AsType[*againError](err)
	if !ok {
		return outcome{ran, err}
	}
	c := a.core
	if e.after < 0 {
		c.count.clamped.Add(1)
		c.emit(event.Event{Kind: event.Clamped, Request: a.r.seq, Attempt: a.n, Delay: c.minCooldown, Source: "again"})
	}
	t := a.ill()
	t.asked = max(c.minCooldown, e.after)
	t.pause = t.asked
	return outcome{polled, &pending{err}}
}

// good reports whether the vendor did what it was asked to.
func (o outcome) good() bool { return o.kind == polled || o.kind == ran && o.err == nil }

// pollsAhead is how often a request that polls may come before another of its lane: in one
// in which as many poll as there are slots, one of them is always back before the others.
const pollsAhead = 5

// poll sends the request back to wait for its next call. That is a new one: what
// was counted about this one is forgotten, but not that it was sent.
func (c *core) poll(a *attempt, refused []throttle.Scope) fate {
	h := a.r.history()
	probes := 0
	if a.probe && len(refused) > 0 {
		probes = h.probes + 1
	}
	h.running += time.Duration(c.now() - a.began)
	h.polls++
	h.attempts, h.limited, h.probes, h.failed, h.opens = 0, 0, probes, 0, 0
	h.prev, h.polled, h.aside, h.yields = 0, true, probes >= maxProbes, h.polls%pollsAhead == 0
	h.last, h.heard, h.sent, h.err = a.n, true, true, a.out.err
	if len(refused) == 0 {
		h.guesses = 0
	}
	t := a.ails()
	switch {
	case c.observe:
		t.pause, t.signal = t.asked, nil
	case a.final: // what was refused is not to be repeated, says the vendor
		a.r.task.clear()
		h.err = tooLate(a.out.said())
		return fate{err: c.returned(h.err)}
	}
	c.count.again.Add(1)
	c.emit(event.Event{Kind: event.Again, Request: a.r.seq, Attempt: a.n, Delay: t.pause})
	h.signal = t.signal
	return fate{back: true, pause: t.pause}
}
