package governor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
)

// stage is how far a governor has come on its way to the end.
type stage uint8

const (
	open     stage = iota
	draining       // nothing is accepted; what waits and runs goes on
	closing        // what waited was refused, what runs was cancelled
)

// lifecycle is what Shutdown and Close share with each other.
type lifecycle struct {
	mu    sync.Mutex
	asked stage
	grace time.Time // end of CloseGrace, from the first Close on
}

// Shutdown refuses new requests, waits until those accepted are complete, gives
// everything back and returns nil. Config.ShutdownDrop refuses what waits, too.
// A governor that is paused stays so: Shutdown then waits for Resume, or for
// ctx.
//
// When ctx ends first, Shutdown does what Close does and returns the cause of
// ctx's end, or a *ForcedError that matches it. It may be called again, from
// anywhere; inside a closure of the same governor it would wait for that
// closure, and returns ErrReentrant when ctx is the closure's, also while something is held
// of it.
func (c *core) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	c.begin(draining)
	if attemptOf(ctx, c) != nil {
		return ErrReentrant
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-c.done: // both: it was drained in time
		return nil
	default:
	}
	if forced, ok := c.Close().(*ForcedError); ok {
		forced.Err = context.Cause(ctx)
		return forced
	}
	return context.Cause(ctx)
}

// Close refuses new requests, completes those that wait with ErrClosed, cancels
// the contexts of those that run, and waits until they have returned and every
// connection is closed. Then nothing of the governor is left, and it returns
// nil.
//
// After Config.CloseGrace, counted from the first Close, it completes the
// requests whose closures still run with ErrAbandoned and returns a
// *ForcedError with their number. What they hold ends when they return. Close
// may be called again, from anywhere, in any state; from inside a closure of the
// same governor it waits for the whole grace, because the closure runs.
func (c *core) Close() error {
	c.begin(closing)
	c.life.mu.Lock()
	if c.life.grace.IsZero() {
		c.life.grace = time.Now().Add(c.closeGrace)
	}
	left := time.Until(c.life.grace)
	c.life.mu.Unlock()
	c.settled() // without any grace there is at least a turn of the actor
	timer := time.NewTimer(max(0, left))
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
	}
	select {
	case <-c.done:
		return nil
	default:
	}
	running := 0
	c.ask(func() { running = c.abandon() }) // in the actor, which does not end before these events are told
	c.settled()                             // what has come back from it meanwhile is refused
	return &ForcedError{Running: running}
}

// begin moves the governor to s, if it is not there or further.
func (c *core) begin(s stage) {
	c.door.close()
	c.life.mu.Lock()
	already := c.life.asked >= s
	c.life.asked = max(c.life.asked, s)
	c.life.mu.Unlock()
	if already {
		return
	}
	c.post(func() { c.advance(s) })
}

// advance is begin in the actor.
func (c *core) advance(s stage) {
	if c.stage >= s {
		return
	}
	if c.stage == open {
		c.emit(event.Event{Kind: event.Closing})
	}
	c.stage = s
	if s == closing || c.shutdownDrop {
		c.dropAll(ErrClosed)
	}
	if s == closing {
		c.stop()
	}
}

// dropAll completes everything that waits with err.
func (c *core) dropAll(err error) {
	for l := range c.queue.lanes.all {
		for _, r := range l.all() {
			c.drop(r, c.stopError(r, err))
		}
	}
	for _, t := range slices.Collect(c.timers.All()) { // those in no lane
		r := (*request)(t)
		c.drop(r, c.stopError(r, err))
	}
}

// errClosing is what the contexts of running closures end with. It matches
// ErrClosed; but what returns it was executed.
var errClosing error = &executed{ErrClosed}

// stop cancels everything that runs.
func (c *core) stop() {
	var cancels []func(cause error) // called under no lock: contexts have children of the user's
	c.stopping.Store(true)
	for a := range c.attempts.all {
		cancels = append(cancels, a.cancel)
	}
	for in := range c.cells.running {
		if !in.waits() { // else it does not start any more
			cancels = append(cancels, in.cancel)
		}
	}
	for _, cancel := range cancels {
		cancel(errClosing)
	}
}

