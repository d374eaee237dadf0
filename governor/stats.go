package governor

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// Stats is a snapshot of a governor. In JSON durations are nanoseconds.
type Stats struct {
	Name   string    `json:"name"`
	Time   time.Time `json:"time"`
	Paused bool      `json:"paused"`
	Closed bool      `json:"closed"` // no request is accepted any more

	Workers  int `json:"workers"`   // slots
	InFlight int `json:"in_flight"` // slots taken, by closures, holds and opening connections
	Queued   int `json:"queued"`    // requests that wait, backoffs included
	MaxQueue int `json:"max_queue"`

	// Lanes are the longest, at most 100; LaneCount is how many there are.
	Lanes     []LaneStats     `json:"lanes,omitempty"`
	LaneCount int             `json:"lane_count"`
	Cooldowns []CooldownStats `json:"cooldowns,omitempty"`
	Limits    []LimitStats    `json:"limits,omitempty"`
	Pool      pool.Stats      `json:"pool"`              // zero without one
	Breaker   string          `json:"breaker,omitempty"` // "" without one, "ready", or its error

	// Counters since New. Submitted is the sum of the completed ones and those
	// not yet complete; requests refused at the door count in Refused alone.
	Submitted uint64 `json:"submitted"`
	Refused   uint64 `json:"refused"`   // at the door
	Started   uint64 `json:"started"`   // attempts
	Succeeded uint64 `json:"succeeded"` // requests, by result
	Failed    uint64 `json:"failed"`
	Dropped   uint64 `json:"dropped"` // requests that ended in the queue: cancelled, late, overflowing, closed
	Limited   uint64 `json:"limited"` // attempts that the vendor refused
	Retried   uint64 `json:"retried"` // attempts repeated by Config.Retry
	Again     uint64 `json:"again"`   // attempts that asked for the next by Again
	GaveUp    uint64 `json:"gave_up"` // requests

	// Under Config.Observe: requests that would have waited, and been refused, by
	// event; one may be in both, and one that would wait again is counted again.
	Observe     bool   `json:"observe,omitempty"`
	WouldWait   uint64 `json:"would_wait,omitempty"`
	WouldRefuse uint64 `json:"would_refuse,omitempty"`

	Panics    uint64 `json:"panics"`   // of closures, and runtime.Goexit
	Overflow  uint64 `json:"overflow"` // requests
	Episodes  uint64 `json:"episodes"` // cooldowns begun
	Clamped   uint64 `json:"clamped"`  // delays
	BadVendor uint64 `json:"bad_vendor"`
	Stuck     uint64 `json:"stuck"`
	Events    uint64 `json:"events_dropped"` // by slow listeners
	Hooks     uint64 `json:"hook_panics"`    // panics of listeners, of Config.Retry and Config.Guess, and of the Pool's hooks

	Wait Latency `json:"wait"` // in the queue, per attempt
	Call Latency `json:"call"` // of closures, per attempt
}

// LaneStats is one lane. Waiting is how many requests are in it.
type LaneStats struct {
	Selector string `json:"selector,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Bucket   string `json:"bucket,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Waiting  int    `json:"waiting"`
	Held     bool   `json:"held,omitempty"` // out of turn: a cooldown, a limit or the pool keeps it
}

// CooldownStats is a scope that is cooling, or on its way back.
type CooldownStats struct {
	Scope  throttle.Scope  `json:"scope"`
	Phase  string          `json:"phase"` // "cooling", "probing" or "ramping"
	Until  time.Time       `json:"until"`
	Signal throttle.Signal `json:"signal"`
}

// LimitStats is one of Config.Limits. Rate is 0 when there is none, or none now.
type LimitStats struct {
	Per  throttle.Level `json:"per"`
	Rate float64        `json:"rate"` // permits per second, of the host's key
}

type counters struct {
	submitted, refused, started, succeeded, failed, dropped, limited, retried, again,
	gaveUp, panics, overflow, cooldowns, clamped, badVendor, stuck, hookPanics,
	wouldWait, wouldRefuse atomic.Uint64
}

// Stats returns a snapshot, taken between two decisions.
func (c *core) Stats() (s Stats) {
	c.ask(func() { s = c.snapshot() })
	return s
}

