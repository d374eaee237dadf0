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
	if g.passes(int(a.cost)) && !opening && !g.word.held() {
		a.lax = true
		return true // a cooldown that comes now is the commit's to see
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	held := false
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && st.blocks(now) != 0 {
			held = true
		}
	}
	if !g.observe {
		if _, wait := g.wait(now, sc, int(a.cost), opening); held || wait != 0 {
			return false
		}
	}
	if opening {
		a.opening = true
		for _, s := range sc {
			g.opening[s] = g.opening[s].plus(int(a.cost), 1)
		}
	} else {
		if !g.take(now, sc, int(a.cost)) {
			return false
		}
		a.charged, a.taken = true, now
	}
	g.relax()
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && !held {
			if a.passes == nil {
				a.passes = new(passes)
			}
			a.passes[i] = pass{st, st.gen}
			st.enter(now, int(a.cost))
			a.probe = a.probe || st.phase == probing
			if until := add(now, g.patient); st.phase == probing || !st.rated() && st.at > until {
				st.at = until // from now on: it may hang before it starts
				g.timers.Fix(st)
			}
		}
	}
	return true
}

// passes reports whether the limits let anything of that cost pass, so that they need
// not be asked.
func (g *gate) passes(cost int) bool { return cost <= 1 && g.lax.Load() }

// charge takes from the limits for an attempt that has just opened its
// connection. It reports false when they do not admit it now.
func (g *gate) charge(now int64, a *attempt) bool {
	sc := a.scopes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened(a)
	if _, wait := g.wait(now, &sc, int(a.cost), false); wait != 0 && !g.observe {
		return false
	}
	if !g.take(now, &sc, int(a.cost)) {
		return false
	}
	a.charged, a.taken = true, now
	g.relax()
	return true
}

