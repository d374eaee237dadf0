package limiter

import (
	"reflect"
	"time"

	"github.com/flyball-go/flyball/event"
)

// enter admits a call at once, rejects it, or puts it into the queue if it waits.
// It returns a Reservation only for one that is in the queue, and when it took the
// permits of one that was admitted.
func (s *Shared) enter(key string, n int, deadline time.Time, waits bool) (r *Reservation, taken time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, taken, ErrClosed
	}
	now := time.Now()
	if n < 1 {
		s.calls++
		s.emit(now, event.Started, s.calls, key, 0, nil)
		return nil, taken, nil
	}
	if !s.alarm.IsZero() && !now.Before(s.alarm) {
		s.pump(now) // the timer is late; those who waited for it come first
	}
	s.calls++
	wait, hard := s.ask(now, key, n)
	q := s.queue
	for wait == 0 && !q.ahead(key) {
		if s.admit(now, s.calls, key, n, 0) {
			if q.lanes[key] != nil { // it has overtaken them, and they need no room any more
				q.lookAgain(key)
				s.pump(now)
			}
			return nil, now, nil
		}
		wait, hard = s.ask(now, key, n)
	}
	late := !deadline.IsZero() && hard > deadline.Sub(now)
	refuse := func(why Reason, kind event.Kind) error {
		e := s.refuse(why, key, wait, hard)
		e.deadline = late && why == TooLate
		s.emit(now, kind, s.calls, key, hard, e)
		return e
	}
	switch {
	case wait == Never:
		return nil, taken, refuse(Impossible, event.LimitRefused)
	case !waits || q.max == 0:
		return nil, taken, refuse(NoPermits, event.LimitRefused)
	case late || s.maxWait >= 0 && hard > s.maxWait:
		return nil, taken, refuse(TooLate, event.LimitRefused)
	case q.len >= q.max && !q.newest:
		return nil, taken, refuse(QueueFull, event.Overflow)
	}
	if q.len >= q.max {
		s.turnAway(now, q.all.oldest, Displaced, event.Overflow)
	}
	r = &Reservation{shared: s, key: key, n: n, done: make(chan struct{}), call: s.calls, began: now}
	if s.maxWait >= 0 {
		r.until = now.Add(s.maxWait)
	}
	s.emit(now, event.Queued, r.call, key, hard, nil)
	q.add(r)
	s.pump(now)
	return r, taken, nil
}

// ask returns how long it is until n permits of key can be taken, Never when they
// never can, and how much of that no Release and no change can shorten.
func (s *Shared) ask(now time.Time, key string, n int) (wait, hard time.Duration) {
	wait, hard = askAll(s.limiters, now, key, n)
	w, h := askAll(s.whole, now, "", n)
	return max(wait, w), max(hard, h)
}

func askAll(parts []part, now time.Time, key string, n int) (wait, hard time.Duration) {
	for _, p := range parts {
		d := p.Wait(now, key, n)
		wait = max(wait, d)
		if p.sure(key) {
			hard = max(hard, d)
		}
	}
	return wait, hard
}

// admit takes the permits of a call, which has waited so long and for which ask has just
// said 0. It returns false, and nothing is taken, when another owner of a limit was faster.
func (s *Shared) admit(now time.Time, call uint64, key string, n int, waited time.Duration) bool {
	if !claimAll(s.limiters, now, key, n) {
		return false
	}
	if !claimAll(s.whole, now, "", n) {
		unclaim(s.limiters, now, key, n)
		return false
	}
	for _, p := range s.limiters {
		if p.claims == nil {
			p.Take(now, key, n)
		}
	}
	for _, p := range s.whole {
		if p.claims == nil {
			p.Take(now, "", n)
		}
	}
	s.emit(now, event.Started, call, key, waited, nil)
	if s.bus.Wants(event.Depleted) && (anyEmpty(s.limiters, now, key) || anyEmpty(s.whole, now, "")) {
		s.emit(now, event.Depleted, call, key, 0, nil)
	}
	return true
}

// claimAll takes n permits from all Claimers among parts, or from none.
func claimAll(parts []part, now time.Time, key string, n int) bool {
	for i, p := range parts {
		if p.claims != nil && p.claims.Claim(now, key, n) > 0 {
			unclaim(parts[:i], now, key, n)
			return false
		}
	}
	return true
}

// unclaim gives back what claimAll took.
func unclaim(parts []part, now time.Time, key string, n int) {
	for _, p := range parts {
		if p.claims != nil {
			settleAt(p.Limiter, now, now, key, n, 0)
		}
	}
}

// anyEmpty reports whether one of the limits that know what they have has nothing.
func anyEmpty(parts []part, now time.Time, key string) bool {
	for _, p := range parts {
		if c, ok := p.of(key).(Counter); ok && c.Available(now, key) <= 0 {
			return true
		}
	}
	return false
}

