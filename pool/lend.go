package pool

import "context"

// Loan is the loan of an idle connection, as [Pool.Lend] made it. It must be given
// back exactly once, by Release, Unused or Discard, on any goroutine, and not be used
// after that: unlike a Reservation it does not notice. The zero Loan is none; it
// has the zero C and cannot be given back.
//
// It is one pointer, so that it costs no allocation as a value of an interface.
type Loan[S comparable, C any] struct {
	conn *conn[S, C]
}

// Lend lends out an idle connection for sel that needs no check. It returns false
// when there is none: then Reserve may find another way. It neither blocks nor calls
// a hook nor allocates. A connection that this goroutine has just given back is lent
// again without a lock, unless connections expire or are checked.
func (p *Pool[S, C]) Lend(sel S) (Loan[S, C], bool) {
	if c := p.shelf.Load().take(sel); c != nil {
		return Loan[S, C]{c}, true
	}
	if !sane(sel) {
		return Loan[S, C]{}, false
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gatherLocked()
	e := p.sels[sel]
	if e == nil || len(e.idle) == 0 || p.closed {
		return Loan[S, C]{}, false
	}
	c := e.idle[len(e.idle)-1]
	if p.unfit(c, now) != nil || p.dueForCheck(c, now) {
		return Loan[S, C]{}, false
	}
	p.takeLocked(c)
	p.n.reused++
	return Loan[S, C]{c}, true
}

// Value returns the connection.
func (l Loan[S, C]) Value() (c C) {
	if l.conn != nil {
		c = l.conn.value
	}
	return c
}

// Conn returns the connection, at once; ctx and the error are as for a Reservation.
func (l Loan[S, C]) Conn(context.Context) (C, error) { return l.Value(), nil }

// Ready reports true: there is nothing to be opened or checked.
func (l Loan[S, C]) Ready() bool { return true }

// Release gives the connection back after use, as Release of a Reservation does.
func (l Loan[S, C]) Release() {
	if p := l.conn.entry.pool; !p.shelve(l.conn) {
		p.putBack(l.conn, true)
	}
}

// Unused gives the connection back as if it had not been lent.
func (l Loan[S, C]) Unused() { l.conn.entry.pool.putBack(l.conn, false) }

// Discard has the connection closed, as Discard of a Reservation does.
func (l Loan[S, C]) Discard(cause error) { l.conn.entry.pool.discard(l.conn, cause) }
