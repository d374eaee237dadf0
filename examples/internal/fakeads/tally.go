package fakeads

// tally adds up the traffic of one entity after the other.
type tally struct {
	p     *plan
	today day
	hours int
	yield func(*item) bool

	open  []item          // sums that may still grow
	where map[segment]int // their places, when there can be several
}

// entity adds up the hours of one entity and passes its rows on.
func (t *tally) entity(it *item, camps []Campaign) bool {
	p := t.p
	if !p.segmented {
		t.at(it, segment{})
	}
	for d := p.first; d <= p.last; d++ {
		if !p.onDate(d) {
			continue
		}
		whole := p.split.day(d)
		hours := 24
		if d == t.today {
			hours = t.hours
		}
		for h := range hours {
			for i := range camps {
				t.hour(it, whole, &camps[i], d, h)
			}
			if p.split.date && p.split.hour && !t.flush() {
				return false
			}
		}
		if p.split.date && !t.flush() {
			return false
		}
	}
	return t.flush()
}

// hour adds one hour of one campaign.
func (t *tally) hour(it *item, seg segment, c *Campaign, d day, h int) {
	m := c.hour(d, h)
	if m.Impressions == 0 {
		return
	}
	if t.p.from == "ad_group" {
		m = m.share(it.group, groupParts[:c.Groups])
	}
	if t.p.split.hour {
		seg.hour = int8(h)
	}
	if t.p.split.network {
		seg.network = c.Network
	}
	if !t.p.split.device {
		t.at(it, seg).m.add(m)
		return
	}
	for i := range deviceParts {
		seg.device = int8(i)
		t.at(it, seg).m.add(m.share(i, deviceParts))
	}
}

// at returns the sum for a segment of an entity.
func (t *tally) at(it *item, seg segment) *item {
	if n := len(t.open); n > 0 && t.open[n-1].seg == seg {
		return &t.open[n-1]
	}
	if i, ok := t.where[seg]; ok {
		return &t.open[i]
	}
	if len(t.open) > 0 { // one sum needs no map
		if t.where == nil {
			t.where = map[segment]int{}
		}
		if len(t.open) == 1 {
			t.where[t.open[0].seg] = 0
		}
		t.where[seg] = len(t.open)
	}
	t.open = append(t.open, *it)
	sum := &t.open[len(t.open)-1]
	sum.seg = seg
	return sum
}

// flush passes the open sums on. Rows that are split vanish when nothing
// happened in them.
func (t *tally) flush() bool {
	more := true
	for i := 0; i < len(t.open) && more; i++ {
		it := &t.open[i]
		if t.p.segmented && it.m == (Metrics{}) || !t.p.onMeasured(it) {
			continue
		}
		more = t.yield(it)
	}
	t.open = t.open[:0]
	if len(t.where) > 0 {
		clear(t.where)
	}
	return more
}

// onDate reports whether the conditions on dates hold for a day.
func (p *plan) onDate(d day) bool {
	if len(p.onDay) == 0 {
		return true
	}
	all := split{date: true, week: true, month: true, quarter: true, year: true}
	it := item{seg: all.day(d)}
	for i := range p.onDay {
		if !p.onDay[i].holds(&it) {
			return false
		}
	}
	return true
}

func (p *plan) onMeasured(it *item) bool {
	for i := range p.onRow {
		if !p.onRow[i].holds(it) {
			return false
		}
	}
	return true
}

// day returns the segment of a day, as far as rows are split by it.
func (s *split) day(d day) (seg segment) {
	if s.date {
		seg.date = d
	}
	if s.week {
		seg.week = d.week()
	}
	if s.month {
		seg.month = d.month()
	}
	if s.quarter {
		seg.quarter = d.quarter()
	}
	if s.year {
		seg.year = int32(d.year())
	}
	if s.weekday {
		seg.weekday = int8(d.weekday())
	}
	return seg
}
