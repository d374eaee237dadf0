package governor

import (
	"time"

	"github.com/flyball-go/flyball/event"
)

// emit reports e, if anybody listens or it is kept.
func (c *core) emit(e event.Event) {
	if !c.bus.Wants(e.Kind) {
		return
	}
	now := time.Now()
	if e.Time.IsZero() {
		e.Time = now
	}
	e.Time, e.Until = shown(e.Time, now), shown(e.Until, now)
	e.Name = c.name
	c.bus.Emit(e)
}

// emitFor is emit for what is told of most calls, and mostly to nobody. An Event is large:
// with one in its frame each caller would be what makes a worker's stack grow.
func (c *core) emitFor(r *request, k event.Kind, attempt int, d time.Duration, err error) {
	if c.bus.Wants(k) {
		c.emitNow(r, k, attempt, d, err)
	}
}

//go:noinline
func (c *core) emitNow(r *request, k event.Kind, attempt int, d time.Duration, err error) {
	c.emit(event.Event{Kind: k, Request: r.seq, Attempt: attempt, Delay: d, Err: err})
}

// scopeEvent is emitted by the gate, under its mutex: Emit only queues.
func (c *core) scopeEvent(k event.Kind, st *scope) {
	if c.bus.Wants(k) {
		c.emit(event.Event{Kind: k, Scope: st.key.String()})
	}
}
