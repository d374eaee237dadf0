package governor

import (
	"time"

	"github.com/flyball-go/flyball/event"
)

// attempts is an intrusive list of attempts.
type attempts struct {
	head, tail *attempt
	n          int
}

// add adds a as the latest.
func (q *attempts) add(a *attempt) {
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
	w := a.crew()
	w.mu.Lock()
	w.running.remove(a)
	w.mu.Unlock()
	c.untracked()
}

// untracked is for who has taken out an attempt, or a call.
func (c *core) untracked() {
	if c.gate.word.shutting() {
		c.wakeUp()
	}
}

// remove takes a out, unless it is out.
func (q *attempts) remove(a *attempt) {
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

// running yields the crews one after the other, each under its mutex: an attempt that
// begins or ends meanwhile may be seen or not.
func (c *core) running(yield func(*attempts) bool) {
	for i := range c.crews {
		w := &c.crews[i]
		w.mu.Lock()
		more := yield(&w.running)
		w.mu.Unlock()
		if !more {
			return
		}
	}
}

// underWay returns how many attempts there are.
func (c *core) underWay() (n int) {
	for q := range c.running {
		n += q.n
	}
	return n
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
	for q := range c.running {
		for a := q.head; a != nil; a = a.next {
			if at := add(a.granted, c.stuckAfter); at > now {
				c.nextStuck = min(c.nextStuck, at) // the list is in order of grant
				break
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
	for _, e := range stuck {
		c.count.stuck.Add(1)
		c.emit(e)
	}
	return c.nextStuck
}
