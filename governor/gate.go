package governor

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor/internal/heap"
	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

const forever = math.MaxInt64

// gate is what stands between a request and its start. It is passive: the actor,
// the goroutines that run closures, and whoever calls Learn pass through it.
//
// Times are nanoseconds of the governor's clock, whose base is base.
type gate struct {
	word word
	_    [56]byte // what follows is written by calls that are not inline

	seq     atomic.Uint64 // number of the last start while something was held
	unasked atomic.Uint64 // attempts that passed the limits unasked and went well
	_       [48]byte      // what follows is hardly ever written

	lax     atomic.Bool   // the limits let everything pass; written under mu
	stirred atomic.Bool   // changed or debts has something; written under mu
	panics  atomic.Uint64 // of the guess schedule
	base    time.Time

	slots   int
	maxKeys int
	patient time.Duration // Config.ProbePatience
	guess   backoff.Schedule
	minG    time.Duration
	maxG    time.Duration

	// unsettled is how many permits of alone were taken by inline calls that have ended
	// well since it was told of such: so that these need not take mu once more. It is
	// swapped under mu.
	unsettled atomic.Int64

	// mu guards what follows. It is held for a few map look-ups and the limits'
	// arithmetic, never while anything of the user's but a limiter runs.
	// Under it, hold is set before seq is read; see receive.
	mu       sync.Mutex
	table    map[throttle.Scope]*scope
	cools    int // of table: those that are cooling
	timers   heap.Heap[*scope]
	changed  []*scope    // for the actor to look at
	debts    []debt      // likewise
	usual    usual       // what calls cost on average, by which that of one is judged
	indebted atomic.Bool // there are debts; changed under mu
	limits   []limit
	relaxed  []limiter.Lax               // limits, if all of them are such; nil otherwise
	alone    *limiter.Bucket             // the only limit, and the Host's; nil: there are others, or it is no such one
	cells    *cells                      // of inline calls
	passed   uint64                      // how many of their calls the limits have been told of
	ahead    int                         // how many calls the limits have been told of that have not ended
	charged  uint64                      // how many of their calls took from the limits
	paused   bool                        // by hand; hold is set then
	observe  bool                        // Config.Observe: nothing is kept back
	opening  map[throttle.Scope]underway // granted requests that are still opening a connection, by what they belong to
}

// scopes are what a request belongs to, in the order of the levels.
type scopes = sched.Scopes

func (g *gate) time(ns int64) time.Time { return g.base.Add(time.Duration(ns)) }

// shown is time for those outside: by the wall clock of now.
func (g *gate) shown(ns int64) time.Time { return shown(g.time(ns), time.Now()) }

// shown returns t, if it has a monotonic reading, as the wall clock has it that showed now
// just now: it may have been set since the one that t was counted from.
func shown(t, now time.Time) time.Time {
	if t == t.Round(0) {
		return t
	}
	return now.Add(t.Sub(now))
}

// ns returns t by the governor's clock. A time without a monotonic reading is
// measured from now, since the wall clock may have been set since New.
func (g *gate) ns(t time.Time) int64 {
	if t != t.Round(0) {
		return int64(t.Sub(g.base))
	}
	now := time.Now()
	return add(int64(now.Sub(g.base)), t.Sub(now))
}

// receive records that the vendor asked to be left alone, and thereby pauses
// sc. began is the start sequence of the attempt that was refused. When receive
// returns, the signal is received: no start that is not already behind its last
// look (commit) will be before the cooldown ends.
//
// Hold is set before learned is read, and commit draws its number before it
// looks at hold. So an attempt that started without seeing this cooldown has a
// number that learned includes, and what it reports later belongs to this
// episode. What begins while nothing is held, inline calls among it, has the number
// of the last start before it, which saves a write that all would wait for: none of it
// begins while sc is in the table.
func (g *gate) receive(now int64, began uint64, sc throttle.Scope, sig throttle.Signal) change {
	var guessed backoff.Step // the step that d was computed for
	d := sig.Delay
	for {
		g.mu.Lock()
		st := g.table[sc]
		if sc.Level != throttle.Host && g.crowded(st) {
			sc = throttle.Scope{} // no room to pause it alone: the safe side is to pause more
			sig.Source = store.WiderSource + sig.Source
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
			st = &scope{key: sc, learned: began, phase: ramping} // until set has it cool
			g.table[sc] = st
		}
		g.word.hold()
		c := g.set(st, now, add(now, d), sig, fresh)
		if sig.Delay == throttle.Unknown {
			st.guesses, st.prev, st.prior, st.guessed = guessed.Attempt, d, guessed.Prev, st.gen
		}
		return c
	}
}

// crowded reports whether st, nil where there is none yet, would be one too many to cool,
// or to be remembered.
func (g *gate) crowded(st *scope) bool {
	if st == nil {
		return g.cools >= g.maxKeys || len(g.table)/2 >= g.maxKeys
	}
	return st.phase != cooling && g.cools >= g.maxKeys
}

// set moves st's end to until, if that is later or if it is not cooling.
func (g *gate) set(st *scope, now, until int64, sig throttle.Signal, fresh bool) change {
	c := change{scope: st.key, kind: event.Cooling, until: until, fresh: fresh}
	switch st.heard = g.seq.Load(); {
	case !store.Untold(sig.Source):
		st.says(now, until, sig)
	case !store.Shared(strings.TrimPrefix(sig.Source, store.WiderSource)):
		st.widens(now, until, sig)
	}
	if fresh {
		st.learned, st.began = st.heard, now
	} else if st.phase == cooling {
		if until <= st.until {
			c.kind, c.until = event.None, st.until
			return c
		}
		c.kind = event.Extended
	}
	if st.phase != cooling || fresh {
		if st.phase != cooling {
			g.cools++
		}
		st.phase = cooling
		st.gen++ // what passed before counts no more
		st.inflight, st.good = 0, 0
	}
	st.until, st.signal, st.later = until, sig, true
	st.at = until
	g.timers.Fix(st)
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
		g.stirred.Store(true)
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
	defer func() { // a schedule that panics: the longest guess
		if recover() != nil {
			g.panics.Add(1)
		}
	}()
	if next, again := g.guess.Next(step); again && next >= 0 {
		d = max(g.minG, min(next, g.maxG))
	}
	return d
}

// commit is an attempt's last look before its closure. It draws the attempt's
// start sequence and reports whether the attempt may start.
func (g *gate) commit(a *attempt) bool {
	a.seq = g.seq.Load() // before the load of hold: see receive
	if !g.word.held() {
		return true
	}
	a.seq = g.seq.Add(1) // before the look at the table
	sc := a.scopes()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused {
		return false
	}
	for i := range sc {
		st := g.table[sc[i]]
		if st == nil {
			continue
		}
		// An attempt granted before the cooldown, that opened its connection
		// while the cooldown came and went, is not counted in the ramp: it has
		// no pass of this generation, and must come back for one.
		if !g.observe && (st.phase == cooling || !a.passed(st)) {
			return false
		}
	}
	return true
}

// pause makes commit refuse everything, or no longer. Only the actor calls it.
func (g *gate) pause(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused = on; on {
		g.word.hold()
	} else if len(g.table) == 0 {
		g.unhold()
	}
}

// unhold ends the hold. While it lasts the limits are asked whatever lax says, and one that
// is strict since then need not have told: it knows of the same cooldown. The caller holds
// mu.
func (g *gate) unhold() {
	g.relax()
	g.word.unhold()
}

func add(a int64, d time.Duration) int64 {
	if d >= 0 && a > forever-int64(d) {
		return forever
	}
	return a + int64(d)
}
