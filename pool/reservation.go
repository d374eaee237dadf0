package pool

import (
	"context"
	"sync/atomic"
)

// Reservation is the promise of one connection, and then the loan of it.
//
// Conn and Value are for one goroutine at a time, Release and Discard may be
// called from any, at any time and any number of times: the first call counts.
// A call of Conn that is running then returns ErrGivenBack as soon as what it
// waits for has ended.
type Reservation[S comparable, C any] struct {
	pool  *Pool[S, C]
	entry *entry[S, C]

	// state decides who owns conn: every change of it is a compare-and-swap from
	// a state in which the one who changes it owns it, so it passes on exactly
	// once, however Conn, Release, Discard and the end of an Open meet.
	state atomic.Uint32
	conn  *conn[S, C] // in stateNew the one to be closed first, or nil
	err   error       // of Conn; set by Conn before stateSpent
}

// The states, and what the reservation owns in each.
const (
	stateReady uint32 = iota // conn, good to be lent
	stateCheck               // conn, to be checked first
	stateNew                 // a place; if conn is set, the place that conn still holds
	stateBusy                // nothing: all is the task's, which may put conn and stateLent here
	stateLent                // conn, handed out by Conn
	stateSpent               // nothing: Conn returned err
	stateGiven               // nothing: given back
)

func newReservation[S comparable, C any](p *Pool[S, C], e *entry[S, C], c *conn[S, C], state uint32) *Reservation[S, C] {
	r := &Reservation[S, C]{pool: p, entry: e, conn: c}
	r.state.Store(state)
	return r
}

// Ready reports whether a connection is at hand that needs no opening and no
// check: Conn returns at once.
func (r *Reservation[S, C]) Ready() bool {
	s := r.state.Load()
	return s == stateReady || s == stateLent
}

// Conn returns the connection, and the same again after it succeeded. Before
// that it does what is needed: checks an idle connection, closes one of another
// selector, opens one.
//
// It waits for that until ctx ends, OpenTimeout passes or the pool is closed. The
// work itself goes on when ctx ends: its connection becomes an idle one, and until
// then it holds its place. So after an error the reservation is spent and holds
// nothing; Conn returns the same error again, and giving it back is harmless.
//
// The error is an *OpenError, ErrClosed, ErrGivenBack, ErrBusy, ErrNilContext or
// matches ctx.Err(). It is that of another when the selector began to back off
// after Reserve: then Open is not called. Conn of a Ready reservation does not
// look at ctx, and takes a few ns.
func (r *Reservation[S, C]) Conn(ctx context.Context) (c C, err error) {
	for {
		switch s := r.state.Load(); s {
		case stateReady:
			if r.state.CompareAndSwap(stateReady, stateLent) {
				return r.conn.value, nil
			}
		case stateLent:
			return r.conn.value, nil
		case stateBusy:
			return c, ErrBusy
		case stateSpent:
			return c, r.err
		case stateGiven:
			return c, ErrGivenBack
		default:
			if ctx == nil {
				return c, ErrNilContext
			}
			if ctx.Err() != nil {
				return c, endOf(ctx) // it can be tried again
			}
			if r.state.CompareAndSwap(s, stateBusy) {
				return r.provide(ctx, s == stateCheck)
			}
		}
	}
}

// provide has a task get the connection and waits for it. The state is stateBusy.
func (r *Reservation[S, C]) provide(ctx context.Context, check bool) (c C, err error) {
	t, err := r.pool.begin(ctx, r, check)
	if err == nil {
		select {
		case <-t.done:
			err = t.err
		case <-ctx.Done():
			err = endOf(ctx)
		}
	}
	if err != nil {
		// Only here is stateBusy left with an error, so nobody else writes err.
		r.err = err
		if r.state.CompareAndSwap(stateBusy, stateSpent) {
			return c, err
		}
	}
	// Either there is no error, or the state had changed before we could give
	// up: to stateLent by the task, whose connection may not be dropped now that
	// it is ours even if ctx has ended, or to stateGiven.
	if r.state.Load() == stateLent {
		return r.conn.value, nil
	}
	return c, ErrGivenBack
}

// Value returns what Conn returned. It is the zero C before Conn has succeeded
// and after the reservation was given back.
func (r *Reservation[S, C]) Value() (c C) {
	if r.state.Load() == stateLent {
		c = r.conn.value
	}
	return c
}

// Release gives the connection back for others to use, or has it closed when it
// has reached MaxAge or MaxUses. It does not wait for that. Nothing obtained from
// the connection may be used any more.
func (r *Reservation[S, C]) Release() {
	switch r.state.Swap(stateGiven) {
	case stateReady, stateCheck:
		r.pool.putBack(r.conn, false)
	case stateLent:
		r.pool.putBack(r.conn, true)
	case stateNew:
		r.pool.unreserve(r.entry, r.conn)
	}
}

// Discard gives the connection back and has it closed, without waiting for
// that. Its place is free when Config.Close has returned. The cause, which may
// be nil, is for the event; if Config.IsBad takes it for that of a broken
// connection, and this one was never given back in order, the selector backs
// off as after a failed Open: a server that accepts connections only to break
// them is no better than one that does not accept them.
func (r *Reservation[S, C]) Discard(cause error) {
	switch r.state.Swap(stateGiven) {
	case stateReady, stateCheck, stateLent:
		r.pool.discard(r.conn, cause)
	case stateNew: // a connection to be replaced has done nothing wrong
		r.pool.unreserve(r.entry, r.conn)
	}
}
