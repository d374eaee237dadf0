package governor

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/event"
)

// attempts are those under way, from the grant to the release of the slot; calls that are
// only in their cells are none. They are kept in several lists, each by its home, so that
// processors mostly do not wait for each other's cache lines.
type attempts []running

// running is a list of attempts, in order of grant. It fills a cache line.
type running struct {
	// mu guards what follows. It is held for a few assignments, and for a look at all. No
	// two are held at once.
	mu         sync.Mutex
	head, tail *attempt
	n          int
	_          [32]byte
}

// of returns the list that a is in, or is to be in.
func (q attempts) of(a *attempt) *running {
	return &q[home(unsafe.Pointer(a))&(len(q)-1)]
}

// track adds a to what is under way, for a worker to run unless it is attended.
func (c *core) track(a *attempt, attended bool) {
	c.attempts.of(a).add(a)
	if c.stopping.Load() { // else stop looks later, and finds a
		a.cancel(errClosing)
	}
	if !attended {
		c.enlist(a.r, first)
	}
}

// add adds a as the latest.
func (q *running) add(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a.prev, a.next = q.tail, nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.next = a
	}
	q.tail = a
	q.n++
}

// untrack takes a out. It is an attempt's last act: an actor that waits for the
// end is woken by it.
func (c *core) untrack(a *attempt) {
	if in := a.life.in; in != nil {
		in.extend().cell.call.Store(nil)
		if c.gate.word.shutting() {
			c.wakeUp()
		}
		return
	}
	c.attempts.of(a).remove(a)
	c.untracked()
}

// untracked is for who has taken out an attempt, or a call.
func (c *core) untracked() {
	if c.gate.word.shutting() {
		c.wakeUp()
	}
}

// remove takes a out, unless it is out.
func (q *running) remove(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.prev == nil && q.head != a {
		return
	}
	if a.prev == nil {
		q.head = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next == nil {
		q.tail = a.prev
	} else {
		a.next.prev = a.prev
	}
	a.prev, a.next = nil, nil
	q.n--
}

// all yields the list's under its mutex: one that begins or ends meanwhile may be seen or not.
func (q *running) all(yield func(*attempt) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for a := q.head; a != nil && yield(a); a = a.next {
	}
}

// all yields those of all lists, one after the other.
func (q attempts) all(yield func(*attempt) bool) {
	for i := range q {
		for a := range q[i].all {
			if !yield(a) {
				return
			}
		}
	}
}

// len returns how many there are.
func (q attempts) len() (n int) {
	for i := range q {
		q[i].mu.Lock()
		n += q[i].n
		q[i].mu.Unlock()
	}
	return n
}

// watchStuck is for what is granted now.
func (c *core) watchStuck(now int64) {
	if c.stuckAfter > 0 && c.nextStuck == forever {
		c.nextStuck = add(now, c.stuckAfter)
	}
}

// stuck reports attempts that run for longer than StuckAfter, each once, and
// returns when to look again.
func (c *core) stuck(now int64) int64 {
	if c.stuckAfter > 0 && c.nextStuck == forever && c.timed.Load() {
		c.nextStuck = add(now, c.stuckAfter)
	}
	if now < c.nextStuck || c.stuckAfter < 0 {
		return c.nextStuck
	}
	var stuck []event.Event
	c.nextStuck = forever
	inline := c.timed.Swap(false) // before the look: what starts from here on sets it again
	for i := range c.attempts {
		for a := range c.attempts[i].all {
			if at := add(a.granted, c.stuckAfter); at > now {
				c.nextStuck = min(c.nextStuck, at)
				break // they are in order of grant
			}
			if !a.reported {
				a.reported = true
				stuck = append(stuck, event.Event{Kind: event.Stuck, Request: a.r.seq, Attempt: a.n, Delay: time.Duration(now - a.granted)})
			}
		}
	}
	if inline {
		stuck = c.stuckInline(now, stuck)
	}
	slices.SortStableFunc(stuck, func(a, b event.Event) int { return cmp.Compare(b.Delay, a.Delay) })
	for _, e := range stuck {
		c.count.stuck.Add(1)
		c.emit(e)
	}
	return c.nextStuck
}
