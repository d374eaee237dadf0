package governor

import (
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/throttle"
)

// dry is what waits for a connection. The lanes of a selector do so in its line, if no other
// has its text, where one of them is tried when the pool may have something again: to try
// all would cost as much as there are for every connection that comes back. It belongs to
// whoever has the turn. The zero value is ready.
type dry struct {
	exact   bool                        // no two selectors have the same text; it never changes
	lines   map[throttle.Scope]struct{} // in which somebody waits, or did lately
	enough  int                         // of them, until it is looked whether anybody does
	opening sched.List                  // lanes that wait until what is being opened has started
	others  sched.List                  // those of selectors whose texts may be those of others
}

// awaitConn has l, which is next, wait until the pool may have something for its
// selector, or until at.
func (c *core) awaitConn(l *lane, sc *scopes, at int64) {
	d, of := &c.dry, sc[throttle.Selector]
	if _, ok := l.sel.value.(string); !ok && !d.exact { // a line is named by the text, which others may have, too
		if at == forever {
			c.queue.Park(&l.sched, &d.others)
		} else {
			c.queue.ParkUntil(&l.sched, &d.others, at)
		}
		return
	}
	c.queue.WaitForScope(&l.sched, of, at)
	if len(d.lines) >= max(64, d.enough) {
		for of := range d.lines {
			if !c.queue.Awaited(of) {
				delete(d.lines, of)
			}
		}
		d.enough = 2 * len(d.lines)
	}
	if d.lines == nil {
		d.lines = make(map[throttle.Scope]struct{})
	}
	d.lines[of] = struct{}{}
}

// refill has those tried that wait for a connection; if there are very many selectors,
// the others in another round.
func (c *core) refill() {
	c.queue.WakeAll(&c.dry.opening)
	c.queue.WakeAll(&c.dry.others)
	n := mostSteps
	for of := range c.dry.lines {
		if n--; n < 0 {
			c.poolFreed.Store(true)
			c.wakeUp()
			return
		}
		delete(c.dry.lines, of)
		c.queue.ScopeChanged(of, false)
	}
}
