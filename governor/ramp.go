package governor

import (
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// maxRamp is the longest that traffic takes to grow back to a known rate.
const maxRamp = 5 * time.Second

// idleScope is how long a scope stays in the table after its cooldown when
// nothing comes to probe it, or when its ramp does not get on.
const idleScope = 15 * time.Minute

// leave ends an attempt's part in the scopes it passed, and tells the limits
// what came of it. ok says that the closure succeeded.
func (g *gate) leave(now int64, a *attempt, ok bool, refused []throttle.Scope) (wake bool) {
	if a.lax && a.passes == nil && !a.opening && (a.seq == 0 || ok && !a.metered) {
		if a.lax = false; a.seq != 0 && len(g.relaxed) > 0 { // else there is nobody to be told
			g.unasked.Add(1)
		}
		return false
	}
	return g.depart(now, a, ok, refused)
}

// depart is leave for an attempt that has something to give back, or to tell.
func (g *gate) depart(now int64, a *attempt, ok bool, refused []throttle.Scope) (wake bool) {
	sc := a.scopes()
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.opening {
		g.opened(a)
		wake = true
	}
	g.settleUp(now, a)
	for _, p := range a.passes.all() {
		if st := p.st; st != nil && st.gen == p.gen {
			grew := st.leave(ok)
			switch {
			case st.phase == probing && ok:
				g.ramp(st, now)
			case st.phase == probing:
				st.at = add(now, idleScope) // the next probe brings its own patience
				g.timers.Fix(st)
			case st.phase == ramping && !st.rated():
				if st.allowed >= g.slots {
					st.at = now // grown: the actor ends it
				} else if grew {
					st.at = add(now, g.patient) // a round begins
				}
				g.timers.Fix(st)
			}
			g.touch(st)
			wake = true
		} else if st != nil && ok && p.gen >= st.guessed {
			st.guessedWell() // though it has reported, say, that nothing is left
		}
	}
	a.passes = nil
	t, sent := g.time(now), g.time(a.began)
	if a.seq == 0 || !ok && len(refused) == 0 {
		return wake
	}
	defer g.relax()
	if len(refused) > 0 {
		g.tell(t, &sc, 0) // of those before it
	}
	for _, l := range g.limits {
		key := sc[l.Per].Key
		if ok {
			l.Limiter.Accepted(t, sent, key)
		}
		for _, r := range refused {
			if r.Level == l.Per {
				l.Limiter.Refused(t, sent, r.Key)
			}
		}
	}
	return wake
}

// ramp begins the growth of traffic in st. The caller holds mu.
func (g *gate) ramp(st *scope, now int64) {
	st.phase = ramping
	st.allowed, st.good = max(2, st.allowed), 0
	st.costs, st.calls = 0, 0
	for _, l := range g.limits {
		lowest := &st.costs
		if l.calls {
			lowest = &st.calls
		}
		if r, ok := l.Limiter.(limiter.Rater); ok && l.Per == st.key.Level {
			if rate := r.Rate(g.time(now), st.key.Key); rate > 0 && (*lowest == 0 || rate < *lowest) {
				*lowest = rate
			}
		}
	}
	if st.rated() {
		// In proportion, so that after a short pause the ramp is not the longer one.
		st.from, st.length = now, min(int64(maxRamp), max(1, (st.until-st.began)/4))
		st.next = now
		st.at = now + st.length
	} else if st.at = add(now, g.patient); st.allowed >= g.slots {
		st.at = now // nothing to grow
	}
	g.timers.Fix(st)
	g.touch(st)
}

// firstItem lets a ramp begin while the probe still runs: its stream has begun
// to flow.
func (g *gate) firstItem(now int64, a *attempt) (wake bool) {
	if !a.probe {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range a.passes.all() {
		if p.st != nil && p.st.gen == p.gen && p.st.phase == probing {
			g.ramp(p.st, now)
			wake = true
		}
	}
	return wake
}

// tick moves the scopes whose time has come to their next phase. Only the actor
// calls it: nobody else ends a hold. busy says that requests wait, paused that
// the governor is; line, whether lanes wait in line for a scope.
func (g *gate) tick(now int64, busy, paused bool, line func(throttle.Scope) bool, emit func(event.Kind, *scope)) {
	if !g.word.held() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		st, ok := g.timers.Due(now)
		if !ok {
			return
		}
		switch {
		case st.phase == cooling:
			g.cools--
			st.phase, st.allowed, st.inflight, st.good = probing, 1, 0, 0
			st.at = add(st.until, idleScope)
			g.timers.Fix(st)
			emit(event.Cooled, st)
		case st.phase == probing && st.inflight > 0:
			g.ramp(st, now) // patience is over
		case st.phase == ramping && !st.rated() && st.allowed < g.slots && (st.inflight > 0 || now <= add(st.last, g.patient)):
			// Patience with a round is over, too: what runs may wait, in its
			// closures, for what is held back here. In the instant in which all of a
			// round end nothing may run, though it goes on.
			st.allowed, st.good = 2*st.allowed, 0
			st.at = add(now, g.patient)
			g.timers.Fix(st)
		case st.phase == ramping && !st.rated() && st.allowed < g.slots && now < add(st.last, idleScope):
			st.at = add(st.last, idleScope)
			g.timers.Fix(st)
		case st.phase == ramping && st.guesses > 0 && (st.inflight > 0 || now < add(st.last, idleScope)):
			// It is over, but nothing has succeeded yet. If what runs, or comes next, is
			// refused, the next guess must be longer than the last.
			st.costs, st.calls, st.allowed = 0, 0, g.slots
			if st.at = add(st.last, idleScope); st.at <= now {
				st.at = add(now, idleScope)
			}
			g.timers.Fix(st)
		case st.phase == probing && (!st.kept.Empty() || line(st.key) || busy && (paused || st.key.Level == throttle.Host)):
			// Something waits for it, and will probe it when it can: a governor
			// may be paused for longer than this.
			st.at = add(now, idleScope)
			g.timers.Fix(st)
		default:
			if st.phase == ramping && !st.told { // it was over at once
				emit(event.Ramp, st)
			}
			g.end(st)
			emit(event.Resumed, st)
		}
		g.touch(st)
	}
}

// end takes st out of the table, and clears hold with the last. The caller is
// the actor and holds mu.
func (g *gate) end(st *scope) {
	if st.phase == cooling {
		g.cools--
	}
	st.gen++
	st.ended = true
	g.timers.Remove(st)
	if g.table[st.key] == st {
		delete(g.table, st.key)
	}
	if len(g.table) == 0 && !g.paused {
		g.unhold()
	}
	g.touch(st)
}

// clear ends the cooldown of sc, whatever its phase, and reports whether there was one;
// what the vendor has said since at stays: then until is not 0. What limits were told of
// sc's quota is forgotten if nothing stays. Only the actor calls it.
func (g *gate) clear(now int64, sc throttle.Scope, at int64) (ended bool, until int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.table[sc]
	if st != nil {
		if stays := st.since(at); stays.until > now && st.phase == cooling {
			if until = stays.until; until >= st.until {
				return false, 0
			}
			st.until, st.at, st.signal = until, until, stays.signal
			st.unsays(at)
			g.timers.Fix(st)
			g.touch(st)
			return true, until
		}
	}
	for _, l := range g.limits {
		if learner, ok := hearer(l.Limiter, sc.Key).(limiter.Learner); ok && l.Per == sc.Level {
			learner.Forget(g.time(now), sc.Key)
		}
	}
	if st == nil {
		return false, 0
	}
	g.end(st)
	return true, 0
}

// news returns the scopes that changed since the last call, and when the next
// is due. last is the latest end of those that now end later than before, 0 when
// there is none. emit tells of ramps that have begun, owed of what starts turned out to cost.
func (g *gate) news(buf []*scope, emit func(event.Kind, *scope), owed func(debt)) (changed []*scope, last, next int64) {
	if !g.stirred.Load() && !g.word.held() {
		return buf, 0, forever // no scope is in the table
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stirred.Load() {
		g.stirred.Store(false)
	}
	buf = append(buf, g.changed...)
	for _, st := range g.changed {
		st.touched = false
		if st.later {
			last = max(last, st.until)
		}
		st.later = false
		if ramps := st.phase == ramping; ramps != st.told && !st.ended {
			if st.told = ramps; ramps {
				emit(event.Ramp, st)
			}
		}
	}
	clear(g.changed)
	g.changed = g.changed[:0]
	g.collect(owed)
	return buf, last, g.timers.Next()
}

// collect hands the debts on. The caller holds mu.
func (g *gate) collect(owed func(debt)) {
	g.indebted.Store(false)
	for _, d := range g.debts {
		owed(d)
	}
	clear(g.debts)
	g.debts = g.debts[:0]
}

// due hands on the debts of all attempts whose slots have come back: each is
// noted before its slot is free.
func (g *gate) due(owed func(debt)) {
	if g.indebted.Load() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.collect(owed)
	}
}
