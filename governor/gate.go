package governor

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

const forever = math.MaxInt64

// maxRamp is the longest that traffic takes to grow back to a known rate.
const maxRamp = 5 * time.Second

// idleScope is how long a scope stays in the table after its cooldown when
// nothing comes to probe it, or when its ramp does not get on.
const idleScope = 15 * time.Minute

// gate is what stands between a request and its start. It is passive: the actor,
// the goroutines that run closures, and whoever calls Learn pass through it.
//
// Times are nanoseconds of the governor's clock, whose base is base.
type gate struct {
	word word
	seq  atomic.Uint64 // number of the last start
	base time.Time

	slots   int
	maxKeys int
	patient time.Duration // Config.ProbePatience
	guess   backoff.Schedule
	minG    time.Duration
	maxG    time.Duration

	// mu guards what follows. It is held for a few map look-ups and the limits'
	// arithmetic, never while anything of the user's but a limiter runs.
	// Under it, hold is set before seq is read; see receive.
	mu      sync.Mutex
	table   map[throttle.Scope]*scope
	timers  heap[*scope]
	changed []*scope // for the actor to look at
	limits  []Limit
	opening map[throttle.Scope]int // cost of granted requests that are still opening a connection, by what they belong to
}

// scopes are what a request belongs to, in the order of the levels.
type scopes [throttle.Bucket + 1]throttle.Scope

func (g *gate) time(ns int64) time.Time { return g.base.Add(time.Duration(ns)) }

// receive records that the vendor asked to be left alone, and thereby pauses
// sc. began is the start sequence of the attempt that was refused. When receive
// returns, the signal is received: no start that is not already behind its last
// look (commit) will be before the cooldown ends.
//
// Hold is set before learned is read, and commit draws its number before it
// looks at hold. So an attempt that started without seeing this cooldown has a
// number that learned includes, and what it reports later belongs to this
// episode.
func (g *gate) receive(now int64, began uint64, sc throttle.Scope, sig throttle.Signal) change {
	var guessed backoff.Step // the step that d was computed for
	d := sig.Delay
	for {
		g.mu.Lock()
		st := g.table[sc]
		if st == nil && sc.Level != throttle.Host && len(g.table) >= g.maxKeys {
			sc = throttle.Scope{} // no room to pause it alone: the safe side is to pause more
			st = g.table[sc]
		}
		fresh := st == nil || st.phase != cooling && began > st.learned
		if sig.Delay == throttle.Unknown {
			step := g.step(st, fresh)
			if step != guessed {
				g.mu.Unlock()
				// The schedule is the user's: no lock. If the table changed
				// meanwhile the step differs and the guess is made again.
				d, guessed = g.guessDelay(step), step
				continue
			}
		}
		defer g.mu.Unlock()
		if st == nil {
			st = &scope{key: sc, learned: began}
			g.table[sc] = st
		}
		g.word.hold()
		if sig.Delay == throttle.Unknown {
			st.guesses, st.prev, st.prior = guessed.Attempt, d, guessed.Prev
		}
		return g.set(st, now, add(now, d), sig, fresh)
	}
}

// set moves st's end to until, if that is later or if it is not cooling.
func (g *gate) set(st *scope, now, until int64, sig throttle.Signal, fresh bool) change {
	c := change{scope: st.key, kind: event.Cooling, until: until, fresh: fresh}
	if fresh {
		st.learned, st.began = g.seq.Load(), now
	} else if st.phase == cooling {
		if until <= st.until {
			c.kind, c.until = event.None, st.until
			return c
		}
		c.kind = event.Extended
	}
	if st.phase != cooling || fresh {
		st.phase = cooling
		st.gen++ // what passed before counts no more
		st.inflight, st.good = 0, 0
	}
	st.until, st.signal, st.later = until, sig, true
	st.at = until
	g.timers.fix(st)
	g.touch(st)
	return c
}

// change is what receive did, for events and the actor.
type change struct {
	scope throttle.Scope
	kind  event.Kind // Cooling, Extended or None
	until int64
	fresh bool // a new episode
}

// touch tells the actor that st changed.
func (g *gate) touch(st *scope) {
	if !st.touched {
		st.touched = true
		g.changed = append(g.changed, st)
	}
}

// step is the guess that a signal without a delay needs.
func (g *gate) step(st *scope, fresh bool) backoff.Step {
	switch {
	case st == nil:
		return backoff.Step{Attempt: 1}
	case fresh || st.guesses == 0:
		return backoff.Step{Attempt: st.guesses + 1, Prev: st.prev}
	}
	return backoff.Step{Attempt: st.guesses, Prev: st.prior}
}

func (g *gate) guessDelay(step backoff.Step) (d time.Duration) {
	d = g.maxG
	defer func() { _ = recover() }() // a schedule that panics: the longest guess
	if next, again := g.guess.Next(step); again && next >= 0 {
		d = max(g.minG, min(next, g.maxG))
	}
	return d
}

