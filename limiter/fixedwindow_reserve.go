package limiter

import "time"

// Reserve takes n permits of key, those of this window first and then those of
// the coming ones, and says how long to wait until they may be used. When that
// would be more than MaxWait it takes none, and is not OK. Nor is it for a key that
// finds MaxKeys others in use; then the delay is that until one of them is not. An n
// of less than 1 needs no wait.
//
// Who reserves waits, and then uses the permits, or Cancels.
func (w *FixedWindow) Reserve(now time.Time, key string, n int) WindowReservation {
	if n < 1 {
		return WindowReservation{w: w}
	}
	e := w.use(now, key)
	if e == nil {
		return WindowReservation{delay: min(w.keys.room(w.now), uint64(Never-1))}
	}
	s, m := &e.state, permits(n)
	v := WindowReservation{w: w, key: key, n: m, first: s.window, limits: w.limits}
	if v.delay = w.wait(w.now, *s, m); v.delay > w.maxWait {
		return WindowReservation{delay: min(v.delay, uint64(Never-1))}
	}
	v.last = (w.now + v.delay) / w.period
	if at, ok := s.hole(m); ok && m > s.left {
		e.back.take(uint64(m))
		s.fill(at, m)
		v.first, v.inLast = at, m
		return v
	}
	w.charge(e, m)
	v.inLast = min(m, w.used(s))
	return v
}

// used returns how many permits of the tail are taken, holes among them.
func (w *FixedWindow) used(s *fixed) int64 {
	if s.left >= 0 {
		return most // of the present window; its limit may have been another
	}
	return (-s.left-1)%w.limit + 1
}

// WindowReservation is n permits of a FixedWindow that may be used after a Delay. The
// zero value is none. It is a value of one owner: a copy that is cancelled beside the
// original may give permits back twice.
type WindowReservation struct {
	w           *FixedWindow // nil: nothing is reserved
	key         string
	n           int64
	first, last uint64 // windows: no permit is of an earlier one, or of a later one
	inLast      int64  // how many are of the last; of those between, all there were
	limits      uint64 // of the FixedWindow
	delay       uint64
}

// OK reports whether the permits are reserved and not cancelled.
func (v WindowReservation) OK() bool { return v.w != nil }

// Delay returns how long to wait, counted from the now of Reserve, before the permits
// may be used; 0 for at once. When the reservation is not OK, it is how long the wait
// would have been.
func (v WindowReservation) Delay() time.Duration { return time.Duration(v.delay) }

// Cancel gives back permits that have not been used and will not be; they are not to
// be settled. Each window, from the present one on, has those again that it gave: for
// the next Reserve, or Wait, of no more than it has; those who came later keep the
// waits they have. When all that was reserved after is cancelled, too, in whatever
// order, everything is as if nothing had been reserved.
//
// What was reserved before SetLimit is lost, and so is what a window gave in which
// Drain or SetRemaining took permits, and of a reservation from more than 4096
// windows what came from the first of them. Only the first call does something. A
// reservation that was cancelled is not OK.
func (v *WindowReservation) Cancel(now time.Time) {
	gone := *v
	*v = WindowReservation{}
	if gone.n < 1 {
		return
	}
	w := gone.w
	w.at(now)
	if w.keys.index[gone.key] == nil {
		w.keys.settleGone(gone.key, int(gone.n))
		return
	}
	e := w.use(now, gone.key)
	s := &e.state
	e.back.settle(uint64(gone.n), 0)
	if gone.limits != w.limits {
		return
	}
	n, k := gone.n, gone.inLast
	for at := gone.last; n > 0 && at >= s.window && gone.last-at < mostWindows; at-- {
		if at == gone.first {
			k = n
		}
		if at+1 != s.lowered {
			s.dig(at, k)
		}
		n -= k
		k = min(n, w.limit)
	}
	w.collapse(s)
	w.keys.earlier(e)
}

// mostWindows is from how many windows a reservation gives permits back.
const mostWindows = 1 << 12

// hole returns the first window in which n permits were given back.
func (s *fixed) hole(n int64) (first uint64, ok bool) {
	for at, has := range s.holes {
		if has >= n && at >= s.window && (!ok || at < first) {
			first, ok = at, true
		}
	}
	return first, ok
}

func (s *fixed) dig(at uint64, n int64) {
	if s.holes == nil {
		s.holes = make(map[uint64]int64)
	}
	s.holes[at] += n
}

func (s *fixed) fill(at uint64, n int64) {
	if s.holes[at] -= n; s.holes[at] <= 0 {
		delete(s.holes, at)
	}
}

// collapse takes holes off the tail: within a window, permits are all the same.
func (w *FixedWindow) collapse(s *fixed) {
	for at := range s.holes {
		if at < s.window {
			delete(s.holes, at)
		}
	}
	for len(s.holes) > 0 {
		tail := s.window
		if s.left < 0 {
			tail += w.refills(-s.left)
		}
		n := s.holes[tail]
		if n == 0 {
			return
		}
		s.left += n
		delete(s.holes, tail)
	}
}

// available returns how many permits there are now; less than 0 when all of this
// window are taken: so many less are borrowed.
func (s fixed) available() int64 {
	if n := s.holes[s.window]; n > 0 {
		return n
	}
	sum := s.left
	for at, n := range s.holes {
		if at > s.window {
			sum += n
		}
	}
	return sum
}
