package governor

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// live calls fn with the governor's core, until one was not evicted meanwhile.
func (g *Governor[S, C]) live(fn func(*core)) {
	for {
		fn(g.core)
		if g.group == nil || !g.wasEvicted() {
			return
		}
		m := g.group.of.(*membership[S, C])
		next, err := m.group.Get(m.host)
		if err == ErrClosed {
			next = m.group.there(m.host) // it may be shut down, and what still waits there is to hear of this
		}
		if next == nil {
			return
		}
		g = next
	}
}

// Learn obeys a signal that came from elsewhere, as Handle says.
func (g *Governor[S, C]) Learn(sig throttle.Signal) { g.live(func(c *core) { c.Learn(sig) }) }

// Clear ends the cooldown of a scope, as Handle says.
func (g *Governor[S, C]) Clear(sc throttle.Scope) { g.live(func(c *core) { c.Clear(sc) }) }

// ClearBefore ends an earlier cooldown of a scope, as Handle says.
func (g *Governor[S, C]) ClearBefore(sc throttle.Scope, at time.Time) {
	g.live(func(c *core) { c.ClearBefore(sc, at) })
}

// Pause suspends starts, as Handle says.
func (g *Governor[S, C]) Pause() { g.live((*core).Pause) }

// Resume allows starts again, as Handle says.
func (g *Governor[S, C]) Resume() { g.live((*core).Resume) }

// Export returns what has been learned, as Handle says.
func (g *Governor[S, C]) Export() (l Learned) {
	g.live(func(c *core) { l = c.Export() })
	return l
}

// SetMaxQueue changes Config.MaxQueue, as Handle says.
func (g *Governor[S, C]) SetMaxQueue(n int) (err error) {
	g.live(func(c *core) { err = c.SetMaxQueue(n) })
	return err
}
