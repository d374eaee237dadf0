package limiter

import (
	"time"
)

// SlidingCounterConfig says what a SlidingCounter admits.
type SlidingCounterConfig struct {
	// Limit is how many permits of a key any Window may hold: 1 up to 1<<40.
	Limit int

	// Window is the length of the window, up to a century.
	Window time.Duration

	// Segments is how many parts of the Window are counted each on its own: 1 up to
	// 10,000. The more, the less is wasted and the more memory a key needs. 0
	// means 10.
	Segments int

	// MaxKeys bounds the keys that have permits in their window. A further key has
	// to wait until one of them has none. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// SlidingCounter admits at most Limit permits of a key in any Window, wherever it
// begins, with a few counters instead of a log: it counts the permits of each of
// the Segments of a Window, and of the one more segment that a window which begins
// inside of one may touch. So a permit comes back when its segment has been over
// for a whole Window.
//
// The envelope: any half-open span of time of length Window holds no more permits
// of a key than the highest limit in force in it.
//
// What it wastes is up to one segment: a permit is gone for Window to
// Window+Window/Segments, so that an owner that always has something to do gets
// at least Segments/(Segments+1) of what a SlidingLog would give it.
//
// Segments begin with the first now. One that does not divide the Window to the
// nanosecond is rounded up.
//
// A key needs 8*(Segments+1) bytes, besides some 140 for the key itself, however
// large the Limit. A SlidingCounter belongs to one owner and has no lock. Wait and
// Take on a known key cost O(Segments) and allocate nothing.
type SlidingCounter struct {
	window[segments]
	length   uint64 // of a segment
	segments uint64 // that a permit counts for, with its own
}

// NewSlidingCounter returns a SlidingCounter in which nothing is taken. The error
// names the field that is out of range.
func NewSlidingCounter(cfg SlidingCounterConfig) (*SlidingCounter, error) {
	err := first(
		checkLimit("SlidingCounterConfig.Limit", cfg.Limit),
		checkTime("SlidingCounterConfig.Window", cfg.Window, 1),
		checkKeys("SlidingCounterConfig", cfg.MaxKeys),
	)
	if err == nil && (cfg.Segments < 0 || cfg.Segments > 10_000) {
		err = invalidf("SlidingCounterConfig.Segments is %d, want 0 up to 10,000", cfg.Segments)
	}
	if err != nil {
		return nil, err
	}
	n := cfg.Segments
	if n == 0 {
		n = 10
	}
	return newSlidingCounter(cfg.Limit, cfg.Window, n, cfg.MaxKeys), nil
}

func newSlidingCounter(limit int, window time.Duration, n, keys int) *SlidingCounter {
	l := &SlidingCounter{length: (uint64(window) + uint64(n) - 1) / uint64(n), segments: uint64(n) + 1}
	l.init(segmentRule{l}, limit, keys, time.Duration(l.length*l.segments))
	return l
}

// segments is the counts of the last segments.
type segments struct {
	counts []int64 // of segment i at i modulo their number; nil if nothing was taken yet
	now    uint64  // the last segment counted
	last   uint64  // the last in which something was taken
	sum    int64
}

type segmentRule struct{ l *SlidingCounter }

func (s *segments) at(i uint64) *int64 { return &s.counts[i%uint64(len(s.counts))] }

// oldest returns the number of the oldest segment that may count.
func (r segmentRule) oldest(s *segments) uint64 { return s.now - min(s.now, r.l.segments-1) }

func (r segmentRule) roll(t uint64, s *segments) (passed int64) {
	now := t / r.l.length
	if s.counts == nil {
		s.now = now
		return 0
	}
	for i := s.now + 1; i <= now && s.sum > 0; i++ {
		// A segment begins in the place of the one that has passed with it.
		passed += *s.at(i)
		s.sum -= *s.at(i)
		*s.at(i) = 0
	}
	s.now = now
	return passed
}

func (r segmentRule) level(t uint64, s *segments) int64 { return s.sum }

func (r segmentRule) after(s *segments, at uint64) (n int64) {
	for i := s.now; s.counts != nil && i > at/r.l.length && i > r.oldest(s); i-- {
		n += *s.at(i)
	}
	return n
}

func (r segmentRule) when(t uint64, s *segments, n, limit int64) uint64 {
	over := s.sum + n - limit
	for i := r.oldest(s); over > 0; i++ {
		over -= *s.at(i)
		t = (i + r.l.segments) * r.l.length
	}
	return t
}

func (r segmentRule) charge(t uint64, s *segments, n int64) {
	if s.counts == nil {
		s.counts = make([]int64, r.l.segments)
	}
	n = min(n, most-s.sum)
	s.sum += n
	*s.at(s.now) += n
	s.last = s.now
}

// SettleAt is Settle for a take that was made at taken: what it cost less is given
// back as long as it counts, and all of it, unless the vendor's count has lowered
// the key since.
func (l *SlidingCounter) SettleAt(now, taken time.Time, key string, n, used int) {
	l.settleAt(now, taken, key, n, used, l.off)
}

// off takes n permits off the segment of a time.
func (l *SlidingCounter) off(s *segments, at uint64, n int64) int64 {
	i := at / l.length
	if s.counts == nil || i > s.now || i+l.segments <= s.now {
		return 0
	}
	n = min(n, *s.at(i))
	*s.at(i) -= n
	s.sum -= n
	return n
}

func (r segmentRule) refund(s *segments, n int64) {
	s.sum -= n
	for i := r.oldest(s); n > 0; i++ {
		k := min(n, *s.at(i))
		*s.at(i) -= k
		n -= k
	}
}

func (r segmentRule) idle(s *segments) uint64 {
	if s.sum == 0 {
		return 0
	}
	return (s.last + r.l.segments) * r.l.length
}

func (r segmentRule) since(t uint64) uint64 {
	now := t / r.l.length
	return (now - min(now, r.l.segments-1)) * r.l.length
}

func (r segmentRule) next(t uint64) uint64 { return t + r.l.segments*r.l.length }
