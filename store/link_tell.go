package store

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// hearer is a governor of a link, and what it is to be told. Syncer.mu guards it.
type hearer struct {
	link  *link
	gov   Governor
	words map[string]word // by scope
	out   []string        // their order
	tells bool            // a goroutine delivers them
	left  bool            // it is told nothing any more
}

// word is what a governor is to be told of a scope: that it is cleared of what was before at,
// and then of a cooldown. So there is one for each, however long the governor takes to hear.
type word struct {
	clears bool
	at     time.Time
	until  int64 // 0: of none
	source string
}

// clears has h cleared of what was before at; what it was to be told before goes with that.
func (h *hearer) clears(scope string, at time.Time) {
	if w := h.words[scope]; w.at.After(at) {
		at = w.at
	}
	h.post(scope, word{clears: true, at: at})
}

// learns has h told of a cooldown, or of a longer one before.
func (h *hearer) learns(scope string, until int64, source string) {
	w := h.words[scope]
	if until > w.until {
		w.until, w.source = until, source
	}
	h.post(scope, w)
}

// allClear and allLearn have all governors told but one.
func (l *link) allClear(scope string, at time.Time, but *hearer) {
	for _, h := range l.gov {
		if h != but {
			h.clears(scope, at)
		}
	}
}

func (l *link) allLearn(scope string, until int64, source string, but *hearer) {
	for _, h := range l.gov {
		if h != but {
			h.learns(scope, until, source)
		}
	}
}

// post has h told w, in its turn, on a goroutine that there is only while there is something
// to tell: that waits for the governor's actor, as long as a limiter there takes, and nobody
// else does. A Syncer that is closed tells nothing.
func (h *hearer) post(scope string, w word) {
	s := h.link.c.s
	if s.closed || h.left {
		return
	}
	if _, waits := h.words[scope]; !waits {
		h.out = append(h.out, scope)
	}
	if h.words[scope] = w; !h.tells {
		h.tells = true
		h.link.telling++
		s.work.Go(h.deliver)
	}
}

func (h *hearer) deliver() {
	s := h.link.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	more := func() bool { return len(h.out) > 0 && !h.left && !s.closed }
	defer func() {
		if h.tells = more(); h.tells { // a word has ended the goroutine
			s.work.Go(h.deliver)
			return
		}
		h.link.telling--
		h.link.caughtUp()
	}()
	for more() {
		scope := h.out[0]
		if h.out = h.out[1:]; len(h.out) == 0 {
			h.out = nil
		}
		w := h.words[scope]
		delete(h.words, scope)
		h.deliverOne(scope, w)
	}
}

// deliverOne leaves mu for a word. A panic of a Governor of the user's is dropped.
func (h *hearer) deliverOne(scope string, w word) {
	s := h.link.c.s
	s.mu.Unlock()
	defer s.mu.Lock()
	defer func() { _ = recover() }()
	if w.clears {
		h.gov.ClearBefore(scopeFor(scope), w.at)
	}
	s.learn(h.gov, scope, w.until, w.source)
}

// learn tells g of a cooldown. The caller does not hold mu.
func (s *Syncer) learn(g Governor, scope string, until int64, source string) {
	if d := until - s.steady(); d > 0 {
		g.Learn(throttle.Signal{Scope: scopeFor(scope), Delay: time.Duration(d), Source: source})
	}
}

// meet is what follows an answer of the store before which nobody was to start: now nobody
// is, unless there are governors to be told first what cools. One that takes longer than an
// Interval to hear it is not waited for.
func (c *cell) meet(now int64) (after []func()) {
	if l := c.member; l != nil && l.telling > 0 && (l.meets == 0 || now < l.meets) {
		if l.meets == 0 {
			l.meets = now + int64(c.s.cfg.Interval)
		}
		return nil
	}
	c.met = true
	return c.wake()
}

// caughtUp is what follows when a governor has been told all.
func (l *link) caughtUp() {
	if c, s := l.c, l.c.s; l.meets > 0 && l.telling == 0 && c.member == l && !c.met && !s.closed {
		after := c.meet(s.now())
		s.mu.Unlock()
		defer s.mu.Lock()
		for _, f := range after {
			f()
		}
	}
}
