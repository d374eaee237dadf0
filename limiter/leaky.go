package limiter

import "time"

// LeakyConfig says what a Leaky admits.
type LeakyConfig struct {
	// Rate is how many permits per second flow out, for each key. It is at least
	// one per century and at most 1e9.
	Rate float64

	// WarmUp is how long a key that comes back from a long rest is slower than Rate,
	// while permits are taken as fast as it lets them: a server that has filled its
	// caches and opened its connections by then is spared the full load before. One
	// that rests cools down as long, in proportion. Up to a century. 0: it is at
	// Rate from the first permit on.
	WarmUp time.Duration

	// Cold is how many times longer than 1/Rate the first permit of a cold key takes:
	// more than 1 and up to 1000. From there on it gets less, in a straight line
	// with each permit. It needs WarmUp. 0 means 3.
	Cold float64

	// MaxKeys bounds the keys whose last take has not flowed out yet, or that have
	// not cooled down. A further key has to wait until one of them has. At most 1<<30.
	// 0 means 100,000.
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
// With a WarmUp it is slower than that after a rest, and never faster. The warming up
// is that of Guava's SmoothWarmingUp (https://github.com/google/guava): a key that is
// cold has as many permits in store as flow out at Rate in WarmUp*(1/2 + 2/(1+Cold));
// the first 2/(1+Cold) of that are the slow ones, and take WarmUp.
//
// A Leaky belongs to one owner and has no lock. Wait and Take on a known key are
// O(1) and allocate nothing. A key needs some 130 bytes, besides its own.
type Leaky struct {
	clock
	rate     float64
	interval span // 1/rate
	warmUp   warmUp
	keys     keyTable[leak]
}

// leak is the state of a key: its zero value is at rest, and cold.
type leak struct {
	free span    // when everything has flowed out
	heat float64 // then; 0 up to 1
}

// NewLeaky returns a Leaky from which everything has flowed out. The error names
// the field that is out of range.
func NewLeaky(cfg LeakyConfig) (*Leaky, error) {
	err := first(
		checkRate("LeakyConfig.Rate", cfg.Rate),
		checkTime("LeakyConfig.WarmUp", cfg.WarmUp, 0),
		checkKeys("LeakyConfig", cfg.MaxKeys),
	)
	switch {
	case err != nil:
	case cfg.Cold != 0 && !(cfg.Cold > 1 && cfg.Cold <= 1000): // nor NaN
		err = invalidf("LeakyConfig.Cold is %v, want 0, or more than 1 up to 1000", cfg.Cold)
	case cfg.Cold != 0 && cfg.WarmUp == 0:
		err = invalidf("LeakyConfig.Cold is %v without a WarmUp", cfg.Cold)
	}
	if err != nil {
		return nil, err
	}
	l := &Leaky{rate: cfg.Rate, interval: perPermit(cfg.Rate), warmUp: newWarmUp(cfg)}
	l.keys = newKeyTable(cfg.MaxKeys, func(s *leak) uint64 { return s.free.add(span{ns: l.warmUp.rest(s.heat)}).ceil() })
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
	return wait(e.state.free.sub(span{ns: t}).ceil())
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
	} else {
		l.keys.missed(key, n)
	}
}

// pour moves the time at which everything has flowed out on by n permits.
func (l *Leaky) pour(t uint64, e *slot[leak], n uint64) {
	s := &e.state
	if at := (span{ns: t}); s.free.less(at) {
		s.heat = l.warmUp.cooled(s.heat, t-s.free.ns)
		s.free = at
	}
	s.free = s.free.add(l.interval.times(n)).add(span{ns: l.warmUp.take(&s.heat, float64(n)*1e9/l.rate)})
}

// Settle corrects the cost of an earlier take from n to used permits. More is
// charged now. Less is given back only of the last take, as far as it has not
// flowed out yet, and what it took longer for being cold stays: since Settle is not told which take it corrects, it supposes an
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
		if at := (span{ns: t}); back > 0 && at.less(e.state.free) {
			e.state.free = at.add(e.state.free.sub(at).sub(l.interval.times(back)))
			l.keys.earlier(e)
		}
	} else {
		l.keys.settleGone(key, n)
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
