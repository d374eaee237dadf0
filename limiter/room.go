package limiter

import "time"

// The limiters with keys of their own are roomy: see Shared.

var _ = []roomy{(*Bucket)(nil), (*Leaky)(nil), (*FixedWindow)(nil), (*SlidingLog)(nil), (*Concurrency)(nil)}

func (b *Bucket) room(now time.Time) time.Duration      { return wait(b.keys.room(b.at(now))) }
func (l *Leaky) room(now time.Time) time.Duration       { return wait(l.keys.room(l.at(now))) }
func (w *FixedWindow) room(now time.Time) time.Duration { return wait(w.keys.room(w.at(now))) }
func (w *window[S]) room(now time.Time) time.Duration   { return wait(w.keys.room(w.at(now))) }

func (c *Concurrency) room(time.Time) time.Duration {
	if len(c.held) < c.max {
		return 0
	}
	return c.again
}
