package governor

import "sync/atomic"

// common counts the requests that wait at all governors of a Group. A nil one has
// no bound and counts nothing.
type common struct {
	waiting atomic.Int64
	most    int64
}

// full reports whether no more may wait.
func (c *common) full() bool { return c != nil && c.waiting.Load() >= c.most }

// add counts n more, unless that would be too many.
func (c *common) add(n int64) bool {
	if c == nil {
		return true
	}
	if c.waiting.Add(n) > c.most {
		c.waiting.Add(-n)
		return false
	}
	return true
}

// leave counts n that wait no more; negative: that wait again, and cannot be
// refused.
func (c *common) leave(n int) {
	if c != nil {
		c.waiting.Add(int64(-n))
	}
}
