// Package pool lends out connections by selector, with one capacity over all
// selectors. It is built on puddle.
//
// A selector says which kind of connection is meant: a service, read-only or
// read-write, whose credentials. Any comparable type will do.
//
//	p, err := pool.New(pool.Config[Service, *Client]{Open: dial, Close: hangUp, Max: 16})
//	...
//	defer p.Close()
//
//	r, err := p.Acquire(ctx, Reports)
//	if err != nil {
//		return err
//	}
//	rows, err := r.Value().Search(ctx, query)
//	if p.IsBad(err) {
//		r.Discard(err)
//	} else {
//		r.Release()
//	}
//
// A connection comes from the first of these that is possible: an idle one of
// the selector, the most recently used first; a new one, while there are fewer
// than Max; a new one in place of an idle one of another selector, the least
// recently used of all, which is closed first. Otherwise the caller waits; what comes
// back then is rather lent to who waits for its selector than closed. At no
// time are more than Max connections open, from before Open is called until
// after Close has returned: a connection that takes long to close holds its
// place so long.
//
// [Pool.Reserve] is the part of this that never blocks, and [Reservation.Conn]
// the part that may; [Pool.Acquire] is both, with a queue. Whoever has a queue of
// its own calls the first two and listens with OnFree.
//
// # Concurrency
//
// Every method of a Pool may be called from any goroutine at any time. One mutex
// guards the bookkeeping; nothing is called or waited for under it. A Loan that comes
// back mostly lies beside it for the next Lend, and counts as idle. The hooks of
// Config run on goroutines of the pool, several at once, except IsBad and the
// OnFree functions, which also run on those of callers: these end by runtime.Goexit
// in one. Otherwise a hook that panics or calls runtime.Goexit harms only the connection
// it was called for. An idle pool has no goroutine.
//
// # What it is not
//
// It does not run calls, repeat them or know rate limits. It keeps no minimum of
// connections open and opens none in advance. It cannot take a connection back
// from a borrower, and cannot end an Open that ignores its context: such a one
// keeps its place until it returns.
//
// # Warning
//
// Nothing that was obtained from a connection may be used after the connection
// is given back: no row set, no stream, and in particular no lazy pager or
// iterator, which fetches its next page over a connection that by then belongs
// to somebody else. Read everything first, or give back later.
package pool
