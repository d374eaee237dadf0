package limiter

import "time"

// clock counts the nanoseconds since the first now that it is told, by the
// monotonic clock where the times have one. It never goes back.
type clock struct {
	start time.Time
	begun bool
	now   uint64 // less than 1<<63
}

func (c *clock) at(now time.Time) uint64 {
	if !c.begun {
		c.begun, c.start = true, now
	}
	c.now = max(c.now, c.ago(now))
	return c.now
}

// ago returns an earlier time, 0 if it is before the first.
func (c *clock) ago(t time.Time) uint64 { return uint64(max(0, t.Sub(c.start))) }

// wait makes an answer of ns, which may be more than a time.Duration holds.
func wait(ns uint64) time.Duration { return time.Duration(min(ns, uint64(Never-1))) }
