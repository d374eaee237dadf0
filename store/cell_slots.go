package store

import (
	"slices"
	"time"
)

// slotCall is the calls that wait in this process for as many slots each. Which of them is
// next their owners say. Nobody says that he has given up: who still waits asks again (see
// cell.again).
type slotCall struct {
	n     int64 // slots that each takes
	since int64 // when one was refused first after the last that began
	asked int64 // when one was last
}

// maxCalls bounds cell.calls: others come after those.
const maxCalls = 16

// waitsFor is how many slots the call takes that has waited for longest, for which this
// process is in the store's line; 0: none waits.
func (c *cell) waitsFor() int64 {
	if len(c.calls) == 0 {
		return 0
	}
	return c.calls[0].n
}

// refused notes that a call which takes n slots has to wait.
func (c *cell) refused(n, now int64) {
	for i := range c.calls {
		if c.calls[i].n == n {
			c.calls[i].asked = now
			return
		}
	}
	if len(c.calls) < maxCalls {
		c.calls = append(c.calls, slotCall{n, now, now})
	}
}

// served notes that a call which takes n slots may begin, or never will.
func (c *cell) served(n int64) {
	if c.waitsFor() == n {
		c.toldLeast = 0
	}
	c.calls = slices.DeleteFunc(c.calls, func(k slotCall) bool { return k.n == n })
}

// again is when the owner of a call that takes n slots, which has to wait, is to ask again.
// Others wait for what is gathered for several.
func (c *cell) again(n int64) time.Duration {
	if n > 1 {
		return c.s.cfg.Interval / 4
	}
	return c.s.cfg.Interval
}

// callsLeft forgets the calls that nobody has come back for: in time, or, of the first,
// when there was what it takes. If somebody is just late, he waits anew. Those that it kept
// back look again.
func (c *cell) callsLeft(now int64) {
	was := c.waitsFor()
	if c.offeredTill != 0 && now >= c.offeredTill {
		c.offeredTill = 0
		if was > 0 && c.inUse+was <= c.allowed {
			c.calls = slices.Delete(c.calls, 0, 1)
			c.stir()
		}
	}
	c.calls = slices.DeleteFunc(c.calls, func(k slotCall) bool { return now-k.asked > int64(c.again(k.n))*5/4 })
	if c.waitsFor() != was {
		c.toldLeast = 0
	}
}

// spoils reports whether a call which takes n slots would be begun with those that are
// gathered for another one: the process has enough for that, when what runs is over.
func (c *cell) spoils(n int64) bool {
	k := c.waitsFor()
	return k > 0 && k != n && k <= c.allowed && c.inUse+n+k > c.allowed
}

// asksSlots is when the store is to hear what is waited for; never when it knows, or need
// not before the next beat.
func (c *cell) asksSlots(now int64) int64 {
	switch n := c.waitsFor(); {
	case c.wantSlots > c.toldWant, n > max(c.allowed, c.toldLeast):
		return now
	case n > c.toldLeast && n*int64(c.nodes) > c.mostSlots(): // the call before it has had its turn
		return max(now, c.begun+int64(c.s.cfg.Interval)/turnsPerInterval)
	}
	return never
}

// turnsPerInterval is how often in an Interval a process whose calls take more slots than
// it would have of equal parts says that it has begun some, and so lets others have their
// turn. Meanwhile it uses the same slots again and again without asking the store.
const turnsPerInterval = 20

// mostSlots is how many slots a call may take.
func (c *cell) mostSlots() int64 {
	if c.slotsAbove > 0 {
		return min(c.slotsAbove, c.slots.most)
	}
	return c.slots.most
}

// wishSlots fills in what slots are kept and wanted.
func (c *cell) wishSlots(it *Item, now int64) {
	c.callsLeft(now)
	n := c.waitsFor()
	it.Slots, it.Held = c.slots.most, c.inUse
	if c.busySlots || n > 0 && n <= c.allowed { // what is not in use now will be soon
		it.Held = max(c.inUse, min(c.allowed, c.held))
	}
	if n > 0 {
		it.LeastSlots = n
		if all := it.Held + n; n > it.Held && all <= c.mostSlots() {
			it.LeastSlots = all // what it holds goes on beside it
		}
		it.LeastSlots = min(it.LeastSlots, c.slots.most)
		c.wantSlots = max(c.wantSlots, it.LeastSlots-it.Held, min(c.inUse+n, c.slots.most)-it.Held)
		it.SlotsWaited = time.Duration(max(0, now-c.calls[0].since))
	} else if c.looks == 0 || now-c.asked > int64(c.s.cfg.Interval)*5/4 {
		c.wantSlots, c.looks = 0, 0
	}
	it.WantSlots = min(c.wantSlots, c.slots.most)
	c.busySlots, c.toldWant, c.toldLeast = false, c.wantSlots, n
	c.allowed = min(c.allowed, it.Held)
}

// hearSlots takes what a says of slots, and reports whether somebody who waits may begin
// a call, or never will. Who is woken asks anew, for what waits next.
func (c *cell) hearSlots(it *Item, a *Answer, sent, now int64) (begins bool) {
	// What was asked back the store counts until it has heard that it is over, which may
	// have been since the item was sent; and SetMax may have made it fewer.
	c.held, c.allowed = max(a.Held, it.Held), min(a.Held, c.slots.most)
	c.slotsUntil, c.slotsAbove = sent+int64(a.SlotsFor-a.SlotsFor/10), a.Slots
	got := a.Held - it.Held
	c.toldWant = max(0, c.toldWant-got)
	c.wantSlots = max(0, c.wantSlots-got)
	for _, k := range c.calls {
		begins = begins || c.inUse+k.n <= c.allowed || k.n > c.mostSlots()
	}
	if c.looks > 0 && c.inUse+c.looks <= c.allowed {
		c.looks, begins = 0, true
	}
	if begins {
		c.wantSlots, c.offeredTill, c.busySlots = 0, now+offer, true
		c.calls = slices.DeleteFunc(c.calls, func(k slotCall) bool { return k.n > c.mostSlots() })
	}
	return begins
}

// offer is for how long the owner of slots, who has just been woken, may take to begin
// the call that they came for, before the store may ask for them back.
const offer = int64(50 * time.Millisecond)
