package fair

import "math"

// Turns is where queues wait for their turn. It costs nothing while at most one is in
// it. The zero Turns is empty.
type Turns struct {
	only *Queue
	paid int64   // its credit
	many *levels // nil until there were two
}

// Ahead is the credit of a queue that has paid for what is first in it, and is to be
// the next of its priority.
const Ahead = math.MaxInt64

// ItsTurn is the credit of a queue that has paid for what is first in it.
const ItsTurn = Ahead - 1

// Add puts q in turn. credit is the virtual time that it has paid for what is first in
// it, ItsTurn when it has paid all; less than 0: that it owes. ageing, which is the same
// for all of t, is what a step of priority is worth in nanoseconds of waiting; 0:
// nothing ages.
func (t *Turns) Add(q *Queue, ageing float64, credit int64) {
	q.turns = t
	switch {
	case t.only == nil && (t.many == nil || len(t.many.of) == 0):
		t.only, t.paid = q, credit
		return
	case t.many == nil:
		t.many = &levels{of: make(map[int32]*level), ageing: ageing}
	}
	if t.only != nil {
		t.many.add(t.only, t.paid)
		t.only = nil
	}
	t.many.add(q, credit)
}

// Remove takes q, which is in t, out of turn and returns its credit, for when it comes
// back.
func (t *Turns) Remove(q *Queue) (credit int64) {
	if q.turns = nil; t.only == q {
		t.only = nil
		return ItsTurn
	}
	return t.many.remove(q)
}

// Next returns the queue whose turn it is, nil when there is none.
func (t *Turns) Next() *Queue {
	if t.only != nil || t.many == nil {
		return t.only
	}
	return t.many.next()
}

// Top returns the highest priority of t, in which there is something. What is next may be
// of a lower one.
func (t *Turns) Top() int32 {
	if t.only != nil {
		return t.only.Priority
	}
	return t.many.order.First().priority
}

// All yields all of t, those of a tenant and priority in their order. Nothing changes t
// meanwhile.
func (t *Turns) All(yield func(*Queue) bool) {
	if t.only != nil || t.many == nil {
		if t.only != nil {
			yield(t.only)
		}
		return
	}
	for lv := range t.many.order.All() {
		for r := range lv.rounds.All() {
			for sh := r.head; sh != nil; sh = sh.next {
				for q := sh.queues.head; q != nil; q = q.next {
					if !yield(q) {
						return
					}
				}
			}
		}
	}
}

// Instead returns a queue that may start before q, which is next, though it is not: one
// that is wanted of those whose turn has come as well, for it takes nothing from anybody's
// share. It is of q's priority, and of another tenant who has paid as much, or another of
// q's. Of a tenant's, at most so many that came later start before any one of them. At most
// look queues are looked at. nil when there is none.
func (t *Turns) Instead(q *Queue, times, look int, wanted func(*Queue) bool) *Queue {
	if t.only != nil {
		return nil
	}
	for sh := q.share.round.head; sh != nil; sh = sh.next {
		first := sh.queues.head
		price := first.Price() // which is paid
		for other := first; other != nil; other = other.next {
			if look--; look < 0 {
				return nil
			}
			if other != q && other.Price() == price && wanted(other) {
				return other
			}
			if int64(sh.gone-first.due) >= int64(times) {
				break // and none has been overtaken more often than the first
			}
		}
	}
	return nil
}

// Started says that what was first in q, which was next or Instead, has started, and is
// gone, or will be with q. It returns the virtual time that passed since q's tenant began to
// pay for it: what others have got meanwhile.
func (t *Turns) Started(q *Queue) (waited int64) {
	if t.paid = 0; t.only != q {
		waited = t.many.started(q)
	}
	return waited
}

// Changed says that something else is first in q, or that it costs something else or has
// another age.
func (t *Turns) Changed(q *Queue) {
	if t.only != q {
		t.many.changed(q)
	}
}

// Turn is whose turn it was between priorities when one of them had a try.
type Turn struct {
	shared, again bool
	passed        *Queue // in q's priority
	turn          int64
	since         int64 // of q
}

// Try is Started for what is about to be tried, and may be refused: see Undo.
func (t *Turns) Try(q *Queue) (was Turn) {
	if t.only != q {
		was = t.many.turnOf(q)
	}
	t.Started(q)
	return was
}

// Undo says that q, which has been out of turn since a Try and was put back as being
// Ahead, has not started: between priorities, it is the turn of whose it was. Nothing
// else of t has started in between.
func (t *Turns) Undo(q *Queue, was Turn) {
	if t.only != q {
		t.many.undo(q, was)
	}
}
