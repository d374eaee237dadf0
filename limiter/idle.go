package limiter

import "time"

// Idler is implemented by limiters that can say whether they can be forgotten:
// Bucket, FixedWindow, SlidingLog, SlidingCounter, Approx, Calendar, Leaky,
// Concurrency, Spread and a ByKey of such; store.Share, Gate and Slots.
type Idler interface {
	// Idle reports whether nobody could tell the limiter from a new one with the
	// same configuration: every permit of every key is back. It takes time in
	// proportion to the keys that it finds to be so.
	Idle(now time.Time) bool
}

// empty reports whether no key has any state left at now, and forgets those that
// have none.
func (t *keyTable[S]) empty(now uint64) bool {
	for t.forgetIdle(now) != nil {
	}
	return len(t.heap) == 0
}

// Idle reports whether every bucket is full.
func (b *Bucket) Idle(now time.Time) bool { return b.keys.empty(b.at(now)) }

// Idle reports whether all has flowed out, and has cooled down.
func (l *Leaky) Idle(now time.Time) bool { return l.keys.empty(l.at(now)) }

// Idle reports whether no key has taken permits in this window, or borrowed from
// coming ones.
func (w *FixedWindow) Idle(now time.Time) bool { return w.keys.empty(w.at(now)) }

// Idle reports whether no key has permits in its window.
func (w *window[S]) Idle(now time.Time) bool { return w.keys.empty(w.at(now)) }

// Idle reports whether no permit is held.
func (c *Concurrency) Idle(time.Time) bool { return len(c.held) == 0 }