// opened ends the time in which a's cost counts as about to be taken. The
// caller holds mu.
func (g *gate) opened(a *attempt) {
	if a.opening {
		a.opening = false
		for _, s := range a.scopes() {
			if g.opening[s] = g.opening[s].plus(-int(a.cost), -1); g.opening[s].calls == 0 {
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
	for i := range g.limits {
		l := &g.limits[i]
		key := sc[l.Per].Key
		d := l.Limiter.Wait(t, key, l.of(n))
		if o := g.opening[sc[l.Per]]; opening && d <= 0 && o.calls > 0 {
			more := n + o.cost
			if l.calls {
				more = 1 + o.calls
			}
			if d = l.Limiter.Wait(t, key, more); d == limiter.Never {
				d = untilOpened
			}
		}
		if d > longest {
			which, longest = i, d
		}
	}
	return which, longest
}

// underway is what has been granted and opens a connection.
type underway struct{ cost, calls int }

func (u underway) plus(cost, calls int) underway { return underway{u.cost + cost, u.calls + calls} }

// untilOpened is the wait until what is being opened has started, or has failed.
const untilOpened = limiter.Never - 1

// take takes n permits from all limits, for which wait has just said 0. It returns
// false, and nothing is taken, when another owner of a limit was faster. The caller
// holds mu.
func (g *gate) take(now int64, sc *scopes, n int) bool {
	t := g.time(now)
	g.tell(t, sc, 0)
	g.settleRest(t)
	for i := range g.limits {
		if l := &g.limits[i]; l.claims != nil && !g.observe && l.claims.Claim(t, sc[l.Per].Key, l.of(n)) > 0 {
			g.unclaim(t, sc, n, i)
			return false
		}
	}
	for i := range g.limits {
		if l := &g.limits[i]; l.claims == nil || g.observe {
			l.Limiter.Take(t, sc[l.Per].Key, l.of(n))
		}
	}
	return true
}

// unclaim gives back what take claimed from the limits before the one that was late.
func (g *gate) unclaim(t time.Time, sc *scopes, n, late int) {
	for i := range g.limits[:late] {
		if l := &g.limits[i]; l.claims != nil {
			settleAt(l.Limiter, t, t, sc[l.Per].Key, l.of(n), 0)
		}
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

// known returns how long the limits will keep n permits back at least: of those that
// come back when a call ends, nobody knows when that is.
func (g *gate) known(now int64, sc *scopes, n int) (longest time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.limits {
		l := &g.limits[i]
		if d := l.Limiter.Wait(g.time(now), sc[l.Per].Key, l.of(n)); d > longest && (d == limiter.Never || !l.holds(sc[l.Per].Key)) {
			longest = d
		}
	}
	return longest
}

// shared returns the levels, as bits, of the limits whose permits are held while calls
// run, and that count a call of sc with one of theirs; short reports whether one of them
// keeps n permits back from sc.
func (g *gate) shared(now int64, sc, theirs *scopes, n int) (levels uint8, short bool) {
	for i := range g.limits {
		l := &g.limits[i]
		if l.Per > throttle.Host && sc[l.Per] != theirs[l.Per] || !l.holds(sc[l.Per].Key) {
			continue
		}
		levels |= 1 << l.Per
		g.mu.Lock()
		wait := l.Limiter.Wait(g.time(now), sc[l.Per].Key, l.of(n))
		g.mu.Unlock()
		short = short || wait > 0 && wait != limiter.Never
	}
	return levels, short
}

// keeps reports whether a limit of that level whose permits are held while calls run
// keeps n permits back from sc.
func (g *gate) keeps(now int64, sc *scopes, n int, level throttle.Level) bool {
	key := sc[level].Key
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.limits {
		if l := &g.limits[i]; l.Per == level && l.holds(key) && l.Limiter.Wait(g.time(now), key, l.of(n)) > 0 {
			return true
		}
	}
	return false
}

// takeNow takes from the limits for an inline call, if all of them admit it.
func (g *gate) takeNow(in *inlineCall) bool {
	n := int(in.ask.cost())
	if g.alone != nil {
		t := g.time(in.began)
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.alone.TryTake(t, "", n, int(g.unsettled.Swap(0))) == 0
	}
	sc := in.scopes()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, wait := g.wait(in.began, &sc, n, false); wait != 0 || !g.take(in.began, &sc, n) {
		return false
	}
	g.relax()
	return true
}

// accepted tells the limits that an inline call went well: of the call itself if
// they were lax when it began. counted says that its cell counts it, too.
func (g *gate) accepted(now int64, in *inlineCall, lax, counted bool) {
	if g.alone != nil {
		g.unsettled.Add(int64(in.ask.cost()))
		return
	}
	sc := in.scopes()
	t, sent := g.time(now), g.time(in.began)
	g.mu.Lock()
	defer g.mu.Unlock()
	if lax {
		g.tell(t, &sc, 1)
		return
	}
	if counted {
		g.charged++
	}
	g.settle(t, g.time(in.taken()), &sc, int(in.ask.cost()))
	for _, l := range g.limits {
		l.Limiter.Accepted(t, sent, sc[l.Per].Key)
	}
	g.relax()
}

// settleRest settles what is unsettled, before a take or what gives something back. The
// caller holds mu.
func (g *gate) settleRest(t time.Time) {
	if g.unsettled.Load() > 0 {
		n := int(g.unsettled.Swap(0))
		g.alone.Settle(t, "", n, n)
	}
}

// burn settles what an inline call took that did not start.
func (g *gate) burn(now int64, in *inlineCall) {
	sc := in.scopes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle(g.time(now), g.time(in.taken()), &sc, int(in.ask.cost()))
	g.relax()
}

// tell tells the limits of calls that passed them unasked: n, and those that cells
// have counted since. The caller holds mu.
func (g *gate) tell(t time.Time, sc *scopes, n int) {
	if len(g.relaxed) == 0 {
		return
	}
	_, all := g.cells.sum()
	if all += g.unasked.Load(); all > g.charged+g.passed {
		n += int(all - g.charged - g.passed)
		g.passed = all - g.charged
	}
	known := min(n, g.ahead)
	g.ahead -= known
	g.pass(t, sc, n-known)
}

// tellAhead tells limits that are lax, and are about to hear what a's answer says is left,
// of the calls under way that started after a did: the vendor may not have counted them.
// One that starts or ends just now may be missed, or told of twice. The caller holds mu.
func (g *gate) tellAhead(t time.Time, sc *scopes, a *attempt) {
	n := 0
	for b := range a.core.attempts.all {
		if b != a && b.granted >= a.began && !b.charged && !b.opening {
			n++
		}
	}
	for in := range g.cells.running {
		if in != a.life.in && !in.waits() && in.began >= a.began {
			n++
		}
	}
	n = max(0, n-g.ahead) // of a limiter that stays lax
	g.ahead += n
	g.pass(t, sc, n)
}

// pass tells the limits of n calls that passed them unasked. The caller holds mu.
func (g *gate) pass(t time.Time, sc *scopes, n int) {
	if n == 0 {
		return
	}
	for i, l := range g.relaxed {
		l.Passed(t, sc[g.limits[i].Per].Key, n)
	}
}

// reconsider is for limits that have changed by themselves.
func (g *gate) reconsider() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.relax()
}

// relax notes whether the limits let everything pass. The caller holds mu.
func (g *gate) relax() {
	lax := len(g.relaxed) == len(g.limits)
	for _, l := range g.relaxed {
		lax = lax && l.Lax()
	}
	if g.lax.Load() != lax {
		g.lax.Store(lax)
	}
}
