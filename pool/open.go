package pool

import (
	"context"
	"time"

	"github.com/jackc/puddle/v2"
)

// task gets a connection for a reservation, on a goroutine of its own, since it
// may outlast the Conn that wanted it.
type task[S comparable, C any] struct {
	r     *Reservation[S, C]
	entry *entry[S, C]
	old   *conn[S, C]     // to be checked, or to be closed first; may be nil
	base  context.Context // has the values of Conn's ctx; ended by Shutdown
	ctx   context.Context // of Open
	gen   int             // of the entry's failures when Open was begun
	over  bool            // guarded by Pool.mu: err, or stateLent, is decided
	err   error           // written by whoever set over, before done is closed
	done  chan struct{}
}

type openKey struct{}

// begin starts the task of r, or says why there is none; r is then without what
// it owned.
func (p *Pool[S, C]) begin(ctx context.Context, r *Reservation[S, C], check bool) (*task[S, C], error) {
	p.mu.Lock()
	err := error(nil)
	if p.closed {
		err = ErrClosed
	} else if !check && r.entry.backingOff() {
		err = r.entry.last
	}
	if err != nil {
		p.mu.Unlock()
		if check {
			p.putBack(r.conn, false)
		} else {
			p.unreserve(r.entry, r.conn)
		}
		return nil, err
	}
	// The pool is not closed and we are under its lock, so this Add precedes
	// Shutdown and thereby Wait.
	p.tasks.Add(1)
	p.mu.Unlock()
	t := &task[S, C]{r: r, entry: r.entry, old: r.conn, done: make(chan struct{})}
	go p.work(t, context.WithoutCancel(ctx), check)
	return t, nil
}

func (p *Pool[S, C]) work(t *task[S, C], values context.Context, check bool) {
	defer p.tasks.Done()
	base, cancel := context.WithCancelCause(values)
	defer cancel(nil)
	defer context.AfterFunc(p.ending, func() { cancel(ErrClosed) })()
	t.base = base
	if check && p.check(t) {
		return
	}
	p.open(t)
}

// open has puddle make a connection, after t.old is closed if there is one. It
// returns when Open has, however late: the place is held so long.
func (p *Pool[S, C]) open(t *task[S, C]) {
	ctx, cancel := context.WithTimeoutCause(t.base, p.cfg.OpenTimeout, ErrOpenTimeout)
	defer cancel()
	t.ctx = ctx
	p.mu.Lock()
	t.gen = t.entry.gen
	p.n.opening++
	if c := t.old; c != nil && c.gone == nil {
		c.gone = make(chan struct{})
		if c.why != nil {
			p.destroyLocked(c, discarded)
		} else {
			p.destroyLocked(c, stolen)
		}
	}
	p.mu.Unlock()

	type opened struct {
		res  *puddle.Resource[*conn[S, C]]
		took time.Duration
		err  error
	}
	got := make(chan opened, 1)
	go func() {
		// Max and MaxPerSelector count connections that are open, so wait for the
		// end of Close first. puddle's own count may lag a moment behind ours,
		// then Acquire waits. It is never cancelled; ctx ends the Open.
		if t.old != nil {
			<-t.old.gone
		}
		began := time.Now()
		res, err := p.puddle.Acquire(context.WithValue(context.Background(), openKey{}, t))
		got <- opened{res, time.Since(began), err}
	}()
	var o opened
	select {
	case o = <-got:
	case <-ctx.Done():
		p.failed(t, nil, false)
		o = <-got
	}
	if o.err != nil {
		p.failed(t, o.err, true)
	} else {
		p.opened(t, o.res, o.took)
	}
}

// construct is puddle's constructor. It runs Open for the task in ctx, where
// neither panic nor Goexit can reach puddle, which would die of the one and
// lose a place by the other.
func (p *Pool[S, C]) construct(ctx context.Context) (*conn[S, C], error) {
	t := ctx.Value(openKey{}).(*task[S, C])
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	c := &conn[S, C]{entry: t.entry}
	err := <-start(func() (err error) {
		c.value, err = p.cfg.Open(t.ctx, t.entry.sel)
		return err
	})
	return c, err
}
