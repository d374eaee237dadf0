package governor

import (
	"errors"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
)

// tellRefusal tells that the governor ends r with err, an error of its own, after n
// attempts, before anybody has the result: who finds the reason looks for the event.
// It is silent where another event has told: Overflow, GaveUp, Abandoned; and of
// closures that panicked, which were not refused.
func (c *core) tellRefusal(r *request, n int, err error) {
	reason := err
	if g, ok := err.(*GaveUpError); ok {
		if reason = g.Reason; reason == nil {
			return
		}
	}
	switch reason {
	case ErrQueueFull, ErrDropped, ErrAbandoned, ErrGoexit:
		return
	}
	switch e := reason.(type) {
	case *PanicError:
		return
	case *CanceledError:
		c.emitFor(r, event.Cancelled, 0, 0, err)
		return
	case *CooldownError, *LateError, *pool.OpenError: // whose Err may be anything of the user's
	default:
		if c.breaker == nil || !errors.Is(e, breaker.ErrOpen) {
			break
		}
		c.count.broken.Add(1)
		told := event.Event{Kind: event.BreakerRefused, Request: r.seq}
		if open, ok := errors.AsType[*breaker.OpenError](e); ok {
			told.Until = open.Until
		}
		c.emit(told)
		return
	}
	c.emitFor(r, event.Refused, n, 0, err)
}
