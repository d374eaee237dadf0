package governor

import "container/list"

// crowd is the guests of a full queue, whose submitters wait for room: those of a tenant
// in their order, tenants in turn, so that one who floods the queue keeps no other out.
// Whoever holds door.mu may use it; everything is O(1).
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

// blocked is a submitter that waits for room, while its request is in the queue already.
type blocked struct {
	r      *request
	room   chan struct{} // closed when it need not wait any more
	tenant *queueOfTenant
	place  *list.Element // in tenant.queue
}

func newCrowd() *crowd {
	return &crowd{of: make(map[*request]*blocked), tenants: make(map[string]*queueOfTenant)}
}

// join adds the submitter of r.
func (c *crowd) join(r *request) *blocked {
	tenant := r.class.Load().tenant
	t := c.tenants[tenant]
	if t == nil {
		t = &queueOfTenant{tenant: tenant}
		t.turn = c.turns.PushBack(t)
		c.tenants[tenant] = t
	}
	b := &blocked{r: r, room: make(chan struct{}), tenant: t}
	b.place = t.queue.PushBack(b)
	c.of[r] = b
	return b
}

// empty reports whether nobody waits.
func (c *crowd) empty() bool { return c == nil || len(c.of) == 0 }

// has reports whether the submitter of r waits.
func (c *crowd) has(r *request) bool { return c.of[r] != nil }

// next lets the one go whose turn it is, and returns its request.
func (c *crowd) next() *request {
	t := c.turns.Front().Value.(*queueOfTenant)
	c.turns.MoveToBack(t.turn)
	b := t.queue.Front().Value.(*blocked)
	c.letGo(b)
	return b.r
}

// part lets the submitter of r go, and reports whether it did wait.
func (c *crowd) part(r *request) bool {
	b := c.of[r]
	if b != nil {
		c.letGo(b)
	}
	return b != nil
}

func (c *crowd) letGo(b *blocked) {
	t := b.tenant
	t.queue.Remove(b.place)
	if t.queue.Len() == 0 {
		c.turns.Remove(t.turn)
		delete(c.tenants, t.tenant)
	}
	delete(c.of, b.r)
	close(b.room)
}