// pump admits all who can be admitted, turns away those whose time is over, and
// sets the timer to when it has to be called again.
func (s *Shared) pump(now time.Time) {
	q := s.queue
	for {
		next := s.serve(now)
		r := q.all.oldest
		if r == nil || r.until.IsZero() || now.Before(r.until) {
			s.arm(now, next)
			return
		}
		s.turnAway(now, r, TooLate, event.LimitRefused) // and it may have stood in the way of others
	}
}

// serve admits those whose turn it is. It returns when the first of the others may
// be admitted; zero when nobody waits.
func (s *Shared) serve(now time.Time) (next time.Time) {
	q := s.queue
	for {
		q.lookDue(now)
		if len(q.ready.heap) == 0 {
			return s.earlier(time.Time{})
		}
		l := q.ready.heap[0]
		r := q.first(l)
		wait, full := s.askOwn(now, r.key, r.n)
		switch {
		case wait == Never:
		case wait > 0:
			q.later(l, now.Add(wait))
			continue
		case full:
			s.crowded = s.without(s.crowded[:0], r.key)
			q.wait(l, s.crowded)
			continue
		}
		whole, _ := askAll(s.whole, now, "", r.n)
		switch {
		case wait == Never || whole == Never:
			s.turnAway(now, r, Impossible, event.LimitRefused) // since a limit was lowered
		case whole > 0:
			return s.earlier(now.Add(whole))
		case s.admit(now, r.call, r.key, r.n, now.Sub(r.began)): // or it is asked again
			r.taken = now
			s.decide(r, nil)
		}
	}
}

// askOwn returns how long a call waits for the limits of its key, but for those that have
// no room for the key, and whether there are such.
func (s *Shared) askOwn(now time.Time, key string, n int) (wait time.Duration, full bool) {
	for _, p := range s.limiters {
		d := p.Wait(now, key, n)
		if d > 0 && d != Never {
			if l, ok := s.roomy(p.of(key)); ok && !l.has(key) && l.room(now) > 0 {
				full = true
				continue
			}
		}
		wait = max(wait, d)
	}
	return wait, full
}

// without appends to ls the limiters in which key has no place.
func (s *Shared) without(ls []roomy, key string) []roomy {
	for _, p := range s.limiters {
		if l, ok := s.roomy(p.of(key)); ok && !l.has(key) {
			ls = append(ls, l)
		}
	}
	return ls
}

// roomy returns l if it is known to be roomy, which may be nil.
func (s *Shared) roomy(l Limiter) (r roomy, ok bool) {
	if l != nil && s.reach[reflect.TypeOf(l)] == newKeys {
		r, ok = l.(roomy)
	}
	return r, ok
}

// earlier returns the earlier of at, if it is not zero, and the first time that a
// key waits for.
func (s *Shared) earlier(at time.Time) time.Time {
	if t := s.queue.timed.heap; len(t) > 0 && (at.IsZero() || t[0].at.Before(at)) {
		return t[0].at
	}
	return at
}

// arm sets the timer to next or to when the oldest call gives up, whichever comes
// first; it stops it when nobody waits.
func (s *Shared) arm(now, next time.Time) {
	r := s.queue.all.oldest
	switch {
	case r == nil:
		next = time.Time{}
	case !r.until.IsZero() && (next.IsZero() || r.until.Before(next)):
		next = r.until
	}
	switch {
	case next.Equal(s.alarm):
		return
	case next.IsZero():
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(next.Sub(now), s.tick)
	default:
		s.timer.Reset(next.Sub(now))
	}
	s.alarm = next
}

// tick runs when the timer fires. The timer may have been set to another time
// since; then it finds nothing to do.
func (s *Shared) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm = time.Time{}
	s.pump(time.Now())
}

// leave takes r out of the queue, unless it is decided already, and returns what
// was decided.
func (s *Shared) leave(r *Reservation, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.lane == nil {
		return r.err
	}
	now := time.Now()
	s.emit(now, event.Cancelled, r.call, r.key, 0, err)
	s.decide(r, err)
	s.pump(now)
	return err
}

// turnAway decides that r, which waits, is not admitted.
func (s *Shared) turnAway(now time.Time, r *Reservation, why Reason, kind event.Kind) {
	wait, hard := s.ask(now, r.key, r.n)
	err := s.refuse(why, r.key, wait, hard)
	s.emit(now, kind, r.call, r.key, hard, err)
	s.decide(r, err)
}

// decide ends the wait of r.
func (s *Shared) decide(r *Reservation, err error) {
	s.queue.remove(r)
	r.err = err
	close(r.done)
}

// refuse returns the error for a call that waits for wait, hard of which is sure.
func (s *Shared) refuse(why Reason, key string, wait, hard time.Duration) *LimitedError {
	if wait == Never {
		hard = Never
	}
	return refuse(why, hard, key)
}

func (s *Shared) emit(now time.Time, kind event.Kind, call uint64, key string, delay time.Duration, err error) {
	if s.bus.Wants(kind) {
		s.bus.Emit(event.Event{Time: now, Kind: kind, Name: s.name, Request: call, Source: key, Delay: eventDelay(delay), Err: err})
	}
}
