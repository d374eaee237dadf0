package governor

import "container/list"

// crowd is the guests of a full queue, whose submitters wait for room: those of a tenant
// in their order, tenants in turn, so that one who floods the queue keeps no other out.
// Whoever holds door.mu may use it; everything is O(1). The zero value is empty.
type crowd struct {
	of      map[*request]*blocked
	tenants map[string]*queueOfTenant
	turns   list.List // of *queueOfTenant: the first gets the next room
}

type queueOfTenant struct {
	tenant string
	turn   *list.Element // in crowd.turns
	queue  list.List     // of *blocked
}

// blocked is a guest, and its submitter that waits for room.
type blocked struct {
	r      *request
	room   chan struct{} // closed when the submitter need not wait any more
	tenant *queueOfTenant
	place  *list.Element // in tenant.queue
}

// join adds the submitter of r.
func (c *crowd) join(r *request) *blocked {
	b := &blocked{r: r, room: make(chan struct{})}
	c.add(b)
	return b
}

// add adds b, which may have been there before.
func (c *crowd) add(b *blocked) {
	r := b.r
	if c.of == nil {
		c.of, c.tenants = make(map[*request]*blocked), make(map[string]*queueOfTenant)
	}
	tenant := r.class.Load().tenant
	t := c.tenants[tenant]
	if t == nil {
		t = &queueOfTenant{tenant: tenant}
		t.turn = c.turns.PushBack(t)
		c.tenants[tenant] = t
	}
	b.tenant = t
	b.place = t.queue.PushBack(b)
	c.of[r] = b
}

// empty reports whether nobody waits.
func (c *crowd) empty() bool { return len(c.of) == 0 }

// next lets the one go whose turn it is.
func (c *crowd) next() *blocked {
	t := c.turns.Front().Value.(*queueOfTenant)
	c.turns.MoveToBack(t.turn)
	b := t.queue.Front().Value.(*blocked)
	c.letGo(b)
	return b
}

// letGo lets the submitter of b go.
func (c *crowd) letGo(b *blocked) {
	c.remove(b)
	close(b.room)
}

// letGoIf lets those go of whom may says so. It looks at all.
func (c *crowd) letGoIf(may func(*blocked) bool) {
	for t := c.turns.Front(); t != nil; {
		q := &t.Value.(*queueOfTenant).queue
		t = t.Next()
		for e := q.Front(); e != nil; {
			b := e.Value.(*blocked)
			if e = e.Next(); may(b) {
				c.letGo(b)
			}
		}
	}
}

// remove takes b out.
func (c *crowd) remove(b *blocked) {
	t := b.tenant
	t.queue.Remove(b.place)
	if t.queue.Len() == 0 {
		c.turns.Remove(t.turn)
		delete(c.tenants, t.tenant)
	}
	delete(c.of, b.r)
}
