package pool

import "time"

// Reserve promises a connection for sel, if there can be one now: an idle one,
// or a place for a new one, or an idle one of another selector to be replaced.
// It does bookkeeping only, in about 100 ns: it does not block, and calls no
// hook. It returns false when the pool is closed, when all places are lent out
// or sel has MaxPerSelector, and, if a new connection would be needed, before
// NotBefore(sel); always for a selector that is not equal to itself or whose
// dynamic type is not comparable.
//
// Every reservation must be given back with Release or Discard.
func (p *Pool[S, C]) Reserve(sel S) (*Reservation[S, C], bool) {
	if !sane(sel) {
		return nil, false
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.sels[sel]
	if e == nil { // do not leave one behind for a selector that is refused
		if p.closed || p.used >= p.cfg.Max && p.lru.len == 0 && !p.attendLocked() {
			return nil, false
		}
		e = p.entryLocked(sel)
	}
	r := p.searchLocked(e, now)
	return r, r != nil
}

// searchLocked is reserveLocked among all that may be idle. Who finds nothing is told
// when something comes back.
func (p *Pool[S, C]) searchLocked(e *entry[S, C], now time.Time) *Reservation[S, C] {
	p.gatherLocked()
	r := p.reserveLocked(e, now)
	if r == nil && p.attendLocked() {
		r = p.reserveLocked(e, now)
	}
	return r
}

// reserveLocked is Reserve for an entry. It returns nil when there is no way. In
// passing it closes those idle connections of e that are too old to be lent.
func (p *Pool[S, C]) reserveLocked(e *entry[S, C], now time.Time) *Reservation[S, C] {
	if p.closed {
		return nil
	}
	var old *conn[S, C] // one of e's own to be replaced
	for len(e.idle) > 0 {
		c := e.idle[len(e.idle)-1]
		p.takeLocked(c)
		why := p.unfit(c, now)
		if why == nil {
			if old != nil { // used later than c, and older
				p.destroyLocked(old, discarded)
			}
			p.n.reused++
			if p.dueForCheck(c, now) {
				return newReservation(p, e, c, stateCheck)
			}
			return newReservation(p, e, c, stateReady)
		}
		if old != nil {
			p.destroyLocked(old, discarded)
		}
		old, c.why = c, why
	}
	if !p.canCreateLocked(e, old) {
		if old != nil {
			p.destroyLocked(old, discarded)
		}
		return nil
	}
	full := p.used >= p.cfg.Max || p.atMax(e)
	switch {
	case old != nil && !full:
		p.destroyLocked(old, discarded)
		old = nil
		p.used++
	case old != nil: // its place passes on
	case full:
		old = p.lru.oldest // of another selector: e has no idle ones left
		p.takeLocked(old)
	default:
		p.used++
	}
	e.places++
	return newReservation(p, e, old, stateNew)
}

// Displaces returns the selector whose idle connection Reserve(sel) would close now to
// make room for a new one of sel. It is false when it would close none, one that is unfit
// or one of sel itself, or would return false. So whoever has a queue of his own can see
// whether somebody in it has a better use for that connection.
func (p *Pool[S, C]) Displaces(sel S) (victim S, ok bool) {
	if !sane(sel) {
		return victim, false
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gatherLocked()
	if c := p.victimLocked(p.sels[sel], now); c != nil {
		return c.entry.sel, true
	}
	return victim, false
}

// victimLocked returns the idle connection in good order of another selector that would
// be closed to make room for one of e, which may be nil.
func (p *Pool[S, C]) victimLocked(e *entry[S, C], now time.Time) *conn[S, C] {
	c := p.lru.oldest
	if p.closed || c == nil || p.used < p.cfg.Max || p.unfit(c, now) != nil {
		return nil
	}
	if e != nil && (len(e.idle) > 0 || e.backingOff() || p.atMax(e)) {
		return nil
	}
	return c
}

// canCreateLocked reports whether e may have a new connection, given that old,
// which may be nil, could be closed for it.
func (p *Pool[S, C]) canCreateLocked(e *entry[S, C], old *conn[S, C]) bool {
	if e.backingOff() {
		return false
	}
	if p.atMax(e) {
		return old != nil && e.places <= p.cfg.MaxPerSelector
	}
	return p.used < p.cfg.Max || old != nil || p.lru.len > 0
}

func (p *Pool[S, C]) atMax(e *entry[S, C]) bool {
	return p.cfg.MaxPerSelector > 0 && e.places >= p.cfg.MaxPerSelector
}

// Idle reports whether Reserve(sel) would now return a reservation that is Ready.
func (p *Pool[S, C]) Idle(sel S) bool {
	if !sane(sel) {
		return false
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gatherLocked()
	c := p.lendableLocked(p.sels[sel], now)
	if c == nil && p.attendLocked() {
		c = p.lendableLocked(p.sels[sel], now)
	}
	return c != nil && !p.dueForCheck(c, now)
}

// Full reports whether nothing can be reserved for sel until somebody gives
// something back: sel has MaxPerSelector, or every place is held by something
// that is not idle. A closed pool is full. A backoff does not make it so.
func (p *Pool[S, C]) Full(sel S) bool {
	if !sane(sel) {
		return true
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gatherLocked()
	return p.fullLocked(sel, now) && (!p.attendLocked() || p.fullLocked(sel, now))
}

func (p *Pool[S, C]) fullLocked(sel S, now time.Time) bool {
	e := p.sels[sel]
	switch {
	case p.closed:
		return true
	case p.lendableLocked(e, now) != nil:
		return false
	case e != nil && p.atMax(e) && (len(e.idle) == 0 || e.places > p.cfg.MaxPerSelector):
		return true
	}
	return p.used >= p.cfg.Max && p.lru.len == 0
}

// lendableLocked returns the idle connection that e, which may be nil, would
// lend next.
func (p *Pool[S, C]) lendableLocked(e *entry[S, C], now time.Time) *conn[S, C] {
	if e == nil || p.closed {
		return nil
	}
	for i := len(e.idle) - 1; i >= 0; i-- {
		if p.unfit(e.idle[i], now) == nil {
			return e.idle[i]
		}
	}
	return nil
}

// NotBefore returns when the open backoff of sel ends, before which Reserve
// returns only idle connections. It is zero when sel has failed less recently
// than it succeeded. It may be past: so a caller that was refused by Reserve and
// compares it with a time taken before that knows whether to wait for this time
// or for OnFree.
func (p *Pool[S, C]) NotBefore(sel S) time.Time {
	if !sane(sel) {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.sels[sel]; e != nil {
		return e.until
	}
	return time.Time{}
}

// Earliest returns before which time Reserve can certainly have nothing for sel: that of
// NotBefore, while no connection for sel is there, in use or being opened, that could
// come back. Else it is zero.
func (p *Pool[S, C]) Earliest(sel S) time.Time {
	if !sane(sel) {
		return time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.sels[sel]; e != nil && e.places == 0 {
		return e.until
	}
	return time.Time{}
}

// Refusal returns the error that every request for sel is to be refused with: the
// last failure to open a connection for it, while that was permanent and its
// backoff lasts. Else it is nil. Acquire returns it by itself.
func (p *Pool[S, C]) Refusal(sel S) error {
	if !sane(sel) {
		return ErrSelector
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.sels[sel]; e != nil && e.final && e.backingOff() {
		return e.last
	}
	return nil
}

// OnFree adds a function that is called whenever something may have become
// reservable: something was given back, has been closed or was opened for
// nobody; but for a Loan that comes back only if Reserve, Idle or Full has had nothing
// since it was last called. It is not called for the end of a backoff; see NotBefore. It may be
// called from any goroutine, several at once, and for nothing; it may use the
// pool, but should return quickly: whoever gives back waits for it. A panic is
// dropped; runtime.Goexit ends the goroutine of whoever gives back, when all is given
// back and the other functions have been called. It is not called any more after
// Shutdown, when Done tells the rest.
func (p *Pool[S, C]) OnFree(fn func()) {
	if fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var fns []func()
	if old := p.onFree.Load(); old != nil {
		fns = append(fns, *old...)
	}
	fns = append(fns, fn)
	p.onFree.Store(&fns)
}
