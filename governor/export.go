package governor

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// Learned is what a governor has learned from its vendor: a value to keep over a
// restart, as JSON or otherwise. In JSON durations are nanoseconds, and a key that is not
// UTF-8 becomes another one. The times are those of the wall clock.
type Learned struct {
	When      time.Time         `json:"when,omitzero"` // of the Export
	Cooldowns []LearnedCooldown `json:"cooldowns,omitempty"`
	Rates     []LearnedRate     `json:"rates,omitempty"`
}

// LearnedCooldown is a scope that was cooling.
type LearnedCooldown struct {
	Scope  throttle.Scope  `json:"scope"`
	Until  time.Time       `json:"until"`
	Signal throttle.Signal `json:"signal"` // the one that set Until

	// Guesses is how many episodes in a row gave no delay, and Guess the last one
	// that Config.Guess made of that. 0: the vendor gave delays.
	Guesses int           `json:"guesses,omitempty"`
	Guess   time.Duration `json:"guess,omitempty"`
}

// LearnedRate is what a limit of a level has learned.
type LearnedRate struct {
	Per throttle.Level `json:"per"`

	// ByKey says that it is the limit of Key alone, in a limiter.ByKey.
	ByKey bool   `json:"by_key,omitempty"`
	Key   string `json:"key,omitempty"`

	Unit string `json:"unit,omitempty"` // Limit.Unit

	limiter.Learned
}

// mostGuesses is more than any schedule of guesses tells apart.
const mostGuesses = 1 << 20

// learner is a limit that can be asked what it has learned.
type learner interface {
	Export(now time.Time) limiter.Learned
	Import(now time.Time, l limiter.Learned) error
}

// Export returns what has been learned so far: the scopes that are cooling, and
// the rate of each limit that learns one. It is taken between two decisions. What
// is left of a cooldown's growth afterwards is not in it.
func (c *core) Export() (l Learned) {
	c.ask(func() { l = c.gate.export(c.now()) })
	return l
}

func (g *gate) export(now int64) Learned {
	g.mu.Lock()
	defer g.mu.Unlock()
	wall := time.Now().Round(0)
	l := Learned{When: wall}
	for _, st := range g.table {
		if st.phase == cooling && st.until > now {
			l.Cooldowns = append(l.Cooldowns, LearnedCooldown{
				st.key, wall.Add(time.Duration(st.until - now)), st.signal, st.guesses, st.prev,
			})
		}
	}
	for p, one := range singles(g.limits) {
		if r, ok := one.(learner); ok {
			rate := r.Export(g.time(now))
			rate.When = wall
			l.Rates = append(l.Rates, LearnedRate{p.per, p.byKey, p.key, p.unit, rate})
		}
	}
	sortByScope(l.Cooldowns, func(c LearnedCooldown) throttle.Scope { return c.Scope })
	return l
}

// seat is where a limiter is: for all of a level, or in a limiter.ByKey for one key of
// it. There may be several in one.
type seat struct {
	per   throttle.Level
	byKey bool
	key   string
	unit  string
}

// singles returns the limiters that limits come to, and their seats, each time in the
// same order.
func singles(limits []limit) iter.Seq2[seat, limiter.Limiter] {
	return func(yield func(seat, limiter.Limiter) bool) {
		for _, l := range limits {
			one := l.Limiter
			for b, ok := one.(*limiter.ByKey); ok; b, ok = one.(*limiter.ByKey) {
				for key, of := range b.All() {
					if of = hearer(of, key); of != nil && !yield(seat{l.Per, true, key, l.unit}, of) {
						return
					}
				}
				one = b.Others()
			}
			if one != nil && !yield(seat{per: l.Per, unit: l.unit}, one) {
				return
			}
		}
	}
}

// seated are the limiters that have not got theirs yet of what was learned.
type seated map[seat][]limiter.Limiter

func seatedIn(limits []limit) seated {
	all := make(seated)
	for p, one := range singles(limits) {
		all[p] = append(all[p], one)
	}
	return all
}

// next returns the next learner at p.
func (s seated) next(p seat) (l learner, ok bool) {
	for !ok && len(s[p]) > 0 {
		l, ok = s[p][0].(learner)
		s[p] = s[p][1:]
	}
	return l, ok
}

