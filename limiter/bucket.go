package limiter

import (
	"math"
	"time"
)

// BucketConfig says what a Bucket admits.
type BucketConfig struct {
	// Rate is how many permits per second come back, for each key. It is at
	// least one per century and at most 1e9.
	Rate float64

	// Burst is how many permits a full bucket holds. 0 means one second's worth,
	// rounded up: max(1, ceil(Rate)). Burst/Rate is at most a century.
	Burst int

	// MaxKeys bounds the keys whose buckets are not full, and so the memory:
	// some 90 bytes a key, besides the key's own and a map's entry. A further
	// key has to wait until one of the buckets is full. At most 1<<30. 0 means
	// 100,000.
	MaxKeys int
}

// Bucket is a token bucket for each key, kept as the time at which it will be
// full: the generic cell rate algorithm (GCRA) of ITU-T I.371 in the form of a
// virtual schedule.
//
// In any window of length d it admits at most
//
//	Burst + Rate*d
//
// permits of a key: at any time and for any window, with time counted in
// nanoseconds and the interval between permits in units of 2^-64 ns, rounded up.
// An owner that comes back when Wait says so gets all of Rate, as long as it is
// late by less than (Burst-1)/Rate; with a Burst of 1 it loses what it is late.
// Permits that were taken without a Wait of 0 just before, and a Settle that
// costs more than was taken, are beyond that: they put the bucket into debt,
// which time pays off at Rate.
//
// A Bucket belongs to one owner and has no lock. Wait and Take on a known key
// cost one map access and allocate nothing. SetLimit and SetRate change it; then
// Burst in the envelope is the largest one in the window.
type Bucket struct {
	rate     float64
	burst    uint64
	interval span // 1/rate

	clock
	keys keyTable[span] // when the bucket is full if nothing is taken

	// full is when that of a key never seen is: later than now only after a raise
	// of Burst. No key is full before.
	full span
}

// NewBucket returns a Bucket in which all buckets are full. The error names the
// field that is out of range.
func NewBucket(cfg BucketConfig) (*Bucket, error) {
	if err := first(checkRate("BucketConfig.Rate", cfg.Rate), checkKeys("BucketConfig", cfg.MaxKeys)); err != nil {
		return nil, err
	}
	b := &Bucket{rate: cfg.Rate, interval: perPermit(cfg.Rate)}
	// No sum of times overflows: the clock reaches 2^63 ns, Burst a third of that.
	burst := cfg.Burst
	if burst == 0 {
		burst = int(math.Ceil(cfg.Rate)) // at least 1
	}
	if burst < 0 || float64(burst) > cfg.Rate*century.Seconds() {
		return nil, invalidf("BucketConfig.Burst is %d, want 0 up to a century of Rate", cfg.Burst)
	}
	b.burst = uint64(burst)
	b.keys = newKeyTable(cfg.MaxKeys, func(full *span) uint64 { return full.ceil() })
	return b, nil
}

// Wait returns how long it is until n permits of key can be taken, to the
// nanosecond; Never when n is more than Burst. For a key that finds MaxKeys
// others in use, it is how long until one of them is not.
func (b *Bucket) Wait(now time.Time, key string, n int) time.Duration {
	t := b.at(now)
	return b.wait(t, b.keys.index[key], n)
}

// wait is Wait for a key in slot e, nil if it has none.
func (b *Bucket) wait(t uint64, e *slot[span], n int) time.Duration {
	switch {
	case n < 1:
		return 0
	case uint64(n) > b.burst:
		return Never
	}
	full, room := b.full, uint64(0)
	if e != nil {
		full = e.state
	} else {
		room = b.keys.room(t)
	}
	// After the take, the bucket may lack Burst permits: full+n*interval is no
	// later than now+Burst*interval.
	last := span{ns: t}.add(b.interval.times(b.burst - uint64(n)))
	return wait(max(room, full.sub(last).ceil()))
}

