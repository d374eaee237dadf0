package governor

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// look reports the first scope that keeps a request from passing now, and when
// that may change by itself. It takes nothing.
func (g *gate) look(now int64, sc *scopes) (st *scope, until int64) {
	if !g.word.held() {
		return nil, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range sc {
		if st := g.table[sc[i]]; st != nil {
			if until := st.blocks(now); until != 0 {
				return st, until
			}
		}
	}
	return nil, 0
}

// cooldown returns the cooldown of a request's scopes that ends last, as a copy;
// the zero scope when none is cooling.
func (g *gate) cooldown(sc *scopes) (last cooldown) {
	if !g.word.held() {
		return last
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && st.phase == cooling && st.until > last.until {
			last = cooldown{st.key, st.until, st.signal}
		}
	}
	return last
}

// cooldown is what a cooling scope waits for. Its until is 0 when it is none.
type cooldown struct {
	scope  throttle.Scope
	until  int64
	signal throttle.Signal
}

// enter lets an attempt into the scopes that are being probed or ramped, and
// charges the limits unless the attempt still has to open a connection. All or
// nothing: when it returns false, nothing was taken.
func (g *gate) enter(now int64, sc *scopes, a *attempt, opening bool) (ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := false
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && st.blocks(now) != 0 {
			held = true
		}
	}
	if !g.observe {
		if _, wait := g.wait(now, sc, a.cost, opening); held || wait != 0 {
			return false
		}
	}
	if opening {
		a.opening = true
		for _, s := range sc {
			g.opening[s] += a.cost
		}
	} else {
		g.take(now, sc, a)
	}
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && !held {
			a.passes[i] = pass{st, st.gen}
			st.enter(now, a.cost)
			a.probe = a.probe || st.phase == probing
			if until := add(now, g.patient); st.phase == probing || st.rate == 0 && st.at > until {
				st.at = until // from now on: it may hang before it starts
				g.timers.fix(st)
			}
		}
	}
	return true
}

// charge takes from the limits for an attempt that has just opened its
// connection. It reports false when they do not admit it now.
func (g *gate) charge(now int64, sc *scopes, a *attempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened(a)
	if _, wait := g.wait(now, sc, a.cost, false); wait != 0 && !g.observe {
		return false
	}
	g.take(now, sc, a)
	return true
}

// opened ends the time in which a's cost counts as about to be taken. The
// caller holds mu.
func (g *gate) opened(a *attempt) {
	if a.opening {
		a.opening = false
		for _, s := range a.scopes {
			if g.opening[s] -= a.cost; g.opening[s] == 0 {
				delete(g.opening, s)
			}
		}
	}
}

// wait returns the limit that admits n permits last, and how long from now that
// is. The caller holds mu. While connections are being opened their cost counts
// as taken, so that no more are opened than the limits would let start.
func (g *gate) wait(now int64, sc *scopes, n int, opening bool) (which int, longest time.Duration) {
	t := g.time(now)
	for i, l := range g.limits {
		key := sc[l.Per].Key
		d := l.Limiter.Wait(t, key, n)
		if o := g.opening[sc[l.Per]]; opening && d == 0 && o > 0 {
			if d = l.Limiter.Wait(t, key, n+o); d == limiter.Never {
				d = untilOpened
			}
		}
		if d > longest {
			which, longest = i, d
		}
	}
	return which, longest
}

// untilOpened is the wait until what is being opened has started, or has failed.
const untilOpened = limiter.Never - 1

func (g *gate) take(now int64, sc *scopes, a *attempt) {
	a.charged = true
	t := g.time(now)
	for _, l := range g.limits {
		l.Limiter.Take(t, sc[l.Per].Key, a.cost)
	}
}

// limited returns how long the limits keep n permits back, and by which limit's
// level; 0 when they are to be had now.
func (g *gate) limited(now int64, sc *scopes, n int, opening bool) (per throttle.Level, wait time.Duration) {
	if len(g.limits) == 0 {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i, wait := g.wait(now, sc, n, opening)
	return g.limits[i].Per, wait
}
