package governor

import "container/list"

// places are those of guests beyond MaxQueue, taken when one comes until it counts or ends
// or, if it starts before, until it is done: it may come back, to be repeated or to ask
// again, and wait for hours when its submitter has long gone.
//
// No lane has more of them than are left. So a lane that is flooded, and pauses or polls,
// takes half of them, two lanes take two thirds, and the last goes to a lane that has none
// (dynamic thresholds, as of Choudhury and Hahne, 1998). Who finds none for its lane waits
// outside, in order; tenants, and the lanes of each, get places, or room in the queue, in
// turn.
//
// Whoever holds door.mu may use it. Everything is O(1) but letIn, which may look at as many
// lanes as there are places. The zero value has all places free.
type places struct {
	taken   int
	by      map[laneKey]int // of those, what lanes have
	lines   map[laneKey]*outside
	tenants map[string]*outsideTenant
	turns   list.List // of *outsideTenant
}

// outsideTenant is the lanes of a tenant for which somebody waits outside.
type outsideTenant struct {
	tenant string
	turn   *list.Element // in places.turns
	lanes  list.List     // of *outside, in turn
}

// outside is who waits for a place of one lane.
type outside struct {
	key    laneKey
	tenant *outsideTenant
	turn   *list.Element // in tenant.lanes
	line   list.List     // of *outsider
}

// outsider is a submitter that waits outside.
type outsider struct {
	of     *outside
	at     *list.Element // in of.line; nil when it has been let in
	let    chan struct{} // closed when it is let in
	room   bool          // there is room for it, which counts in door.waiting
	placed bool          // it has a place
}

// placeKey is the lane whose place r has, also when it comes back and keeps its slot.
func placeKey(r *request) laneKey {
	key := r.class.Load().laneKey
	key.kept = false
	return key
}

// free reports whether there is a place of so many for the lane of key.
func (p *places) free(key *laneKey, all int) bool { return p.by[*key] < all-p.taken }

func (p *places) take(key *laneKey) {
	if p.by == nil {
		p.by = make(map[laneKey]int)
	}
	p.taken++
	p.by[*key]++
}

// giveBack undoes take.
func (p *places) giveBack(key *laneKey) {
	p.taken--
	if p.by[*key]--; p.by[*key] == 0 {
		delete(p.by, *key)
	}
}

// join adds who waits for a place of the lane of key.
func (p *places) join(key *laneKey) *outsider {
	q := p.lines[*key]
	if q == nil {
		if p.lines == nil {
			p.lines, p.tenants = make(map[laneKey]*outside), make(map[string]*outsideTenant)
		}
		t := p.tenants[key.tenant]
		if t == nil {
			t = &outsideTenant{tenant: key.tenant}
			t.turn = p.turns.PushBack(t)
			p.tenants[key.tenant] = t
		}
		q = &outside{key: *key, tenant: t}
		q.turn = t.lanes.PushBack(q)
		p.lines[*key] = q
	}
	o := &outsider{of: q, let: make(chan struct{})}
	o.at = q.line.PushBack(o)
	return o
}

// leave takes o out, unless it has been let in.
func (p *places) leave(o *outsider) {
	if o.at == nil {
		return
	}
	q := o.of
	q.line.Remove(o.at)
	o.at = nil
	if q.line.Len() > 0 {
		return
	}
	delete(p.lines, q.key)
	t := q.tenant
	if t.lanes.Remove(q.turn); t.lanes.Len() == 0 {
		p.turns.Remove(t.turn)
		delete(p.tenants, t.tenant)
	}
}

// next returns the first line in turn for which ok, nil if there is none.
func (p *places) next(ok func(*outside) bool) *outside {
	for range p.turns.Len() {
		t := p.turns.Front()
		p.turns.MoveToBack(t)
		lanes := &t.Value.(*outsideTenant).lanes
		for range lanes.Len() {
			turn := lanes.Front()
			lanes.MoveToBack(turn)
			if q := turn.Value.(*outside); ok(q) {
				return q
			}
		}
	}
	return nil
}

// letOne lets the next one in to whom there is room, and reports whether there was one.
func (p *places) letOne() bool {
	q := p.next(func(*outside) bool { return true })
	if q == nil {
		return false
	}
	p.let(q).room = true
	return true
}

// letIn lets those in, in turn, for whose lanes there are places of so many. It looks at
// lanes in vain that have places already, and at no other.
func (p *places) letIn(all int) {
	for p.taken < all {
		q := p.next(func(q *outside) bool { return p.free(&q.key, all) })
		if q == nil {
			return
		}
		p.take(&q.key)
		p.let(q).placed = true
	}
}

// let lets the first of q in.
func (p *places) let(q *outside) *outsider {
	o := q.line.Front().Value.(*outsider)
	p.leave(o)
	close(o.let)
	return o
}
