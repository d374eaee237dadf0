package fair

import "github.com/flyball-go/flyball/governor/internal/heap"

// levels are the queues of a Turns that has more than one. Which is next depends on
// what has started and on what waits, not on the time:
//
//   - The highest priority goes first.
//   - A lower one in which something has waited longer than all that waits in the
//     highest, by ageing for every step between the two, shares the starts
//     with it one for one until that has started: neither can be starved by the
//     other, and what has to be quick stays so when a great deal has grown old.
//   - Within a priority tenants share by cost and weight; see level.
//   - The queues of a tenant take turns.
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

	// ages has the queues by age, the oldest first, while there is more than one
	// level, or was since levels was last empty. What a queue is sorted by may be
	// older than it is: that is put right when the queue comes first.
	ages   heap.Heap[*aged]
	ageing float64 // in nanoseconds; 0: nothing ages
	mixed  bool
	shared bool // the last to start was of a lower level: it is the highest's turn
}

// add puts q in turn. credit is the virtual time that it has paid for its head; less
// than 0: that it owes.
func (ls *levels) add(q *Queue, credit int64) {
	lv := ls.of[q.Priority]
	if lv == nil {
		lv = newLevel(q.Priority)
		ls.of[q.Priority] = lv
		ls.order.Fix(lv)
		if !ls.mixed && ls.ageing > 0 && len(ls.of) > 1 {
			ls.mix()
		}
	}
	lv.add(q, credit)
	if ls.mixed {
		ls.ages.Fix((*aged)(q))
	}
}

// mix begins to sort the queues by age.
func (ls *levels) mix() {
	ls.mixed = true
	for _, lv := range ls.of {
		for _, sh := range lv.shares {
			for q := sh.queues.head; q != nil; q = q.next {
				ls.ages.Fix((*aged)(q))
			}
		}
	}
}

func (ls *levels) remove(q *Queue) (credit int64) {
	ls.ages.Remove((*aged)(q))
	lv := q.share.round.level
	if credit = lv.remove(q); len(lv.shares) > 0 {
		return credit
	}
	delete(ls.of, lv.priority)
	ls.order.Remove(lv)
	if len(ls.of) == 0 {
		ls.mixed, ls.shared = false, false
	}
	return credit
}

// next returns the queue whose turn it is.
func (ls *levels) next() *Queue {
	if len(ls.of) == 0 {
		return nil
	}
	lv := ls.order.First()
	if ls.mixed && !ls.shared && len(ls.of) > 1 {
		lv = ls.oldest().share.round.level
	}
	return lv.next()
}

// oldest returns the queue that comes first by its age.
func (ls *levels) oldest() *Queue {
	for {
		q := (*Queue)(ls.ages.First())
		if q.ageOf(ls.ageing) <= ls.ages.Next() {
			return q
		}
		ls.ages.Fix((*aged)(q)) // what it was sorted by has started
	}
}

// started says that the head of q has, and is gone, or will be with q; see
// level.started.
func (ls *levels) started(q *Queue) (waited int64) {
	lv := q.share.round.level
	ls.shared = lv != ls.order.First()
	waited = lv.started(q)
	ls.older(q)
	return waited
}

// changed says that the head of q has.
func (ls *levels) changed(q *Queue) {
	ls.older(q)
	q.share.round.level.price(q.share)
}

// older sees to it that q is not older than what it is sorted by.
func (ls *levels) older(q *Queue) {
	if ls.mixed && q.ageOf(ls.ageing) < ls.ages.At((*aged)(q)) {
		ls.ages.Fix((*aged)(q))
	}
}
