package governor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// fairModel is the scheduler as one would write it if lanes were few: every
// decision looks at all of them.
type fairModel struct {
	lanes  []*modelLane
	ageing float64
	shared bool
	alone  bool // one lane at most since nothing was in turn: nothing is counted
	levels map[int32]*modelLevel
	stamp  int
}

type modelLevel struct {
	now     float64
	tenants map[string]*modelTenant
}

type modelTenant struct {
	base, tag float64
	over      float64 // given back beyond the price of the next
	stamp     int     // when it got the tag
}

type modelLane struct {
	l      *lane
	weight float64
	reqs   []*request        // by order
	late   map[*request]bool // those that came back before one that was never away
	inTurn bool
	place  int // among its tenant's
	credit float64
	full   bool // the credit is what the head costs, whatever that is
}

func (m *fairModel) of(l *lane) *modelLane {
	for _, ml := range m.lanes {
		if ml.l == l {
			return ml
		}
	}
	ml := &modelLane{l: l, weight: float64(l.weight), late: make(map[*request]bool)}
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

func (ml *modelLane) age(ageing float64) float64 {
	since := ml.reqs[0].enqueued
	if i := slices.IndexFunc(ml.reqs, func(r *request) bool { return !ml.late[r] }); i >= 0 {
		since = min(since, ml.reqs[i].enqueued)
	}
	return float64(since) - float64(ml.l.priority)*ageing
}

// front is the lane of a tenant whose turn it is.
func (m *fairModel) front(priority int32, tenant string) (first *modelLane) {
	for _, ml := range m.inTurn() {
		if ml.l.priority == priority && ml.l.tenant == tenant && (first == nil || ml.place < first.place) {
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
	top, old := in[0], in[0]
	for _, ml := range in {
		if ml.l.priority > top.l.priority {
			top = ml
		}
		if ml.age(m.ageing) < old.age(m.ageing) {
			old = ml
		}
	}
	priority := top.l.priority
	if !m.shared && m.ageing > 0 {
		priority = old.l.priority
	}
	return m.nextOf(priority)
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
	lv := m.levels[ml.l.priority]
	if lv == nil {
		lv = &modelLevel{tenants: make(map[string]*modelTenant)}
		m.levels[ml.l.priority] = lv
	}
	credit := min(ml.credit, ml.price())
	if ml.full {
		credit = ml.price()
	}
	ml.credit, ml.full = 0, false
	mt := lv.tenants[ml.l.tenant]
	switch {
	case mt == nil:
		mt = &modelTenant{base: lv.now - credit, tag: -1}
		lv.tenants[ml.l.tenant] = mt
	case credit == ml.price():
		mt.base = lv.now - credit
		ml.place = -ml.place // first
	}
	m.reprice(ml)
}

func (m *fairModel) reprice(ml *modelLane) {
	lv := m.levels[ml.l.priority]
	mt := lv.tenants[ml.l.tenant]
	if tag := max(lv.now, mt.base+m.front(ml.l.priority, ml.l.tenant).price()); tag != mt.tag {
		m.stamp++
		mt.tag, mt.stamp = tag, m.stamp
	}
}

// take takes ml out of turn. Its head is still there.
func (m *fairModel) take(ml *modelLane) {
	priority, tenant := ml.l.priority, ml.l.tenant
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
	if m.front(priority, tenant) != nil {
		m.reprice(ml)
		return
	}
	delete(lv.tenants, tenant)
	if len(lv.tenants) == 0 {
		delete(m.levels, priority)
	}
	if len(m.levels) == 0 {
		m.shared = false
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
	if !last {
		ml.reqs = ml.reqs[1:]
	}
	if !m.alone {
		lv := m.levels[ml.l.priority]
		mt := lv.tenants[ml.l.tenant]
		top := ml.l.priority
		for _, o := range m.inTurn() {
			top = max(top, o.l.priority)
		}
		m.shared = top != ml.l.priority
		before := lv.now
		lv.now = max(lv.now, mt.tag)
		waited = max(0, before-mt.base)
		mt.base = lv.now
		m.stamp++
		ml.place = m.stamp
		pay := min(mt.over, m.front(ml.l.priority, ml.l.tenant).price())
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
func (m *fairModel) owe(l *lane, cost, waited float64) {
	lv := m.levels[l.priority]
	if m.alone || lv == nil || lv.tenants[l.tenant] == nil {
		return
	}
	mt, front := lv.tenants[l.tenant], m.front(l.priority, l.tenant)
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

func TestSchedulerServesAsIfItLookedAtEveryLane(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compareWithModel(t, seed) })
	}
}

func compareWithModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	pick := func(most int) int { return 1 + rng.IntN(most) }
	ageing := []float64{0, 40.37, 1000.37}[seed%3] // ages that are equal are in no order
	tenants, priorities, costs := pick(12), pick(4), pick(20)
	counted := 0
	s := &sched{count: func(n int) { counted += n }, ageing: ageing}
	m := &fairModel{ageing: ageing}
	sel := new(selector)
	var parked laneList
	var seq uint64
	var all, began []*request
	back := make(map[*request]bool)
	now := int64(0)
	for step := range 3000 {
		now += int64(pick(9))
		switch n := rng.IntN(21); {
		case n < 8:
			key := laneKey{sel: sel, tenant: fmt.Sprint(rng.IntN(tenants)), bucket: fmt.Sprint(rng.IntN(3)), priority: int32(rng.IntN(priorities))}
			l := s.lane(key, forever)
			if l.n == 0 {
				l.weight = []int32{1, 2, 4, 16}[len(key.tenant+key.bucket)%2+rng.IntN(3)]
			}
			seq++
			r := &request{seq: seq, enqueued: now, cost: int32(pick(costs)), place: inLane}
			all = append(all, r)
			ml := m.of(l)
			ml.reqs = append(ml.reqs, r)
			fresh := l.n == 0
			s.add(l, r, false)
			if fresh {
				m.put(ml)
			}
		case n < 15:
			l, want := s.next(false), m.next()
			if (l == nil) != (want == nil) || l != nil && l != want.l {
				t.Fatalf("step %d: the next lane is %+v, want %+v", step, name(l), name(laneOf(want)))
			}
			if l != nil {
				r := l.first()
				r.place = nowhere
				began = append(began, r)
				counted-- // as a grant does
				wanted := m.started(want)
				if waited := s.started(l); waited != int(wanted) {
					t.Fatalf("step %d: it waited for %d, want %v", step, waited, wanted)
				}
			}
		case n == 15 && len(began) > 0: // it comes back, having been attempted or not
			i := rng.IntN(len(began))
			r := began[i]
			began = slices.Delete(began, i, i+1)
			was := r.class.Load()
			l := s.lane(*was.laneKey, forever)
			if l.n == 0 {
				l.weight = was.weight
			}
			ml := m.of(l)
			if rng.IntN(2) == 0 || slices.ContainsFunc(ml.reqs, func(r *request) bool { return back[r] }) {
				r.enqueued = now
			}
			fresh := l.n == 0
			back[r], r.place = true, inLane
			all = append(all, r)
			s.add(l, r, false)
			i, _ = slices.BinarySearchFunc(ml.reqs, r, func(a, b *request) int { return int(a.seq) - int(b.seq) })
			ml.late[r] = slices.ContainsFunc(ml.reqs[i:], func(o *request) bool { return !ml.late[o] })
			ml.reqs = slices.Insert(ml.reqs, i, r)
			switch {
			case fresh, i == 0 && !ml.inTurn:
				m.put(ml)
			case i == 0 && !m.alone:
				m.reprice(ml)
			}
		case n < 17:
			began = slices.DeleteFunc(began, func(r *request) bool { return rng.IntN(4) == 0 }) // done
			all = slices.DeleteFunc(all, func(r *request) bool { return r.place == nowhere })
			if len(all) == 0 {
				continue
			}
			r := all[rng.IntN(len(all))]
			l := r.lane()
			ml := m.of(l)
			i := slices.Index(ml.reqs, r)
			switch {
			case len(ml.reqs) == 1:
				m.drop(ml)
			default:
				ml.reqs = slices.Delete(ml.reqs, i, i+1)
				if i == 0 && ml.inTurn && !m.alone {
					m.reprice(ml)
				} else if i == 0 && !ml.inTurn {
					m.put(ml) // a new head may need less
				}
			}
			r.place = nowhere
			s.remove(r)
		case n < 19:
			l := s.next(false)
			if n == 18 && len(m.inTurn()) > 0 {
				l = m.inTurn()[rng.IntN(len(m.inTurn()))].l
			}
			if l != nil {
				m.take(m.of(l))
				s.park(l, &parked)
			}
		case n == 19 && len(m.lanes) > 0:
			l, cost, waited := m.lanes[rng.IntN(len(m.lanes))].l, rng.IntN(100)-60, rng.IntN(60)
			s.owe(debt{l, cost, waited})
			m.owe(l, float64(cost), float64(waited))
		default:
			if l := parked.head; l != nil {
				m.put(m.of(l))
				s.wake(l)
			}
		}
		waits, could := 0, 0
		for _, ml := range m.lanes {
			waits += len(ml.reqs)
			if ml.inTurn {
				could += len(ml.reqs)
			}
		}
		if s.n != waits || counted != could || s.lanes.len() != len(m.lanes) {
			t.Fatalf("step %d: %d requests in %d lanes wait, of which %d could go; want %d, %d and %d", step, s.n, s.lanes.len(), counted, waits, len(m.lanes), could)
		}
	}
}

func laneOf(ml *modelLane) *lane {
	if ml == nil {
		return nil
	}
	return ml.l
}

func name(l *lane) any {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("tenant %s bucket %s priority %d", l.tenant, l.bucket, l.priority)
}

// What a decision costs does not grow with the lanes: those of one cost and weight
// have one tag of two, and ages are kept only where priorities differ.
func TestManyLanesAreInTwoRounds(t *testing.T) {
	const lanes, each = 100_000, 3
	s := &sched{count: func(int) {}, ageing: 1e9}
	sel := new(selector)
	for i := range lanes * each {
		l := s.lane(laneKey{sel: sel, tenant: fmt.Sprint(i % lanes)}, lanes)
		s.add(l, &request{seq: uint64(i + 1), cost: 1}, true)
	}
	for i := range lanes * each {
		f := s.ready.fair
		if n := f.levels[0].rounds.len(); n > 2 || f.ages.len() > 0 || f.order.len() > 1 {
			t.Fatalf("after %d starts there are %d rounds and %d ages", i, n, f.ages.len())
		}
		l := s.next(false)
		if want := uint64(i + 1); l.first().seq != want {
			t.Fatalf("start %d is of request %d", want, l.first().seq)
		}
		s.started(l)
	}
	if s.n != 0 || s.lanes.len() != 0 || len(s.ready.fair.levels) != 0 {
		t.Errorf("%d requests in %d lanes and %d levels are left", s.n, s.lanes.len(), len(s.ready.fair.levels))
	}
}

// Virtual time begins again at zero when it has become too large, here eight times.
func TestTenantsShareWhenVirtualTimeOverflows(t *testing.T) {
	s := &sched{count: func(int) {}}
	sel := new(selector)
	var seq uint64
	add := func(tenant string, weight int32) {
		l := s.lane(laneKey{sel: sel, tenant: tenant}, 10)
		l.weight = weight
		for l.n < 2 {
			seq++
			s.add(l, &request{seq: seq, cost: 1<<31 - 1}, true)
		}
	}
	got := make(map[string]int)
	for range 3_000_000 {
		add("one", 1)
		add("two", 2)
		l := s.next(false)
		got[l.tenant]++
		s.started(l)
	}
	if got["one"] != 1_000_000 || got["two"] != 2_000_000 {
		t.Errorf("tenants of weight 1 and 2 started %v, want one to two", got)
	}
}

func TestWeightIsBounded(t *testing.T) {
	for weight, want := range map[int]int32{math.MinInt: 1, 0: 1, 5: 5, maxWeight: maxWeight, maxWeight + 1: maxWeight, math.MaxInt: maxWeight} {
		c := &core{settings: settings{weight: func(string) int { return weight }}}
		if got := c.weigh(""); got != want {
			t.Errorf("weight %d counts as %d, want %d", weight, got, want)
		}
	}
}
