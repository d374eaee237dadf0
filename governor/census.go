package governor

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"github.com/flyball-go/flyball/throttle"
)

// census counts what waits in lanes, by lane and by tenant, as it comes and goes, so
// that Stats can list the most of both without a look at all of them, and knows the lanes
// of each scope. It belongs to whoever has the turn. The zero value is ready.
type census struct {
	lanes   ranking[*lane]
	tenants ranking[*laneSet]
	sets    [levels]laneSets // by level
}

// levels is how many levels are narrower than the host. What is by level begins with that
// of selectors.
const levels = len(scopes{}) - 1

// laneSets are those of a level.
type laneSets struct {
	byName map[string]*laneSet
	live   int // of whom something waits
}

// laneSet is the lanes of a selector, a tenant or a bucket of which something waits, or did
// lately.
type laneSet struct {
	name  string
	first *lane // linked by inSet
	lanes int   // with something in them
	size  ranked[*laneSet]
}

// inSet is a lane's place in a laneSet.
type inSet struct {
	set        *laneSet
	prev, next *lane
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
	switch 0 {
	case was:
		c.enter(l)
	case n:
		c.leave(l)
	}
	t := l.in[throttle.Tenant-throttle.Selector].set
	c.tenants.set(&t.size, t.size.n+n-was)
}

// enter puts l into its sets.
func (c *census) enter(l *lane) {
	for level := range levels {
		in, sets := &l.in[level], &c.sets[level]
		if in.set == nil { // else it is known: see lane.begin
			in.set = sets.named(l.name(level))
		}
		if in.set.lanes++; in.set.lanes == 1 {
			sets.live++
		}
		in.set.link(l, level)
	}
}

// leave takes l out of its sets.
func (c *census) leave(l *lane) {
	for level := range levels {
		s := l.in[level].set
		s.unlink(l, level)
		if s.lanes--; s.lanes == 0 {
			c.sets[level].live--
		}
	}
}

func (s *laneSet) link(l *lane, level int) {
	l.in[level].prev, l.in[level].next = nil, s.first
	if s.first != nil {
		s.first.in[level].prev = l
	}
	s.first = l
}

func (s *laneSet) unlink(l *lane, level int) {
	in := &l.in[level]
	if in.prev == nil {
		s.first = in.next
	} else {
		in.prev.in[level].next = in.next
	}
	if in.next != nil {
		in.next.in[level].prev = in.prev
	}
}

// of yields the lanes of a scope that is not the host's. Each may be removed when it is
// yielded.
func (c *census) of(sc throttle.Scope) iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		level := int(sc.Level - throttle.Selector)
		s := c.sets[level].byName[sc.Key]
		if s == nil {
			return
		}
		for l := s.first; l != nil; {
			next := l.in[level].next
			if !yield(l) {
				return
			}
			l = next
		}
	}
}

// named returns the set of a name. Those of which nothing waits stay until they are
// more than the others: a tenant with one request at a time is not made each time.
func (ss *laneSets) named(name string) *laneSet {
	if s := ss.byName[name]; s != nil {
		return s
	}
	if len(ss.byName) >= 64+2*ss.live {
		for name, s := range ss.byName {
			if s.lanes == 0 {
				delete(ss.byName, name)
			}
		}
	}
	if ss.byName == nil {
		ss.byName = make(map[string]*laneSet)
	}
	s := &laneSet{name: name}
	s.size.of = s
	ss.byName[name] = s
	return s
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
	all = make([]TenantStats, 0, min(c.tenants.len, most))
	for _, x := range c.tenants.top(most, func(a, b *laneSet) int { return cmp.Compare(a.name, b.name) }) {
		all = append(all, TenantStats{x.of.name, x.n, x.of.lanes})
	}
	return all
}
