package limiter

import "time"

// window is a limiter that counts the permits of a window by a rule.
type window[S any] struct {
	clock
	limit limitInForce
	keys  keyTable[S]
	rule  windowRule[S]
	per   time.Duration // in which the limit passes in the long run
}

// windowRule is how a limiter counts the permits of one key in a state S, whose zero
// value is that of a key never seen. Times are the clock's and never go back.
type windowRule[S any] interface {
	// roll brings s up to t and returns how many permits do not count any more.
	// Nobody but level and when can tell.
	roll(t uint64, s *S) (passed int64)

	// level returns how many permits count now. The state is rolled up to t, as it
	// is for all that follow.
	level(t uint64, s *S) int64

	// after returns how many of them were surely taken after at.
	after(s *S, at uint64) int64

	// when returns the earliest time from t on at which n more permits leave no
	// more than limit, if nothing is taken. n is no more than limit.
	when(t uint64, s *S, n, limit int64) uint64

	// charge counts n permits as taken now.
	charge(t uint64, s *S, n int64)

	// refund takes n permits off those that stop counting first.
	refund(s *S, n int64)

	// idle returns when the state will be that of a key never seen.
	idle(s *S) uint64

	// since returns when the window began that counts now, and next when a raised
	// limit counts.
	since(t uint64) uint64
	next(t uint64) uint64
}

func (w *window[S]) init(r windowRule[S], limit, keys int, per time.Duration) {
	w.rule, w.per = r, per
	w.limit = limitInForce{limit: int64(limit), next: int64(limit)}
	w.keys = newKeyTable(keys, r.idle)
}

// roll brings e up to t.
func (w *window[S]) roll(t uint64, e *slot[S]) {
	e.back.pass(uint64(w.rule.roll(t, &e.state)))
}

// Wait returns how long it is until n permits of key can be taken; Never when n
// is more than the limit. For a key that finds MaxKeys others in use, it is how
// long until one of them is not.
func (w *window[S]) Wait(now time.Time, key string, n int) time.Duration {
	t, m := w.at(now), int64(n)
	w.limit.turn(t)
	switch e := w.keys.index[key]; {
	case n < 1:
		return 0
	case m > w.limit.next:
		return Never
	case e != nil:
		w.roll(t, e)
		return wait(w.when(t, &e.state, m) - t)
	case m > w.limit.limit:
		return wait(max(w.keys.room(t), w.limit.from-t))
	}
	return wait(w.keys.room(t))
}

// when returns when n permits can be taken. n is no more than the limit will be.
func (w *window[S]) when(t uint64, s *S, n int64) uint64 {
	d := &w.limit
	if d.limit == d.next {
		return w.rule.when(t, s, n, d.limit)
	}
	raised := max(d.from, w.rule.when(t, s, n, d.next))
	if n <= d.limit {
		return min(raised, w.rule.when(t, s, n, d.limit))
	}
	return raised
}

// Take takes n permits of key. Of a key for which Wait has found no room nothing
// is kept.
func (w *window[S]) Take(now time.Time, key string, n int) {
	if n < 1 {
		return
	}
	if e := w.get(now, key); e != nil {
		e.back.take(uint64(permits(n)))
		w.rule.charge(w.now, &e.state, permits(n))
	} else {
		w.keys.missed(key, n)
	}
}

// get returns the slot of key, rolled up to now, or nil when there is no room.
func (w *window[S]) get(now time.Time, key string) *slot[S] {
	t := w.at(now)
	w.limit.turn(t)
	e := w.keys.get(t, key)
	if e != nil {
		w.roll(t, e)
	}
	return e
}

// Settle corrects the cost of an earlier take from n to used permits. More is
// charged now, even into debt. Less is given back, but only what certainly still
// counts: since Settle is not told which take it corrects, it supposes one that
// does not, as long as there may be one. So the limit is kept with each take
// counted at its own time and at its corrected cost.
//
// A take that is not settled counts as one that may be. Settle every take of a
// key, also with used equal to n, or none: whoever settles only some finds that
// less and less is given back. A take that was not used is refunded by settling
// it to 0.
func (w *window[S]) Settle(now time.Time, key string, n, used int) {
	t := w.at(now)
	n, used = max(0, n), max(0, used)
	if e := w.keys.index[key]; e != nil {
		w.roll(t, e)
		if back := e.back.settle(uint64(n), uint64(max(0, n-used))); back > 0 {
			w.rule.refund(&e.state, int64(back))
			w.keys.earlier(e)
		}
	} else {
		w.keys.settleGone(key, n)
	}
	if used > n {
		if e := w.get(now, key); e != nil {
			w.rule.charge(t, &e.state, permits(used-n))
		}
	}
}

