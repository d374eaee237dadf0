package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"
)

// reference is the textbook actor, written by hand with nothing to spare: a
// fan-in channel, one dispatcher that looks at a shared cooldown, a goroutine
// per call and a bound on them, a pooled connection found by selector, a result
// channel per request, the context honoured on the way in and out. It knows no
// scopes, limits, tenants, retries, events or statistics.
type reference struct {
	in       chan refRequest
	slots    chan struct{}
	cooldown atomic.Int64 // unix nanoseconds
	pools    map[string]*puddle.Pool[*conn]
}

type refRequest struct {
	ctx    context.Context
	sel    string
	fn     func() (int, error)
	result chan refResult
}

type refResult struct {
	value int
	err   error
}

// conn stands for a connection.
type conn struct{ _ int }

// newReference returns a reference that must be closed.
func newReference(workers int) (*reference, error) {
	pool, err := puddle.NewPool(&puddle.Config[*conn]{
		Constructor: func(context.Context) (*conn, error) { return new(conn), nil },
		Destructor:  func(*conn) {},
		MaxSize:     int32(workers),
	})
	if err != nil {
		return nil, err
	}
	a := &reference{
		in:    make(chan refRequest, 128),
		slots: make(chan struct{}, workers),
		pools: map[string]*puddle.Pool[*conn]{"": pool},
	}
	go a.dispatch()
	return a, nil
}

func (a *reference) dispatch() {
	for r := range a.in {
		if until := a.cooldown.Load(); until != 0 {
			if d := time.Until(time.Unix(0, until)); d > 0 {
				time.Sleep(d)
			}
		}
		a.slots <- struct{}{}
		go a.run(r)
	}
}

func (a *reference) run(r refRequest) {
	var res refResult
	if c, err := a.pools[r.sel].Acquire(r.ctx); err != nil {
		res.err = err
	} else {
		res.value, res.err = r.fn()
		c.Release()
	}
	<-a.slots
	r.result <- res
}

func (a *reference) do(ctx context.Context, sel string, fn func() (int, error)) (int, error) {
	result := make(chan refResult, 1)
	select {
	case a.in <- refRequest{ctx, sel, fn, result}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case r := <-result:
		return r.value, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// close ends it. Nothing may be running.
func (a *reference) close() {
	close(a.in)
	for _, p := range a.pools {
		p.Close()
	}
}
