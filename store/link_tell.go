package store

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// hearer is who is to be told about what.
type hearer struct {
	gov   Governor
	scope string
}

// word is what a governor is to be told of a scope: that it is cleared of what was before at,
// and then of a cooldown. So there is one for each, however long another takes to hear his.
type word struct {
	clears bool
	at     time.Time
	until  int64 // 0: of none
	source string
}

// clears has g cleared of what was before at; what it was to be told before goes with that.
func (l *link) clears(g Governor, scope string, at time.Time) {
	if w := l.words[hearer{g, scope}]; w.at.After(at) {
		at = w.at
	}
	l.post(hearer{g, scope}, word{clears: true, at: at})
}

// learns has g told of a cooldown, or of a longer one before.
func (l *link) learns(g Governor, scope string, until int64, source string) {
	w := l.words[hearer{g, scope}]
	if until > w.until {
		w.until, w.source = until, source
	}
	l.post(hearer{g, scope}, w)
}

// allClear and allLearn have all governors told but one.
func (l *link) allClear(scope string, at time.Time, but Governor) {
	for _, g := range l.gov {
		if g != but {
			l.clears(g, scope, at)
		}
	}
}

func (l *link) allLearn(scope string, until int64, source string, but Governor) {
	for _, g := range l.gov {
		if g != but {
			l.learns(g, scope, until, source)
		}
	}
}

// post has h told w, in its turn, on a goroutine that there is only while there is something
// to tell: that waits for the governor's actor, as long as a limiter there takes, and what
// others say is heard meanwhile. A Syncer that is closed tells nothing.
func (l *link) post(h hearer, w word) {
	s := l.c.s
	if s.closed {
		return
	}
	if _, waits := l.words[h]; !waits {
		l.out = append(l.out, h)
	}
	if l.words[h] = w; !l.tells {
		l.tells = true
		s.work.Go(l.deliver)
	}
}

func (l *link) deliver() {
	s := l.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	more := func() bool { return !s.closed && (len(l.out) > 0 || l.meets) }
	defer func() {
		if l.tells = more(); l.tells { // a word has ended the goroutine
			s.work.Go(l.deliver)
		}
	}()
	for more() {
		if len(l.out) == 0 {
			l.meets, l.c.met = false, true
			s.call(l.c.wake())
			continue
		}
		h := l.out[0]
		l.out[0] = hearer{}
		if l.out = l.out[1:]; len(l.out) == 0 {
			l.out = nil
		}
		w := l.words[h]
		if delete(l.words, h); slices.Contains(l.gov, h.gov) { // it has not left
			s.say(h, w)
		}
	}
}

// call leaves mu to call fns.
func (s *Syncer) call(fns []func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, f := range fns {
		f()
	}
}

// say leaves mu for a word. A panic of a Governor of the user's is dropped.
func (s *Syncer) say(h hearer, w word) {
	s.mu.Unlock()
	defer s.mu.Lock()
	defer func() { _ = recover() }()
	if w.clears {
		h.gov.ClearBefore(scopeFor(h.scope), w.at)
	}
	s.learn(h.gov, h.scope, w.until, w.source)
}

// learn tells g of a cooldown. The caller does not hold mu.
func (s *Syncer) learn(g Governor, scope string, until int64, source string) {
	if d := until - s.steady(); until > 0 && d > 0 {
		g.Learn(throttle.Signal{Scope: scopeFor(scope), Delay: time.Duration(d), Source: source})
	}
}
