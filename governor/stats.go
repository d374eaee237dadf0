package governor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/breaker"
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
	Queued   int `json:"queued"`    // requests that wait, backoffs included, and those whose Submit waits for room
	MaxQueue int `json:"max_queue"`

	// Lanes and Tenants list the 50 with the most waiting requests, a tenant's in all
	// its lanes together, the most first; LaneCount and TenantCount are how many there
	// are. Where that is more, one that is left out may be longer than the last that is
	// listed, but not twice as long.
	Lanes       []LaneStats   `json:"lanes,omitempty"`
	LaneCount   int           `json:"lane_count"`
	Tenants     []TenantStats `json:"tenants,omitempty"`
	TenantCount int           `json:"tenant_count"`

	// Cooldowns are by scope, at most 100; CooldownCount is how many there are. Where
	// that is more, the host's is listed, and of 1,000 others those that end last.
	Cooldowns     []CooldownStats `json:"cooldowns,omitempty"`
	CooldownCount int             `json:"cooldown_count"`

	Limits  []LimitStats  `json:"limits,omitempty"`
	Pool    pool.Stats    `json:"pool"`              // zero without one
	Breaker *BreakerStats `json:"breaker,omitempty"` // nil without one

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
	GaveUp    uint64 `json:"gave_up"` // requests that ran out of attempts

	// Under Config.Observe: requests that would have waited, and been refused, by
	// event; one may be in both, and one that would wait again is counted again.
	Observe     bool   `json:"observe,omitempty"`
	WouldWait   uint64 `json:"would_wait,omitempty"`
	WouldRefuse uint64 `json:"would_refuse,omitempty"`

	Panics        uint64 `json:"panics"`   // of closures, and runtime.Goexit
	Overflow      uint64 `json:"overflow"` // requests
	Episodes      uint64 `json:"episodes"` // cooldowns begun
	Clamped       uint64 `json:"clamped"`  // delays
	BadVendor     uint64 `json:"bad_vendor"`
	Stuck         uint64 `json:"stuck"`
	EventsDropped uint64 `json:"events_dropped"` // by slow listeners
	HookPanics    uint64 `json:"hook_panics"`    // panics of listeners, of Config.Retry and Config.Guess, and of the Pool's hooks

	Wait Latency `json:"wait"` // in the queue, per attempt, with its backoff
	Call Latency `json:"call"` // of closures, per attempt

	// The same of the last minutes: of the time Recent, which is 2 min and at most
	// 20 s more while Stats is called every 20 s or oftener; else it goes back to an
	// earlier call, or to New.
	RecentWait Latency       `json:"recent_wait"`
	RecentCall Latency       `json:"recent_call"`
	Recent     time.Duration `json:"recent"`
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

// TenantStats is a tenant of whom something waits, in so many lanes.
type TenantStats struct {
	Tenant  string `json:"tenant"`
	Waiting int    `json:"waiting"`
	Lanes   int    `json:"lanes"`
}

// CooldownStats is a scope that is cooling, or on its way back.
type CooldownStats struct {
	Scope  throttle.Scope  `json:"scope"`
	Phase  string          `json:"phase"` // "cooling", "probing" or "ramping"
	Until  time.Time       `json:"until"`
	Signal throttle.Signal `json:"signal"`
}

// LimitStats is one of Config.Limits, or a pace of the governor's own. Rate is 0 when
// there is none, or none now; Quota is nil when the limiter knows of none (see
// limiter.Gauge).
type LimitStats struct {
	Per   throttle.Level  `json:"per"`
	Unit  string          `json:"unit,omitempty"`  // Limit.Unit
	Rate  float64         `json:"rate"`            // permits per second; of a narrower limit than the host's, of a key that has none of its own
	Quota *throttle.Quota `json:"quota,omitempty"` // of the host: what is left

	// Keys are, of a narrower limit than the host's, those for which most waits, at
	// most 10.
	Keys []LimitKeyStats `json:"keys,omitempty"`
}

