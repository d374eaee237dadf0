package fair

import "github.com/flyball-go/flyball/governor/internal/heap"

// levels are the queues of a Turns that has more than one. Which is next depends on
// what has started and on what waits, not on the time:
//
//   - The highest priority goes first.
//   - A lower one in which something has waited longer than what is next in the
//     highest, by ageing for every step between the two, shares the starts with it
//     one for one until that has started: neither can be starved by the other, and what
//     has to be quick stays so when a great deal has grown old.
//   - Of several such the one goes in which something has waited longest. If it is
//     another's turn there, that has been passed over, and may be for long. So from then
//     on, until that has started, its level takes turns with the others of which that
//     is so, for every second of the starts that lower levels get: or all that they get,
//     while nothing else has waited long enough.
//   - Within a priority tenants share by cost and weight; see level.
//   - The queues of a tenant take turns.
//
// So nothing waits for ever. What waits longest in a lower level either starts or is
// passed over, and few things have waited longer than another; the level of what was
// passed over gets a part of all starts, as the highest does; and a level that goes on
// gets to all of its queues.
//
// An effective priority that rises by one for every ageing that passes never
// changes the order of two that wait, as it rises for both. So a queue's age is
// its arrival moved back by its priority, a constant while its head is the same,
// and nothing has to be done when time passes.
//
// A decision costs O(1) when all queues have one priority, one cost and one weight,
// and at most O(log n).
type levels struct {
	of    map[int32]*level  // by priority
	order heap.Heap[*level] // highest priority first

	// Queues are sorted by age in their level, and the levels but the highest here, while
	// there is more than one level, or was since levels was last empty: in passed if it
	// has passed over something, otherwise in ages.
	ages   heap.Heap[*lower] // the one of the oldest queue first
	passed heap.Heap[*lower] // in turn
	turn   int64             // the last in passed

	ageing float64 // in nanoseconds; 0: nothing ages
	mixed  bool
	shared bool // the last to start was of a lower level: it is the highest's turn
	again  bool // the last of a lower level was not of passed: it is the turn of those
}

// lower is a level in levels.ages or levels.passed.
type lower level

func (lv *lower) When() int64 {
	if lv.passed != nil {
		return lv.turn
	}
	return lv.ages.Next()
}
func (lv *lower) Index() *int32 { return &lv.lowerIdx }

// add puts q in turn. credit is the virtual time that it has paid for its head; less
// than 0: that it owes.
func (ls *levels) add(q *Queue, credit int64) {
	lv := ls.of[q.Priority]
	if lv == nil {
		lv = ls.begin(q.Priority)
	}
	if lv.add(q, credit); ls.mixed {
		lv.ages.Fix((*aged)(q))
		ls.settle(lv)
	}
}

func (ls *levels) begin(priority int32) *level {
	lv, was := newLevel(priority), (*level)(nil)
	if len(ls.of) > 0 {
		was = ls.order.First()
	}
	ls.of[priority] = lv
	ls.order.Fix(lv)
	switch {
	case was == nil || ls.ageing <= 0:
	case !ls.mixed:
		ls.mix()
	default:
		ls.settle(was) // which may be a lower one now
	}
	return lv
}

// mix begins to sort the queues by age.
func (ls *levels) mix() {
	ls.mixed = true
	for _, lv := range ls.of {
		for _, sh := range lv.shares {
			for q := sh.queues.head; q != nil; q = q.next {
				lv.ages.Fix((*aged)(q))
			}
		}
		ls.settle(lv)
	}
}

func (ls *levels) remove(q *Queue) (credit int64) {
	lv := q.share.round.level
	credit = lv.remove(q)
	lv.ages.Remove((*aged)(q))
	if len(lv.shares) > 0 {
		ls.forgive(lv, q)
		ls.settle(lv)
		return credit
	}
	ls.leave(lv)
	delete(ls.of, lv.priority)
	ls.order.Remove(lv)
	if len(ls.of) == 0 {
		ls.mixed, ls.shared, ls.again = false, false, false
	} else {
		ls.settle(ls.order.First()) // which may have been a lower one
	}
	return credit
}

