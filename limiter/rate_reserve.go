package limiter

import "time"

// RateReservation is n permits of a Rate that may be used after a Delay. The zero
// value is none. It is a value of one owner: a copy that is cancelled beside the
// original may give permits back twice.
type RateReservation struct {
	state *rateState // nil: nothing is reserved
	after int64      // tat after the take
	delay int64
	n     int
	// Four fields: a struct of more is not kept in registers.
}

// Reserve takes n permits, now or in advance, and says how long to wait before
// using them. It is not OK, and nothing is taken, when n is more than Burst or
// the wait would be longer than ten years. n below 1 is OK and takes nothing.
//
// Who reserves must wait, or Cancel. A Reserve takes its place at once, before
// those in Wait whose turn has not come.
func (r *Rate) Reserve(n int) RateReservation { return r.reserve(r.time.now(), n) }

// ReserveAt is Reserve by the caller's reading of the clock.
func (r *Rate) ReserveAt(now time.Time, n int) RateReservation { return r.reserve(r.time.at(now), n) }

func (r *Rate) reserve(now int64, n int) RateReservation {
	s, after, wait := r.take(now, n, 0)
	if wait > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.reserveLater(now, n).RateReservation
	}
	return RateReservation{state: s, after: after, n: n}
}

// reserveInTurn is reserve for who has the turn in line. What it reserves is known to who
// changes the limit meanwhile, and can be given back by leaveTurn all the same.
func (r *Rate) reserveInTurn(now int64, n int) RateReservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, after, wait := r.take(now, n, 0)
	if r.turn = (place{RateReservation{state: s, after: after, n: n}, int64(n) * s.interval}); wait > 0 {
		r.turn = r.reserveLater(now, n)
	}
	return r.turn.RateReservation
}

// leaveTurn forgets what was reserved in turn, and gives it back unless it was used.
func (r *Rate) leaveTurn(used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.turn; !used && p.state != nil && p.n > 0 {
		r.undo(p)
	}
	r.turn = place{}
}

// reserveLater reserves the place of a reservation that was cancelled, if one is
// left, or a new one after all others. The caller holds mu.
func (r *Rate) reserveLater(now int64, n int) place {
	if p, ok := r.undone.reuse(now, n); ok {
		p.delay = p.at() - now
		return p
	}
	s, after, wait := r.take(now, n, farthest)
	if wait > farthest {
		return place{RateReservation: RateReservation{delay: wait}}
	}
	return place{RateReservation{state: s, after: after, delay: wait, n: n}, int64(n) * s.interval}
}

// OK reports whether the permits are reserved and not cancelled.
func (v RateReservation) OK() bool { return v.state != nil }

// Delay returns how long to wait, counted from the call of Reserve, before the
// permits may be used; 0 for at once. When the reservation is not OK, it is how
// long the wait would have been, Never for more than Burst.
func (v RateReservation) Delay() time.Duration { return time.Duration(v.delay) }

// at is the instant from which on the permits may be used, if they could not be
// used at once.
func (v *RateReservation) at() int64 { return v.after - v.state.depth }

// Cancel gives back permits that have not been used and will not be. They count
// as never taken, if nothing has been taken after them. Otherwise, as what was
// taken later keeps its time, they go to the next Reserve or Wait of as many
// that would have to wait, or else count as never taken as soon as all that was
// reserved later is cancelled, in whatever order. What is not used of them by the
// time they were reserved for is lost, as is what was reserved before SetRate or
// SetBurst.
//
// Only the first call does something. A reservation that was cancelled is not OK.
func (v *RateReservation) Cancel() {
	if v.state == nil {
		return
	}
	gone, r := *v, v.state.owner
	*v = RateReservation{}
	if gone.n < 1 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cur.Load() != gone.state {
		return
	}
	r.undo(place{gone, int64(gone.n) * gone.state.interval})
}

// undo gives p back, of the present state. The caller holds mu.
func (r *Rate) undo(p place) {
	r.undone.add(r.time.now(), p)
	r.undone.collapse(p.state)
}

// place is a reservation and by how much it has moved tat: the cost of its permits, if
// the limit was not changed since.
type place struct {
	RateReservation
	cost int64
}

// undone holds the cancelled reservations of one rateState that are not given
// back yet, by the tat after them.
//
// To take the cost off tat is exact only for the last take: then tat is what it
// was before, or the now of the take if that was later, which comes to the same;
// and it is as if the take had never been. To take off the cost of any other
// would let the next take come at the very time of one that keeps its own. As
// each take moves tat up and only the undoing of the last one moves it down, tat
// is equal to the tat after some take only when all later ones are undone. So
// the number alone tells whether a take is the last one.
type undone struct {
	places map[int64]place
	enough int   // so many, and it is time to drop those whose time is over
	least  int64 // what tat is not to go below: SetRemaining took what was there
}

func (u *undone) add(now int64, p place) {
	if u.places == nil {
		u.places = make(map[int64]place)
	}
	if len(u.places) >= u.enough {
		for after := range u.places {
			if after <= now { // come back by the passing of time
				delete(u.places, after)
			}
		}
		u.enough = 2*len(u.places) + 16 // so that dropping costs O(1) an add
	}
	u.places[p.after] = p
}

// collapse gives back the last takes, as far as they are cancelled. A take that
// comes in between is then the last one, and whoever cancels it comes here, under
// the same mutex.
func (u *undone) collapse(s *rateState) {
	for {
		tat := s.tat.Load()
		p, ok := u.places[tat]
		if !ok || tat <= u.least {
			return
		}
		if s.tat.CompareAndSwap(tat, max(u.least, tat-p.cost)) {
			delete(u.places, tat)
		}
	}
}

// reuse hands out the earliest place for n permits that is not over at now. One
// for more would waste the rest, one for less would not do.
func (u *undone) reuse(now int64, n int) (first place, ok bool) {
	for _, p := range u.places {
		if p.n == n && p.at() >= now && (!ok || p.after < first.after) {
			first, ok = p, true
		}
	}
	delete(u.places, first.after)
	return first, ok
}
