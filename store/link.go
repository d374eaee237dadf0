package store

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/throttle"
)

// Governor is what a Syncer needs of one: every governor.Handle is one. One that has a
// method Tell(event.Event), too, gets the events StoreLost and StoreBack by it, in order. One
// that has a method Cooling() []event.Event is asked for the last event of each scope that is
// cooling when it leaves, since some may not have been heard.
type Governor interface {
	Name() string
	Listen(fn func(event.Event), kinds ...event.Kind) (stop func())
	Learn(throttle.Signal)
	ClearBefore(throttle.Scope, time.Time)
}

// SharedSource is how the Source begins of signals that come from a store, and of events
// about them, which are not told to it again.
const SharedSource = "shared by "

const (
	fromGovernor = SharedSource + "another governor"
	fromProcess  = SharedSource + "another process"
)

// link is a governor that shares its cooldowns under a cell's key. Syncer.mu guards
// it.
type link struct {
	c     *cell
	gov   []*hearer // of one name in this process there may be several
	known map[string]*cooling
	tell  map[string]untold // by scope
	clear map[string]uint64 // up to which Gen, by scope
	again map[string]bool   // scopes of which the store has lost what is known
	much  int               // with so many known, what is over is forgotten
	long  bool              // it was logged that a scope is too long to be shared

	telling int   // how many governors are being told something
	meets   int64 // 0, or by when the cell has met the store, or as soon as none is
}

// cooling is a cooldown that is known here, by Syncer.steady: what becomes of the wall
// clock does not end it.
type cooling struct {
	until int64
	gen   uint64
	old   bool  // which is of a state that was lost
	at    int64 // when until was heard of
	own   int64 // when the vendor last said something to one of the governors
	ended int64 // what the vendor had said before was cleared
}

// untold is what the vendor has said to one of the governors since the store was told last:
// the longest of it, and when the first was.
type untold struct{ until, since int64 }

