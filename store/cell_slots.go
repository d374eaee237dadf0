package store

import (
	"cmp"
	"slices"
	"time"
)

// claim is that an owner has asked for n slots more, and was refused.
type claim struct {
	owner     *Slots
	n         int64
	since, at int64 // when first, and last
}

// asksIn is how soon at the latest who waits is to ask again. Nobody says that he waits no
// more: who does not ask for twice as long does not.
func (c *cell) asksIn() time.Duration { return c.s.cfg.Interval / 4 }

// ends is when that is so, if nobody asks until then.
func (k *claim) ends(c *cell) int64 { return k.at + 2*int64(c.asksIn()) }

// refuse notes that l waits for n slots, and says when to ask again.
func (c *cell) refuse(l *Slots, n, now int64) time.Duration {
	c.waits = l.refs > 1
	c.prune(now)
	i := slices.IndexFunc(c.claims, func(k claim) bool { return k.owner == l && k.n == n })
	if i < 0 {
		if len(c.claims) == 16 { // the first have waited for longest
			c.claims = c.claims[:15]
		}
		c.claims = append(c.claims, claim{owner: l, n: n, since: now})
		i = len(c.claims) - 1
	}
	c.claims[i].at = now
	if most := l.most; c.inUse+n <= most { // else it waits for what runs here
		want := min(max(c.inUse+n-c.allowed, min(2*c.inUse, 8), 1), most-c.allowed)
		more := want > c.wantSlots
		if c.wantSlots = max(c.wantSlots, want); more || c.slotsToSay() {
			c.s.plan(c, now)
		}
	}
	return c.asksIn()
}

// prune forgets who waits no more.
func (c *cell) prune(now int64) {
	if len(c.claims) == 0 {
		return
	}
	over := func(k claim) bool { return k.ends(c) < now }
	if !slices.ContainsFunc(c.claims, over) {
		return
	}
	// What an owner has not asked for again it asks for something else instead of, which
	// has waited for as long as the owner has: else one whose calls are asked for in turns
	// would never have waited long enough to stand in line.
	for _, k := range c.claims {
		for i := range c.claims {
			if o := &c.claims[i]; over(k) && o.owner == k.owner {
				o.since = min(o.since, k.since)
			}
		}
	}
	if c.claims = slices.DeleteFunc(c.claims, over); len(c.claims) == 0 {
		c.wantSlots = 0
	}
	slices.SortStableFunc(c.claims, func(a, b claim) int { return cmp.Compare(a.since, b.since) })
}

// began is that a call of l has taken n slots.
func (c *cell) began(l *Slots, n int64) {
	c.beganAt = c.s.now()
	c.claims = slices.DeleteFunc(c.claims, func(k claim) bool { return k.owner == l && k.n == n })
}

// least is the fewest slots that anybody waits for; 0: nobody does.
func (c *cell) least() (n int64) {
	for _, k := range c.claims {
		if n == 0 || k.n < n {
			n = k.n
		}
	}
	return n
}

// longest is who has waited for longest, and for an Interval at least.
func (c *cell) longest(now int64) *claim {
	if len(c.claims) > 0 && now-c.claims[0].since >= int64(c.s.cfg.Interval) && c.claims[0].ends(c) >= now {
		return &c.claims[0]
	}
	return nil
}

// reserved is how many slots are not for l, since another owner has waited for them for long.
func (c *cell) reserved(l *Slots, now int64) int64 {
	if k := c.longest(now); k != nil && k.owner != l {
		return k.n
	}
	return 0
}

// fits reports whether there is room for somebody who waits, or that there is never room
// for him any more.
func (c *cell) fits() bool {
	n := c.least()
	return c.allowed-c.inUse >= max(1, n) || n > c.slots.most
}

// fitsAll reports whether there is room for each that waits.
func (c *cell) fitsAll() bool {
	return !slices.ContainsFunc(c.claims, func(k claim) bool {
		return k.n <= c.slots.most && c.allowed-c.inUse < k.n
	})
}

// slotsToSay reports whether the store is to hear at once of what is wanted: of more, or of
// a call that needs less than it was told, since nothing runs beside it any more.
func (c *cell) slotsToSay() bool {
	n := c.least()
	return c.wantSlots > c.toldWant || n > 0 && c.inUse == 0 && n < c.toldLeast && c.toldLine != LineWaits
}

// sayLine fills in what waits here, and where this process stands in the line of all.
func (c *cell) sayLine(it *Item, now int64) {
	n := c.least()
	if c.toldLeast = 0; n > 0 {
		c.toldLeast = c.inUse + n
	}
	k := c.longest(now)
	switch {
	case now < c.turn && (c.inUse > 0 || n > 0):
		it.Line = LineTurn
	case k != nil && c.inUse == 0 && k.n <= c.slots.most && now-c.beganAt >= int64(c.s.cfg.Interval):
		it.Line = LineWaits
		c.toldLeast = k.n
	}
	if c.toldLine = it.Line; c.toldLeast > 0 && c.toldLeast <= c.slots.most {
		c.wantSlots = max(c.wantSlots, c.toldLeast-it.Held)
		it.WantSlots, it.LeastSlots = c.wantSlots, c.toldLeast
	}
}

// nextInLine is when the store is to hear of the line next.
func (c *cell) nextInLine(now int64) (at int64) {
	at = never
	if len(c.claims) > 0 {
		k := &c.claims[0]
		if waits := max(k.since, c.beganAt) + int64(c.s.cfg.Interval); waits > now && c.inUse == 0 {
			at = waits
		}
		if c.toldLine == LineWaits {
			at = min(at, max(now, k.ends(c)+1))
		}
	}
	if c.turn > now {
		at = min(at, c.turn)
	}
	return at
}
