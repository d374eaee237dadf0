package governor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// Handle is a governor without its type parameters: what registries, dashboards
// and operators use. Every *Governor is one.
type Handle interface {
	// Name returns Config.Name.
	Name() string

	// Stats returns a snapshot, taken between two decisions. It takes the actor some
	// ten microseconds, however much waits.
	Stats() Stats

	// Listen calls fn for every event, or those of the given kinds, until stop
	// is called. See package event for what fn may do, which is anything, and
	// what happens when it is slow, which is nothing to the governor. Events
	// arrive a moment after what they tell of: stop drops those not yet heard,
	// and Close does not wait for listeners.
	Listen(fn func(event.Event), kinds ...event.Kind) (stop func())

	// Recent returns the last events, at most 256, the oldest first, whether or not
	// anybody listens; also of a closed governor. It has those that tell why traffic
	// is as it is, signals, cooldowns, the breaker, failures, the pool, the store,
	// and not those of the course of every request.
	Recent() []event.Event

	// Learn obeys a signal that came from elsewhere: another process, an
	// operator. An empty key is the empty key; the Request level does nothing.
	Learn(throttle.Signal)

	// Export returns what has been learned from the vendor so far, to be kept
	// over a restart and given to Config.Restore.
	Export() Learned

	// Clear ends the cooldown of a scope, and what follows a cooldown, at once;
	// what waited for it goes on. What a limiter.Learner was told of the scope's
	// quota is forgotten. It returns when that is done. Those with whom the governor
	// shares a store hear of it a moment later, unless it is closed before.
	Clear(throttle.Scope)

	// ClearBefore is Clear by the word of somebody, in another process, say, who knew of
	// nothing that was learned since at: what was then, or later, stays, but for what has
	// the Source of a store. It is for those who share cooldowns.
	ClearBefore(sc throttle.Scope, at time.Time)

	// Pause suspends starts: when it has returned, nothing starts. What runs
	// goes on, what is submitted waits.
	Pause()

	// Resume allows starts again.
	Resume()

	// SetMaxQueue changes Config.MaxQueue. When more wait than that, Overflow's
	// rule is applied to them: Reject refuses the newest, DropOldest and
	// DropLower drop the oldest of the lowest priority, Block leaves them, and all
	// leave what has been attempted. n must be at least 1.
	SetMaxQueue(n int) error

	// Shutdown drains, Close stops. See the methods of Governor.
	Shutdown(context.Context) error
	Close() error

	handle()
}

func (c *core) handle() {}

// Name returns Config.Name.
func (c *core) Name() string { return c.name }

// Listen calls fn for every event, or those of the given kinds, until stop is
// called. Handle has the whole contract.
func (c *core) Listen(fn func(event.Event), kinds ...event.Kind) (stop func()) {
	if fn == nil {
		return func() {}
	}
	stop = c.bus.Listen(fn, kinds...)
	if c.bus.Wants(event.Idle) {
		c.overhear()
	}
	return stop
}

// overhear makes calls that have begun while nobody listened end as those that are told of,
// or nobody would hear that they were the last. What begins now looks whether it is heard
// after it is in its cell.
func (c *core) overhear() {
	found := false
	for in := range c.cells.running {
		if !in.waits() && in.more.Load() != &over {
			in.extend()
			found = true
		}
	}
	if found {
		c.used.Store(true)
		c.wakeUp() // it may have ended just now, and told nobody
	}
}

// kept are the kinds that Recent returns: no call that merely succeeds, or waits its
// turn, is among them, for they would cost each call a lock and push out the rest. Nor is
// Depleted, which of a governor with one worker comes with each call.
var kept = []event.Kind{
	event.Overflow, event.Cancelled, event.Refused, event.Requeued, event.Retry, event.Recovered, event.Ignored, event.GaveUp,
	event.Learned, event.Cooling, event.Extended, event.Cleared, event.Cooled, event.Probe, event.Ramp, event.Resumed,
	event.Clamped, event.BadVendor, event.WouldRefuse, event.BreakerState, event.BreakerSet, event.BreakerReset, event.BreakerRefused,
	event.BreakerRate, event.TimedOut, event.BudgetSpent, event.PoolCreated, event.PoolFailed, event.PoolStolen,
	event.PoolDiscarded, event.Stuck, event.Paused, event.Unpaused, event.Closing, event.Closed, event.Abandoned,
	event.StoreLost, event.StoreBack,
}

// Recent returns the last events, as Handle says.
func (c *core) Recent() []event.Event { return c.bus.Recent() }

// Learn obeys a signal that came from elsewhere, as Handle says.
func (c *core) Learn(sig throttle.Signal) {
	select {
	case <-c.done:
		return
	default:
	}
	if sig.Scope.Level >= throttle.Request {
		return
	}
	if sig.Scope.Level == throttle.Host {
		sig.Scope.Key = ""
	}
	c.received(sig, time.Now(), c.now(), nil, nil)
	c.wakeUp()
}

// Clear ends the cooldown of a scope, as Handle says.
func (c *core) Clear(sc throttle.Scope) { c.clear(sc, forever, "") }

// ClearBefore ends an earlier cooldown of a scope, as Handle says.
func (c *core) ClearBefore(sc throttle.Scope, at time.Time) {
	c.clear(sc, c.gate.ns(at), store.SharedSource+"another")
}

// clear ends what was learned of sc before at.
func (c *core) clear(sc throttle.Scope, at int64, source string) {
	if sc.Level == throttle.Host {
		sc.Key = ""
	}
	c.ask(func() {
		c.retime.Store(true)
		now := c.now()
		ended, until := c.gate.clear(now, sc, at)
		if ended {
			c.emit(event.Event{Kind: event.Cleared, Time: c.gate.time(now), Scope: sc.String(), Source: source})
		}
		if until > now { // of which nobody has heard, since it was hidden behind what has ended
			c.emit(event.Event{Kind: event.Cooling, Scope: sc.String(), Until: c.gate.time(until), Delay: time.Duration(until - now)})
		}
	})
}

// Pause suspends starts.
func (c *core) Pause() { c.pause(true, event.Paused) }

// Resume allows starts again.
func (c *core) Resume() { c.pause(false, event.Unpaused) }

func (c *core) pause(on bool, k event.Kind) {
	c.ask(func() {
		if c.paused != on {
			c.paused = on
			c.gate.pause(on)
			c.emit(event.Event{Kind: k})
		}
	})
}

// SetMaxQueue changes Config.MaxQueue, as Handle says.
func (c *core) SetMaxQueue(n int) error {
	if n < 1 || n > 1<<31-1 {
		return fmt.Errorf("governor: MaxQueue is %d, want 1 to %d", n, 1<<31-1)
	}
	c.ask(func() {
		c.door.resize(n) // here, so that what was submitted before is judged by the old one
		over := c.queue.Len() + c.backoffs - n
		if over <= 0 || c.overflow == Block {
			return
		}
		if c.overflow != Reject {
			for range over {
				r := c.queue.eldest()
				if r == nil { // the others have been begun, and stay
					return
				}
				c.overflown(r, ErrDropped)
			}
			return
		}
		var all []*request
		for l := range c.queue.lanes.all {
			all = l.droppable(all)
		}
		slices.SortFunc(all, func(a, b *request) int { return cmp.Compare(b.seq, a.seq) })
		for _, r := range all[:min(over, len(all))] {
			c.overflown(r, ErrQueueFull)
		}
	})
	return nil
}