// settleAt is Settle for a take of a known time. off takes permits off what was
// taken then, and returns how many were still there.
func (w *window[S]) settleAt(now, taken time.Time, key string, n, used int, off func(s *S, at uint64, n int64) int64) {
	t := w.at(now)
	n, used = max(0, n), max(0, used)
	e := w.keys.index[key]
	if e == nil || used >= n {
		w.Settle(now, key, n, used)
		return
	}
	w.roll(t, e)
	e.back.settle(uint64(n), 0)
	at := w.ago(taken)
	if at < e.low {
		return // the vendor's count may have it
	}
	if off(&e.state, at, permits(n-used)) > 0 {
		w.keys.earlier(e)
	}
}

// Accepted does nothing: the limit is the configured one.
func (w *window[S]) Accepted(now, sent time.Time, key string) {}

// Refused does nothing: the limit is the configured one. What the vendor's
// answer says about what is left is for SetRemaining.
func (w *window[S]) Refused(now, sent time.Time, key string) {}

// Rate returns the permits per second that the limit lets through in the long
// run.
func (w *window[S]) Rate(now time.Time, key string) float64 {
	w.limit.turn(w.at(now))
	return float64(w.limit.limit) / w.per.Seconds()
}

// Available returns how many permits of key can be taken now; less than 0 is
// debt.
func (w *window[S]) Available(now time.Time, key string) int {
	t := w.at(now)
	w.limit.turn(t)
	e := w.keys.index[key]
	if e == nil {
		return int(w.limit.limit)
	}
	w.roll(t, e)
	return int(w.limit.limit - w.rule.level(t, &e.state))
}

// Drain takes all permits of key that there are now.
func (w *window[S]) Drain(now time.Time, key string) { w.lower(now, key, 0) }

// SetRemaining takes what key has more than left, if the call whose answer said
// so was sent in a window that still counts. It never gives anything back. A
// SlidingLog, and a SlidingCounter as far as its segments tell, leaves less by what
// was taken after sent and is not settled: the vendor cannot have counted that yet.
func (w *window[S]) SetRemaining(now, sent time.Time, key string, left int) {
	t, n := w.at(now), permits(left)
	if w.ago(sent) < w.rule.since(t) {
		return
	}
	if e := w.keys.index[key]; e != nil {
		w.roll(t, e)
		if w.limit.limit-w.rule.level(t, &e.state) > n { // others use it, too
			n = max(0, n-min(int64(e.back.open), w.rule.after(&e.state, w.ago(sent))))
		}
	}
	w.lower(now, key, n)
}

// lower leaves key no more than left permits. Without room for key there is
// nothing to take.
func (w *window[S]) lower(now time.Time, key string, left int64) {
	e := w.get(now, key)
	if e == nil {
		return
	}
	e.back.pass(e.back.open) // the vendor's count may have what would be given back
	e.low = w.now + 1
	if over := w.limit.limit - w.rule.level(w.now, &e.state) - left; over > 0 {
		w.rule.charge(w.now, &e.state, over)
	}
}

// SetLimit changes the limit of all keys. A lower one counts at once for what is
// taken from now on, so that Available may be less than 0; a higher one from the
// next window on, which for a sliding window is one Window from now: for a SlidingLog
// Window+Margin, for a SlidingCounter a Window and a segment. What is set while a higher
// one waits for that counts from then on, too.
func (w *window[S]) SetLimit(now time.Time, limit int) error {
	if err := checkLimit("SetLimit", limit); err != nil {
		return err
	}
	t := w.at(now)
	w.limit.turn(t)
	w.limit.set(int64(limit), w.rule.next(t))
	return nil
}
