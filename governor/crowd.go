package governor

import "container/list"

// crowd is the submitters that wait for room in a full queue: those of a tenant
// in their order, tenants in turn, so that one who floods the queue keeps no
// other out. Whoever holds door.mu may use it; everything is O(1).
type crowd struct {
	tenants map[string]*queueOfTenant
	turns   list.List // of *queueOfTenant: the first gets the next room
}

type queueOfTenant struct {
	tenant string
	turn   *list.Element // in crowd.turns
	queue  list.List     // of *blocked
}

// blocked is a submitter that waits for room.
type blocked struct {
	room   chan struct{} // closed when it has room, or when the door closed
	in     bool          // it has room
	tenant *queueOfTenant
	place  *list.Element // in tenant.queue
}

// join adds a submitter of tenant.
func (c *crowd) join(tenant string) *blocked {
	t := c.tenants[tenant]
	if t == nil {
		t = &queueOfTenant{tenant: tenant}
		t.turn = c.turns.PushBack(t)
		c.tenants[tenant] = t
	}
	b := &blocked{room: make(chan struct{}), tenant: t}
	b.place = t.queue.PushBack(b)
	return b
}

// empty reports whether nobody waits.
func (c *crowd) empty() bool { return c == nil || c.turns.Len() == 0 }

// next removes and returns the one whose turn it is.
func (c *crowd) next() *blocked {
	t := c.turns.Front().Value.(*queueOfTenant)
	c.turns.MoveToBack(t.turn)
	b := t.queue.Front().Value.(*blocked)
	c.leave(b)
	return b
}

// leave removes b.
func (c *crowd) leave(b *blocked) {
	t := b.tenant
	t.queue.Remove(b.place)
	if t.queue.Len() == 0 {
		c.turns.Remove(t.turn)
		delete(c.tenants, t.tenant)
	}
}
