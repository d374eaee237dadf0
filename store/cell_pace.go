package store

import "time"

// pace is how fast the owner of a cell uses permits when it has some: what it will
// want is not what it got, as a quota that is used up hides how much more it could
// have used. Syncer.mu guards it.
type pace struct {
	begun bool
	since int64 // the last item, when begun
	used  int64 // since then
	dry   bool  // the owner waits,
	dryAt int64 // since then
	dried int64 // for how long it did before, since the last item
	late  int64 // for how long it did before that, as long as it has not caught up

	// So many were used in so many nanoseconds; each item halves what was before.
	// The time in which the owner waits counts only when it has caught up with
	// what it had to wait with: until then it uses what it gets at once.
	sum, span float64
	top       int64 // how many to want at most: doubled as long as that is too few

	trip int64 // how long the last exchange took
	ends int64 // when a lease has ended that ended with its step, or will
}

// waits notes that there is no permit for the owner.
func (p *pace) waits(now int64) {
	if !p.dry {
		p.dry, p.dryAt = true, now
	}
}

// goes notes that there is one.
func (p *pace) goes(now int64) {
	if p.dry {
		p.dry = false
		p.dried += now - p.dryAt
	}
}

// measure begins a new item.
func (p *pace) measure(now int64) {
	if p.dry {
		p.dried += now - p.dryAt
		p.dryAt = now
	}
	if went := max(0, now-p.since-p.dried); p.begun && (went > 0 || p.used > 0) {
		p.sum = p.sum/2 + float64(p.used)
		p.span = p.span/2 + float64(went)
	}
	if p.late += p.dried; !p.dry {
		p.span += float64(p.late)
		p.late = 0
	}
	p.begun, p.since, p.used, p.dried = true, now, 0, 0
}

// uses is how many permits are used in d. Somebody who only ever waits will use any
// number, up to top.
func (p *pace) uses(d time.Duration) int64 {
	if p.sum == 0 {
		return 0
	}
	return min(int64(min(1e9, p.sum/max(1, p.span)*float64(d))), max(1, p.top))
}

// horizon is for how long ahead permits are fetched: less when their step ends
// before, as they are lost then, and a quarter less than that, as nobody knows what
// will be used.
func (c *cell) horizon(now int64) time.Duration {
	most := c.s.cfg.Horizon
	h := most
	for _, l := range c.quota {
		d := most
		if d == 0 {
			d = min(max(l.Per/2, 50*time.Millisecond), 10*time.Second)
		}
		switch step := int64(l.Step()); {
		case l.Kind == Bucket:
			d = min(d, l.Fill().Lease/2)
		case c.pace.ends == 0: // nobody knows when
			d = min(d, time.Duration(step/8))
		default:
			left := (c.pace.ends - now) % step // of the sign of the difference
			if left <= 0 {
				left += step
			}
			d = min(d, time.Duration(left-left/4))
		}
		if h == 0 || d < h {
			h = d
		}
	}
	return h
}

// ahead is how many permits will be used within the horizon. Less than two are not
// worth fetching: they would be stranded.
func (c *cell) ahead(now int64) int64 {
	if n := c.pace.uses(c.horizon(now)); n >= 2 {
		return n
	}
	return 0
}

// short reports whether more is to be fetched, before somebody waits for it.
func (c *cell) short(now int64) bool { return c.credit <= c.low && c.ahead(now) >= c.credit+2 }

// got notes a grant of n until end, that was asked for at sent. More is fetched when
// so few are left that it comes just in time: each round trip is to be worth it.
func (c *cell) got(n, end, sent, now int64) {
	c.last, c.gotAt = n, now
	c.pace.ends, c.pace.trip = end, now-sent
	c.low = min(n/2, max(n/8, c.pace.uses(time.Duration(2*c.pace.trip))))
}

// unused reports whether permits lie here that nobody asks for.
func (c *cell) unused(now int64) bool {
	return c.need == 0 && now-c.asked >= int64(c.s.cfg.Interval)/2
}

// spare is how many permits of the lease that ends first will not be used, when that
// is soon; early is when to look again. What is returned in time a Sliding limit
// grants in its next step. Others have no use for it: of a Window all have been told
// to come when the next begins, and a Bucket takes nothing back.
func (c *cell) spare(now int64) (n, early int64) {
	for _, l := range c.quota {
		if l.Kind != Sliding || len(c.leases) == 0 {
			continue
		}
		end := c.leases[0].end
		if early = end - max(int64(l.Step())/8, 3*c.pace.trip); now < early || now >= end {
			return 0, max(early, now)
		}
		return max(0, c.leases[0].n-c.pace.uses(time.Duration(end-now))-1), never
	}
	return 0, never
}

// upToDate reports whether there can be no news of a governor's cooldowns that is older
// than an Interval: all since the last answer was hinted at, and the hint would be
// here. What is executed after that answer's item was sent, and after the watch began,
// is either before Syncer.heardTo, and then c is hinted, or not older than an Interval.
// While anything cools it is asked for nevertheless: a store that was emptied hints at
// nothing, and is to hear of the cooldown again before somebody joins who does not know it.
func (c *cell) upToDate(now int64) bool {
	s := c.s
	return c.member != nil && c.met && !c.hinted && !c.member.cooling() &&
		c.fresh >= s.watched && s.heardTo > now-int64(s.cfg.Interval)
}

// speaks reports whether there is anything to exchange. A cell that has only permits
// need not ask for news: what there is to hear comes with more of them, and the
// cooldowns of a governor come under the cell of its Join.
func (c *cell) speaks(now int64) bool {
	c.drop(now)
	switch {
	case c.pending != nil, c.lost, c.hinted, c.passed, c.slots != nil, c.frozen(now), c.debt > 0, !c.told, !c.knows():
		return true
	case c.member != nil && (c.member.toSay() || !c.upToDate(now)):
		return true
	case c.credit > 0 && c.unused(now):
		return true
	case now >= c.retryAt && (int64(c.need) > c.credit || c.short(now)):
		return true
	}
	if n, _ := c.spare(now); n > 0 {
		return true
	}
	return now-c.pace.since >= c.silence()
}

// silence is for how long c may say nothing: the store forgets who says nothing for its
// TTL, with what it holds. Who holds nothing speaks now and then for the sake of it.
func (c *cell) silence() int64 {
	if len(c.quota) == 0 && c.slots == nil {
		return int64(time.Minute)
	}
	return int64(c.s.cfg.Store.TTL()) * 3 / 4
}
