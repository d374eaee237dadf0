package sched

import (
	"math"
	"slices"
)

// fairModel is the scheduler as one would write it if lanes were few: every
// decision looks at all of them.
type fairModel struct {
	lanes  []*modelLane
	ageing float64
	shared bool
	again  bool // the last of a lower priority was of one that owed nothing to what it passed over
	alone  bool // one lane at most since nothing was in turn: nothing is counted
	paid   paid // by that one
	levels map[int32]*modelLevel
	stamp  int
}

type modelLevel struct {
	now     float64
	tenants map[string]*modelTenant
	passed  *modelLane // what others of a lower priority went before, though it is the oldest
	stamp   int        // when one did last
}

type modelTenant struct {
	base, tag float64
	over      float64 // given back beyond the price of the next
	stamp     int     // when it got the tag
}

func (m *fairModel) inTurn() (in []*modelLane) {
	for _, ml := range m.lanes {
		if ml.inTurn == m {
			in = append(in, ml)
		}
	}
	return in
}

// front is the lane of a tenant whose turn it is.
func (m *fairModel) front(priority int32, tenant string) (first *modelLane) {
	for _, ml := range m.inTurn() {
		if ml.name.Priority == priority && ml.name.Tenant == tenant && (first == nil || ml.place < first.place) {
			first = ml
		}
	}
	return first
}

func (m *fairModel) next() *modelLane {
	in := m.inTurn()
	if len(in) == 0 {
		return nil
	}
	if m.alone {
		return in[0]
	}
	top := m.nextOf(m.top())
	if m.shared || m.ageing == 0 {
		return top
	}
	var old, owed *modelLane
	for _, ml := range in {
		switch p := m.levels[ml.name.Priority].passed; {
		case ml.name.Priority == m.top():
		case p == nil && ml.age(m.ageing) < top.age(m.ageing) && (old == nil || ml.age(m.ageing) < old.age(m.ageing)):
			old = ml
		case p == ml && (owed == nil || m.levels[ml.name.Priority].stamp < m.levels[owed.name.Priority].stamp):
			owed = ml
		}
	}
	switch {
	case owed != nil && (old == nil || m.again):
		return m.nextOf(owed.name.Priority)
	case old != nil:
		return m.nextOf(old.name.Priority)
	}
	return top
}

// top is the highest priority of which a lane is in turn.
func (m *fairModel) top() int32 {
	top := int32(math.MinInt32)
	for _, ml := range m.inTurn() {
		top = max(top, ml.name.Priority)
	}
	return top
}

// oldest is the lane of a priority with what has waited longest.
func (m *fairModel) oldest(priority int32) (old *modelLane) {
	for _, ml := range m.inTurn() {
		if ml.name.Priority == priority && (old == nil || ml.since() < old.since()) {
			old = ml
		}
	}
	return old
}

// forgive says that what waited in ml has started or is gone, so that nothing is owed to
// it, nor does the highest priority owe anything.
func (m *fairModel) forgive(ml *modelLane) {
	for priority, lv := range m.levels {
		if lv.passed == ml || priority == m.top() {
			lv.passed = nil
		}
	}
}

// changed says that ml, which had waited since was, may have another head.
func (m *fairModel) changed(ml *modelLane, was int64) {
	if ml.inTurn != m || m.alone {
		return
	}
	if ml.since() > was {
		m.forgive(ml)
	}
	m.reprice(ml)
}

// put puts ml in turn, with what it had paid when it was taken out.
func (m *fairModel) put(ml *modelLane) {
	p := ml.paid
	ml.paid = paid{}
	m.add(ml, p)
}

// add puts ml in turn, which has paid p.
func (m *fairModel) add(ml *modelLane, p paid) {
	in := m.inTurn()
	ml.inTurn = m
	if !slices.Contains(m.lanes, ml) {
		m.lanes = append(m.lanes, ml)
	}
	m.stamp++
	ml.place = m.stamp
	if len(in) == 0 {
		m.alone, m.paid = true, p
		return
	}
	if m.alone {
		m.alone = false
		m.levels = make(map[int32]*modelLevel)
		m.enter(in[0], m.paid)
	}
	m.enter(ml, p)
}

func (m *fairModel) enter(ml *modelLane, p paid) {
	lv := m.levels[ml.name.Priority]
	if lv == nil {
		lv = &modelLevel{tenants: make(map[string]*modelTenant)}
		m.levels[ml.name.Priority] = lv
	}
	credit := min(p.credit, ml.price())
	if p.full {
		credit = ml.price()
	}
	mt := lv.tenants[ml.name.Tenant]
	switch {
	case mt == nil:
		mt = &modelTenant{base: lv.now - credit, tag: -1}
		lv.tenants[ml.name.Tenant] = mt
	case credit == ml.price():
		mt.base = lv.now - credit
		m.stamp++
		ml.place = -m.stamp // first
	}
	if m.reprice(ml); p.ahead {
		m.stamp++
		mt.stamp = -m.stamp
	}
}

func (m *fairModel) reprice(ml *modelLane) {
	lv := m.levels[ml.name.Priority]
	mt := lv.tenants[ml.name.Tenant]
	if tag := max(lv.now, mt.base+m.front(ml.name.Priority, ml.name.Tenant).price()); tag != mt.tag {
		m.stamp++
		mt.tag, mt.stamp = tag, m.stamp
	}
}

