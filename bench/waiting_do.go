package main

import (
	"context"

	"github.com/flyball-go/flyball/governor"
)

// D2: what a Do that waits for a slot adds to its caller's own goroutine, which is
// parked in it: bytes of heap and stack beyond those of the peer, a goroutine that
// is parked on a channel that all share. /stack is how large the caller's stack has
// become: it begins with 2 kB, and that must do, but for a few that have to wait for a
// lock on their way in, which takes deeper calls.
//
// In D2a the context is the background, in D2b one that can end, for all.
func init() {
	const n = 100_000
	for _, r := range []struct {
		id, what string
		ctx      contexts
	}{
		{"D2a", "a waiting Do, background context", background},
		{"D2b", "a waiting Do, one context for all", shared},
	} {
		crowds[r.id+"/ours"], crowds[r.id+"/peer"] = doing(n, r.ctx), parked(n)
		const peer = "a goroutine parked on a channel"
		add(
			row{
				id: r.id, what: r.what + ": beyond the peer", peer: peer, unit: "B", target: []bound{{amount, 300}},
				measure: beside(r.id, func(ours, peer footprint) sample {
					return sample{ours.Bytes - peer.Bytes, peer.Bytes, ours.Mallocs}
				}),
			},
			row{
				id: r.id + "/stack", what: r.what + ": its stack", peer: peer, unit: "B", target: []bound{{ratio, 1.05}},
				measure: beside(r.id, func(ours, peer footprint) sample { return sample{ours.Stack, peer.Stack, 0} }),
			},
		)
	}
}

// doing are n goroutines in a Do of a governor whose only slot is taken.
func doing(n int, kind contexts) crowd {
	return crowd{n: n, goroutines: 1, prepare: func(n int) (func() error, error) {
		g, err := busy(n)
		if err != nil {
			return nil, err
		}
		ctx, work := kind.make(n), closures(n)
		return func() error {
			for i, fn := range work {
				ctx := ctx(i)
				go func() { governor.Do(ctx, g, "", fn) }()
			}
			return nil
		}, nil
	}}
}

// parked are n goroutines that wait for a channel.
func parked(n int) crowd {
	return crowd{n: n, goroutines: 1, prepare: func(n int) (func() error, error) {
		c, work := make(chan struct{}), closures(n)
		return func() error {
			for _, fn := range work {
				go func() { <-c; fn(context.Background(), struct{}{}) }()
			}
			return nil
		}, nil
	}}
}