// Join has g share its cooldowns with the governors of the same Name in all
// processes: those that it learns from its vendor, and those that are cleared. What
// others learn it is told by Learn. leave ends that; it may be called again.
//
// A scope whose text, the level, a colon and the key, has more than 256 bytes is not shared:
// a store has no room for it, and by a shorter name nobody who has not met it could know it.
// The Logger is told once.
func (s *Syncer) Join(g Governor) (leave func()) {
	s.mu.Lock()
	c, now := s.cell(KeyFor(g.Name(), throttle.Scope{}.String())), s.steady()
	if c.member == nil {
		c.member = &link{c: c, known: make(map[string]*cooling), tell: make(map[string]untold), clear: make(map[string]uint64)}
		c.seen, c.heard, c.epoch, c.fresh, c.met = 0, 0, "", -1, false // it wants to hear all
	}
	l := c.member
	h := &hearer{link: l, gov: g, words: make(map[string]word)}
	l.gov = append(l.gov, h)
	cools := make(map[string]int64)
	for scope, k := range l.known {
		if k.until > now {
			cools[scope] = k.until
		}
	}
	s.plan(c, s.now())
	s.mu.Unlock()
	for scope, until := range cools { // now, whatever others are being told: it is about to start calls
		s.learn(g, scope, until, fromGovernor)
	}
	s.mu.Lock()
	for scope, until := range cools {
		if k := l.known[scope]; k == nil || k.until < until { // cleared meanwhile, and heard of too early, perhaps
			h.clears(scope, time.Now())
			if k != nil {
				h.learns(scope, k.until, fromGovernor)
			}
		}
	}
	s.mu.Unlock()
	stop := g.Listen(func(e event.Event) { s.heard(l, h, e) }, event.Learned, event.Cooling, event.Extended, event.Cleared)
	return func() {
		stop()
		s.mu.Lock()
		h.left = true
		l.gov = slices.DeleteFunc(l.gov, func(o *hearer) bool { return o == h })
		s.mu.Unlock()
		if last, ok := g.(interface{ Cooling() []event.Event }); ok {
			for _, e := range last.Cooling() {
				s.heard(l, h, e)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		l.part()
	}
}

// part ends l when it has no governor any more, and has said all.
func (l *link) part() {
	if c := l.c; len(l.gov) == 0 && c.member == l && c.pending == nil && !l.toSay() {
		c.member = nil
	}
}

// Shared reports whether a signal, or an event, came from a store, by its Source.
func Shared(source string) bool { return strings.HasPrefix(source, SharedSource) }

// WiderSource is how the Source begins of a governor's events about a pause of more than the
// vendor meant, for want of room: of what it meant the others are told.
const WiderSource = "wider than meant: "

// Untold reports whether others are not to be told of a signal, or an event, by its Source:
// one that is Shared, or of a pause that is wider than meant.
func Untold(source string) bool {
	return Shared(source) || strings.HasPrefix(source, WiderSource)
}

// heard takes an event of from.
func (s *Syncer) heard(l *link, from *hearer, e event.Event) {
	scope, ok := scopeOf(e.Scope)
	if !ok || Untold(e.Source) {
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
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Kind == event.Learned { // the next event tells as much, unless it is behind what only this governor knows of
		e.Until = e.Time.Add(max(0, e.Delay))
	}
	k, now, at, until := l.of(scope), s.steady(), s.at(e.Time), s.at(e.Until)
	if e.Kind != event.Cleared && at < k.ended { // it has not heard of that yet
		s.mu.Unlock()
		return
	}
	news, hidden := until > max(now, k.until), until > now && until <= k.until
	if e.Kind == event.Cleared {
		hidden = false
		// Else it is of what was before: what is known now holds, also for who was cleared.
		if news = k.until > now && at > k.at; !news && k.until > now {
			from.learns(scope, k.until, fromGovernor)
		}
	} else if until == k.until && at == k.own {
		hidden = false // Learned has told it
	}
	if !news && !hidden {
		s.mu.Unlock()
		return
	}
	var after []func()
	switch {
	case hidden: // the store is told of it, too, so that nobody clears it unheard
		k.own = max(k.own, at)
		l.owes(scope, until, at)
	case e.Kind == event.Cleared:
		k.until, k.ended = 0, max(k.ended, at)
		delete(l.tell, scope)
		l.ends(scope, k)
		if _, waits := from.words[scope]; waits {
			from.clears(scope, e.Time) // of what it has not been told yet
		}
		l.allClear(scope, e.Time, from)
		if scope == "" { // what follows the store says, if it answers
			l.c.probeEnds = min(l.c.probeEnds, s.now())
			after = l.c.wake()
		}
	default:
		k.until, k.at, k.own = until, at, max(k.own, at)
		if l.owes(scope, until, at); scope == "" {
			l.c.cools(s.since(e.Until))
		}
		l.allLearn(scope, until, fromGovernor, from)
	}
	s.plan(l.c, l.c.soon(s.now()))
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// owes has the store told of a word that came at at.
func (l *link) owes(scope string, until, at int64) {
	if u, more := l.tell[scope]; more {
		until, at = max(until, u.until), min(at, u.since)
	}
	l.tell[scope] = untold{until, at}
}

// of returns what is known of scope. What is over is forgotten now and then.
func (l *link) of(scope string) *cooling {
	k := l.known[scope]
	if k == nil {
		if len(l.known) >= l.much {
			now := l.c.s.steady()
			maps.DeleteFunc(l.known, func(_ string, k *cooling) bool { return k.until <= now })
			maps.DeleteFunc(l.tell, func(_ string, u untold) bool { return u.until <= now })
			l.much = max(4*MaxScopes, 2*len(l.known)) // so that each is looked at a few times
		}
		k = &cooling{}
		l.known[scope] = k
	}
	return k
}

// cooling reports whether any scope is, as far as is known here.
func (l *link) cooling() bool {
	now := l.c.s.steady()
	for _, k := range l.known {
		if k.until > now {
			return true
		}
	}
	return false
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
