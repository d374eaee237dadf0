package limiter

import "math/bits"

// Tokens returns how many permits there are now: up to Burst, with the part of
// the one that is coming back, and less than 0 when permits are reserved that
// have yet to come back. It changes nothing and takes no lock.
func (r *Rate) Tokens() float64 {
	for s := r.cur.Load(); ; s = r.settled() {
		if tat := s.tat.Load(); tat != moved {
			return s.tokens(tat, r.time.now())
		}
	}
}

// Limits returns the rate and the burst in force.
func (r *Rate) Limits() (rate float64, burst int) {
	s := r.cur.Load()
	return s.rate, int(s.burst)
}

// Drain takes all permits there are now: the next one can be had when one has
// come back. A Rate from which more is reserved already stays as it is.
func (r *Rate) Drain() { r.SetRemaining(0) }

// SetRemaining lowers the number of permits there are now to n, as when a vendor
// says what is left. It never raises it: an answer that was under way while
// permits came back or were taken is older than what the Rate knows. So of
// several answers, in whatever order, the least counts, and time brings back what
// it took, and what is cancelled later does not. n below 0 counts as 0.
func (r *Rate) SetRemaining(n int) {
	r.mu.Lock() // nobody changes the limit, and nobody gives back
	defer r.mu.Unlock()
	s := r.cur.Load()
	lower := r.time.now() + (s.burst-min(int64(max(0, n)), s.burst))*s.interval
	r.undone.least = max(r.undone.least, lower)
	for {
		if tat := s.tat.Load(); tat >= lower || s.tat.CompareAndSwap(tat, lower) {
			return
		}
	}
}

// SetRate changes the rate, for all permits that are taken from now on. What
// permits there are stay; and so do waits that were given: what is reserved comes
// back at the old rate, and the new one begins when that is over. Then as before
// at most the burst and what comes back at the rate in force are used in any
// window; the largest burst, if it changes in the window.
//
// An error says what is out of range, as for NewRate, and changes nothing.
func (r *Rate) SetRate(rate float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change(rate, int(r.cur.Load().burst))
}

// SetBurst changes the burst; 0 means one second's worth. A larger bucket has as
// many permits as before, until more have come back. From a smaller one, those
// that it does not hold are gone. All else is as for SetRate.
func (r *Rate) SetBurst(burst int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change(r.cur.Load().rate, burst)
}

// change puts a new state in place of the old one. It is called under mu.
//
// The swap to moved is the moment of the change: takes before it are in the tat
// that it returns, and takes after it find moved, wait for mu and use the new
// state. None is lost and none is made by the old limits.
func (r *Rate) change(rate float64, burst int) error {
	g, err := newGCRA("RateConfig", rate, burst)
	if err != nil {
		return err
	}
	old, now := r.cur.Load(), r.time.now()
	if g == old.gcra {
		return nil // what is reserved may still be cancelled
	}
	next := &rateState{gcra: g, since: now, owner: r, number: old.number + 1}
	tat := old.tat.Swap(moved)
	next.tat.Store(old.carry(&next.gcra, tat, now))
	r.turn = r.turn.carry(next, tat, r.undone.least, now)
	r.cur.Store(next)
	r.undone = undone{}
	return nil
}

// carry returns p as a place of next, whose tat has been carried over from tat: as much of
// it as there would be less, if p were given back just before. Nothing is left of one that
// others have reserved behind: it cannot be given back but to them.
func (p place) carry(next *rateState, tat, least, now int64) place {
	if p.state == nil || p.n < 1 || p.after != tat {
		return place{}
	}
	old, after := p.state, next.tat.Load()
	without := old.carry(&next.gcra, max(least, tat-p.cost), now)
	p.state, p.after, p.cost = next, after, after-without
	return p
}

// carry returns the tat under the limits of next that says at now what tat says
// under those of g: as many permits, rounded down to what comes in a nanosecond,
// or none until the same time.
func (g *gcra) carry(next *gcra, tat, now int64) int64 {
	if empty := tat - g.depth; empty > now { // until when all is reserved
		return empty + next.depth
	}
	have := scale(min(g.depth, now-tat+g.depth), next.interval, g.interval)
	return now + next.depth - min(have, next.depth)
}

// scale returns t*by/from, rounded down, or the most there is. All are at least
// 0, and from is more.
func scale(t, by, from int64) int64 {
	hi, lo := bits.Mul64(uint64(t), uint64(by))
	if hi >= uint64(from) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(from))
	return int64(min(q, 1<<63-1))
}
