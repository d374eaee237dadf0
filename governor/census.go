package governor

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// census counts what waits in lanes, by lane and by tenant, as it comes and goes, so
// that Stats can list the most of both without a look at all of them. It belongs to
// whoever has the turn. The zero value is ready.
type census struct {
	lanes   ranking[*lane]
	tenants ranking[*tenant]
	byName  map[string]*tenant
	live    int // tenants of whom something waits
}

// tenant is one of whom something waits, or did lately.
type tenant struct {
	name  string
	first *lane // of its lanes, linked by backlog.prev and next
	lanes int   // with something in them
	size  ranked[*tenant]
}

// ranked is a place in a ranking.
type ranked[T any] struct {
	of         T
	n          int
	prev, next *ranked[T]
}

// ranking keeps things by how many, in powers of two: most changes move nothing.
type ranking[T any] struct {
	classes []*ranked[T] // by bits.Len of their numbers; 0 has none
	len     int
}

// set changes x's number to n.
func (q *ranking[T]) set(x *ranked[T], n int) {
	from, to := bits.Len(uint(x.n)), bits.Len(uint(n))
	x.n = n
	if from == to {
		return
	}
	if from != 0 {
		q.len--
		if x.prev == nil {
			q.classes[from] = x.next
		} else {
			x.prev.next = x.next
		}
		if x.next != nil {
			x.next.prev = x.prev
		}
	}
	if to == 0 {
		x.prev, x.next = nil, nil
		return
	}
	q.len++
	for len(q.classes) <= to {
		q.classes = append(q.classes, nil)
	}
	x.prev, x.next = nil, q.classes[to]
	if x.next != nil {
		x.next.prev = x
	}
	q.classes[to] = x
}

// top returns the largest, at most so many, equal ones by order if those are all. It
// looks at most at twice as many, so that one that it leaves out may be larger than the
// last of them, but less than twice as large.
func (q *ranking[T]) top(most int, order func(a, b T) int) (all []*ranked[T]) {
	all = make([]*ranked[T], 0, min(q.len, 2*most))
	for k := len(q.classes) - 1; k > 0 && len(all) < most; k-- {
		for x := q.classes[k]; x != nil && len(all) < 2*most; x = x.next {
			all = append(all, x)
		}
	}
	some := q.len > most // to look at names costs more than all the rest
	slices.SortStableFunc(all, func(a, b *ranked[T]) int {
		if some || a.n != b.n {
			return b.n - a.n
		}
		return order(a.of, b.of)
	})
	return all[:min(len(all), most)]
}

// counted says that more or less waits in l than when it was counted last.
func (c *census) counted(l *lane) {
	was, n := l.size.n, l.sched.Len()
	if n == was {
		return
	}
	l.size.of = l
	c.lanes.set(&l.size, n)
	t := l.waits
	if t == nil { // else it is known: see lane.begin
		t = c.tenant(l.tenant)
		l.waits = t
	}
	switch {
	case was == 0:
		if t.lanes++; t.lanes == 1 {
			c.live++
		}
		t.link(l)
	case n == 0:
		if t.lanes--; t.lanes == 0 {
			c.live--
		}
		t.unlink(l)
	}
	c.tenants.set(&t.size, t.size.n+n-was)
}

func (t *tenant) link(l *lane) {
	l.prev, l.next = nil, t.first
	if t.first != nil {
		t.first.prev = l
	}
	t.first = l
}

func (t *tenant) unlink(l *lane) {
	if l.prev == nil {
		t.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
}

// of yields the lanes of the tenant of a name. Each may be removed when it is yielded.
func (c *census) of(name string) iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		t := c.byName[name]
		if t == nil {
			return
		}
		for l := t.first; l != nil; {
			next := l.next
			if !yield(l) {
				return
			}
			l = next
		}
	}
}

// tenant returns the tenant of a name. Those of whom nothing waits stay until they
// are more than the others: a tenant with one request at a time is not made each time.
func (c *census) tenant(name string) *tenant {
	if t := c.byName[name]; t != nil {
		return t
	}
	if len(c.byName) >= 64+2*c.live {
		for name, t := range c.byName {
			if t.lanes == 0 {
				delete(c.byName, name)
			}
		}
	}
	if c.byName == nil {
		c.byName = make(map[string]*tenant)
	}
	t := &tenant{name: name}
	t.size.of = t
	c.byName[name] = t
	return t
}

// longest returns the longest lanes, the longest first.
func (c *census) longest(most int) (all []LaneStats) {
	all = make([]LaneStats, 0, min(c.lanes.len, most))
	for _, x := range c.lanes.top(most, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.sel.name, b.sel.name), cmp.Compare(a.bucket, b.bucket), cmp.Compare(b.priority, a.priority))
	}) {
		l := x.of
		all = append(all, LaneStats{l.sel.name, l.tenant, l.bucket, int(l.priority), l.sched.Len(), l.sched.Parked()})
	}
	return all
}

// waiting returns the tenants of whom most waits, those first.
func (c *census) waiting(most int) (all []TenantStats) {
	all = make([]TenantStats, 0, min(c.live, most))
	for _, x := range c.tenants.top(most, func(a, b *tenant) int { return cmp.Compare(a.name, b.name) }) {
		all = append(all, TenantStats{x.of.name, x.n, x.of.lanes})
	}
	return all
}
