package breaker

import (
	"time"

	"github.com/flyball-go/flyball/event"
)

// core is a breaker without clock, locks and listeners: it is told the time,
// decides, and notes what happened.
type core struct {
	cfg   Config    // with its defaults; never changes
	begin time.Time // a whole second of the wall clock, to count seconds from; never changes

	// id is the present state and a number that no other state and no trial call
	// has had. It is the permit of every call but trial calls.
	id   Permit
	last uint64 // the last such number

	window window
	over   bool // the window has reached a threshold, and an event said so

	until time.Time // Open: see Stats; HalfOpen: the end of HalfOpenWait, or zero

	// The opens of this cycle, which begins when the breaker is closed.
	opens int
	first time.Time
	delay time.Duration // the last one by the schedule
	cause error         // of the last one by a call, if it is known

	trials []trial  // HalfOpen: those that are out, in the order in which they, and their leases, began
	before *opening // HalfOpen: what it was before, if that was Open

	events []event.Event // what happened, without Name; only when somebody hears it
	heard  bool          // the Breaker has watchers, for which states matter and calls do not
}

// opening is what a breaker returns to when its only trial call is cancelled.
type opening struct {
	window window
	until  time.Time
}

// trial is a trial call that is out.
type trial struct {
	id    Permit
	until time.Time // the end of its lease
}

// result is what came of a call.
type result struct {
	outcome   Outcome
	ignored   bool // as configured, or judged; goes with Neutral
	cancelled bool // by its caller; goes with Neutral
	trip      bool // it opens the breaker at once; goes with Failure
	took      time.Duration
	hint      time.Duration // its RetryAfter; 0 or less: none
	err       error
}

// maxOverdue is how many trial calls are remembered beyond their lease, in case
// they end after all.
const maxOverdue = 100

const (
	stateBits = 3
	stateMask = 1<<stateBits - 1
)

func stateOf(p Permit) State { return State(p & stateMask) }

// begin returns a new core. Open is the one state that asks the user's code for how
// long, and a configuration is not to end a program.
func begin(cfg Config, now time.Time) (c core, err error) {
	defer func() {
		if v := recover(); v != nil {
			field := "OpenFor"
			if cfg.OpenDelay != nil {
				field = "OpenDelay"
			}
			err = invalid("Config.%s panics when asked how long the initial state lasts: %v", field, v)
		}
	}()
	return newCore(cfg, now), nil
}

func newCore(cfg Config, now time.Time) core {
	c := core{cfg: cfg, begin: now.Add(-time.Duration(now.Nanosecond()))}
	if cfg.Initial == Open {
		c.window = c.newWindow(now, Open)
		c.open(now, result{})
	} else {
		c.enter(now, cfg.Initial)
	}
	return c
}

// next returns a permit that has not been in use.
func (c *core) next(s State) Permit {
	c.last++
	return Permit(c.last<<stateBits | uint64(s))
}

// secondAt returns the number of the second that is d after begin; 0 unless
// seconds are counted.
func (c *core) secondAt(d time.Duration) int64 {
	if c.cfg.WindowTime == 0 {
		return 0
	}
	s := int64(d / time.Second)
	if d%time.Second < 0 {
		s--
	}
	return s
}

// newWindow returns what s is judged by, empty.
func (c *core) newWindow(now time.Time, s State) window {
	switch {
	case s == HalfOpen:
		return window{marks: make([]mark, c.cfg.HalfOpenCalls)}
	case c.cfg.Consecutive > 0:
		return window{}
	case c.cfg.WindowTime > 0:
		return window{seconds: make([]counts, c.cfg.WindowTime/time.Second), second: c.secondAt(now.Sub(c.begin))}
	}
	return window{marks: make([]mark, c.cfg.Window)}
}

// advance lets time pass: seconds leave the window, and HalfOpenWait may end. It
// comes first in all that follows.
func (c *core) advance(now time.Time) {
	c.window.advance(c.secondAt(now.Sub(c.begin)))
	if c.window.clean() {
		c.over = false
	}
	if stateOf(c.id) == HalfOpen && !c.until.IsZero() && !now.Before(c.until) {
		if c.cfg.HalfOpenClose {
			c.enter(now, Closed)
		} else {
			c.open(c.until, result{}) // then, not now: that may be long ago
		}
		c.note(now, event.Event{Kind: event.BreakerState})
	}
}

