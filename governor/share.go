package governor

import "math"

// level is the lanes of one priority, which tenants share: self-clocked fair
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
	idx      int32 // in fair.order
	now      uint64
	shares   map[string]*share

	rounds heap[*round]
	byTag  map[uint64]*round
	last   *round // that somebody was put into
	spare  *round
}

func (lv *level) when() int64   { return -int64(lv.priority) }
func (lv *level) index() *int32 { return &lv.idx }

// share is a tenant's part of a level, while it has lanes there.
type share struct {
	tenant string
	lanes  laneList // in turn
	base   uint64   // since when it pays for the head of the first
	tag    uint64
	over   int64 // what was given back beyond the price of that head, for those after it

	round      *round
	prev, next *share // in the round
}

func (sh *share) level() *level { return sh.round.level }

// round is those of the same tag, in the order in which they got it.
type round struct {
	level      *level
	tag        uint64
	idx        int32 // in level.rounds
	head, tail *share
}

// when is relative to the level's time, so that tags may overflow.
func (q *round) when() int64   { return int64(q.tag - q.level.now) }
func (q *round) index() *int32 { return &q.idx }

const (
	perCost   = 1 << 16 // virtual time of a cost of 1 at a weight of 1
	maxWeight = perCost
)

// ahead is the credit of a lane that has paid for its head, and is to be the next
// of its level.
const ahead = math.MaxInt64

// itsTurn is the credit of a lane that has paid for its head.
const itsTurn = ahead - 1

// weigh asks for the weight of a tenant.
func (c *core) weigh(tenant string) (w int32) {
	if c.weight == nil {
		return 1
	}
	defer func() {
		if recover() != nil {
			c.count.hookPanics.Add(1)
			w = 1
		}
	}()
	return int32(max(1, min(c.weight(tenant), maxWeight)))
}

// price is the virtual time that the head of l costs.
func (l *lane) price() uint64 {
	return uint64(max(1, l.first().cost)) * perCost / uint64(max(1, l.weight))
}

func newLevel(priority int32) *level {
	return &level{priority: priority, shares: make(map[string]*share), byTag: make(map[uint64]*round)}
}

func (lv *level) add(l *lane, credit int64) {
	sh, price := lv.shares[l.tenant], l.price()
	switch {
	case sh == nil:
		sh = &share{tenant: l.tenant, base: lv.now - uint64(min(credit, int64(price)))}
		lv.shares[l.tenant] = sh
		sh.lanes.push(l)
	case credit >= int64(price): // it was this lane's turn
		sh.base = lv.now - price
		sh.lanes.pushFront(l)
	default:
		sh.lanes.push(l)
	}
	l.share = sh
	if lv.price(sh); credit == ahead {
		lv.lead(sh)
	}
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

// remove returns the virtual time that l has paid for its head, which is not lost
// when something keeps it back: itsTurn when it was l's; less than 0 when it owes.
func (lv *level) remove(l *lane) (credit int64) {
	sh := l.share
	switch {
	case lv.next() == l:
		credit = itsTurn
	case sh.lanes.head == l:
		credit = int64(lv.now - sh.base)
	}
	l.unlink()
	l.share = nil
	if sh.lanes.head != nil {
		lv.price(sh)
		return credit
	}
	lv.quit(sh)
	delete(lv.shares, sh.tenant)
	return credit
}

func (lv *level) next() *lane { return lv.rounds.s[0].head.lanes.head }

// started says that the head of l has: its tenant pays for the next. It returns the
// virtual time that has passed since it began to pay for the one that has: what others
// have got meanwhile.
func (lv *level) started(l *lane) (waited int64) {
	sh := l.share
	waited = int64(lv.now - sh.base)
	if int64(sh.tag-lv.now) > 0 {
		lv.now = sh.tag
	}
	sh.base = lv.now
	l.unlink()
	sh.lanes.push(l)
	if sh.over > 0 {
		pay := min(sh.over, int64(sh.lanes.head.price()))
		sh.over -= pay
		sh.base -= uint64(pay)
	}
	lv.price(sh)
	return max(0, waited)
}

// debt is what a start of a lane's tenant cost more than it was charged, or less.
type debt struct {
	lane   *lane // or one like it; see selector.apart
	cost   int
	waited int // what of the charge it had waited for while others started
}

// mostOwed bounds what is owed, so that tags can be compared.
const mostOwed = 1 << 60

// owe charges a tenant for what a start turned out to cost: where it is in turn, and,
// unless that is in a line, in the line that its lane joins before its next start. Who
// has nothing that waits owes nothing.
func (s *sched) owe(d debt) {
	s.ready.keep(d, s.ready.owe(d))
	l := s.lanes.get(&d.lane.key)
	switch {
	case l == nil:
	case l.turns != nil && l.turns != &s.ready:
		l.owes = max(-mostOwed, l.owes-l.turns.owe(d))
	default:
		l.owes = max(-mostOwed, min(l.owes+l.worth(d.cost), mostOwed))
	}
}

// worth is the virtual time of a cost for l.
func (l *lane) worth(cost int) int64 { return int64(cost) * perCost / int64(max(1, l.weight)) }

// owe returns what is given back beyond what the tenant's next start costs.
func (q *turns) owe(d debt) (over int64) {
	if q.fair == nil {
		return 0
	}
	lv := q.fair.levels[d.lane.priority]
	if lv == nil || lv.shares[d.lane.tenant] == nil {
		return 0
	}
	sh := lv.shares[d.lane.tenant]
	worth := sh.lanes.head.worth(d.cost)
	if worth > 0 {
		pay := min(worth, sh.over)
		sh.over -= pay
		worth -= pay
	}
	owes := int64(sh.base-lv.now) + worth
	over = max(0, min(-worth, -int64(sh.lanes.head.price())-owes))
	sh.base = lv.now + uint64(max(-mostOwed, min(owes+over, mostOwed)))
	lv.price(sh)
	return over
}

// keep has what owe returned paid for the starts that follow, as far as others have
// had what is given back: of what a tenant was charged while nobody else wanted
// anything, nobody who comes later owes it more than one start.
func (q *turns) keep(d debt, over int64) {
	if over > 0 {
		sh := q.fair.levels[d.lane.priority].shares[d.lane.tenant]
		head := sh.lanes.head
		back := -head.worth(d.cost)
		had := min(back, head.worth(d.waited))
		sh.over = min(sh.over+max(0, had-(back-over)), mostOwed)
	}
}

// price gives sh the tag at which it will have paid for its next start.
func (lv *level) price(sh *share) {
	tag := sh.base + sh.lanes.head.price()
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
	lv.rounds.remove(q)
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
	lv.rounds.fix(q)
	return q
}