// LimitKeyStats is a limit as it is for one selector, tenant or bucket.
type LimitKeyStats struct {
	Key   string          `json:"key"`
	Rate  float64         `json:"rate"`
	Quota *throttle.Quota `json:"quota,omitempty"`
}

// BreakerStats is a breaker. Of a Circuit that has no Stats of its own, as a
// breaker.Breaker has, it says what Ready answers: open or closed, and until when.
type BreakerStats struct {
	breaker.Stats
	Refusing bool   `json:"refusing"`         // calls are refused now; an open one whose time has come lets the next try
	Answer   string `json:"answer,omitempty"` // what they are told

	// Rejected is how many requests this governor has refused, or ended in the queue,
	// because of it, since New: in place of the number of package breaker, which does
	// not know of them, as a governor asks by Ready.
	Rejected uint64 `json:"rejected"`
}

type counters struct {
	submitted, refused, started, succeeded, failed, dropped, limited, retried, again,
	gaveUp, panics, overflow, cooldowns, clamped, badVendor, stuck, hookPanics,
	wouldWait, wouldRefuse, broken atomic.Uint64
}

// Stats returns a snapshot, taken between two decisions.
func (c *core) Stats() (s Stats) {
	c.ask(func() { s = c.snapshot() })
	if c.breaker != nil { // here, for it says what errors of the user's say
		s.Breaker = breakerStats(c.breaker, time.Now())
		s.Breaker.Rejected = c.count.broken.Load()
	}
	return s
}

func (c *core) snapshot() Stats {
	n := &c.count
	// Calls go on meanwhile. What is counted of a call later is read earlier, so that
	// none has ended, or waited, that has not begun.
	calls, waits := c.calls.read(), c.waits.read()
	most := c.door.limit()
	s := Stats{
		Name: c.name, Time: time.Now(), Paused: c.paused, Closed: c.stage != open,
		Workers: c.slots, InFlight: c.taken(),
		Queued: c.queue.Len() + c.backoffs, MaxQueue: most,
		LaneCount: c.queue.lanes.len(), Lanes: c.queue.census.longest(mostListed),
		TenantCount: c.queue.census.tenants.len, Tenants: c.queue.census.waiting(mostListed),
		Succeeded: n.succeeded.Load(), Failed: n.failed.Load(), Dropped: n.dropped.Load(),
		Limited: n.limited.Load(), Retried: n.retried.Load(), Again: n.again.Load(), GaveUp: n.gaveUp.Load(),
		Started: n.started.Load(), Submitted: n.submitted.Load(), Refused: n.refused.Load(),
		Observe: c.observe, WouldWait: n.wouldWait.Load(), WouldRefuse: n.wouldRefuse.Load(),
		Panics: n.panics.Load(), Overflow: n.overflow.Load(), Episodes: n.cooldowns.Load(),
		Clamped: n.clamped.Load(), BadVendor: n.badVendor.Load(), Stuck: n.stuck.Load(),
		EventsDropped: c.bus.Dropped(), HookPanics: c.bus.Panics() + n.hookPanics.Load() + c.gate.panics.Load(),
	}
	c.inlineStats(&s, &waits, &calls)
	s.Wait, s.Call = waits.summary(), calls.summary()
	recentWaits, recentCalls, span := c.looks.lately(c.now(), &waits, &calls)
	s.RecentWait, s.RecentCall, s.Recent = recentWaits.summary(), recentCalls.summary(), span
	if c.pool != nil {
		s.Pool = c.pool.stats()
		s.HookPanics += s.Pool.HookPanics
	}
	c.gate.snapshot(&s, c.now())
	return s
}

const (
	mostListed    = 50 // lanes, and tenants
	mostCooldowns = 100
	mostKeys      = 10 // of a limit
	mostScopes    = 1000
)