// ready returns nil when acquire would admit a call.
func (c *core) ready(now time.Time) *OpenError {
	c.advance(now)
	switch stateOf(c.id) {
	case Open:
		if now.Before(c.until) {
			return &OpenError{Name: c.cfg.Name, Until: c.until}
		}
	case ForcedOpen:
		return &OpenError{Name: c.cfg.Name}
	case HalfOpen:
		if c.window.calls+c.out(now) >= c.cfg.HalfOpenCalls {
			return &OpenError{Name: c.cfg.Name} // until one of them ends, whenever that is
		}
	}
	return nil
}

// out is how many trial calls are within their lease.
func (c *core) out(now time.Time) int {
	n := len(c.trials)
	for n > 0 && !now.Before(c.trials[len(c.trials)-n].until) {
		n--
	}
	return n
}

func (c *core) acquire(now time.Time) (Permit, *OpenError) {
	if err := c.ready(now); err != nil {
		c.window.rejected++
		c.note(now, event.Event{Kind: event.BreakerRefused, Until: err.Until})
		return 0, err
	}
	switch stateOf(c.id) {
	case Open:
		before := &opening{c.window, c.until}
		c.enter(now, HalfOpen)
		c.before = before
		c.note(now, event.Event{Kind: event.BreakerState})
	case HalfOpen:
	default:
		return c.id, nil
	}
	if len(c.trials) == c.cfg.HalfOpenCalls+maxOverdue { // the first is not within its lease
		c.trials = append(c.trials[:0], c.trials[1:]...)
	}
	t := trial{c.next(HalfOpen), now.Add(c.cfg.Lease)}
	c.trials = append(c.trials, t)
	return t.id, nil
}

// report takes a permit back. One of a state that is past, or that was given
// back before, has no effect.
func (c *core) report(p Permit, now time.Time, r result) {
	c.advance(now)
	if !c.takeBack(p) {
		return
	}
	c.noteResult(now, r)
	if r.outcome == Neutral {
		if r.cancelled && c.before != nil && c.window.calls+len(c.trials) == 0 {
			c.restore(now)
		}
		return
	}
	var m mark
	if r.outcome == Failure {
		m |= failedMark
	}
	if r.took > c.cfg.SlowCall {
		m |= slowMark
	}
	c.window.add(m)
	c.decide(now, r)
}

// takeBack reports whether a call with permit p still counts.
func (c *core) takeBack(p Permit) bool {
	switch stateOf(c.id) {
	case Closed, MetricsOnly:
		return p == c.id
	case HalfOpen:
		for i := range c.trials {
			if c.trials[i].id == p {
				c.trials = append(c.trials[:i], c.trials[i+1:]...)
				return true
			}
		}
	}
	return false
}

// decide moves the breaker on when what is counted says so.
func (c *core) decide(now time.Time, r result) {
	v, why := c.judge()
	if v == tooBad && !c.over {
		c.note(now, event.Event{Kind: event.BreakerRate, Source: why})
	}
	c.over = v == tooBad
	s := stateOf(c.id)
	switch {
	case s == MetricsOnly:
	case v == tooBad, r.trip:
		c.open(now, r)
		c.note(now, event.Event{Kind: event.BreakerState, Err: r.err})
	case s == HalfOpen && v == good:
		c.enter(now, Closed)
		c.note(now, event.Event{Kind: event.BreakerState})
	}
}

// stats describes the core, which is up to date at now.
func (c *core) stats(now time.Time) Stats {
	w := &c.window
	s := Stats{
		State: stateOf(c.id), Generation: uint64(c.id >> stateBits), Until: c.until, Opens: c.opens,
		Calls: w.calls, Failed: w.failed, Slow: w.slow, Rejected: w.rejected, Trials: c.out(now),
	}
	s.FailureRate, s.SlowRate = c.rates()
	return s
}
