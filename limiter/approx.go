package limiter

import (
	"math/bits"
	"time"
)

// ApproxConfig says what an Approx admits.
type ApproxConfig struct {
	// Limit is how many permits of a key a Window is to hold: 1 up to 1<<40.
	Limit int

	// Window is the length of the window, up to a century.
	Window time.Duration

	// MaxKeys bounds the keys that have permits in their window. A further key has
	// to wait until one of them has none. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// Approx estimates a sliding window from two counters: of what was taken in the
// last fixed window it counts the share that a sliding window would still reach,
// as if it had been taken evenly, and all of what was taken in this one. Many web
// servers limit their clients so. It needs the least memory of all, some 130 bytes
// for a key, and does not keep its limit exactly.
//
// The error: any half-open span of time of length Window holds less than 2*Limit
// permits of a key, and it may hold as many as 2*Limit-1 when the last window's
// were all taken at its end. When they were taken evenly, it holds no more than
// Limit. When they were all taken at its beginning, up to as many are held back
// without need. In the long run, an owner that always has something to do gets at
// least Limit-n permits in every Window by calls of n permits, and at least half
// of Limit.
//
// For a vendor that punishes what is beyond its limit, use SlidingLog or
// SlidingCounter.
//
// Windows begin with the first now. An Approx belongs to one owner and has no
// lock. Wait and Take on a known key are O(1) and allocate nothing.
type Approx struct {
	window[pair]
	length uint64
}

// NewApprox returns an Approx in which nothing is taken. The error names the
// field that is out of range.
func NewApprox(cfg ApproxConfig) (*Approx, error) {
	err := first(
		checkLimit("ApproxConfig.Limit", cfg.Limit),
		checkTime("ApproxConfig.Window", cfg.Window, 1),
		checkKeys("ApproxConfig", cfg.MaxKeys),
	)
	if err != nil {
		return nil, err
	}
	l := &Approx{length: uint64(cfg.Window)}
	l.init(pairRule{l}, cfg.Limit, cfg.MaxKeys, cfg.Window)
	return l, nil
}

// pair is the permits taken in a window and in the one before.
type pair struct {
	window    uint64
	last, now int64
}

type pairRule struct{ l *Approx }

func (r pairRule) roll(t uint64, s *pair) (passed int64) {
	now := t / r.l.length
	switch now - s.window {
	case 0:
		return 0
	case 1:
		passed, s.last, s.now = s.last, s.now, 0
	default:
		passed, s.last, s.now = s.last+s.now, 0, 0
	}
	s.window = now
	return passed
}

// level counts a part of a permit as a whole one.
func (r pairRule) level(t uint64, s *pair) int64 {
	hi, lo := bits.Mul64(uint64(s.last), r.l.length-t%r.l.length)
	share, rest := bits.Div64(hi, lo, r.l.length)
	if rest > 0 {
		share++
	}
	return int64(share) + s.now
}

func (r pairRule) when(t uint64, s *pair, n, limit int64) uint64 {
	start := t - t%r.l.length
	if free := limit - s.now - n; free >= 0 {
		return max(t, start+r.fades(s.last, free))
	}
	return start + r.l.length + r.fades(s.now, limit-n)
}

// fades returns how far into a window of n permits of the last one no more than
// free count.
func (r pairRule) fades(n, free int64) uint64 {
	if n <= free {
		return 0
	}
	// n*(window-x) <= free*window
	hi, lo := bits.Mul64(uint64(free), r.l.length)
	x, _ := bits.Div64(hi, lo, uint64(n))
	return r.l.length - x
}

func (r pairRule) charge(t uint64, s *pair, n int64) {
	s.now += min(n, most-s.now)
}

func (r pairRule) after(*pair, uint64) int64 { return 0 }

func (r pairRule) refund(s *pair, n int64) {
	k := min(n, s.last)
	s.last -= k
	s.now -= n - k
}

func (r pairRule) idle(s *pair) uint64 {
	switch {
	case s.now > 0:
		return (s.window + 2) * r.l.length
	case s.last > 0:
		return (s.window + 1) * r.l.length
	}
	return 0
}

func (r pairRule) since(t uint64) uint64 { return t - t%r.l.length }
func (r pairRule) next(t uint64) uint64  { return r.since(t) + r.l.length }