// Take takes n permits of key. Of a key for which Wait has found no room nothing
// is kept.
func (b *Bucket) Take(now time.Time, key string, n int) {
	if t := b.at(now); n > 0 {
		e := b.use(t, key)
		if b.spend(t, e, uint64(n), true); e == nil {
			b.keys.missed(key, n)
		}
	}
}

// TryTake does in one step what else takes three: a Settle for earlier takes of key
// that have cost what they took, settled permits together or 0, then Wait, and Take when
// that returns 0. Such takes may be settled late, as long as it is before the next Take
// of key, and the next Settle that gives something back.
func (b *Bucket) TryTake(now time.Time, key string, n, settled int) time.Duration {
	t := b.at(now)
	e := b.keys.index[key]
	switch {
	case settled < 1:
	case e != nil:
		e.back.settle(uint64(settled), 0)
	default:
		b.keys.settleGone(key, settled)
	}
	if d := b.wait(t, e, n); d > 0 || n < 1 {
		return d
	}
	if e == nil {
		e = b.use(t, key)
	}
	b.spend(t, e, uint64(n), true)
	return 0
}

// spend moves the time at which the bucket of e is full on by n permits. A nil e is
// that of a key for which there was no room.
func (b *Bucket) spend(t uint64, e *slot[span], n uint64, settles bool) {
	if e == nil {
		return
	}
	b.fit(t, e)
	if settles {
		e.back.take(n)
	}
	e.state = later(t, e.state).add(b.interval.times(n))
}

// use returns the slot of key, nil when there is no room.
func (b *Bucket) use(t uint64, key string) *slot[span] {
	e := b.keys.get(t, key)
	if e != nil && e.state.less(b.full) {
		e.state = b.full
	}
	return e
}

// later returns full, or t when that is later.
func later(t uint64, full span) span {
	if at := (span{ns: t}); full.less(at) {
		return at
	}
	return full
}

// fit tells e's giveback the level of e, if it is too low for it.
func (b *Bucket) fit(t uint64, e *slot[span]) {
	missing := e.state.sub(span{ns: t})
	if worth := e.back.open - e.back.void; worth > 0 && missing.less(b.interval.times(worth)) {
		e.back.fit(missing.over(b.interval))
	}
}

// Settle corrects the cost of an earlier take from n to used permits. More is
// charged now, even into debt. Less is given back, but not what has come back
// already by the passing of time: no window holds more than the envelope, with
// each take counted at its own time and at its corrected cost. Since Settle is
// not told which take it corrects, it supposes the worst one. So all is given
// back as long as the bucket lacks at least as many permits as the takes that
// are not settled yet, which is the case where it matters; a bucket that is
// nearly full may give back less than it could.
//
// A take that is not settled counts as one that may be. Settle every take of a
// key, also with used equal to n, or none: whoever settles only some finds that
// less and less is given back.
func (b *Bucket) Settle(now time.Time, key string, n, used int) {
	t := b.at(now)
	n, used = max(0, n), max(0, used)
	e := b.keys.index[key]
	if e != nil {
		if used < n { // else what leaves is not to count in fit, so that it may be told late
			b.fit(t, e)
		}
		if g := e.back.settle(uint64(n), uint64(max(0, n-used))); g > 0 {
			e.state = e.state.sub(b.interval.times(g))
			b.keys.earlier(e)
		}
	} else {
		b.keys.settleGone(key, n)
	}
	if used > n {
		b.spend(t, b.use(t, key), uint64(used-n), false)
	}
}

// Accepted does nothing: the rate is the configured one.
func (b *Bucket) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: the rate is the configured one, and to leave the vendor
// alone for a while is its owner's part.
func (b *Bucket) Refused(now, sent time.Time, key string) {}

// Rate returns the configured rate.
func (b *Bucket) Rate(now time.Time, key string) float64 { return b.rate }
