package main

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// A6floor: the chain of A6 beside the same written out by hand for one function,
// nothing of it configurable, no event, no error that says more than a word, and
// nobody who waits for a place: what is left that a library could save.
func init() {
	for _, c := range []struct {
		name  string
		cores int
	}{{"serial", 1}, {"par", runtime.GOMAXPROCS(0)}} {
		add(row{
			id: "A6floor/" + c.name, what: "retry, breaker, limiter, bulkhead", peer: "written out by hand", unit: "ns",
			target: []bound{{ratio, 1.5}, {allocs, 1}}, measure: timed(c.cores, chain(empty, false), floor(empty)),
		})
	}
}

// inline is a cooldown, a breaker of 5 failures in a row that opens for a minute, a
// bucket and a bulkhead, each a word of its own cache line.
type inline struct {
	base   time.Time
	_      [64]byte
	until  atomic.Int64 // since base: the cooldown, of an open breaker too
	failed atomic.Int64 // in a row
	_      [64]byte
	tat    atomic.Int64 // since base: when the bucket is full again
	_      [64]byte
	inside atomic.Int64
	_      [64]byte
}

var errCooling, errFull = errors.New("cooling"), errors.New("full")

func floor(j job) side {
	return func() (func(int) error, func(), error) {
		ctx, cancel := alive()
		g := &inline{base: time.Now()}
		return each(func() error { return did(g.call(ctx, j.with)) }), cancel, nil
	}
}

func (g *inline) call(ctx context.Context, fn func(context.Context) (int, error)) (r int, err error) {
	for wait, attempt := 500*time.Millisecond, 1; ; attempt++ {
		if r, err = g.attempt(ctx, fn); err == nil || attempt == 3 {
			return r, err
		}
		if stop := pause(ctx, wait); stop != nil {
			return r, errors.Join(stop, err)
		}
		wait *= 2
	}
}

func (g *inline) attempt(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := int64(time.Since(g.base))
	if now < g.until.Load() {
		return 0, errCooling
	}
	if wait := g.take(now); wait > 0 {
		if err := pause(ctx, time.Duration(wait)); err != nil {
			return 0, err
		}
	}
	defer g.inside.Add(-1) // also after a panic
	if g.inside.Add(1) > inFlight {
		return 0, errFull
	}
	r, err := fn(ctx)
	switch {
	case err != nil:
		if g.failed.Add(1) >= 5 {
			g.until.Store(int64(time.Since(g.base) + time.Minute))
		}
	case g.failed.Load() != 0:
		g.failed.Store(0)
	}
	return r, err
}

// take takes a permit of the bucket, and returns when it is there.
func (g *inline) take(now int64) (wait int64) {
	const interval = int64(time.Second) / plenty
	for {
		tat := g.tat.Load()
		if g.tat.CompareAndSwap(tat, max(tat, now)+interval) {
			return max(tat, now) + interval - burst*interval - now
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