// next returns the queue whose turn it is.
func (ls *levels) next() *Queue {
	if len(ls.of) == 0 {
		return nil
	}
	top := ls.order.First()
	if ls.shared || len(ls.of) == 1 {
		return top.next()
	}
	lv := top
	if ls.ages.Next() < top.next().ageOf(ls.ageing) {
		lv = (*level)(ls.ages.First())
	}
	if ls.passed.Len() > 0 && (ls.again || lv == top) {
		lv = (*level)(ls.passed.First())
	}
	return lv.next()
}

// started says that the head of q has, and is gone, or will be with q; see
// level.started.
func (ls *levels) started(q *Queue) (waited int64) {
	lv := q.share.round.level
	ls.shared = lv != ls.order.First()
	if ls.mixed {
		if ls.shared {
			ls.pass(lv, q)
		}
		ls.forgive(lv, q)
	}
	if waited = lv.started(q); ls.mixed {
		lv.ages.Fix((*aged)(q))
		ls.settle(lv)
	}
	return waited
}

// pass sees what q, which starts, goes before of lv, which is not the highest.
func (ls *levels) pass(lv *level, q *Queue) {
	ls.again = lv.passed == nil
	if oldest := (*Queue)(lv.ages.First()); lv.passed == nil && oldest != q {
		ls.leave(lv)
		lv.passed = oldest
	}
	if lv.passed != nil {
		ls.turn++
		lv.turn = ls.turn
		ls.passed.Fix((*lower)(lv))
	}
}

// turnOf is whose turn it is before q has its.
func (ls *levels) turnOf(q *Queue) Turn {
	lv := q.share.round.level
	return Turn{shared: ls.shared, again: ls.again, passed: lv.passed, turn: lv.turn, since: q.Since}
}

// undo takes what pass and forgive have noted of a turn back that q had for nothing. Else,
// where most tries are in vain, a priority that shares the starts would have its part of
// the tries, and for ever those that are.
func (ls *levels) undo(q *Queue, was Turn) {
	ls.shared, ls.again = was.shared, was.again
	if !ls.mixed {
		return
	}
	lv := q.share.round.level
	switch {
	case was.passed == nil:
		if lv.passed != nil {
			ls.leave(lv)
		}
	case was.passed == lv.passed, was.passed == q && q.Since <= was.since:
		ls.leave(lv)
		lv.passed, lv.turn = was.passed, was.turn
		ls.passed.Fix((*lower)(lv))
	}
	ls.settle(lv)
}

// changed says that the head of q may have, or its age.
func (ls *levels) changed(q *Queue) {
	lv := q.share.round.level
	if ls.mixed {
		was := lv.ages.At((*aged)(q))
		if lv.ages.Fix((*aged)(q)); was < lv.ages.At((*aged)(q)) {
			ls.forgive(lv, q)
		}
		ls.settle(lv)
	}
	lv.price(q.share)
}

// settle sorts lv, in which a queue has changed, or which may be the highest now or no
// longer be.
func (ls *levels) settle(lv *level) {
	switch {
	case !ls.mixed:
	case lv == ls.order.First():
		ls.leave(lv)
	case lv.passed == nil && lv.ages.Len() > 0:
		ls.ages.Fix((*lower)(lv))
	}
}

// forgive has lv owe nothing to q any more, if that was what it passed over.
func (ls *levels) forgive(lv *level, q *Queue) {
	if lv.passed == q {
		ls.leave(lv)
	}
}

// leave takes lv out of ages or passed, if it is in one.
func (ls *levels) leave(lv *level) {
	if lv.passed == nil {
		ls.ages.Remove((*lower)(lv))
	} else {
		ls.passed.Remove((*lower)(lv))
		lv.passed = nil
	}
}