func (c *core) snapshot() Stats {
	n := &c.count
	// Calls go on meanwhile. What is counted of a call later is read earlier, so that
	// none has ended, or waited, that has not begun.
	calls, waits := c.calls.read(), c.waits.read()
	s := Stats{
		Name: c.name, Time: time.Now(), Paused: c.paused, Closed: c.stage != open,
		Workers: c.slots, InFlight: c.taken(),
		Queued: c.queue.Len() + c.backoffs, MaxQueue: c.door.limit(), LaneCount: c.queue.lanes.len(), Lanes: c.queue.longest(100),
		Succeeded: n.succeeded.Load(), Failed: n.failed.Load(), Dropped: n.dropped.Load(),
		Limited: n.limited.Load(), Retried: n.retried.Load(), Again: n.again.Load(), GaveUp: n.gaveUp.Load(),
		Started: n.started.Load(), Submitted: n.submitted.Load(), Refused: n.refused.Load(),
		Observe: c.observe, WouldWait: n.wouldWait.Load(), WouldRefuse: n.wouldRefuse.Load(),
		Panics: n.panics.Load(), Overflow: n.overflow.Load(), Episodes: n.cooldowns.Load(),
		Clamped: n.clamped.Load(), BadVendor: n.badVendor.Load(), Stuck: n.stuck.Load(),
		Events: c.bus.Dropped(), Hooks: c.bus.Panics() + n.hookPanics.Load() + c.gate.panics.Load(),
	}
	c.inlineStats(&s, waits, calls)
	if c.pool != nil {
		s.Pool = c.pool.stats()
		s.Hooks += s.Pool.Hooks
	}
	if c.breaker != nil {
		s.Breaker = "ready"
		if err := c.breaker.Ready(s.Time); err != nil {
			s.Breaker = err.Error()
		}
	}
	c.gate.snapshot(&s, c.now())
	return s
}

func (g *gate) snapshot(s *Stats, now int64) {
	defer func() { // after the lock, for there may be many
		sortByScope(s.Cooldowns, func(c CooldownStats) throttle.Scope { return c.Scope })
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, st := range g.table {
		s.Cooldowns = append(s.Cooldowns, CooldownStats{st.key, [...]string{"cooling", "probing", "ramping"}[st.phase], g.time(st.until), st.signal})
	}
	for _, l := range g.limits {
		ls := LimitStats{Per: l.Per}
		if r, ok := l.Limiter.(limiter.Rater); ok {
			ls.Rate = r.Rate(g.time(now), "")
		}
		s.Limits = append(s.Limits, ls)
	}
}

func sortByScope[T any](s []T, of func(T) throttle.Scope) {
	slices.SortFunc(s, func(a, b T) int {
		x, y := of(a), of(b)
		return cmp.Or(cmp.Compare(x.Level, y.Level), cmp.Compare(x.Key, y.Key))
	})
}

// finish completes r with err, n being its last attempt, and reports whether it
// was this that completed it.
func (c *core) finish(r *request, n int, err error, own bool) bool {
	count := &c.count.failed
	switch {
	case err == nil:
		count = &c.count.succeeded
	case n == 0:
		count = &c.count.dropped
	}
	if err != ErrAbandoned { // else its attempt goes on
		c.repeated(r)
	}
	if !r.complete(err, own, count) {
		return false
	}
	r.sel().refs.Add(-1)
	if err != nil && n == 0 && err != ErrAbandoned && r.cause() != nil {
		c.emitFor(r, event.Cancelled, 0, 0, err)
	}
	c.emitFor(r, event.Completed, n, 0, err)
	return true
}

// refuse completes a request that never got in.
func (c *core) refuse(r *request, err error) {
	if errors.Is(err, ErrQueueFull) {
		c.count.overflow.Add(1)
		c.emit(event.Event{Kind: event.Overflow, Err: err})
	}
	c.tellBroken(r, err)
	r.complete(err, true, &c.count.refused)
	if r.class.Load() != nil {
		r.sel().refs.Add(-1)
	}
}

// moods tells of the moments when the last request is gone and when the last
// slot is taken.
func (c *core) moods() {
	used := c.taken()
	c.wasBusy = consume(&c.used) || c.wasBusy
	busy, full := used > 0 || c.queue.Len()+c.backoffs > 0, used >= c.slots
	if c.wasBusy && !busy {
		c.emit(event.Event{Kind: event.Idle})
	}
	if full && !c.wasFull {
		c.emit(event.Event{Kind: event.Depleted})
	}
	c.wasBusy, c.wasFull = busy, full
}
