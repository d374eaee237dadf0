package limiter

import (
	"time"
)

// lacks returns how many permits a bucket lacks at t, a part of one counted as a
// whole one.
func (b *Bucket) lacks(t uint64, full span) uint64 {
	missing := full.sub(span{ns: t})
	missing.ns = min(missing.ns, 1<<62) // the end of endless debt
	n := missing.over(b.interval)
	if b.interval.times(n).less(missing) {
		n++
	}
	return n
}

// Available returns how many permits of key can be taken now; less than 0 is debt.
func (b *Bucket) Available(now time.Time, key string) int {
	t, full := b.at(now), b.full
	if e := b.keys.index[key]; e != nil {
		full = e.state
	}
	return int(b.burst) - int(b.lacks(t, full))
}

// Drain takes all permits of key that there are now.
func (b *Bucket) Drain(now time.Time, key string) { b.lower(b.at(now), key, 0) }

// SetRemaining takes what key has more than left, if the call whose answer said so
// was sent so recently that an empty bucket has not become full since. It never
// gives anything back.
func (b *Bucket) SetRemaining(now, sent time.Time, key string, left int) {
	t := b.at(now)
	if age := t - min(t, b.ago(sent)); age <= b.interval.times(b.burst).ceil() {
		b.lower(t, key, uint64(max(0, left)))
	}
}

// lower leaves key no more than left permits. Without room for key there is
// nothing to take.
func (b *Bucket) lower(t uint64, key string, left uint64) {
	e := b.use(t, key)
	if e == nil {
		return
	}
	e.back.pass(e.back.open) // the vendor's count may have what would be given back
	if full := (span{ns: t}).add(b.interval.times(b.burst - min(left, b.burst))); e.state.less(full) {
		e.state = full
	}
}

// SetLimit changes Burst, for all keys. A larger bucket has as many permits as
// before, until more have come back, also that of a key never seen. A smaller one
// counts at once: what of a raise has not come back yet is taken off first, and what
// a bucket has given beyond that is debt. Burst/Rate is still at most a century, else
// it returns an error and changes nothing. It takes time in proportion to the keys in
// use.
func (b *Bucket) SetLimit(now time.Time, limit int) error {
	if err := checkLimit("SetLimit", limit); err != nil {
		return err
	}
	if float64(limit) > b.rate*century.Seconds() {
		return invalidf("SetLimit is %d, want 1 up to a century of Rate", limit)
	}
	t := b.at(now)
	if n := uint64(limit); n > b.burst {
		b.raise(t, b.interval.times(n-b.burst))
	} else if due := b.full.sub(span{ns: t}); due != (span{}) && n < b.burst {
		b.takeOff(due, b.interval.times(b.burst-n))
	}
	b.burst = uint64(limit)
	return nil
}

// raise makes every bucket full by d later.
func (b *Bucket) raise(t uint64, d span) {
	b.full = later(t, b.full).add(d)
	for _, e := range b.keys.heap {
		b.fit(t, e) // what is new was not taken, and cannot be given back
		e.state = later(t, e.state).add(d)
	}
}

// takeOff makes every bucket full by d earlier, but by no more than is due to come of
// raises. No bucket is full before that.
func (b *Bucket) takeOff(due, d span) {
	if due.less(d) {
		d = due
	}
	b.full = b.full.sub(d)
	for _, e := range b.keys.heap {
		e.state = e.state.sub(d)
	}
	b.keys.all()
}

// SetRate changes the rate, for all keys and for what comes back from now on, in
// the range of BucketConfig.Rate, or returns an error that says what is wrong with
// it and changes nothing. Each bucket has as many permits as before, less than what
// comes back in some nanoseconds. It takes time in proportion to the keys in use.
func (b *Bucket) SetRate(now time.Time, rate float64) error {
	if err := checkRate("SetRate", rate); err != nil {
		return err
	}
	if float64(b.burst) > rate*century.Seconds() {
		return invalidf("SetRate is %v, want what fills the bucket of %d in a century", rate, b.burst)
	}
	t, interval := b.at(now), perPermit(rate)
	b.full = span{ns: t}.add(rescale(b.full.sub(span{ns: t}), b.interval, interval))
	for _, e := range b.keys.heap {
		e.state = span{ns: t}.add(rescale(e.state.sub(span{ns: t}), b.interval, interval))
	}
	b.keys.all()
	b.rate, b.interval = rate, interval
	return nil
}

// rescale returns for how long as many permits come back at the interval to as do
// in missing at the interval from. The part of a permit that is coming back is kept
// but for a nanosecond or two: else who changes the rate often gets none.
func rescale(missing, from, to span) span {
	missing.ns = min(missing.ns, 1<<62)
	n := missing.over(from)
	rest := missing.sub(from.times(n))
	if rest == (span{}) {
		return to.times(n)
	}
	part := scale(int64(rest.ceil()), int64(to.ceil()), int64(from.ns))
	return to.times(n).add(span{ns: uint64(part) + 1})
}
