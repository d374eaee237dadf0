package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flyball-go/flyball/governor"
)

// D1: the bytes of a request that was submitted and waits for a slot. What the
// user made is there before the count begins: the closures, which capture one
// word each and are called with a connection, so that governor.Func need not wrap
// them (24 B each), the contexts, the slice that keeps the requests. The request takes
// 144 B; the half is for what stacks and tables of the whole process grow by
// meanwhile, divided by the requests.
//
// In D1c nobody waited on the contexts before: what they grow by when they are
// watched, 496 B of the standard library's, counts. D1c/all adds the contexts
// themselves.
//
// The peer does the same with a goroutine each, parked on its own result channel
// and, where it can end, on its context.
func init() {
	const n = 200_000
	for _, r := range []struct {
		id, what string
		ctx      contexts
		ask      func(i int) governor.Ask
		most     float64
	}{
		{"D1a", "a waiting request, background context", background, nil, 144.5},
		{"D1b", "a waiting request, one context for all", shared, nil, 144.5},
		{"D1c", "a waiting request, a context each", own, nil, 700},
		{"D1c/all", "D1c, the contexts counted", ownCounted, nil, 0},
		{"D1d", "a waiting request, With a tenant each, 10 tenants", background, tenth, 144.5},
	} {
		var target []bound
		if r.most > 0 {
			target = []bound{{amount, r.most}}
		}
		add(row{
			id: r.id, what: r.what, peer: "a parked goroutine", unit: "B", target: target,
			measure: memory(r.id, queued(n, r.ctx, r.ask), parking(n, r.ctx)),
		})
	}
}

// queued are n requests in the queue of a governor whose only slot is taken.
func queued(n int, kind contexts, ask func(i int) governor.Ask) crowd {
	return crowd{n: n, prepare: func(n int) (func() error, error) {
		g, err := busy(n)
		if err != nil {
			return nil, err
		}
		ctx, work := kind.make(n), closures(n)
		requests := make([]*governor.Request[int], n)
		return func() error {
			for i, fn := range work {
				view := g
				if ask != nil {
					view = g.With(ask(i))
				}
				requests[i] = governor.Submit(ctx(i), view, "", fn)
			}
			g.Stats() // answered by the actor when it has seen them all, and again after that round
			if got := g.Stats().Queued; got != n {
				return fmt.Errorf("%d requests wait, want %d", got, n)
			}
			return nil
		}, nil
	}}
}

// busy is a governor whose only slot is taken, and that has room for n requests.
func busy(n int) (*governor.Plain, error) {
	g, err := governor.New(governor.PlainConfig{Name: "bench", Workers: 1, MaxQueue: n})
	if err != nil {
		return nil, err
	}
	running := make(chan struct{})
	governor.Submit(context.Background(), g, "", governor.Func(func(ctx context.Context) (int, error) {
		close(running)
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	<-running
	return g, nil
}

// parking are n goroutines that each wait for the result of a closure.
func parking(n int, kind contexts) crowd {
	type item struct {
		fn     func(context.Context, struct{}) (int, error)
		result chan int
	}
	return crowd{n: n, goroutines: 1, prepare: func(n int) (func() error, error) {
		ctx, work := kind.make(n), closures(n)
		var queue []item
		return func() error {
			queue = make([]item, n)
			for i, fn := range work {
				ctx := ctx(i)
				go func() {
					it := item{fn, make(chan int, 1)}
					queue[i] = it
					if ctx.Done() == nil {
						<-it.result
						return
					}
					select {
					case <-it.result:
					case <-ctx.Done():
					}
				}()
			}
			return nil
		}, nil
	}}
}

// closures are n calls to be made, each of which knows one word.
func closures(n int) []func(context.Context, struct{}) (int, error) {
	fns := make([]func(context.Context, struct{}) (int, error), n)
	for i := range fns {
		fns[i] = func(context.Context, struct{}) (int, error) { return i, nil }
	}
	return fns
}

// tenth is the ask of the i-th request. The tenant's name is a string of its
// own, as one is that was just read from somewhere.
func tenth(i int) governor.Ask { return governor.Ask{Tenant: "tenant-" + strconv.Itoa(i%10)} }

// contexts says which contexts the requests have.
type contexts uint8

const (
	background contexts = iota
	shared              // one that can end
	own                 // one each
	ownCounted          // one each, made while bytes are counted
)

// make returns the context of the i-th of n requests. It keeps the contexts and
// what ends them.
func (kind contexts) make(n int) func(i int) context.Context {
	type cancelable struct {
		ctx    context.Context
		cancel context.CancelFunc
	}
	fresh := func() (c cancelable) {
		c.ctx, c.cancel = context.WithCancel(context.Background())
		return c
	}
	switch kind {
	case shared:
		one := fresh()
		return func(int) context.Context { return one.ctx }
	case own, ownCounted:
		all := make([]cancelable, n)
		for i := range all {
			if kind != ownCounted {
				all[i] = fresh()
			}
		}
		return func(i int) context.Context {
			if all[i].ctx == nil {
				all[i] = fresh()
			}
			return all[i].ctx
		}
	}
	return func(int) context.Context { return context.Background() }
}
