package governor

import (
	"errors"

	"github.com/flyball-go/flyball/event"
)

// finish completes r with err, n being its last attempt, 0 where it ended in the queue, and reports whether it
// was this that completed it.
func (c *core) finish(r *request, n int, err error, own bool) bool {
	count := &c.count.failed
	switch {
	case err == nil:
		count = &c.count.succeeded
	case n == 0:
		count = &c.count.dropped
		if r.hist != nil {
			n = r.hist.last // who listens is told how many there were before
		}
	}
	if !own || err != ErrAbandoned { // else its attempt goes on
		c.repeated(r)
		if r.place&beyond != 0 {
			c.door.over(r)
		}
	}
	if own && err != nil && r.State() != Done { // else it was abandoned, which has been told
		c.tellRefusal(r, n, err)
	}
	if !r.complete(err, own, count) {
		return false
	}
	r.sel().refs.Add(-1)
	c.emitFor(r, event.Completed, n, 0, err)
	return true
}

// refuse completes a request that never got in.
func (c *core) refuse(r *request, err error) {
	if errors.Is(err, ErrQueueFull) {
		c.count.overflow.Add(1)
		c.emit(event.Event{Kind: event.Overflow, Err: err})
	}
	c.tellRefusal(r, 0, err)
	r.complete(err, true, &c.count.refused)
	if r.class.Load() != nil {
		r.sel().refs.Add(-1)
	}
}

// complete completes a's request with what f says.
func (c *core) complete(a *attempt, f fate) {
	n := a.n
	switch {
	case f.dropped:
		n = 0
	case a.out.kind > panicked:
		n-- // this one did not start
	}
	c.finish(a.r, n, f.err, f.own)
}
