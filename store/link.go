package store

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/throttle"
)

// Governor is what a Syncer needs of one: every governor.Handle is one. One that has a
// method Tell(event.Event), too, gets the events StoreLost and StoreBack by it, on
// goroutines that others wait for. One that has a method Cooling() []event.Event is asked
// for the last event of each scope that is cooling when it leaves, since some may not have
// been heard.
type Governor interface {
	Name() string
	Listen(fn func(event.Event), kinds ...event.Kind) (stop func())
	Learn(throttle.Signal)
	ClearBefore(throttle.Scope, time.Time)
}

// sharedSource is the Source of cooldowns that come from the store, which are not
// told to it again.
const (
	sharedSource = "shared by "
	fromGovernor = sharedSource + "another governor"
	fromProcess  = sharedSource + "another process"
)

// link is a governor that shares its cooldowns under a cell's key. Syncer.mu guards
// it.
type link struct {
	c     *cell
	gov   []Governor // of one name in this process there may be several
	known map[string]*cooling
	tell  map[string]int64  // until when, by scope
	clear map[string]uint64 // up to which Gen, by scope
	again map[string]bool   // scopes of which the store has lost what is known
	long  bool              // it was logged that a scope is too long to be shared
}

// cooling is a cooldown that is known here.
type cooling struct {
	until int64
	gen   uint64
	at    int64 // when until was heard of
}

