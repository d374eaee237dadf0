package pool

import (
	"context"
	"time"
)

// Acquire waits until there can be a connection for sel, and returns a
// reservation that has it: Value returns it at once. Those who wait are served
// in the order in which they came, with two exceptions. Nobody waits for one who cannot
// be served: whose selector backs off or has MaxPerSelector. And a connection that comes
// back is for the first who waits for its selector, rather than to be closed for whoever
// is the first of all; but at most 4*Max who come later go before anybody.
//
// The error is one of Reservation.Conn, or ErrSelector for a selector that is
// not equal to itself or not comparable, and ErrClosed for those who wait when
// the pool is closed. A failed Open is not tried again. One who comes or waits
// while the selector backs off waits for the end of that, unless the failure is
// permanent: that is returned at once.
func (p *Pool[S, C]) Acquire(ctx context.Context, sel S) (*Reservation[S, C], error) {
	if ctx == nil {
		return nil, ErrNilContext
	}
	if !sane(sel) {
		return nil, ErrSelector
	}
	if ctx.Err() != nil {
		return nil, endOf(ctx)
	}
	r, err := p.wait(ctx, sel)
	if err != nil {
		return nil, err
	}
	if _, err := r.Conn(ctx); err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}

// wait reserves, in turn.
func (p *Pool[S, C]) wait(ctx context.Context, sel S) (*Reservation[S, C], error) {
	now := p.now()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	e := p.entryLocked(sel)
	backs := e.backingOff() // before the search: if it ends meanwhile there is a timer nevertheless
	// grantLocked runs whenever something becomes free, so of those who wait
	// nobody can be served now, and this overtakes nobody.
	if r := p.searchLocked(e, now); r != nil {
		p.mu.Unlock()
		return r, nil
	}
	if e.final && backs {
		err := e.last
		p.mu.Unlock()
		return nil, err
	}
	w := &waiter[S, C]{entry: e, served: make(chan struct{})}
	p.waiters.add(w, overtakes*p.cfg.Max)
	if backs {
		p.armLocked(e.until)
	}
	p.mu.Unlock()

	select {
	case <-w.served:
		return w.r, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if w.r == nil && w.err == nil {
		p.leaveLocked(w)
	}
	p.mu.Unlock()
	if w.r != nil { // served at the same time; the next in line must not miss it
		w.r.Release()
	}
	return nil, endOf(ctx)
}

// waiter is one who waits in Acquire. r or err is set, under Pool.mu, when it
// leaves the queue, before served is closed.
type waiter[S comparable, C any] struct {
	entry  *entry[S, C]
	served chan struct{}
	r      *Reservation[S, C]
	err    error
	due    uint64 // from which waiters.gone on nobody goes before it

	prev, next   *waiter[S, C] // of all
	older, newer *waiter[S, C] // of the entry
}

// waiters is a queue of them.
type waiters[S comparable, C any] struct {
	first, last *waiter[S, C]
	len         int
	gone        uint64 // how many have left it, served or not
	pass        uint64 // numbers the passes of grantLocked
}

// add puts w last, of all and of its entry. At most so many who come later go before it.
func (q *waiters[S, C]) add(w *waiter[S, C], later int) {
	w.due = q.gone + uint64(q.len+later)
	if w.prev = q.last; w.prev != nil {
		w.prev.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.len++
	e := w.entry
	if w.older = e.newest; w.older != nil {
		w.older.newer = w
	} else {
		e.oldest = w
	}
	e.newest = w
}

// leaveLocked removes w from the queue; its next stays valid.
func (p *Pool[S, C]) leaveLocked(w *waiter[S, C]) {
	q, e := &p.waiters, w.entry
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	q.len--
	q.gone++
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		e.oldest = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		e.newest = w.older
	}
	p.forgetLocked(e)
}

// grantLocked serves those who can be served. It is called whenever something may
// have become free, and costs nothing when nobody waits, else a few ns for each
// who cannot be served.
func (p *Pool[S, C]) grantLocked(now time.Time) {
	q := &p.waiters
	q.pass++
	for w := q.first; w != nil && (p.used < p.cfg.Max || p.lru.len > 0); {
		if w.entry.blocked == q.pass {
			w = w.next
			continue
		}
		if other := p.warmerLocked(w, now); other != nil {
			p.serveLocked(other, p.reserveLocked(other.entry, now))
			continue // what w was about to take is gone
		}
		next := w.next
		if r := p.reserveLocked(w.entry, now); r != nil {
			p.serveLocked(w, r)
		} else {
			w.entry.blocked = q.pass
		}
		w = next
	}
}

func (p *Pool[S, C]) serveLocked(w *waiter[S, C], r *Reservation[S, C]) {
	w.r = r
	p.leaveLocked(w)
	close(w.served)
}

// overtakes is how many who come later may go before one who waits, for each connection
// that there may be: he waits longer by as long as so many uses last, however many wait.
// More would save openings, and if it grew with the queue those who always come again
// could keep half of all uses for themselves.
const overtakes = 4

// warmerLocked returns who is to be served before w, whose turn it is and for whom an idle
// connection of another selector would be closed: the first who waits for that one. nil:
// nobody does, or too many have gone before w. Nobody who waits has been overtaken more
// often than w, who came first: whoever overtook another has overtaken w, too.
func (p *Pool[S, C]) warmerLocked(w *waiter[S, C], now time.Time) *waiter[S, C] {
	if p.waiters.gone >= w.due {
		return nil
	}
	if c := p.victimLocked(w.entry, now); c != nil {
		return c.entry.oldest
	}
	return nil
}

// refuseLocked ends the waiting for e, or for all selectors if it is nil, with err.
func (p *Pool[S, C]) refuseLocked(e *entry[S, C], err error) {
	for w := p.waiters.first; w != nil; {
		next := w.next
		if e == nil || w.entry == e {
			w.err = err
			p.leaveLocked(w)
			close(w.served)
		}
		w = next
	}
}
