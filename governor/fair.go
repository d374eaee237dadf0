package governor

import "math"

// fair is where lanes wait for their turn. Which is next depends on what has
// started and on what waits, not on the time:
//
//   - The highest priority goes first.
//   - A lower one in which something has waited longer than all that waits in the
//     highest, by Config.Ageing for every step between the two, shares the starts
//     with it one for one until that has started: neither can be starved by the
//     other, and what has to be quick stays so when a great deal has grown old.
//   - Within a priority tenants share by cost and weight; see level.
//   - The lanes of a tenant take turns.
//
// An effective priority that rises by one for every Ageing that passes never
// changes the order of two that wait, as it rises for both. So a lane's age is
// its arrival moved back by its priority, a constant while its head is the same,
// and nothing has to be done when time passes.
//
// A decision costs O(1) when all lanes have one priority and all requests one
// cost and weight, and at most O(log n).
type fair struct {
	levels map[int32]*level
	order  heap[*level] // highest priority first

	// ages has the lanes by age, the oldest first, while there is more than one
	// level, or was since fair was last empty. What a lane is sorted by may be
	// older than it is: that is put right when the lane comes first.
	ages   heap[*aged]
	ageing float64 // in nanoseconds; 0: nothing ages
	mixed  bool
	shared bool // the last to start was of a lower level: it is the highest's turn
}

// aged is a lane in fair.ages.
type aged lane

func (l *aged) when() int64   { return l.age }
func (l *aged) index() *int32 { return &l.ageIdx }

// ageOf is the time since when l waits, moved back by ageing for each step of its
// priority, as a number that sorts like it. A request that was put before another
// that has waited for longer, since it came back, does not make the lane younger.
func (l *lane) ageOf(ageing float64) int64 {
	since := l.first().enqueued
	if l.head != nil {
		since = min(since, l.head.enqueued)
	}
	b := int64(math.Float64bits(float64(since) - float64(l.priority)*ageing))
	return b ^ int64(uint64(b>>63)>>1)
}

// add puts l in turn. credit is the virtual time that it has paid for its head; less
// than 0: that it owes.
func (f *fair) add(l *lane, credit int64) {
	lv := f.levels[l.priority]
	if lv == nil {
		lv = newLevel(l.priority)
		f.levels[l.priority] = lv
		f.order.fix(lv)
		if !f.mixed && f.ageing > 0 && len(f.levels) > 1 {
			f.mix()
		}
	}
	lv.add(l, credit)
	if f.mixed {
		f.age(l)
	}
}

// mix begins to sort the lanes by age.
func (f *fair) mix() {
	f.mixed = true
	for _, lv := range f.levels {
		for _, sh := range lv.shares {
			for l := sh.lanes.head; l != nil; l = l.next {
				f.age(l)
			}
		}
	}
}

func (f *fair) age(l *lane) {
	l.age = l.ageOf(f.ageing)
	f.ages.fix((*aged)(l))
}

func (f *fair) remove(l *lane) (credit int64) {
	f.ages.remove((*aged)(l))
	lv := l.share.level()
	if credit = lv.remove(l); len(lv.shares) > 0 {
		return credit
	}
	delete(f.levels, lv.priority)
	f.order.remove(lv)
	if len(f.levels) == 0 {
		f.mixed, f.shared = false, false
	}
	return credit
}

// next returns the lane whose turn it is.
func (f *fair) next() *lane {
	if len(f.levels) == 0 {
		return nil
	}
	lv := f.order.s[0]
	if f.mixed && !f.shared && len(f.levels) > 1 {
		lv = f.oldest().share.level()
	}
	return lv.next()
}

// oldest returns the lane that comes first by its age.
func (f *fair) oldest() *lane {
	for {
		l := (*lane)(f.ages.s[0])
		age := l.ageOf(f.ageing)
		if age <= l.age {
			return l
		}
		l.age = age // what it was sorted by has started
		f.ages.fix((*aged)(l))
	}
}

// started says that the head of l has, and is gone, or will be with l; see
// level.started.
func (f *fair) started(l *lane) (waited int64) {
	lv := l.share.level()
	f.shared = lv != f.order.s[0]
	waited = lv.started(l)
	f.older(l)
	return waited
}

// changed says that the head of l has.
func (f *fair) changed(l *lane) {
	f.older(l)
	l.share.level().price(l.share)
}

// older sees to it that l is not older than what it is sorted by.
func (f *fair) older(l *lane) {
	if f.mixed && l.ageOf(f.ageing) < l.age {
		f.age(l)
	}
}

// turns is a fair that costs nothing while at most one lane is in it.
type turns struct {
	only *lane
	paid int64 // its credit
	fair *fair // nil until there were two
}

// add puts l in turn. credit is the virtual time that it has paid for its head,
// itsTurn when it has paid all.
func (q *turns) add(l *lane, ageing float64, credit int64) {
	l.turns = q
	switch {
	case q.only == nil && (q.fair == nil || len(q.fair.levels) == 0):
		q.only, q.paid = l, credit
		return
	case q.fair == nil:
		q.fair = &fair{levels: make(map[int32]*level), ageing: ageing}
	}
	if q.only != nil {
		q.fair.add(q.only, q.paid)
		q.only = nil
	}
	q.fair.add(l, credit)
}

// remove takes l out of turn and returns its credit, for when it comes back.
func (q *turns) remove(l *lane) (credit int64) {
	if l.turns = nil; q.only == l {
		q.only = nil
		return itsTurn
	}
	return q.fair.remove(l)
}

// next returns the lane whose turn it is, nil when there is none.
func (q *turns) next() *lane {
	if q.only != nil || q.fair == nil {
		return q.only
	}
	return q.fair.next()
}

// started says that the head of l has, and is gone, or will be with l; see
// level.started.
func (q *turns) started(l *lane) (waited int64) {
	if q.paid = 0; q.only != l {
		waited = q.fair.started(l)
	}
	return waited
}

// changed says that the head of l has, or what it costs.
func (q *turns) changed(l *lane) {
	if q.only != l {
		q.fair.changed(l)
	}
}
