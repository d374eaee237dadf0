package fair

import "github.com/flyball-go/flyball/governor/internal/heap"

// level is the queues of one priority, which tenants share: self-clocked fair
// queueing (S. J. Golestani, INFOCOM 1994) over tenants.
//
// Virtual time is what a tenant of weight 1 that always had something to start
// has got of the level, in costs. A tenant pays before it starts: its tag is the
// virtual time at which it has, for its turn is when nobody's tag is lower, and
// then that tag is the virtual time. So a start that costs 100 comes after 100 of
// cost 1 of each other tenant, and not later; one of weight 4 comes four times as
// often; and who has nothing that waits owes nothing and is owed nothing, and is
// forgotten.
type level struct {
	priority int32
	idx      int32 // in levels.order
	now      uint64
	origin   uint64 // see round.When
	shares   map[string]*share

	rounds heap.Heap[*round]
	byTag  map[uint64]*round
	last   *round // that somebody was put into
	spare  *round

	// For levels, which sorts by age.
	ages     heap.Heap[*aged] // the oldest queue first
	passed   *Queue           // the oldest when another went before it, until that has started
	turn     int64            // in levels.passed
	lowerIdx int32            // in levels.ages or levels.passed
}

func (lv *level) When() int64   { return -int64(lv.priority) }
func (lv *level) Index() *int32 { return &lv.idx }

// share is a tenant's part of a level, while it has queues there.
type share struct {
	tenant string
	queues List   // in turn
	base   uint64 // since when it pays for the head of the first
	tag    uint64
	over   int64  // what was given back beyond the price of that head, for those after it
	n      int    // queues in turn
	gone   uint64 // how often one of them has started or gone out of turn

	round      *round
	prev, next *share // in the round
}

// round is those of the same tag, in the order in which they got it.
type round struct {
	level      *level
	tag        uint64
	idx        int32 // in level.rounds
	head, tail *share
}

// When is relative to a time of the level's that is not long ago, so that tags may overflow.
func (q *round) When() int64   { return int64(q.tag - q.level.origin) }
func (q *round) Index() *int32 { return &q.idx }

// longAgo is the virtual time after which a level's tags are counted anew. Twice as much
// would not overflow, and no tag is further ahead than what is owed and a price.
const longAgo = MostOwed

func newLevel(priority int32) *level {
	return &level{priority: priority, shares: make(map[string]*share), byTag: make(map[uint64]*round)}
}

func (lv *level) add(q *Queue, credit int64) {
	sh, price := lv.shares[q.Tenant], q.Price()
	switch {
	case sh == nil:
		sh = &share{tenant: q.Tenant, base: lv.now - uint64(min(credit, int64(price)))}
		lv.shares[q.Tenant] = sh
		sh.push(q)
	case credit >= int64(price): // it was this queue's turn
		sh.base = lv.now - price
		if q.due = sh.gone; int64(sh.queues.head.due-q.due) < 0 {
			q.due = sh.queues.head.due // that one has been overtaken as well
		}
		sh.queues.pushFront(q)
	default:
		sh.push(q)
	}
	sh.n++
	q.share = sh
	if lv.price(sh); credit == Ahead {
		lv.lead(sh)
	}
}

// push puts q behind all others.
func (sh *share) push(q *Queue) {
	sh.queues.Push(q)
	q.due = sh.gone + uint64(sh.n)
}

// lead puts sh before the others of its round.
func (lv *level) lead(sh *share) {
	q := sh.round
	if q.head == sh {
		return
	}
	sh.prev.next = sh.next
	if sh.next == nil {
		q.tail = sh.prev
	} else {
		sh.next.prev = sh.prev
	}
	sh.prev, sh.next = nil, q.head
	q.head.prev = sh
	q.head = sh
}

// remove returns the virtual time that q has paid for its head, which is not lost
// when something keeps it back: ItsTurn when it was q's; less than 0 when it owes.
func (lv *level) remove(q *Queue) (credit int64) {
	sh := q.share
	switch {
	case lv.next() == q:
		credit = ItsTurn
	case sh.queues.head == q:
		credit = int64(lv.now - sh.base)
	}
	q.Unlink()
	q.share = nil
	sh.n--
	sh.gone++
	if sh.queues.head != nil {
		lv.price(sh)
		return credit
	}
	lv.quit(sh)
	delete(lv.shares, sh.tenant)
	return credit
}

func (lv *level) next() *Queue { return lv.rounds.First().head.queues.head }

// started says that the head of q has: its tenant pays for the next. It returns the
// virtual time that has passed since it began to pay for the one that has: what others
// have got meanwhile.
func (lv *level) started(q *Queue) (waited int64) {
	sh := q.share
	waited = int64(lv.now - sh.base)
	if int64(sh.tag-lv.now) > 0 {
		lv.now = sh.tag
		if lv.now-lv.origin > longAgo {
			lv.origin = lv.now
			lv.rounds.Refresh()
		}
	}
	sh.base = lv.now
	q.Unlink()
	sh.gone++
	sh.push(q)
	q.due-- // it was one of them
	if sh.over > 0 {
		pay := min(sh.over, int64(sh.queues.head.Price()))
		sh.over -= pay
		sh.base -= uint64(pay)
	}
	lv.price(sh)
	return max(0, waited)
}

// price gives sh the tag at which it will have paid for its next start.
func (lv *level) price(sh *share) {
	tag := sh.base + sh.queues.head.Price()
	if int64(tag-lv.now) < 0 {
		tag = lv.now
	}
	if sh.round != nil {
		if sh.tag == tag {
			return
		}
		lv.quit(sh)
	}
	sh.tag = tag
	lv.join(sh)
}

func (lv *level) join(sh *share) {
	q := lv.last
	if q == nil || q.tag != sh.tag {
		if q = lv.byTag[sh.tag]; q == nil {
			q = lv.begin(sh.tag)
		}
		lv.last = q
	}
	sh.round, sh.prev, sh.next = q, q.tail, nil
	if q.tail == nil {
		q.head = sh
	} else {
		q.tail.next = sh
	}
	q.tail = sh
}

func (lv *level) quit(sh *share) {
	q := sh.round
	if sh.prev == nil {
		q.head = sh.next
	} else {
		sh.prev.next = sh.next
	}
	if sh.next == nil {
		q.tail = sh.prev
	} else {
		sh.next.prev = sh.prev
	}
	sh.round, sh.prev, sh.next = nil, nil, nil
	if q.head != nil {
		return
	}
	lv.rounds.Remove(q)
	delete(lv.byTag, q.tag)
	if lv.last == q {
		lv.last = nil
	}
	lv.spare = q
}

func (lv *level) begin(tag uint64) *round {
	q := lv.spare
	if q == nil {
		q = &round{level: lv}
	}
	lv.spare = nil
	q.tag = tag
	lv.byTag[tag] = q
	lv.rounds.Fix(q)
	return q
}
