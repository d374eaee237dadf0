package limiter

import (
	"math/bits"
	"time"
)

// FixedWindowConfig says what a FixedWindow admits.
type FixedWindowConfig struct {
	// Limit is how many permits of a key each window has: 1 up to 1<<40.
	Limit int

	// Period is the length of a window, up to a century.
	Period time.Duration

	// MaxWait is the longest wait for which Reserve borrows permits of coming
	// windows, up to a century. 0 means that it borrows none. Wait and Take do not
	// heed it.
	MaxWait time.Duration

	// MaxKeys bounds the keys that have taken permits in this window, or borrowed
	// some of coming ones. A further key has to wait until one of them has all its
	// permits again. At most 1<<30. 0 means 100,000.
	MaxKeys int
}

// FixedWindow gives each key Limit permits in every Period, all at once at its
// beginning. Windows follow each other from the first now on; permits not taken
// in one are lost with it.
//
// There are two ways to have them. As a Limiter, a FixedWindow is asked with Wait
// and lets permits be taken when their window has begun. Reserve gives permits at
// once, also those of coming windows, and says how long to wait until they may be
// used: all waits are known beforehand, and nobody has to be woken.
//
// The envelope for Wait and Take: each window holds no more permits of a key than
// its limit. Around the border of two windows a span of one Period may hold twice
// as many: that is how vendors of this kind count, but others do not, and for
// them there is SlidingLog. The whole Limit of each window can be used.
//
// The envelope for Reserve, with its permits counted in the window in which their
// wait ends: each window gives Limit permits, in the order of the reservations, and
// a reservation waits for the window of its last permit. So any k windows in a row
// hold no more than k*Limit permits, and what the first of them gives to a
// reservation that began before: less than the n of the largest one. With an n of
// 1, each window holds no more than Limit. A reservation that is cancelled counts as
// never made: see WindowReservation.Cancel.
//
// A FixedWindow belongs to one owner and has no lock. All methods but SetLimit and
// Cancel are O(1) on a known key and allocate nothing; while reservations of coming
// windows are cancelled and others after them are not, O(MaxWait/Period). A key needs
// some 130 bytes, besides its own.
type FixedWindow struct {
	clock
	period  uint64
	maxWait uint64
	limit   int64
	limits  uint64 // how many there have been
	first   int64  // what the first window has, whatever the limit is now
	keys    keyTable[fixed]
}

// fixed is what a key has left in a window; less than 0 when it has borrowed from the
// coming ones, all of each before the next. The last one from which something is
// borrowed is the tail.
type fixed struct {
	window  uint64
	left    int64
	lowered uint64 // the last window, and 1, in which somebody else's count lowered left

	// holes are permits given back, by their window: from the present one on, and
	// before the tail. nil: none.
	holes map[uint64]int64
}

// NewFixedWindow returns a FixedWindow in which nothing is taken. The error names
// the field that is out of range.
func NewFixedWindow(cfg FixedWindowConfig) (*FixedWindow, error) {
	err := first(
		checkLimit("FixedWindowConfig.Limit", cfg.Limit),
		checkTime("FixedWindowConfig.Period", cfg.Period, 1),
		checkTime("FixedWindowConfig.MaxWait", cfg.MaxWait, 0),
		checkKeys("FixedWindowConfig", cfg.MaxKeys),
	)
	if err != nil {
		return nil, err
	}
	w := &FixedWindow{period: uint64(cfg.Period), maxWait: uint64(cfg.MaxWait), limit: int64(cfg.Limit), first: int64(cfg.Limit)}
	w.keys = newKeyTable(cfg.MaxKeys, w.idle)
	return w, nil
}

// view returns what key has at t. It changes nothing: what came back since the
// key was last used came back at today's limit.
func (w *FixedWindow) view(t uint64, e *slot[fixed]) fixed {
	s := fixed{left: w.first}
	if e != nil {
		s = e.state
	}
	if k := t/w.period - s.window; k > 0 {
		s.window += k
		if k >= w.refills(w.limit-s.left) {
			s.left = w.limit
		} else {
			s.left += int64(k) * w.limit
		}
	}
	return s
}

// refills returns how many windows bring n permits.
func (w *FixedWindow) refills(n int64) uint64 {
	return uint64((max(0, n) + w.limit - 1) / w.limit)
}

// wait returns how long from t it is until n permits are there, if there is
// nothing between the limit and now.
func (w *FixedWindow) wait(t uint64, s fixed, n int64) uint64 {
	if n <= s.left {
		return 0
	}
	if at, ok := s.hole(n); ok {
		return at*w.period - min(t, at*w.period)
	}
	hi, lo := bits.Mul64(w.refills(n-s.left), w.period)
	if hi > 0 || lo > 1<<63 {
		return 1 << 63
	}
	return lo - t%w.period
}

// idle returns the beginning of the first window that has the whole limit and in
// which nothing has been taken.
func (w *FixedWindow) idle(s *fixed) uint64 {
	return (s.window + max(1, w.refills(w.limit-s.left))) * w.period
}

// use returns the slot of key, in the window of now, or nil when there is no room.
func (w *FixedWindow) use(now time.Time, key string) *slot[fixed] {
	t := w.at(now)
	e := w.keys.index[key]
	s := w.view(t, e)
	if e == nil {
		if e = w.keys.get(t, key); e == nil {
			return nil
		}
	} else if s.window != e.state.window {
		e.back.pass(e.back.open)
	}
	e.state = s
	return e
}

// Wait returns how long it is until n permits of key can be taken; Never when n
// is more than the limit. For a key that finds MaxKeys others in use, it is how
// long until one of them is not.
func (w *FixedWindow) Wait(now time.Time, key string, n int) time.Duration {
	t := w.at(now)
	e := w.keys.index[key]
	s := w.view(t, e)
	room := uint64(0)
	if e == nil {
		room = w.keys.room(t)
	}
	switch {
	case n < 1:
		return 0
	case int64(n) > max(w.limit, s.left), room > 0 && int64(n) > w.limit: // there is room in a later window only
		return Never
	}
	return wait(max(room, w.wait(t, s, int64(n))))
}

// Take takes n permits of key. Of a key for which Wait has found no room nothing
// is kept.
func (w *FixedWindow) Take(now time.Time, key string, n int) {
	if n < 1 {
		return
	}
	if e := w.use(now, key); e != nil {
		w.charge(e, permits(n))
	} else {
		w.keys.missed(key, n)
	}
}

// charge takes n permits, of a hole for which there is no wait if there is one.
func (w *FixedWindow) charge(e *slot[fixed], n int64) {
	e.back.take(uint64(n))
	s := &e.state
	if at, ok := s.hole(n); ok && at == s.window && n > s.left {
		s.fill(at, n)
		return
	}
	s.left = max(s.left-n, -most)
}
