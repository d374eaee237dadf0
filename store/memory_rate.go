package store

import "time"

// counted is what a Memory knows about one limit. Times are the Memory's.
type counted struct {
	limit Limit // filled, in force
	next  Limit // from at on; raised
	at    int64 // 0: nothing is to come

	full int64               // of a Bucket: when its schedule has passed
	step int64               // the last one counted
	used [Segments + 1]int64 // by step, modulo; of a Window the first alone
}

// roll brings c up to now.
func (c *counted) roll(now int64) {
	if c.at != 0 && now >= c.at {
		if c.full > c.at {
			c.full = c.at + c.limit.repaced(c.full-c.at, c.next)
		}
		c.limit, c.at = c.next, 0
	}
	step := now / int64(c.limit.Step())
	switch {
	case c.limit.Kind == Bucket:
	case c.limit.Kind == Window && step > c.step:
		c.used[0] = 0
	case c.limit.Kind == Sliding:
		for i := max(c.step+1, step-Segments); i <= step; i++ {
			c.used[i%(Segments+1)] = 0
		}
	}
	c.step = max(c.step, step)
}

// taken is how many permits count now.
func (c *counted) taken() (n int64) {
	for _, u := range c.used {
		n += u
	}
	return n
}

// available is how many permits could be granted now.
func (c *counted) available(now int64) int64 {
	if c.limit.Kind != Bucket {
		if c.end()-int64(c.limit.Transit) <= now {
			return 0
		}
		return max(0, c.limit.Quota-c.taken())
	}
	room := int64(c.limit.Depth()) - max(0, c.full-now)
	n := int64(0)
	for bit := int64(1) << 30; bit > 0; bit /= 2 {
		if n+bit <= c.limit.Burst && int64(c.limit.Charge(n+bit)) <= room {
			n += bit
		}
	}
	return n
}

// end is when the present step ends.
func (c *counted) end() int64 { return (c.step + 1) * int64(c.limit.Step()) }

// valid is how long a grant of now may be used.
func (c *counted) valid(now int64) int64 {
	if c.limit.Kind == Bucket {
		if c.at != 0 {
			return int64(c.next.Lease)
		}
		return int64(c.limit.Lease)
	}
	return c.end() - int64(c.limit.Transit) - now
}

// when is when n more permits could be granted, if nobody takes any until then but
// who is to come before.
func (c *counted) when(now, n int64) int64 {
	switch c.limit.Kind {
	case Bucket:
		// Others take theirs one by one, each with its rounding.
		one := int64(c.limit.Charge(1))
		return max(c.full, now) + one*min(n, (1<<61)/one) - int64(c.limit.Depth())
	case Window:
		return c.end()
	}
	if n > c.limit.Quota-c.taken() {
		over := c.taken() + min(n, c.limit.Quota) - c.limit.Quota
		for i := max(0, c.step-Segments); i <= c.step; i++ {
			if over -= c.used[i%(Segments+1)]; over <= 0 {
				return (i + Segments + 1) * int64(c.limit.Step())
			}
		}
	}
	return c.end()
}

// charge counts n permits; less than 0 gives them back.
func (c *counted) charge(now, n int64) {
	switch c.limit.Kind {
	case Bucket:
		if n > 0 {
			c.full = min(max(c.full, now)+int64(c.limit.Charge(min(n, 1e9))), now+1<<61)
		}
	case Window:
		c.used[0] = max(0, c.used[0]+n)
	case Sliding:
		u := &c.used[c.step%(Segments+1)]
		*u = max(0, *u+n)
	}
}

// drain counts all permits as taken at at, which may be to come.
func (c *counted) drain(at int64) {
	c.roll(at)
	i := int64(0)
	switch c.limit.Kind {
	case Bucket:
		c.full = max(c.full, at+int64(c.limit.Depth()))
		return
	case Sliding:
		i = c.step % (Segments + 1)
	}
	c.used[i] = max(c.used[i], c.limit.Quota)
}

// lends is until when what was granted up to now may be in use.
func (c *counted) lends(now int64) int64 {
	if c.limit.Kind == Bucket {
		return now + int64(c.limit.Lease+c.limit.Transit)
	}
	step := int64(c.limit.Step())
	return (now/step + 1) * step
}

// follow counts all permits as taken that can be when what others have granted is used, for
// the last time just before lent. A full Bucket is a Burst: the rest of its Quota comes
// back in a Per.
func (c *counted) follow(lent int64) {
	if c.limit.Kind == Bucket {
		c.drain(lent + int64(c.limit.Per))
	} else {
		c.drain(lent - 1)
	}
}

// set changes the limit, of the same Kind and Per, as Item.Limits says. What is more
// counts when no window has anything of what was granted before, at the latest; what is
// less at once: until then the smaller of both limits is in force.
func (c *counted) set(now, lent int64, l Limit) {
	old, from := c.limit, max(now, lent)
	c.at, c.limit = 0, l
	if l.Quota > old.Quota || l.Burst > old.Burst || l.Lease < old.Lease || l.Transit < old.Transit {
		c.limit = old.both(l)
		switch c.next = l; l.Kind {
		case Bucket:
			c.at = from + c.limit.span()
		case Sliding:
			c.at = from + int64(l.Per)
		case Window:
			c.at = c.end()
		}
	}
	if c.full > now {
		c.full = now + old.repaced(c.full-now, c.limit)
	}
	if l.Kind == Bucket && lent+int64(l.Per) > now {
		c.follow(lent) // it is a time that it was ahead by, and not permits
	}
}

// idle reports whether nothing that was taken counts any more.
func (c *counted) idle(now int64) bool {
	c.roll(now)
	return c.at == 0 && c.taken() == 0 && c.full <= now
}

func newCounted(now int64, l Limit, drained bool) *counted {
	c := &counted{limit: l, step: now / int64(l.Step())}
	if drained {
		c.drain(now)
	}
	return c
}

// left is what remains of a time at at.
func left(at, now int64) time.Duration { return time.Duration(max(0, at-now)) }
