package breaker

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/spin"
)

// Breaker is a circuit breaker with the states of [State]. Make one with New; it
// must not be copied. All methods may be called by any number of goroutines at
// once.
//
// While it is closed and nothing has failed lately, a call costs a few atomic
// operations and allocates nothing: with Config.Consecutive, and once a Window is
// full of good calls, it only reads, so that calls on many processors do not
// hinder each other. All else takes a mutex for a moment.
//
// Times given to its methods must be from time.Now: by their monotonic reading,
// the wall clock may be set at will.
type Breaker struct {
	// id is core.id, for those who hold no lock. Written under mu.
	id atomic.Uint64

	// What Do needs of the clock, reading which costs more than all the rest of it:
	// when a call begins, and when it ends well. They do not change.
	readsStart, readsEnd bool

	// core is guarded by mu, but for core.cfg and core.begin, which do not change.
	// It stands here so that id and clean, of which one is mostly read and the
	// other mostly written, are not neighbours.
	core core

	panics atomic.Uint64

	// mu guards core. No function of the user's is called under it but the
	// schedule or OpenDelay, and nothing waits under it.
	mu sync.Mutex

	// watchers are those of OnChange. The slice is guarded by mu, and replaced by
	// every change, so that unlock can go through it without the lock.
	watchers []*func(event.Event)

	// clean lets calls that neither failed nor were slow be counted without mu,
	// in a state and second in which that can decide nothing: the state is Closed
	// or MetricsOnly, and its window has neither failures nor slow calls. Then its
	// lower half is a counter of calls. The upper half is, of a window of seconds,
	// the low bits of window.second; else it is what the counter reaches when the
	// window is full of such calls: one more changes nothing, and is not counted.
	// So is it, from the beginning, where there is no window. Otherwise clean is
	// 0. It becomes 0 and another value under mu only, and by counting without.
	//
	// Whoever holds mu has set it to 0 before core changes. The counter goes on
	// from where it was, so that no value ever comes back (in less than 2^32
	// calls). Hence, when a compare-and-swap from a value succeeds, mu was not
	// held between the loading of that value and the swap, and what was read of
	// id in between holds.
	clean atomic.Uint64
	base  uint32 // the counter when clean was last set; guarded by mu
}

var _ Circuit = (*Breaker)(nil)

// New returns a Breaker in state cfg.Initial. An error names the field that is
// out of range and its value, and matches ErrInvalid; so does that of a schedule
// which panics when a breaker that is Open from the beginning asks it.
func New(cfg Config) (*Breaker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{}
	if b.core, err = begin(cfg, time.Now()); err != nil {
		return nil, err
	}
	b.readsStart = cfg.SlowCall != never || cfg.OnEvent != nil
	b.readsEnd = b.readsStart || cfg.WindowTime > 0
	b.lock()
	b.unlock()
	return b, nil
}

// Ready returns nil when a call could be admitted at now, else an *OpenError. It
// takes no permit, and what it refuses is not counted as rejected.
func (b *Breaker) Ready(now time.Time) error {
	if passes(b.id.Load()) {
		return nil
	}
	b.lock()
	defer b.unlock()
	if err := b.core.ready(now); err != nil {
		return err
	}
	return nil
}

// Acquire admits a call at now, or returns an *OpenError. Its Until is zero when
// nobody can tell: in ForcedOpen, and in HalfOpen while all trial calls are out.
// Every permit must be given back by Report; one that is not holds the place of
// a trial call for Config.Lease, and nothing otherwise. Use Allow or Do where you
// can: they tell the breaker more.
func (b *Breaker) Acquire(now time.Time) (Permit, error) {
	if id := b.id.Load(); passes(id) {
		return Permit(id), nil
	}
	b.lock()
	defer b.unlock()
	p, err := b.core.acquire(now)
	if err != nil {
		return 0, err
	}
	return p, nil
}

// Report gives a permit back with what came of the call, which ran for took. It
// has no effect when the state has changed since the permit was issued: a call
// that began before the breaker opened says nothing about a later trial. Nor has
// it for a trial call's permit that was given back before.
//
// After Neutral nothing is counted, and a trial call's place is free for another.
// That is all: Report is not told that a caller has cancelled, and so it leaves
// a breaker half-open that Do and Allow would make open again.
func (b *Breaker) Report(p Permit, now time.Time, o Outcome, took time.Duration) {
	if o > Failure {
		o = Neutral
	}
	b.report(p, now, result{outcome: o, took: took})
}

// ReportError is Report for a call of which the error is known. It is the Err of the
// events that tell of the failure and of what follows it, and what Stats.Cause says
// afterwards. Of a Failure, Config.OpenOn and the error's RetryAfter are heard, as by
// Do. o stands: Judge is not asked. A governor reports its failed calls by it.
func (b *Breaker) ReportError(p Permit, now time.Time, o Outcome, took time.Duration, err error) {
	if o != Failure {
		b.Report(p, now, o, took)
		return
	}
	r := result{outcome: Failure, err: err}
	defer func() { // also when OpenOn panics
		r.took = took
		b.report(p, now, r)
	}()
	r = b.classified(Failure, err)
}

