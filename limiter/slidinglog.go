package limiter

import (
	"sort"
	"time"
)

// SlidingLogConfig says what a SlidingLog admits.
type SlidingLogConfig struct {
	// Limit is how many permits of a key any Window may hold: 1 up to 1<<40.
	Limit int

	// Window is the length of the window, up to a century.
	Window time.Duration

	// Margin makes the window longer, up to a century, to make up for calls that
	// take longer on their way than others: see QuotaConfig.Margin. 0 means none.
	Margin time.Duration

	// MaxKeys bounds the keys that have permits in their window. A further key has
	// to wait until one of them has none. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// SlidingLog admits at most Limit permits of a key in any Window, wherever it
// begins: it keeps the time of every take, and a permit comes back Window+Margin
// after it was taken. It is the limit of a vendor that documents a quota and
// counts over a sliding window, and wastes nothing: an owner that comes back when
// Wait says so gets Limit permits in every Window+Margin.
//
// The envelope: any half-open span of time of length Window+Margin holds no more
// permits of a key than the highest limit in force in it.
//
// The price is memory: 16 bytes for each take that still counts, or was given back
// lately, so up to 32*Limit bytes for a key, besides some 140 for the key itself. Where
// that is too much, SlidingCounter needs little and wastes some. Takes made at the same
// nanosecond count as one.
//
// A SlidingLog belongs to one owner and has no lock. Wait and Take on a known key
// cost O(n) for n permits, amortised, and allocate nothing but, at times, a
// longer log.
type SlidingLog struct {
	window[ring]
	length uint64 // of the window, with the margin
}

// NewSlidingLog returns a SlidingLog in which nothing is taken. The error names
// the field that is out of range.
func NewSlidingLog(cfg SlidingLogConfig) (*SlidingLog, error) {
	err := first(
		checkLimit("SlidingLogConfig.Limit", cfg.Limit),
		checkTime("SlidingLogConfig.Window", cfg.Window, 1),
		checkTime("SlidingLogConfig.Margin", cfg.Margin, 0),
		checkKeys("SlidingLogConfig", cfg.MaxKeys),
	)
	if err != nil {
		return nil, err
	}
	return newSlidingLog(cfg.Limit, cfg.Window, cfg.Margin, cfg.MaxKeys), nil
}

func newSlidingLog(limit int, length, margin time.Duration, keys int) *SlidingLog {
	l := &SlidingLog{length: uint64(length + margin)}
	l.init(logRule{l}, limit, keys, length+margin)
	return l
}

// ring is the takes that still count, oldest first.
type ring struct {
	buf  []take // a power of two long
	head int
	len  int
	sum  int64 // of their permits
}

type take struct {
	at uint64
	n  int64
}

func (r *ring) at(i int) *take { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *ring) push(x take) {
	if r.len == len(r.buf) {
		buf := make([]take, max(4, 2*r.len))
		n := copy(buf, r.buf[r.head:])
		copy(buf[n:], r.buf[:r.head])
		r.buf, r.head = buf, 0
	}
	r.len++
	*r.at(r.len - 1) = x
}

// pop takes n permits off the oldest takes.
func (r *ring) pop(n int64) {
	r.sum -= n
	for n > 0 {
		x := r.at(0)
		if n < x.n {
			x.n -= n
			return
		} // a take of which all was given back has none
		n -= x.n
		r.head = (r.head + 1) & (len(r.buf) - 1)
		r.len--
	}
}

type logRule struct{ l *SlidingLog }

func (r logRule) roll(t uint64, s *ring) (passed int64) {
	for s.len > 0 && s.at(0).at+r.l.length <= t {
		n := s.at(0).n
		s.sum -= n
		s.head = (s.head + 1) & (len(s.buf) - 1)
		s.len--
		passed += n
	}
	return passed
}

func (r logRule) level(t uint64, s *ring) int64 { return s.sum }

func (r logRule) after(s *ring, at uint64) (n int64) {
	for i := s.len - 1; i >= 0 && s.at(i).at > at; i-- {
		n += s.at(i).n
	}
	return n
}

func (r logRule) when(t uint64, s *ring, n, limit int64) uint64 {
	over := s.sum + n - limit
	for i := 0; over > 0; i++ {
		over -= s.at(i).n
		t = s.at(i).at + r.l.length
	}
	return t
}

func (r logRule) charge(t uint64, s *ring, n int64) {
	if n = min(n, most-s.sum); n == 0 {
		return
	}
	s.sum += n
	if int64(s.len) >= 2*r.l.limit.next {
		s.compact()
	}
	if s.len > 0 {
		// Only who overdraws a limit meets it with more takes than permits.
		if last := s.at(s.len - 1); last.at == t || int64(s.len) >= 2*r.l.limit.next {
			last.at = t
			last.n += n
			return
		}
	}
	s.push(take{t, n})
}

// compact drops the takes of which all was given back.
func (r *ring) compact() {
	k := 0
	for i := range r.len {
		if x := *r.at(i); x.n > 0 {
			*r.at(k) = x
			k++
		}
	}
	r.len = k
}

// off takes n permits off the takes of a time, or those that they were counted
// with later.
func (l *SlidingLog) off(s *ring, at uint64, n int64) int64 {
	if at+l.length <= l.now {
		return 0
	}
	i := sort.Search(s.len, func(i int) bool { return s.at(i).at >= at })
	if i == s.len {
		return 0
	}
	x := s.at(i)
	n = min(n, x.n)
	x.n -= n
	s.sum -= n
	return n
}

// SettleAt is Settle for a take that was made at taken: what it cost less is given
// back as long as it counts, and all of it, unless the vendor's count has lowered
// the key since. It takes the logarithm of the takes that count.
func (l *SlidingLog) SettleAt(now, taken time.Time, key string, n, used int) {
	l.settleAt(now, taken, key, n, used, l.off)
}

func (r logRule) refund(s *ring, n int64) { s.pop(n) }

func (r logRule) idle(s *ring) uint64 {
	if s.sum == 0 { // takes may be left of which all was given back
		return 0
	}
	return s.at(s.len-1).at + r.l.length
}

func (r logRule) since(t uint64) uint64 { return t - min(t, r.l.length) }
func (r logRule) next(t uint64) uint64  { return t + r.l.length }
