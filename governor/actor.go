package governor

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor/internal/heap"
)

// core is the governor without its type parameters. Its goroutine, the actor,
// runs loop. The scheduler's state belongs to whoever has the turn, which is the actor
// or who helps it; see help.
type core struct {
	settings
	gate gate
	door door
	_    [64]byte // what precedes is written by calls; what follows, hardly ever
	bus  event.Bus

	unwatch func()   // ends the breaker's OnChange; nil without
	pool    connPool // nil: none

	wake chan struct{} // of one place: the actor has something to look at
	done chan struct{} // closed when the actor has ended and nothing is left

	// turn is the right to do the actor's work. Under it round runs, which blocks on
	// nothing, and calls of the user's only limiters, breaker and contexts.
	turn sync.Mutex
	todo atomic.Bool // something was left to look at that no turn has taken up

	told atomic.Int64 // when the last word of the vendor came of which the store has heard

	// Guarded by turn.
	alarm    int64 // when the actor will look by itself
	queue    queue
	timers   heap.Heap[*timer] // latest starts, backoffs, pauses of one request
	watches  watches
	fresh    []*request // added in this round; watched if they stay
	scopes   []*scope   // buffer for gate.news
	msgs     []message  // buffer for door.take
	dry      dry        // what waits for the pool
	sifted   []*lane    // sift's
	ample    int        // so many could go, as sift has found since the last round
	coming   int        // submissions that were taken from the door and have not arrived
	hostAt   int64      // nothing starts before; 0: no such time
	byLimit  bool       // but what is before the one that a limit of the host keeps back until then
	hostTold int64      // the hostAt that LimitRefused told of last
	lineAt   int64      // when a line is to be tried, if it is time that it waits for
	behind   bool       // pump has not come to its end
	left     int        // requests that left the queue in this round
	backoffs int        // requests that wait in no lane
	minding  int        // waiting requests that have a latest start
	earliest int64      // none of them has an earlier one; not used while there are none
	paused   bool
	stage    stage
	poolWait bool // a goroutine waits for the pool's end
	wasBusy  bool
	wasFull  bool

	cells cells       // of inline calls
	used  atomic.Bool // by one since the actor looked last; only while somebody listens
	// finishing are those that have given their slot back and are not told to be complete;
	// only while somebody listens for Idle.
	finishing atomic.Int32
	most      struct{ submitted, started, waited uint64 } // that Stats has ever said

	actorOnly bool        // no call is inline; for tests
	timed     atomic.Bool // nextStuck is set, or about to be, for inline calls, too

	crews    []crew      // a power of two
	stopping atomic.Bool // Close cancels what runs; what begins later is cancelled at once

	nextStuck int64 // when the oldest running attempt may be stuck

	poolFreed atomic.Bool // the pool may have something again
	retime    atomic.Bool // a limit changed: lanes that wait for it must ask again
	limitWait atomic.Bool // something waits, or waited lately, for a limit

	group *inGroup // nil unless a Group made the governor

	attempts attempts  // as many lists as crews
	chimes   sync.Pool // of chan struct{}, empty and with one place; see receive and listen
	life     lifecycle
	waits    histogram // from submission, or return to the queue, to start
	calls    histogram // of closures
	looks    looks     // what they had counted; guarded by turn

	_ [64]byte // what precedes is mostly read; what follows is written by every call

	count counters
}

func (c *core) now() int64 { return int64(time.Since(c.gate.base)) }

// wakeUp makes the actor look. It never blocks.
func (c *core) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// loop is the actor.
func (c *core) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, ended := c.whole()
		if ended {
			return
		}
		if next == atOnce {
			runtime.Gosched() // there may be a single processor
			continue
		}
		if c.todo.Load() {
			continue // who left it has seen that the turn was taken
		}
		timer.Stop()
		if next != forever {
			timer.Reset(time.Duration(max(0, next-c.now())))
		}
		select {
		case <-c.wake:
			// Who woke us mostly goes on to wait, and others are about to do the same:
			// they are let go first, so that one turn is for all of them.
			runtime.Gosched()
		case <-timer.C:
		}
	}
}

// whole is a turn of the actor. It returns when the next is due, and whether it was
// the last.
func (c *core) whole() (next int64, ended bool) {
	c.turn.Lock()
	returned := false
	defer c.mustReturn(&returned)
	c.todo.Store(false) // before the look at what was left
	now := c.now()
	c.receive(now, math.MaxInt)
	next = c.round(now)
	c.alarm = next
	ended = c.ended()
	returned = true
	c.turn.Unlock()
	return next, ended
}