// Join has g share its cooldowns with the governors of the same Name in all
// processes: those that it learns from its vendor, and those that are cleared. What
// others learn it is told by Learn. leave ends that; it may be called again.
//
// A scope whose text, the level, a colon and the key, has more than 256 bytes is not shared:
// a store has no room for it, and by a shorter name nobody who has not met it could know it.
// The Logger is told once.
func (s *Syncer) Join(g Governor) (leave func()) {
	s.mu.Lock()
	c, now := s.cell(KeyFor(g.Name(), throttle.Scope{}.String())), s.now()
	if c.member == nil {
		c.member = &link{c: c, known: make(map[string]*cooling), tell: make(map[string]int64), clear: make(map[string]uint64)}
		c.seen, c.epoch, c.fresh = 0, "", -1 // it wants to hear all
	}
	l := c.member
	l.gov = append(l.gov, g)
	var known []throttle.Signal
	for scope, k := range l.known {
		if k.until > now {
			known = append(known, throttle.Signal{Scope: scopeFor(scope), Delay: time.Duration(k.until - now), Source: fromGovernor})
		}
	}
	s.plan(c, now)
	s.mu.Unlock()
	for _, sig := range known {
		g.Learn(sig)
	}
	stop := g.Listen(func(e event.Event) { s.heard(l, g, e) }, event.Cooling, event.Extended, event.Cleared)
	return func() {
		stop()
		if last, ok := g.(interface{ Cooling() []event.Event }); ok {
			for _, e := range last.Cooling() {
				s.heard(l, g, e)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		l.gov = slices.DeleteFunc(l.gov, func(o Governor) bool { return o == g })
		l.part()
	}
}

// part ends l when it has no governor any more, and has said all.
func (l *link) part() {
	if c := l.c; len(l.gov) == 0 && c.member == l && c.pending == nil && !l.toSay() {
		c.member = nil
	}
}

// heard takes an event of from.
func (s *Syncer) heard(l *link, from Governor, e event.Event) {
	scope, ok := scopeOf(e.Scope)
	if !ok || strings.HasPrefix(e.Source, sharedSource) {
		return
	}
	s.mu.Lock()
	if len(scope) > maxScope {
		level, _, _ := strings.Cut(scope, ":")
		first := !l.long
		l.long = true
		s.mu.Unlock()
		if first {
			s.warn("store: a cooldown is not shared, since its scope is too long", slog.String("name", e.Name),
				slog.String("level", level), slog.Int("bytes", len(scope)), slog.Int("most", maxScope)) // its key may be a secret
		}
		return
	}
	now := s.now()
	k, at := l.of(scope), now
	if !e.Time.IsZero() {
		at = s.since(e.Time)
	}
	until := s.since(e.Until)
	news := until > max(now, k.until)
	if e.Kind == event.Cleared {
		news = k.until > now && at > k.at // else it was cleared by us, or is of what was before
	}
	if !news {
		s.mu.Unlock()
		return
	}
	tell := func(g Governor) {
		g.Learn(throttle.Signal{Scope: scopeFor(scope), Delay: time.Duration(until - now), Source: fromGovernor})
	}
	if e.Kind == event.Cleared {
		k.until = 0
		delete(l.tell, scope)
		l.ends(scope, k.gen)
		tell = func(g Governor) { g.ClearBefore(scopeFor(scope), s.time(at)) }
	} else {
		k.until, k.at = until, at
		if l.tell[scope] = until; scope == "" {
			l.c.probe, l.c.probeEnds, l.c.probing = ProbeCooling, until, false
		}
	}
	s.plan(l.c, now)
	others := slices.DeleteFunc(slices.Clone(l.gov), func(g Governor) bool { return g == from })
	s.mu.Unlock()
	for _, g := range others { // in this process
		tell(g)
	}
}

// of returns what is known of scope. What is over is forgotten when there is much.
func (l *link) of(scope string) *cooling {
	k := l.known[scope]
	if k == nil {
		if len(l.known) >= 4*MaxScopes {
			now := l.c.s.now()
			for s, k := range l.known {
				if k.until <= now {
					delete(l.known, s)
				}
			}
		}
		k = &cooling{}
		l.known[scope] = k
	}
	return k
}

// ends has the store told that scope's cooldown was ended, as it was when its Gen was gen.
func (l *link) ends(scope string, gen uint64) {
	if _, known := l.clear[scope]; known || len(l.clear) < MaxScopes {
		l.clear[scope] = gen
	}
}

// cooling reports whether any scope is, as far as is known here.
func (l *link) cooling(now int64) bool {
	for _, k := range l.known {
		if k.until > now {
			return true
		}
	}
	return false
}

func (l *link) toSay() bool { return len(l.tell) > 0 || len(l.clear) > 0 || len(l.again) > 0 }

// tellAgain has the store told what is known of: it has lost it.
func (l *link) tellAgain(now int64) {
	l.again = make(map[string]bool)
	for scope, k := range l.known {
		if k.until > now {
			l.again[scope] = true
		}
	}
}

// say fills in what the store is to be told.
func (l *link) say(it *Item, now int64) {
	for scope, until := range l.tell {
		if len(it.Cool) == 16 {
			break
		}
		delete(l.tell, scope)
		if until > now {
			it.Cool = append(it.Cool, Cool{scope, time.Duration(min(until-now, int64(MaxCool)))})
		}
	}
	for scope, gen := range l.clear {
		if len(it.Clear) == 16 {
			break
		}
		delete(l.clear, scope)
		it.Clear = append(it.Clear, Cleared{scope, gen})
	}
	for scope := range l.again {
		if len(it.Known) == 16 {
			break
		}
		delete(l.again, scope)
		if k := l.known[scope]; k != nil && k.until > now {
			it.Known = append(it.Known, Cooldown{scope, time.Duration(min(k.until-now, int64(MaxCool))), k.gen})
		}
	}
}

// unsaid takes back what it, of begun, was to say and nobody has heard. What this process
// has heard since is newer: a cooldown that has come, and one that was cleared.
func (l *link) unsaid(it *Item, begun int64) {
	for _, cool := range it.Cool {
		_, newer := l.tell[cool.Scope]
		if _, ended := l.clear[cool.Scope]; !newer && !ended {
			l.tell[cool.Scope] = begun + int64(cool.For)
		}
	}
	for _, k := range it.Clear {
		if _, ended := l.clear[k.Scope]; !ended {
			l.ends(k.Scope, k.Gen)
		}
	}
	for _, known := range it.Known {
		if l.again == nil {
			l.again = make(map[string]bool)
		}
		l.again[known.Scope] = true // if it is known still
	}
}

// hear takes what the store says, and returns what tells the governors. it was sent first
// at begun, and for the last time at sent.
func (l *link) hear(it *Item, a *Answer, begun, sent, now int64) (after []func()) {
	slack := now - sent + int64(time.Millisecond) // what we told comes back a round trip later
	for _, cd := range a.Cooldowns {
		k := l.of(cd.Scope)
		scope := scopeFor(cd.Scope)
		was, until := k.until, now+int64(cd.Left)
		k.gen = cd.Gen
		if gen, ended := l.clear[cd.Scope]; ended && cd.Left > 0 {
			if slices.ContainsFunc(it.Cool, func(c Cool) bool { return c.Scope == cd.Scope && until <= begun+int64(c.For)+slack }) {
				gen = cd.Gen // our own word, from before it was ended
				l.clear[cd.Scope] = gen
			}
			if cd.Gen <= gen {
				continue
			}
			delete(l.clear, cd.Scope) // which was of an earlier one
		}
		switch {
		case cd.Left == 0 && (was <= now || l.tell[cd.Scope] > now): // it is over here, too, or what is newer has yet to be told
		case cd.Left == 0:
			k.until = 0
			at := l.c.s.time(begun) // the store did not know of what was heard since
			after = append(after, l.each(func(g Governor) { g.ClearBefore(scope, at) })...)
		case until > was+slack:
			k.until, k.at = until, now
			sig := throttle.Signal{Scope: scope, Delay: cd.Left, Source: fromProcess}
			after = append(after, l.each(func(g Governor) { g.Learn(sig) })...)
		}
	}
	return after
}

func (l *link) each(do func(Governor)) (after []func()) {
	for _, g := range l.gov {
		after = append(after, func() { do(g) })
	}
	return after
}

// scopeOf returns the scope of an event as the store has it: "" for the host.
func scopeOf(s string) (scope string, ok bool) {
	if s == throttle.Host.String() {
		return "", true
	}
	level, _, ok := strings.Cut(s, ":")
	return s, ok && level != ""
}

// scopeFor is the other way round. What it does not know is the host: the safe side.
func scopeFor(s string) throttle.Scope {
	level, key, _ := strings.Cut(s, ":")
	var l throttle.Level
	if s == "" || l.UnmarshalText([]byte(level)) != nil || l >= throttle.Request {
		return throttle.Scope{}
	}
	return throttle.Scope{Level: l, Key: key}
}
