package governor

import "container/list"

// crowd is the submitters that wait for room in a full queue: those of a tenant
// in their order, tenants in turn, so that one who floods the queue keeps no
// other out. Whoever holds door.mu may use it; everything is O(1).
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

// blocked is a submitter that waits for room, while its request is in the queue
// already.
type blocked struct {
	r      *request
	room   chan struct{}  // closed when it need not wait any more
	tenant *queueOfTenant // nil while its request runs
	place  *list.Element  // in tenant.queue
}

// join adds the submitter of r.
func (c *crowd) join(r *request) *blocked {
	b := &blocked{r: r, room: make(chan struct{})}
	c.of[r] = b
	c.enter(b)
	return b
}

// enter puts b behind the others of its tenant.
func (c *crowd) enter(b *blocked) {
	tenant := b.r.class.Load().tenant
	t := c.tenants[tenant]
	if t == nil {
		t = &queueOfTenant{tenant: tenant}
		t.turn = c.turns.PushBack(t)
		c.tenants[tenant] = t
	}
	b.tenant = t
	b.place = t.queue.PushBack(b)
}

// who returns the submitter of r, nil if it does not wait.
func (c *crowd) who(r *request) *blocked {
	if c == nil {
		return nil
	}
	return c.of[r]
}

// empty reports whether nobody waits.
func (c *crowd) empty() bool { return c == nil || c.turns.Len() == 0 }

// next lets the one go whose turn it is, and returns its request.
func (c *crowd) next() *request {
	t := c.turns.Front().Value.(*queueOfTenant)
	c.turns.MoveToBack(t.turn)
	b := t.queue.Front().Value.(*blocked)
	c.release(b)
	return b.r
}

// release lets b go.
func (c *crowd) release(b *blocked) {
	c.leave(b)
	delete(c.of, b.r)
	close(b.room)
}

// leave takes b out of turn.
func (c *crowd) leave(b *blocked) {
	t := b.tenant
	if t == nil {
		return
	}
	b.tenant = nil
	t.queue.Remove(b.place)
	if t.queue.Len() == 0 {
		c.turns.Remove(t.turn)
		delete(c.tenants, t.tenant)
	}
}