// commit is an attempt's last look before its closure. It draws the attempt's
// start sequence and reports whether the attempt may start.
func (g *gate) commit(now int64, sc *scopes, a *attempt) (ok, wake bool) {
	a.seq = g.seq.Add(1) // before the load of hold: see receive
	if !g.word.held() {
		return true, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range sc {
		st := g.table[sc[i]]
		if st == nil {
			continue
		}
		// An attempt granted before the cooldown, that opened its connection
		// while the cooldown came and went, is not counted in the ramp: it has
		// no pass of this generation, and must come back for one.
		if st.phase == cooling || !a.passed(st) {
			return false, false
		}
	}
	for _, p := range a.passes {
		if p.st != nil && p.st.gen == p.gen && p.st.phase == probing {
			p.st.at = add(now, g.patient)
			g.timers.fix(p.st)
			wake = true // the actor's timer must know
		}
	}
	return true, wake
}

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
	for i := range sc {
		if st := g.table[sc[i]]; st != nil && st.blocks(now) != 0 {
			return false
		}
	}
	if _, wait := g.wait(now, sc, a.cost, opening); wait != 0 {
		return false
	}
	if opening {
		a.opening = true
		for _, s := range sc {
			g.opening[s] += a.cost
		}
	} else {
		g.take(now, sc, a.cost)
	}
	for i := range sc {
		if st := g.table[sc[i]]; st != nil {
			a.passes[i] = pass{st, st.gen}
			st.enter(now, a.cost)
			if st.phase == probing {
				a.probe = true
				st.at = add(now, g.patient) // from now on: it may hang before it starts
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
	if _, wait := g.wait(now, sc, a.cost, false); wait != 0 {
		return false
	}
	g.take(now, sc, a.cost)
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

func (g *gate) take(now int64, sc *scopes, n int) {
	t := g.time(now)
	for _, l := range g.limits {
		l.Limiter.Take(t, sc[l.Per].Key, n)
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

// leave ends an attempt's part in the scopes it passed, and tells the limits
// what came of it. ok says that the closure succeeded.
func (g *gate) leave(now int64, sc *scopes, a *attempt, ok bool, refused []throttle.Scope) (wake bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.opening {
		g.opened(a)
		wake = true
	}
	for i := range a.passes {
		if st := a.passes[i].st; st != nil && st.gen == a.passes[i].gen {
			st.leave(ok)
			switch {
			case st.phase == probing && ok:
				g.ramp(st, now)
			case st.phase == probing:
				st.at = add(now, idleScope) // the next probe brings its own patience
				g.timers.fix(st)
			case st.phase == ramping && st.rate == 0:
				if st.allowed >= g.slots {
					st.at = now // grown: the actor ends it
				} else if st.good == 0 {
					st.at = add(now, g.patient) // a round begins
				}
				g.timers.fix(st)
			}
			g.touch(st)
			wake = true
		}
		a.passes[i] = pass{}
	}
	if a.seq == 0 || !ok && len(refused) == 0 {
		return wake
	}
	t, sent := g.time(now), g.time(a.began)
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
	st.rate = 0
	for _, l := range g.limits {
		if r, ok := l.Limiter.(limiter.Rater); ok && l.Per == st.key.Level {
			if rate := r.Rate(g.time(now), st.key.Key); rate > 0 && (st.rate == 0 || rate < st.rate) {
				st.rate = rate
			}
		}
	}
	if st.rate > 0 {
		// In proportion, so that after a short pause the ramp is not the longer one.
		st.from, st.length = now, min(int64(maxRamp), max(1, (st.until-st.began)/4))
		st.next = now
		st.at = now + st.length
	} else if st.at = add(now, g.patient); st.allowed >= g.slots {
		st.at = now // nothing to grow
	}
	g.timers.fix(st)
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
	for _, p := range a.passes {
		if p.st != nil && p.st.gen == p.gen && p.st.phase == probing {
			g.ramp(p.st, now)
			wake = true
		}
	}
	return wake
}

func add(a int64, d time.Duration) int64 {
	if d >= 0 && a > forever-int64(d) {
		return forever
	}
	return a + int64(d)
}

// tick moves the scopes whose time has come to their next phase. Only the actor
// calls it: nobody else ends a hold.
func (g *gate) tick(now int64, emit func(event.Kind, *scope)) {
	if !g.word.held() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		st, ok := g.timers.due(now)
		if !ok {
			return
		}
		switch {
		case st.phase == cooling:
			st.phase, st.allowed, st.inflight, st.good = probing, 1, 0, 0
			st.at = add(st.until, idleScope)
			g.timers.fix(st)
			emit(event.Cooled, st)
		case st.phase == probing && st.inflight > 0:
			g.ramp(st, now) // patience is over
		case st.phase == ramping && st.rate == 0 && st.allowed < g.slots && st.inflight > 0:
			// Patience with a round is over, too: what runs may wait, in its
			// closures, for what is held back here.
			st.allowed, st.good = 2*st.allowed, 0
			st.at = add(now, g.patient)
			g.timers.fix(st)
		case st.phase == ramping && st.rate == 0 && st.allowed < g.slots && now < add(st.last, idleScope):
			st.at = add(st.last, idleScope)
			g.timers.fix(st)
		default:
			g.end(st)
			emit(event.Resumed, st)
		}
		g.touch(st)
	}
}

// end takes st out of the table, and clears hold with the last. The caller is
// the actor and holds mu.
func (g *gate) end(st *scope) {
	st.gen++
	g.timers.remove(st)
	if g.table[st.key] == st {
		delete(g.table, st.key)
	}
	if len(g.table) == 0 {
		g.word.unhold()
	}
	g.touch(st)
}

// clear ends the cooldown of sc, whatever its phase, and reports whether there
// was one. Only the actor calls it.
func (g *gate) clear(sc throttle.Scope) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.table[sc]
	if st == nil {
		return false
	}
	g.end(st)
	return true
}

// news returns the scopes that changed since the last call, and when the next
// is due. later says that a cooldown now ends later than before. emit tells of
// ramps that have begun.
func (g *gate) news(buf []*scope, emit func(event.Kind, *scope)) (changed []*scope, later bool, next int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	buf = append(buf, g.changed...)
	for _, st := range g.changed {
		st.touched = false
		later = later || st.later
		st.later = false
		if ramps := st.phase == ramping; ramps != st.told {
			if st.told = ramps; ramps {
				emit(event.Ramp, st)
			}
		}
	}
	clear(g.changed)
	g.changed = g.changed[:0]
	return buf, later, g.timers.next()
}
