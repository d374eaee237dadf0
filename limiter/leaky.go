package limiter

import "time"

// LeakyConfig says what a Leaky admits.
type LeakyConfig struct {
	// Rate is how many permits per second flow out, for each key. It is at least
	// one per century and at most 1e9.
	Rate float64

	// MaxKeys bounds the keys whose last take has not flowed out yet. A further key
	// has to wait until one of them has. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Leaky lets permits through as a leaky bucket lets water out, at a constant rate
// and never faster: after a take of n permits it takes n/Rate until the next. Calls
// of one permit are at least 1/Rate apart.
//
// A Bucket saves up permits while nobody takes any, and then lets a burst of them
// through; a Leaky saves up nothing. With calls of one permit it is a Bucket with a
// Burst of 1. But a Bucket never admits more than Burst permits at once, and a
// Leaky admits any number and then makes the next call wait the longer. The other
// half of a leaky bucket, the room for what waits, is the queue of its owner:
// a Shared with a Leaky and a MaxQueue is the whole of it.
//
// The envelope: of the permits of a key in any window of length d, all but those
// of its last take are no more than Rate*d, with time counted in nanoseconds and
// the interval between permits in units of 2^-64 ns, rounded up. An owner that
// comes back when Wait says so gets all of Rate; what it is late it loses, so that
// for a high rate a Bucket with some Burst is the better choice.
//
// A Leaky belongs to one owner and has no lock. Wait and Take on a known key are
// O(1) and allocate nothing. A key needs some 120 bytes, besides its own.
type Leaky struct {
	clock
	rate     float64
	interval span // 1/rate
	keys     keyTable[span]
}

// NewLeaky returns a Leaky from which everything has flowed out. The error names
// the field that is out of range.
func NewLeaky(cfg LeakyConfig) (*Leaky, error) {
	if err := first(checkRate("LeakyConfig.Rate", cfg.Rate), checkKeys("LeakyConfig", cfg.MaxKeys)); err != nil {
		return nil, err
	}
	l := &Leaky{rate: cfg.Rate, interval: perPermit(cfg.Rate)}
	l.keys = newKeyTable(cfg.MaxKeys, func(free *span) uint64 { return free.ceil() })
	return l, nil
}

// Wait returns how long it is until permits of key can be taken, whatever n is,
// to the nanosecond; it is never Never. For a key that finds MaxKeys others in
// use, it is how long until one of them is not.
func (l *Leaky) Wait(now time.Time, key string, n int) time.Duration {
	t := l.at(now)
	e := l.keys.index[key]
	switch {
	case n < 1:
		return 0
	case e == nil:
		return wait(l.keys.room(t))
	}
	return wait(e.state.sub(span{ns: t}).ceil())
}

// Take takes n permits of key. Of a key for which Wait has found no room nothing
// is kept.
func (l *Leaky) Take(now time.Time, key string, n int) {
	t := l.at(now)
	if n < 1 {
		return
	}
	if e := l.keys.get(t, key); e != nil {
		e.back.pass(e.back.open) // what was taken before has flowed out
		e.back.take(uint64(n))
		l.pour(t, e, uint64(n))
	}
}

// pour moves the time at which everything has flowed out on by n permits.
func (l *Leaky) pour(t uint64, e *slot[span], n uint64) {
	if at := (span{ns: t}); e.state.less(at) {
		e.state = at
	}
	e.state = e.state.add(l.interval.times(n))
}

// Settle corrects the cost of an earlier take from n to used permits. More is
// charged now. Less is given back only of the last take, as far as it has not
// flowed out yet: since Settle is not told which take it corrects, it supposes an
// earlier one, as long as there may be one.
//
// A take that is not settled counts as one that may be. Settle every take of a
// key, also with used equal to n, or none: whoever settles only some finds that
// less and less is given back.
func (l *Leaky) Settle(now time.Time, key string, n, used int) {
	t := l.at(now)
	n, used = max(0, n), max(0, used)
	e := l.keys.index[key]
	if e != nil {
		back := e.back.settle(uint64(n), uint64(max(0, n-used)))
		if at := (span{ns: t}); back > 0 && at.less(e.state) {
			e.state = at.add(e.state.sub(at).sub(l.interval.times(back)))
			l.keys.earlier(e)
		}
	}
	if used > n {
		if e = l.keys.get(t, key); e != nil {
			e.back.pass(e.back.open) // which would hide behind this
			l.pour(t, e, uint64(used-n))
		}
	}
}

// Accepted does nothing: the rate is the configured one.
func (l *Leaky) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: the rate is the configured one, and to leave the vendor
// alone for a while is its owner's part.
func (l *Leaky) Refused(now, sent time.Time, key string) {}

// Rate returns the rate, in permits per second.
func (l *Leaky) Rate(now time.Time, key string) float64 { return l.rate }

// SetRate changes the rate of all keys, in the range of LeakyConfig.Rate, or
// returns an error that says what is wrong with it and changes nothing. It counts
// for what is taken from now on, be it higher or lower: the wait after the last
// take stays as it is. It takes time in proportion to the keys in use.
func (l *Leaky) SetRate(now time.Time, rate float64) error {
	if err := checkRate("SetRate", rate); err != nil {
		return err
	}
	l.rate, l.interval = rate, perPermit(rate)
	for _, e := range l.keys.heap {
		e.back.pass(e.back.open) // it was charged at another rate
	}
	return nil
}