// receive handles what came through the door: submissions first, so that what
// anybody says after Submit (Cancel, Stats, SetMaxQueue) finds the request there.
// At most so many submissions are handled, and what was said only after the last;
// more says that some are left.
func (c *core) receive(now int64, most int) (more bool) {
	r, n, msgs, more := c.door.take(c.msgs[:0], most)
	direct := c.unhindered(r, msgs)
	for c.coming = n; r != nil; {
		c.coming--
		next := r.next
		r.next = nil
		c.count.submitted.Add(1)
		c.emit(event.Event{Kind: event.Submitted, Request: r.seq})
		if direct = direct && c.direct(r, now); !direct { // nor does who comes after it
			c.arrive(r, now)
		}
		r = next
	}
	for _, m := range msgs {
		switch m.kind {
		case msgBack:
			c.back(m.r, now)
		case msgCancel:
			if m.r.waiting() {
				c.cancel(m.r)
			}
		case msgWatch:
			for r := m.w.head.Load(); r != nil; r = m.w.head.Load() {
				c.cancel(r)
			}
		case msgCommand:
			m.do()
		}
	}
	clear(msgs)
	if c.msgs = msgs[:0]; cap(msgs) > 1024 {
		c.msgs = nil
	}
	return more
}

// atOnce is before all times.
const atOnce = -1

// round does what can be done at now, a part of it when that is a great deal, and
// returns when to look again.
func (c *core) round(now int64) int64 {
	c.ample = 0
	retime := consume(&c.retime)
	if consume(&c.poolFreed) || retime {
		c.refill()
	}
	if retime {
		c.gate.reconsider()
		c.limitWait.Store(false) // until somebody is refused again
		c.queue.WakeTimed()
	}
	due := c.look(now)
	c.door.left(c.left, c.queue.Len() == 0)
	c.left = 0
	c.moods()
	next := min(c.timers.Next(), c.queue.NextTimed(), c.lineAt, due, c.stuck(now))
	if c.hostAt != 0 {
		next = min(next, c.hostAt)
	}
	if c.behind {
		return atOnce
	}
	return next
}

// look goes through the scopes, the clock and the lanes, if there is anything to be found,
// and returns when a scope is to be looked at again.
func (c *core) look(now int64) (due int64) {
	if c.queue.Len()+c.timers.Len()+len(c.fresh) == 0 && !c.gate.word.held() && !c.gate.stirred.Load() {
		c.pumped()
		c.full() // who has the last slot says when it is free: see moods
		return forever
	}
	c.gate.tick(now, c.queue.Len()+c.backoffs > 0, c.paused, c.queue.Awaited, c.scopeEvent)
	c.tripped(now)
	c.news(now)
	c.expire(now)
	c.queue.Tick(now)
	c.pump(now, mostSteps)
	due = c.news(now) // what has changed meanwhile
	for _, r := range c.fresh {
		if r.waiting() && r.watch == nil {
			c.watches.add(r)
			c.emit(event.Event{Kind: event.Queued, Request: r.seq})
		}
	}
	clear(c.fresh)
	if c.fresh = c.fresh[:0]; cap(c.fresh) > 1024 {
		c.fresh = nil // a burst's buffer is not kept
	}
	return due
}

// consume reports whether b was set, and clears it. Mostly it is not, and then nothing is
// written; who sets it later has the actor look again.
func consume(b *atomic.Bool) bool { return b.Load() && b.Swap(false) }

// news has the lanes that wait for scopes that changed tried, and fails requests that
// a new end makes wait too long.
func (c *core) news(now int64) (next int64) {
	var last int64
	c.scopes, last, next = c.gate.news(c.scopes[:0], c.scopeEvent, c.queue.owe)
	for _, st := range c.scopes {
		c.queue.WakeAll(&st.kept) // no more than slots
		c.queue.ScopeChanged(st.key, st.ended && !c.limitedBy(st.key.Level))
	}
	if last != 0 {
		c.sweep(now, last, c.scopes)
	}
	clear(c.scopes)
	return next
}

// moods tells of the moments when the last request is gone and when the last
// slot is taken.
func (c *core) moods() {
	c.wasBusy = consume(&c.used) || c.wasBusy // first: whoever has set it has, or had, a slot
	used := c.taken()
	busy, full := used > 0 || c.queue.Len()+c.backoffs > 0, used >= c.slots
	if c.wasBusy && !busy {
		// A request that goes back into the queue is posted before its slot is free: if
		// used has just become 0, it may be there, and the next round looks again. So does
		// who finishes one, which it began to before its slot was free, and a call of the
		// fast path that has begun meanwhile.
		if busy = !c.door.empty() || c.finishing.Load() > 0 || c.used.Load(); !busy {
			c.emit(event.Event{Kind: event.Idle})
		}
	}
	if full && !c.wasFull {
		c.emit(event.Event{Kind: event.Depleted})
	}
	c.wasBusy, c.wasFull = busy, full
}
