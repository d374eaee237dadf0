package governor

import (
	"time"

	"github.com/flyball-go/flyball/governor/internal/sched"
	"github.com/flyball-go/flyball/throttle"
)

// phase is where a scope in the table stands. A scope that is not in the table
// is open.
type phase uint8

const (
	cooling phase = iota // nothing starts until its end
	probing              // one at a time, until one succeeds
	ramping              // more and more
)

// scope is one entry of the gate's table: what the vendor asked to leave alone
// and how traffic returns to it. The gate's mutex guards all of it but kept.
type scope struct {
	key    throttle.Scope
	phase  phase
	signal throttle.Signal // what set its end
	began  int64           // receipt of the episode's first signal
	until  int64
	gen    uint32 // changes with each cooldown; passes of another one count no more

	// learned is the last start before the episode's first signal was received.
	// What attempts up to it report is old news: it may move the end, but it is
	// no new episode.
	learned uint64
	heard   uint64        // the last start before its latest signal was received
	own     [2]said       // of the vendor to this governor, not to another: the latest last, before it one for all
	wide    *said         // likewise, of narrower scopes for which there is no room: one for all; only the host's
	guesses int           // steps of the guess schedule taken since the last success
	guessed uint32        // gen since the last guess: who passed in it, or later, began after that was over
	prev    time.Duration // the last guess
	prior   time.Duration // the one before it

	// While probing and ramping without a rate: at most allowed at once, and
	// good successes so far in this round.
	allowed, inflight, good int

	// While ramping with a rate: one start per interval, which shrinks from ten
	// times to one time 1/rate over length. It is the longer of two, by the lowest rate
	// of the limits that take the cost of an attempt and of those that take 1; 0: none.
	costs, calls float64
	from, length int64
	next         int64

	last int64 // when something passed last

	at      int64 // when the actor must look at it
	idx     int32 // in gate.timers
	touched bool  // it is in gate.changed
	told    bool  // that it is ramping
	later   bool  // its end has moved, and sweep has yet to see it

	ended bool       // it was taken out of the table; written by the actor
	kept  sched.List // lanes that keep their slots and wait for a change here; the actor's alone
}

// said is a word of the vendor: when it was received, and until when it is to be obeyed.
type said struct {
	at, until int64
	signal    throttle.Signal
}

// says takes a word that came now.
func (s *scope) says(now, until int64, sig throttle.Signal) {
	before := s.own[1]
	if s.own[0].until > before.until {
		before.until, before.signal = s.own[0].until, s.own[0].signal
	}
	s.own = [2]said{before, {now, until, sig}}
}

// widens takes a word that came now, of a scope for which there is no room.
func (s *scope) widens(now, until int64, sig throttle.Signal) {
	if s.wide != nil && s.wide.until > until {
		until, sig = s.wide.until, s.wide.signal
	}
	s.wide = &said{now, until, sig}
}

// unsays forgets what the vendor has said before at.
func (s *scope) unsays(at int64) {
	for i := range s.own {
		if s.own[i].at < at {
			s.own[i] = said{}
		}
	}
	if s.wide != nil && s.wide.at < at {
		s.wide = nil
	}
}

// since returns the longest that the vendor has said since at; the zero said if it has said
// nothing. Where its words are many it may be one of before.
func (s *scope) since(at int64) (longest said) {
	longest = s.longest(at)
	if w := s.wide; w != nil && w.at >= at && w.until > longest.until {
		longest = *w
	}
	return longest
}

// longest is since but for what was said of narrower scopes.
func (s *scope) longest(at int64) (longest said) {
	for _, w := range s.own {
		if w.at >= at && w.until > longest.until {
			longest = w
		}
	}
	return longest
}

func (s *scope) When() int64   { return s.at }
func (s *scope) Index() *int32 { return &s.idx }

// blocks returns 0 when a request may pass now, else when it may; forever when
// it has to wait for a change of the scope, of which the actor hears.
func (s *scope) blocks(now int64) int64 {
	switch {
	case s.phase == cooling:
		return forever
	case s.phase == ramping && s.rated():
		if s.next > now {
			return s.next
		}
		return 0
	case s.inflight >= max(1, s.allowed):
		return forever
	}
	return 0
}

// rated reports whether a ramp goes by rates.
func (s *scope) rated() bool { return s.costs > 0 || s.calls > 0 }

// enter counts an attempt that passes.
func (s *scope) enter(now int64, cost int) {
	s.inflight++
	s.last = now
	if s.phase == ramping && s.rated() {
		share := min(1, 0.1+0.9*float64(now-s.from)/float64(s.length))
		seconds := 0.
		if s.costs > 0 {
			seconds = float64(cost) / (s.costs * share)
		}
		if s.calls > 0 {
			seconds = max(seconds, 1/(s.calls*share))
		}
		s.next = add(now, time.Duration(min(float64(maxRamp), seconds*float64(time.Second))))
	}
}

// leave counts an attempt that passed in this generation and ended. It reports
// whether a round of a ramp is complete.
func (s *scope) leave(ok bool) (grew bool) {
	s.inflight--
	if !ok {
		return false
	}
	s.guessedWell()
	if s.phase == ramping {
		if s.good++; s.good >= s.allowed {
			s.allowed, s.good = 2*s.allowed, 0
			return true
		}
	}
	return false
}

// guessedWell is called for a success of who began after the cooldown of the last guess.
func (s *scope) guessedWell() { s.guesses, s.prev, s.prior = 0, 0, 0 }

// pass is an attempt's place in a scope that is probed or ramped.
type pass struct {
	st  *scope
	gen uint32
}

type passes [throttle.Bucket + 1]pass

func (p *passes) all() []pass {
	if p == nil {
		return nil
	}
	return p[:]
}

func (a *attempt) passed(st *scope) bool {
	for _, p := range a.passes.all() {
		if p.st == st {
			return p.gen == st.gen
		}
	}
	return false
}