// abandon completes the requests that still run and returns how many closures
// and holds there are. A launched one goes from its crew to its cell, and if it does not
// go well on to the attempts, each time before it leaves where it was: in this order they
// are looked at, so that none is missed. What goes from there to the actor is the actor's.
func (c *core) abandon() int {
	var waiting, over []*request
	var left []*attempt
	known := make(map[*attempt]bool) // of those in cells, one of which may have become an attempt
	for i := range c.crews {
		w := &c.crews[i]
		w.mu.Lock()
		for r := w.head; r != nil; r = r.next {
			if r.class.Load().att == nil {
				waiting = append(waiting, r)
			}
		}
		w.mu.Unlock()
	}
	for in := range c.cells.running {
		r := in.launched()
		if in.waits() {
			waiting = append(waiting, r)
		} else if a := in.attempt(); a != nil {
			left, known[a] = append(left, a), true
		} else if r != nil {
			over = append(over, r)
		}
	}
	for a := range c.attempts.all {
		if !known[a] {
			left = append(left, a)
		}
	}
	for _, a := range left {
		if c.finish(a.r, a.n, ErrAbandoned, true) {
			c.emit(event.Event{Kind: event.Abandoned, Request: a.r.seq, Attempt: a.n})
		}
	}
	n := len(left)
	lost := func(r *request, count *atomic.Uint64) {
		if r.complete(ErrAbandoned, true, count) {
			n++
			c.emitFor(r, event.Completed, 0, 0, ErrAbandoned)
			c.emit(event.Event{Kind: event.Abandoned, Request: r.seq})
		}
	}
	for _, r := range waiting {
		lost(r, &c.count.dropped) // it cannot start any more
	}
	for _, r := range over {
		lost(r, nil) // it is counted already
	}
	return n
}

// ended reports whether nothing is left, moving on through the stages as far as
// that is so. The actor calls it last in each turn.
func (c *core) ended() bool {
	if c.stage == open || c.queue.Len() > 0 || c.backoffs > 0 {
		return false
	}
	// In this order. An attempt, or a call, has a slot before it is tracked, or in a cell,
	// and stays there until its request is complete, or has been posted to go back into
	// the queue: whoever gave its slot back before the look at used is there after it, or
	// has done either.
	c.reclaim()
	used := c.gate.word.used()
	running := c.attempts.len()
	for range c.cells.running {
		running++
	}
	if used > 0 || running > 0 || !c.door.empty() {
		if !c.door.empty() {
			c.wakeUp()
		}
		return false
	}
	c.stage = closing
	if c.pool != nil && !c.poolEnded() {
		return false
	}
	c.shared.end()
	if c.unwatch != nil {
		c.unwatch()
	}
	c.emit(event.Event{Kind: event.Closed})
	c.bus.Close()
	close(c.done)
	return true
}

// poolEnded begins to close the pool and reports whether it is closed. The
// actor is woken when it is.
func (c *core) poolEnded() bool {
	done := c.pool.end()
	select {
	case <-done:
		return true
	default:
	}
	if !c.poolWait {
		c.poolWait = true
		go func() {
			<-done
			c.wakeUp()
		}()
	}
	return false
}

// post gives the actor something to do.
func (c *core) post(do func()) {
	c.door.post(message{kind: msgCommand, do: do})
	c.wakeUp()
}

// ask has do called in the actor and waits until it was. When the actor has
// ended its state is at rest, and do is called here.
func (c *core) ask(do func()) {
	select {
	case <-c.done:
		c.turn.Lock()
		defer c.turn.Unlock()
		do()
		return
	default:
	}
	done := make(chan struct{})
	c.post(func() { do(); close(done) })
	select {
	case <-done:
		return
	case <-c.done:
	}
	select {
	case <-done: // just before the end
	default:
		c.turn.Lock()
		defer c.turn.Unlock()
		do()
	}
}

// settled returns after the actor has done everything that could be done when it
// was called: a whole turn, or as many as that takes, lies between two commands.
func (c *core) settled() {
	c.ask(func() {})
	for behind := true; behind; {
		c.ask(func() { behind = c.behind })
	}
}