func breakerStats(b breaker.Circuit, now time.Time) *BreakerStats {
	s, err := &BreakerStats{}, b.Ready(now)
	if s.Refusing = err != nil; err != nil {
		s.Answer = fmt.Sprint(err) // the breaker is the user's, and so is its error
	}
	if teller, ok := b.(interface{ Stats() breaker.Stats }); ok {
		s.Stats = teller.Stats()
		s.Until = shown(s.Until, now)
		return s
	}
	s.FailureRate, s.SlowRate = -1, -1
	if s.Refusing {
		s.State = breaker.Open
	}
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		s.Until = shown(open.Until, now)
	}
	return s
}

func (g *gate) snapshot(s *Stats, now int64) {
	// After the lock.
	defer func() { sortByScope(s.Cooldowns, func(c CooldownStats) throttle.Scope { return c.Scope }) }()
	g.mu.Lock()
	defer g.mu.Unlock()
	s.CooldownCount = len(g.table)
	wall := time.Now()
	for _, st := range g.worst() {
		s.Cooldowns = append(s.Cooldowns, CooldownStats{st.key, [...]string{"cooling", "probing", "ramping"}[st.phase], shown(g.time(st.until), wall), st.signal})
	}
	t := g.time(now)
	tell := func(l *limit, key string) (rate float64, quota *throttle.Quota) {
		if rate, quota = l.tell(t, key); quota != nil {
			quota.Reset = shown(quota.Reset, wall)
		}
		return rate, quota
	}
	for i := range g.limits {
		l := &g.limits[i]
		ls := LimitStats{Per: l.Per, Unit: l.unit}
		if ls.Rate, ls.Quota = tell(l, ""); l.Per != throttle.Host {
			ls.Quota = nil
			for _, key := range s.busiest(l.Per) {
				rate, quota := tell(l, key)
				ls.Keys = append(ls.Keys, LimitKeyStats{key, rate, quota})
			}
		}
		s.Limits = append(s.Limits, ls)
	}
}

// worst returns the scopes to be listed: all, unless they are too many. It looks at a
// bounded number of them.
func (g *gate) worst() []*scope {
	all := make([]*scope, 0, min(g.timers.Len(), mostScopes))
	for st := range g.timers.All() { // every one in the table
		if all = append(all, st); len(all) == mostScopes {
			break
		}
	}
	if len(all) <= mostCooldowns {
		return all
	}
	slices.SortFunc(all, func(a, b *scope) int { return cmp.Compare(b.until, a.until) })
	all = all[:mostCooldowns]
	if host := g.table[throttle.Scope{}]; host != nil && !slices.Contains(all, host) {
		all[mostCooldowns-1] = host
	}
	return all
}

// busiest returns the keys of a level for which most of the listed waits, at most
// mostKeys.
func (s *Stats) busiest(level throttle.Level) (keys []string) {
	add := func(key string) {
		if len(keys) < mostKeys && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if level == throttle.Tenant {
		for _, t := range s.Tenants {
			add(t.Tenant)
		}
		return keys
	}
	for _, l := range s.Lanes {
		if level == throttle.Selector {
			add(l.Selector)
		} else {
			add(l.Bucket)
		}
	}
	return keys
}

// tell returns what the limiter says of a key.
func (l *limit) tell(now time.Time, key string) (rate float64, quota *throttle.Quota) {
	if r, ok := l.Limiter.(limiter.Rater); ok {
		rate = r.Rate(now, key)
		if !(rate > 0) || math.IsInf(rate, 0) { // NaN, too: JSON has no word for it
			rate = 0
		}
	}
	if g, ok := l.Limiter.(limiter.Gauge); ok {
		if q, known := g.Quota(now, key); known {
			q.Scope = throttle.Scope{Level: l.Per, Key: key}
			quota = &q
		}
	}
	return rate, quota
}

func sortByScope[T any](s []T, of func(T) throttle.Scope) {
	slices.SortFunc(s, func(a, b T) int {
		x, y := of(a), of(b)
		return cmp.Or(cmp.Compare(x.Level, y.Level), cmp.Compare(x.Key, y.Key))
	})
}
