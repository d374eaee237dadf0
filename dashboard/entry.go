package dashboard

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// heard are the kinds that the page tells of: decisions, not what every call does. So
// a call of a governor that is watched costs no more than one of another.
var heard = []event.Kind{
	event.Overflow, event.Refused, event.Retry, event.GaveUp,
	event.Learned, event.Cooling, event.Extended, event.Cleared, event.Cooled, event.Probe, event.Ramp, event.Resumed,
	event.Clamped, event.BadVendor,
	event.BreakerState, event.BreakerSet, event.BreakerReset, event.BreakerRate, event.BreakerRefused, event.WouldRefuse,
	event.PoolCreated, event.PoolFailed, event.PoolStolen, event.PoolDiscarded,
	event.Stuck, event.Paused, event.Unpaused, event.Closing, event.Closed, event.Abandoned,
	event.StoreLost, event.StoreBack,
}

// urgent reports whether a kind is shown at once, not with the next second.
func urgent(k event.Kind) bool {
	switch k {
	case event.Cooling, event.Extended, event.Cleared, event.Cooled, event.Resumed, event.BreakerState, event.BreakerSet,
		event.Paused, event.Unpaused, event.Closed, event.StoreLost, event.StoreBack:
		return true
	}
	return false
}

// entry is a governor that is watched.
type entry struct {
	id     string
	handle governor.Handle
	stop   func() // ends the listening
	texts  *texts

	dirty atomic.Bool // it decided something since it was asked

	// mu guards what follows; it is held for moments, and nothing is called under it.
	// Dashboard.mu may be taken under it (see noted), never
	// the other way round.
	mu      sync.Mutex
	stats   governor.Stats // as sampled last
	base    governor.Stats // at the last point
	points  ring[point]
	journal journal
	why     string    // what opened the breaker last
	opened  time.Time // when
	rated   time.Time // when its counts reached a threshold last

	// early are the events that the journal began with and that may be heard again,
	// last the time of the latest; see again, mu does not guard them.
	early map[happened]int
	last  time.Time
}

// happened tells an event from others of its governor.
type happened struct {
	at      int64
	kind    event.Kind
	request uint64
	attempt int
	scope   string
}

func (d *Dashboard) newEntry(h governor.Handle, id string) *entry {
	e := &entry{id: id, handle: h, texts: &d.texts}
	e.points.most = int(d.cfg.History / every)
	begun := make(chan struct{})
	e.stop = h.Listen(func(ev event.Event) {
		<-begun
		if e.again(ev) {
			return
		}
		e.noted(d, ev)
		if urgent(ev.Kind) {
			d.changed(e)
		}
	}, heard...)
	// Asked after the listening began, so that nothing falls between the two.
	e.begin(d, h.Recent())
	close(begun)
	return e
}

// begin begins the journal with what happened before the governor was watched.
func (e *entry) begin(d *Dashboard, recent []event.Event) {
	for _, ev := range recent {
		if !slices.Contains(heard, ev.Kind) {
			continue
		}
		e.noted(d, ev)
		if e.early == nil {
			e.early = map[happened]int{}
		}
		e.early[keyOf(ev)]++
		e.last = latest(e.last, ev.Time)
	}
}

// again reports whether the journal began with an event that is heard. begin and it
// are the only ones who use early and last, one after the other: the listener waits
// for begin, and hears one event at a time.
func (e *entry) again(ev event.Event) bool {
	if e.early == nil {
		return false
	}
	if k := keyOf(ev); e.early[k] > 0 {
		e.early[k]--
		return true
	}
	if ev.Time.After(e.last) {
		e.early = nil // what is heard from now on is new
	}
	return false
}

