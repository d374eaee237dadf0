package limiter

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// Gauge is implemented by limiters that can say how full a key's quota is, for people
// to look at: those with a limit of their own, and Adaptive and Spread of what they
// were told.
type Gauge interface {
	Limiter

	// Quota returns what is known of key's quota now: its Limit and Window, and what
	// is Remaining, 0 where that is debt and less than 0 where nobody knows. Reset is zero unless all of a window ends at
	// one time. Of several windows it is the one of which the smallest part is left. ok
	// is false when nothing is known. It changes nothing that a caller could notice.
	Quota(now time.Time, key string) (q throttle.Quota, ok bool)
}

var _ = []Gauge{(*Bucket)(nil), (*FixedWindow)(nil), (*SlidingLog)(nil), (*SlidingCounter)(nil), (*Approx)(nil), (*Calendar)(nil),
	(*Concurrency)(nil), (*Adaptive)(nil), (*Spread)(nil), (*ByKey)(nil)}

func quotaOf(limit int64, per time.Duration, left int) throttle.Quota {
	return throttle.Quota{Limit: limit, Window: per, Remaining: int64(max(0, left)), Cost: -1}
}

// Quota returns Burst, the time in which an empty bucket gets full, and what is in it.
func (b *Bucket) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	return quotaOf(int64(b.burst), time.Duration(min(b.interval.times(b.burst).ceil(), math.MaxInt64)), b.Available(now, key)), true
}

// Quota returns the limit and what is left of it.
func (w *window[S]) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	left := w.Available(now, key)
	return quotaOf(w.limit.limit, w.per, left), true
}

// Quota returns the limit of a window, what is left of this one, and when it ends.
func (w *FixedWindow) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	t := w.at(now)
	q = quotaOf(w.limit, time.Duration(w.period), w.Available(now, key))
	q.Reset = now.Add(time.Duration(w.period - t%w.period))
	return q, true
}

// Quota returns the limit of this window, what is left of it, and when it ends.
func (c *Calendar) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	t, left := c.at(now), c.Available(now, key)
	c.turn(t)
	q = quotaOf(c.limit.limit, time.Duration(c.end-c.begin)*time.Second, left)
	q.Reset = now.Add(time.Duration(c.mono(c.end) - t))
	return q, true
}

// Quota returns how many calls may run, and how many more. It has no window.
func (c *Concurrency) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	return quotaOf(c.limit, 0, c.Available(now, key)), true
}

// Quota asks the limiter of key.
func (b *ByKey) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	if g, known := b.Of(key).(Gauge); known {
		return g.Quota(now, key)
	}
	return q, false
}

// Quota returns what is left of what the vendor said last. The key does not matter.
func (a *Adaptive) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	t := a.at(now)
	if a.told == nil {
		return q, false
	}
	least := math.Inf(1)
	for _, w := range a.told.windows {
		if w.roll(t); w.until > 0 {
			q, ok, least = w.tighter(now, t, q, ok, least)
		}
	}
	return q, ok
}

// Quota returns what is left of what the vendor said last of key.
func (s *Spread) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	t, k := s.at(now), s.keys[key]
	if k == nil {
		return q, false
	}
	least := math.Inf(1)
	for _, w := range k.windows {
		if w.roll(t); w.until > 0 {
			q, ok, least = w.tighter(now, t, q, ok, least)
		}
	}
	return q, ok
}

// tighter returns what is known of o, or what was known of others when that has a
// smaller part left. Without a limit, what is left counts as so much of itself.
func (o *toldWindow) tighter(now time.Time, t float64, q throttle.Quota, ok bool, least float64) (throttle.Quota, bool, float64) {
	part := max(0, o.left)
	if o.limit > 0 {
		part /= o.limit
	}
	if ok && part >= least {
		return q, ok, least
	}
	q = throttle.Quota{
		Name: o.which.name, Window: o.which.window, Limit: -1, Remaining: int64(max(0, o.left)), Cost: -1,
		Reset: now.Add(time.Duration((o.until - t) * float64(time.Second))),
	}
	if o.limit > 0 {
		q.Limit = int64(o.limit)
	}
	return q, true, part
}
