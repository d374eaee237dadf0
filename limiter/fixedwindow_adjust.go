package limiter

import "time"

// Settle corrects the cost of an earlier take from n to used permits. More is
// charged now, even against coming windows. Less is given back only while this
// window has not lent permits of coming ones, and only what was certainly taken
// in it: since Settle is not told which take it corrects, it supposes one of an
// earlier window, as long as there may be one.
//
// A take that is not settled counts as one that may be. Settle every take of a
// key, also with used equal to n, or none: whoever settles only some finds that
// less and less is given back.
func (w *FixedWindow) Settle(now time.Time, key string, n, used int) {
	n, used = max(0, n), max(0, used)
	if w.at(now); w.keys.index[key] == nil {
		w.keys.settleGone(key, n)
		if used <= n {
			return
		}
		n, used = 0, used-n
	}
	e := w.use(now, key)
	if e == nil {
		return
	}
	back := e.back.settle(uint64(n), uint64(max(0, n-used)))
	switch {
	case used > n:
		e.state.left = max(e.state.left-permits(used-n), -most)
	case e.state.left >= 0:
		e.state.left += int64(back) // the key is in use until the next window all the same
	}
}

// SettleAt is Settle for a Take that was made at taken: what it cost less is given back
// as long as its window lasts, and all of it, unless that has lent permits of coming
// ones or the vendor's count has lowered the key since.
func (w *FixedWindow) SettleAt(now, taken time.Time, key string, n, used int) {
	n, used = max(0, n), max(0, used)
	if w.at(now); w.keys.index[key] == nil || used >= n {
		w.Settle(now, key, n, used)
		return
	}
	e := w.use(now, key)
	back := min(uint64(n-used), e.back.open)
	e.back.settle(uint64(n), 0)
	if at := w.ago(taken); at/w.period == e.state.window && at >= e.low && e.state.left >= 0 {
		e.state.left += int64(back)
	}
}

// Accepted does nothing: the limit is the configured one.
func (w *FixedWindow) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: the limit is the configured one. What the vendor's
// answer says about what is left is for SetRemaining.
func (w *FixedWindow) Refused(now, sent time.Time, key string) {}

// Rate returns Limit/Period, in permits per second.
func (w *FixedWindow) Rate(now time.Time, key string) float64 {
	return float64(w.limit) / time.Duration(w.period).Seconds()
}

// Available returns how many permits of this window key has left. When it is less
// than 0, so many have been borrowed from the coming windows.
func (w *FixedWindow) Available(now time.Time, key string) int {
	return int(w.view(w.at(now), w.keys.index[key]).available())
}

// Drain takes all permits that key has left in this window.
func (w *FixedWindow) Drain(now time.Time, key string) { w.lower(now, key, 0) }

// SetRemaining takes what key has more than left in this window, if the call
// whose answer said so was sent in it. It never gives anything back.
func (w *FixedWindow) SetRemaining(now, sent time.Time, key string, left int) {
	if t := w.at(now); w.ago(sent) >= t-t%w.period {
		w.lower(now, key, permits(left))
	}
}

func (w *FixedWindow) lower(now time.Time, key string, left int64) {
	if e := w.use(now, key); e != nil {
		e.back.pass(e.back.open) // the vendor's count may have what would be given back
		s := &e.state
		s.lowered = s.window + 1
		e.low = w.now + 1
		if h := s.holes[s.window]; h > left {
			s.fill(s.window, h-left)
		}
		s.left = min(s.left, left)
	}
}

// SetLimit changes the limit of all keys, higher or lower, from the next window
// on: for each key, from the first window after the one in which it was last used,
// by anything but Wait and Available. Waits that Reserve has given stay as they are;
// the windows in which they end hold those permits beside what the new limit
// gives. What was reserved before is not given back when it is cancelled after. It
// takes time in proportion to the keys in use.
func (w *FixedWindow) SetLimit(now time.Time, limit int) error {
	if err := checkLimit("SetLimit", limit); err != nil {
		return err
	}
	if int64(limit) == w.limit {
		return nil
	}
	w.limit = int64(limit)
	w.limits++
	for _, e := range w.keys.heap {
		e.state.holes = nil // they are of the old one
	}
	w.keys.all()
	return nil
}

// SetMaxWait changes the longest wait that Reserve gives from now on, up to a
// century.
func (w *FixedWindow) SetMaxWait(maxWait time.Duration) error {
	if err := checkTime("SetMaxWait", maxWait, 0); err != nil {
		return err
	}
	w.maxWait = uint64(maxWait)
	return nil
}