// cooling returns an event for each scope that is by what the vendor has said here, also
// where it has said that after told of narrower ones for which there is no room.
func (g *gate) cooling(now, told int64) (all []event.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, st := range g.table {
		own := st.longest(0)
		if st.wide != nil && st.wide.at > told {
			own = st.since(0)
		}
		if st.phase == cooling && own.until > now {
			all = append(all, event.Event{
				Kind: event.Cooling, Time: g.time(own.at), Scope: st.key.String(), Until: g.time(own.until),
				Source: strings.TrimPrefix(own.signal.Source, store.WiderSource),
			})
		}
	}
	return all
}

// remember checks l, has the limits go on with their rates, and keeps the
// cooldowns for resume.
func (s *settings) remember(l Learned, now time.Time) error {
	for i, cd := range l.Cooldowns {
		bad := func(field string, value any, want string) error {
			return fmt.Errorf("governor: Config.Restore.Cooldowns[%d].%s is %v, want %s", i, field, value, want)
		}
		switch {
		case cd.Scope.Level > throttle.Bucket:
			return bad("Scope", cd.Scope, "one of the host, a selector, a tenant or a bucket")
		case cd.Scope.Level == throttle.Host && cd.Scope.Key != "":
			return bad("Scope.Key", fmt.Sprintf("%.64q", cd.Scope.Key), "none for the host")
		case cd.Until.IsZero():
			return bad("Until", "zero", "a time")
		case cd.Signal.Kind > throttle.KindBilling:
			return bad("Signal.Kind", uint8(cd.Signal.Kind), "a kind that there is")
		case cd.Guesses < 0 || cd.Guesses > mostGuesses:
			return bad("Guesses", cd.Guesses, fmt.Sprintf("0 to %d", mostGuesses))
		case cd.Guess < 0:
			return bad("Guess", cd.Guess, "0 or more")
		}
	}
	all := seatedIn(s.limits)
	for i, rate := range l.Rates {
		if rate.Per > throttle.Bucket {
			return fmt.Errorf("governor: Config.Restore.Rates[%d].Per is %v, want host, selector, tenant or bucket", i, uint8(rate.Per))
		}
		if r, ok := all.next(seat{rate.Per, rate.ByKey, rate.Key, rate.Unit}); ok {
			if err := r.Import(now, rate.Learned); err != nil {
				return fmt.Errorf("governor: Config.Restore.Rates[%d]: %w", i, err)
			}
		}
	}
	if len(l.Cooldowns) > 0 {
		kept := l
		s.restore = &kept
	}
	return nil
}

// resume has the cooldowns of l go on. The actor does not run yet.
func (c *core) resume(l *Learned) {
	at, now := time.Now(), c.now()
	for _, cd := range l.Cooldowns {
		d := cd.Until.Sub(at)
		if !l.When.IsZero() {
			d = min(d, cd.Until.Sub(l.When)) // the clock was set back since: no more is left than was
		}
		if d <= 0 {
			continue
		}
		sig := cd.Signal
		sig.Scope = cd.Scope
		clamped := d > c.maxCooldown
		if clamped {
			d = c.maxCooldown
		}
		if !sig.Until.IsZero() {
			c.until(&sig, at) // how long it is until then, Until says
		}
		sig.Delay = d
		ch := c.gate.receive(now, 0, cd.Scope, sig)
		guesses := cd.Guesses
		if ch.scope != cd.Scope {
			guesses = 0 // of it, and not of the host
		}
		c.gate.restored(ch.scope, guesses, min(cd.Guess, c.maxGuess))
		if clamped || ch.scope != cd.Scope {
			c.count.clamped.Add(1)
			c.emit(event.Event{Kind: event.Clamped, Scope: ch.scope.String(), Delay: d, Source: "restored: " + sig.Source})
		}
		if ch.kind != event.None {
			c.emit(event.Event{Kind: ch.kind, Time: c.gate.time(now), Scope: ch.scope.String(), Until: c.gate.time(ch.until), Delay: time.Duration(ch.until - now), Source: "restored: " + sig.Source})
		}
	}
}

// restored sets how far sc's guesses had come, unless they have come further. Its cooldown is
// no word of the vendor's now: others are not told, since it may have been cleared meanwhile.
func (g *gate) restored(sc throttle.Scope, n int, last time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.table[sc]
	if st == nil {
		return
	}
	if st.unsays(forever); n > st.guesses {
		st.guesses, st.prev = n, last
	}
}
