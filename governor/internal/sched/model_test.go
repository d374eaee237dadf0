package sched

import (
	"math"
	"slices"
)

// request is what waits in a lane.
type request struct {
	lane     *modelLane // nil when it does not wait
	seq      uint64
	enqueued int64
	cost     int32
}

// fairModel is the scheduler as one would write it if lanes were few: every
// decision looks at all of them.
type fairModel struct {
	lanes  []*modelLane
	ageing float64
	shared bool
	again  bool // the last of a lower priority was of one that owed nothing to what it passed over
	alone  bool // one lane at most since nothing was in turn: nothing is counted
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

// name is what tells a lane from others.
type name struct {
	Kind
	bucket int
}

type modelLane struct {
	l      *Lane
	name   name
	weight float64
	reqs   []*request        // by order
	late   map[*request]bool // those that came back before one that was never away
	inTurn bool
	place  int // among its tenant's
	credit float64
	full   bool // the credit is what the head costs, whatever that is
}

// lane returns the lane of name, a new one if there is none.
func (m *fairModel) lane(name name, weight int32) *modelLane {
	for _, ml := range m.lanes {
		if ml.name == name {
			return ml
		}
	}
	ml := &modelLane{l: new(Lane), name: name, weight: float64(weight), late: make(map[*request]bool)}
	ml.l.Begin(ml, name.Kind)
	ml.l.SetWeight(weight)
	m.lanes = append(m.lanes, ml)
	return ml
}

func (m *fairModel) inTurn() (in []*modelLane) {
	for _, ml := range m.lanes {
		if ml.inTurn {
			in = append(in, ml)
		}
	}
	return in
}

func (ml *modelLane) price() float64 { return float64(ml.reqs[0].cost) / ml.weight }

// since is when the oldest of those began to wait that are first, or would be but for
// what came back.
func (ml *modelLane) since() int64 {
	since := ml.reqs[0].enqueued
	if i := slices.IndexFunc(ml.reqs, func(r *request) bool { return !ml.late[r] }); i >= 0 {
		since = min(since, ml.reqs[i].enqueued)
	}
	return since
}

// tell tells the scheduler what is first.
func (ml *modelLane) tell() {
	r := ml.reqs[0]
	ml.l.SetHead(Head{Cost: r.cost, Seq: r.seq, Since: ml.since()})
}

func (ml *modelLane) age(ageing float64) float64 {
	return float64(ml.since()) - float64(ml.name.Priority)*ageing
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
	if !ml.inTurn || m.alone {
		return
	}
	if ml.since() > was {
		m.forgive(ml)
	}
	m.reprice(ml)
}

// put puts ml in turn.
func (m *fairModel) put(ml *modelLane) {
	in := m.inTurn()
	ml.inTurn = true
	m.stamp++
	ml.place = m.stamp
	if len(in) == 0 {
		m.alone = true
		return
	}
	if m.alone {
		m.alone = false
		m.levels = make(map[int32]*modelLevel)
		m.enter(in[0])
	}
	m.enter(ml)
}

func (m *fairModel) enter(ml *modelLane) {
	lv := m.levels[ml.name.Priority]
	if lv == nil {
		lv = &modelLevel{tenants: make(map[string]*modelTenant)}
		m.levels[ml.name.Priority] = lv
	}
	credit := min(ml.credit, ml.price())
	if ml.full {
		credit = ml.price()
	}
	ml.credit, ml.full = 0, false
	mt := lv.tenants[ml.name.Tenant]
	switch {
	case mt == nil:
		mt = &modelTenant{base: lv.now - credit, tag: -1}
		lv.tenants[ml.name.Tenant] = mt
	case credit == ml.price():
		mt.base = lv.now - credit
		ml.place = -ml.place // first
	}
	m.reprice(ml)
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
func (m *fairModel) take(ml *modelLane) {
	priority, tenant := ml.name.Priority, ml.name.Tenant
	front := m.front(priority, tenant) == ml
	if m.alone {
		ml.inTurn, ml.full = false, true
		return
	}
	lv := m.levels[priority]
	ml.full = m.nextOf(priority) == ml
	ml.credit = 0
	if front {
		ml.credit = lv.now - lv.tenants[tenant].base
	}
	ml.inTurn = false
	defer m.forgive(ml)
	if m.front(priority, tenant) != nil {
		m.reprice(ml)
		return
	}
	delete(lv.tenants, tenant)
	if len(lv.tenants) == 0 {
		delete(m.levels, priority)
	}
	if len(m.levels) == 0 {
		m.shared, m.again = false, false
	}
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

// started returns what others have got while ml's head waited, in costs of its.
func (m *fairModel) started(ml *modelLane) (waited float64) {
	last, cost := len(ml.reqs) == 1, float64(ml.reqs[0].cost)
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
	if !last {
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
	ml.full, ml.credit = false, 0
	if last {
		m.drop(ml)
	}
	return math.Floor(min(waited*ml.weight, cost))
}

// owe has a tenant pay for what a start cost more, or get back what it cost less: for
// its next start, and for those after it as far as others have had it.
func (m *fairModel) owe(of name, cost, waited float64) {
	lv := m.levels[of.Priority]
	if m.alone || lv == nil || lv.tenants[of.Tenant] == nil {
		return
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
		beyond := max(0, min(back, lv.now-mt.base-front.price()))
		mt.base += beyond
		mt.over += max(0, min(back, waited/front.weight)-(back-beyond))
	}
	m.reprice(front)
}

func (m *fairModel) drop(ml *modelLane) {
	if ml.inTurn {
		m.take(ml)
	}
	m.lanes = slices.DeleteFunc(m.lanes, func(o *modelLane) bool { return o == ml })
}