func keyOf(ev event.Event) happened {
	return happened{ev.Time.UnixNano(), ev.Kind, ev.Request, ev.Attempt, ev.Scope}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// noted writes down an event. It is stamped with the sample to come: a reader who was
// told of the last one before finds it among what is new then. For the stamp is read
// under mu, as readers read the journal, after the sample that they were woken by: an
// event is either there already, or finds that sample counted.
func (e *entry) noted(d *Dashboard, ev event.Event) {
	told := Event{
		Time: ev.Time, Kind: ev.Kind.String(), Request: ev.Request, Attempt: ev.Attempt,
		Scope: e.texts.clean(ev.Scope), Delay: ms(ev.Delay), Until: ev.Until, Source: e.texts.clean(ev.Source), Count: 1,
	}
	if ev.Err != nil {
		told.Error = e.texts.clean(fmt.Sprint(ev.Err)) // which survives what is no error but a nil pointer to one
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.journal.add(told, ev.Kind, d.ticked()+1)
	switch ev.Kind {
	case event.BreakerRate:
		e.why, e.rated = told.Source, ev.Time
	case event.BreakerState:
		e.opened = ev.Time
		switch counted := e.rated.Equal(ev.Time); {
		case told.Error != "" && counted: // as one call's end has both
			e.why += ": " + told.Error
		case told.Error != "":
			e.why = told.Error
		}
	case event.BreakerSet:
		e.why, e.opened = "opened by hand", ev.Time
	}
}

// sampled takes in what a governor said of itself, and adds a point to its charts.
func (e *entry) sampled(s governor.Stats, tick uint64, add bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats = s
	if !add {
		return
	}
	// A second one of the same name, or a clock that was set back, begins anew.
	if span := s.Time.Sub(e.base.Time); !e.base.Time.IsZero() && span > 0 {
		e.points.push(newPoint(&e.base, &s, tick, span))
	}
	e.base = s
	e.base.Lanes, e.base.Tenants, e.base.Cooldowns, e.base.Limits, e.base.Breaker = nil, nil, nil, nil, nil
}

// point is a second of a governor's life.
type point struct {
	tick             uint64
	at               int64 // ms since 1970
	span             uint32
	quota            float32 // 0: none is known
	started, done    uint32  // since the point before
	queued, inFlight uint32  // then
	cooling          bool    // the host
	errs             [len(errorKinds)]uint32
}

func newPoint(from, to *governor.Stats, tick uint64, span time.Duration) point {
	p := point{
		tick: tick, at: to.Time.UnixMilli(), span: uint32(min(span.Milliseconds(), 1<<31)), quota: float32(quota(to)),
		started: since(from.Started, to.Started), done: since(from.Succeeded, to.Succeeded),
		queued: uint32(to.Queued), inFlight: uint32(to.InFlight), cooling: hostCools(to),
	}
	for i, k := range errorKinds {
		p.errs[i] = since(k.of(from), k.of(to))
	}
	return p
}

// since is how much a counter grew.
func since(from, to uint64) uint32 { return uint32(min(to-min(from, to), 1<<32-1)) }

// perSecond is n of a point as a rate.
func (p *point) perSecond(n uint32) float64 { return float64(n) * 1000 / float64(max(1, p.span)) }

// quota is the lowest rate of those that all requests share, 0 if none is known.
func quota(s *governor.Stats) (rate float64) {
	for _, l := range s.Limits {
		if l.Per == throttle.Host && l.Rate > 0 && !math.IsInf(l.Rate, 0) && (rate == 0 || l.Rate < rate) {
			rate = l.Rate
		}
	}
	return rate
}

func hostCools(s *governor.Stats) bool {
	for _, c := range s.Cooldowns {
		if c.Scope.Level == throttle.Host {
			return c.Phase == "cooling"
		}
	}
	return false
}

// errorKinds are what can go wrong, by the counters of Stats.
var errorKinds = [...]struct {
	name string
	of   func(*governor.Stats) uint64
}{
	{"limited", func(s *governor.Stats) uint64 { return s.Limited }},
	{"failed", func(s *governor.Stats) uint64 { return s.Failed }},
	{"gave_up", func(s *governor.Stats) uint64 { return s.GaveUp }},
	{"dropped", func(s *governor.Stats) uint64 { return s.Dropped }},
	{"refused", func(s *governor.Stats) uint64 { return s.Refused }},
	{"overflow", func(s *governor.Stats) uint64 { return s.Overflow }},
	{"connect", func(s *governor.Stats) uint64 { return s.Pool.Failed }},
	{"panics", func(s *governor.Stats) uint64 { return s.Panics + s.BadVendor + s.HookPanics }},
	{"stuck", func(s *governor.Stats) uint64 { return s.Stuck }},
}