// take takes ml out of turn. Its head is still there.
func (m *fairModel) take(ml *modelLane) { ml.paid = m.remove(ml) }

// remove takes ml out of turn and returns what it has paid.
func (m *fairModel) remove(ml *modelLane) (p paid) {
	priority, tenant := ml.name.Priority, ml.name.Tenant
	front := m.front(priority, tenant) == ml
	if m.alone {
		ml.inTurn = nil
		return paid{full: true}
	}
	lv := m.levels[priority]
	p.full = m.nextOf(priority) == ml
	if front {
		p.credit = lv.now - lv.tenants[tenant].base
	}
	ml.inTurn = nil
	defer m.forgive(ml)
	if m.front(priority, tenant) != nil {
		m.reprice(ml)
		return p
	}
	delete(lv.tenants, tenant)
	if len(lv.tenants) == 0 {
		delete(m.levels, priority)
	}
	if len(m.levels) == 0 {
		m.shared, m.again = false, false
	}
	return p
}

// nextOf is the lane of a priority whose turn it would be.
func (m *fairModel) nextOf(priority int32) *modelLane {
	var first *modelTenant
	var name string
	for tenant, mt := range m.levels[priority].tenants {
		if first == nil || mt.tag < first.tag || mt.tag == first.tag && mt.stamp < first.stamp {
			first, name = mt, tenant
		}
	}
	return m.front(priority, name)
}

// instead returns the lanes that are wanted and may start before next, which is: their
// tenants have paid as much as its, for just what comes first in them.
func (m *fairModel) instead(next *modelLane, wanted func(*modelLane) bool) (could []*modelLane) {
	if m.alone {
		return nil
	}
	lv := m.levels[next.name.Priority]
	for _, ml := range m.inTurn() {
		if ml != next && ml.name.Priority == next.name.Priority && lv.tenants[ml.name.Tenant].tag == lv.tenants[next.name.Tenant].tag &&
			ml.price() == m.front(ml.name.Priority, ml.name.Tenant).price() && wanted(ml) {
			could = append(could, ml)
		}
	}
	return could
}

// started returns what others have got while ml's head waited, in costs of its.
func (m *fairModel) started(ml *modelLane) (waited float64) {
	last := len(ml.reqs) == 1
	waited = m.turn(ml, !last)
	if ml.paid = (paid{}); last {
		m.drop(ml)
	}
	return waited
}

// turn takes the turn of ml, which is next, for its head, which is gone then or not.
func (m *fairModel) turn(ml *modelLane, gone bool) (waited float64) {
	cost := float64(ml.reqs[0].cost)
	m.paid = paid{}
	if !m.alone {
		lv := m.levels[ml.name.Priority]
		if m.shared = ml.name.Priority != m.top(); m.shared {
			m.again = lv.passed == nil
			if old := m.oldest(ml.name.Priority); lv.passed == nil && old != ml {
				lv.passed = old
			}
			m.stamp++
			lv.stamp = m.stamp
		}
	}
	if gone {
		ml.reqs = ml.reqs[1:]
	}
	if !m.alone {
		m.forgive(ml)
		lv := m.levels[ml.name.Priority]
		mt := lv.tenants[ml.name.Tenant]
		before := lv.now
		lv.now = max(lv.now, mt.tag)
		waited = max(0, before-mt.base)
		mt.base = lv.now
		m.stamp++
		ml.place = m.stamp
		pay := min(mt.over, m.front(ml.name.Priority, ml.name.Tenant).price())
		mt.over -= pay
		mt.base -= pay
		m.reprice(ml)
	}
	return math.Floor(min(waited*ml.weight, cost))
}

// modelTurn is whose turn it was between priorities.
type modelTurn struct {
	shared, again bool
	passed        *modelLane // of the priority of who was next
	stamp         int
	since         int64
}

// whose is whose turn it is, when it is ml's.
func (m *fairModel) whose(ml *modelLane) modelTurn {
	if m.alone {
		return modelTurn{}
	}
	lv := m.levels[ml.name.Priority]
	return modelTurn{m.shared, m.again, lv.passed, lv.stamp, ml.since()}
}

// undo has it be the turn of whose it was before that of ml, which has not started and is
// back.
func (m *fairModel) undo(ml *modelLane, was modelTurn) {
	if m.alone {
		return
	}
	m.shared, m.again = was.shared, was.again
	lv := m.levels[ml.name.Priority]
	if p := was.passed; p == nil || p == lv.passed || p == ml && ml.since() <= was.since {
		lv.passed, lv.stamp = p, was.stamp
	}
	m.forgive(nil)
}

// owe has a tenant pay for what a start cost more, or get back what it cost less: for
// its next start, and for those after it as far as others have had it. It returns what
// it gets back beyond the former.
func (m *fairModel) owe(of name, cost, waited float64) (beyond float64) {
	lv := m.levels[of.Priority]
	if m.alone || lv == nil || lv.tenants[of.Tenant] == nil {
		return 0
	}
	mt, front := lv.tenants[of.Tenant], m.front(of.Priority, of.Tenant)
	worth := cost / front.weight
	if worth > 0 {
		pay := min(worth, mt.over)
		mt.over -= pay
		worth -= pay
	}
	mt.base += worth
	if back := -worth; back > 0 {
		beyond = max(0, min(back, lv.now-mt.base-front.price()))
		mt.base += beyond
		mt.over += max(0, min(back, waited/front.weight)-(back-beyond))
	}
	m.reprice(front)
	return beyond
}
