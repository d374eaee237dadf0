package store

// lease is permits that may be used until end.
type lease struct {
	n, end int64
}

// drop forgets the leases that have ended.
func (c *cell) drop(now int64) {
	for len(c.leases) > 0 && c.leases[0].end <= now {
		c.credit -= c.leases[0].n
		c.pace.top = max(1, c.pace.top/2) // it was more than could be used
		c.leases = append(c.leases[:0], c.leases[1:]...)
	}
}

// give takes all leases, to be returned.
func (c *cell) give() (n int64) {
	n = c.credit
	c.leases, c.credit = c.leases[:0], 0
	return n
}

// giveSome takes n permits of the lease that ends first, to be returned.
func (c *cell) giveSome(n int64) int64 {
	c.leases[0].n -= n
	c.credit -= n
	return n
}

// take takes n permits of the leases.
func (c *cell) take(n int64) {
	c.open += n
	c.pace.used += n
	for n > 0 && len(c.leases) > 0 {
		k := min(n, c.leases[0].n)
		c.usedEnd = min(c.usedEnd, c.leases[0].end)
		n -= k
		c.credit -= k
		if c.leases[0].n -= k; c.leases[0].n > 0 {
			break
		}
		c.leases = append(c.leases[:0], c.leases[1:]...)
	}
	if n > 0 { // without a lease, so that nothing goes back to one until there is another
		c.debt += n
		c.usedEnd = 0
	}
}

// grant adds a lease. There are few at a time: one that would be the ninth ends as
// early as the last.
func (c *cell) grant(l lease) {
	c.credit += l.n
	i := len(c.leases)
	for ; i > 0 && c.leases[i-1].end > l.end; i-- {
	}
	if len(c.leases) == 8 {
		i = min(i, 7)
		c.leases[i].n += l.n
		c.leases[i].end = min(c.leases[i].end, l.end)
		return
	}
	c.leases = append(c.leases, lease{})
	copy(c.leases[i+1:], c.leases[i:])
	c.leases[i] = l
}