func (b *Breaker) report(p Permit, now time.Time, r result) {
	if r.outcome == Success && b.count(p, now.Sub(b.core.begin), r.took) {
		b.succeeded(now, r.took)
		return
	}
	if stateOf(p) == Disabled {
		return
	}
	b.lock()
	defer b.unlock()
	b.core.report(p, now, r)
}

// State returns the present state. An Open breaker remains so, when its time has
// come, until somebody asks for a permit.
func (b *Breaker) State() State { return b.Stats().State }

// counted is what Stats says of what mu guards, and the cause of the last opening.
func (b *Breaker) counted(now time.Time) (Stats, error) {
	b.lock()
	defer b.unlock() // also when the schedule panics, which advance may ask
	b.core.advance(now)
	return b.core.stats(now), b.core.cause
}

// Stats returns the state and what is counted.
func (b *Breaker) Stats() Stats {
	s, cause := b.counted(time.Now())
	s.Panics = b.panics.Load()
	if cause != nil {
		s.Cause = fmt.Sprint(cause) // not under mu, and whatever its Error does, which is the user's
	}
	return s
}

// passes reports whether calls pass in a state without further ado.
func passes(id uint64) bool {
	switch stateOf(Permit(id)) {
	case Closed, Disabled, MetricsOnly:
		return true
	}
	return false
}

// unmoved reports that a successful call changes nothing, and nobody is to be told
// of it. It is what count finds in a case that is frequent and needs no clock, in
// a form that is inlined.
func (b *Breaker) unmoved(p Permit) bool {
	if b.readsEnd {
		return false
	}
	clean := b.clean.Load()
	return clean != 0 && uint32(clean>>32) == uint32(clean) && b.id.Load() == uint64(p)
}

// count counts a successful call that ended at at, since core.begin, unless that
// takes more than an atomic operation.
//
// Clean is loaded before id. In the other order, the breaker could open and close
// in between, and a call from before be counted after.
func (b *Breaker) count(p Permit, at, took time.Duration) bool {
	for {
		clean := b.clean.Load()
		if clean == 0 || b.id.Load() != uint64(p) || took > b.core.cfg.SlowCall {
			return false
		}
		if b.core.cfg.WindowTime > 0 {
			if uint32(clean>>32) != uint32(b.core.secondAt(at)) {
				return false
			}
		} else if uint32(clean>>32) == uint32(clean) {
			return true
		}
		if uint32(clean) == math.MaxUint32 {
			return false
		}
		if b.clean.CompareAndSwap(clean, clean+1) {
			return true
		}
		spin.Aside()
	}
}

// lock locks core and brings it up to date.
func (b *Breaker) lock() {
	b.mu.Lock()
	if clean := b.clean.Swap(0); clean != 0 {
		if n := uint32(clean) - b.base; n > 0 {
			b.core.window.addGood(n)
		}
		b.base = uint32(clean)
	}
}

// unlock makes core's state known, unlocks it and then tells what happened.
func (b *Breaker) unlock() {
	c := &b.core
	b.id.Store(uint64(c.id))
	if s := stateOf(c.id); (s == Closed || s == MetricsOnly) && c.window.clean() {
		b.base++
		upper := uint32(c.window.second)
		if c.window.seconds == nil {
			upper = b.base + c.window.room()
		}
		b.clean.Store(uint64(upper)<<32 | uint64(b.base))
	}
	events, watchers := c.events, b.watchers
	c.events = nil
	b.mu.Unlock()
	for _, e := range events {
		b.tell(e)
		if changes(e.Kind) {
			e.Name = c.cfg.Name
			for _, fn := range watchers {
				if event.Tell(*fn, e) {
					b.panics.Add(1)
				}
			}
		}
	}
}

// OnChange makes fn hear of states entered (BreakerState, BreakerSet,
// BreakerReset), of rates that reached their threshold (BreakerRate) and of delays
// clamped (Clamped), and not of calls, as Config.OnEvent does and besides it: for
// those who did not make the breaker, or of whom there are several. It ends with
// stop, but for a call that is under way. With a nil fn it does nothing.
func (b *Breaker) OnChange(fn func(event.Event)) (stop func()) {
	if fn == nil {
		return func() {}
	}
	b.watch(func(all []*func(event.Event)) []*func(event.Event) { return append(all, &fn) })
	return func() {
		b.watch(func(all []*func(event.Event)) []*func(event.Event) {
			return slices.DeleteFunc(all, func(w *func(event.Event)) bool { return w == &fn })
		})
	}
}

// watch replaces the watchers by what change makes of a copy of them.
func (b *Breaker) watch(change func([]*func(event.Event)) []*func(event.Event)) {
	b.lock()
	defer b.unlock()
	b.watchers = change(slices.Clone(b.watchers))
	b.core.heard = len(b.watchers) > 0
}

func (b *Breaker) succeeded(now time.Time, took time.Duration) {
	if b.core.cfg.OnEvent != nil {
		b.tell(event.Event{Time: now, Kind: event.BreakerSuccess, Delay: took})
	}
}

func (b *Breaker) tell(e event.Event) {
	e.Name = b.core.cfg.Name
	if event.Tell(b.core.cfg.OnEvent, e) {
		b.panics.Add(1)
	}
}
