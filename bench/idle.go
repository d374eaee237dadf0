package main

import (
	"context"
	"strconv"

	"github.com/flyball-go/flyball/governor"
)

// IDLE: the bytes of a governor that has nothing to do, its goroutine included.
// The peer is the least that an actor can be: a goroutine that waits for its
// channel.
func init() {
	const n = 10_000
	target := []bound{{amount, 10_000}}
	add(
		row{
			id: "IDLE", what: "an idle governor, new", peer: "a goroutine and its channel", unit: "B", target: target,
			measure: memory("IDLE", idle(n, false), actors(n)),
		},
		row{
			id: "IDLE/used", what: "an idle governor that made a call", peer: "a goroutine and its channel", unit: "B", target: target,
			measure: memory("IDLE/used", idle(n, true), actors(n)),
		},
	)
}

func idle(n int, used bool) crowd {
	return crowd{n: n, goroutines: 1, prepare: func(n int) (func() error, error) {
		all := make([]*governor.Plain, n)
		return func() (err error) {
			for i := range all {
				if all[i], err = governor.New(governor.PlainConfig{Name: "host" + strconv.Itoa(i)}); err != nil {
					return err
				}
			}
			for _, g := range all {
				if !used {
					break
				}
				if _, err := governor.Do(context.Background(), g, "", noop); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}}
}

func actors(n int) crowd {
	return crowd{n: n, goroutines: 1, prepare: func(n int) (func() error, error) {
		all := make([]chan struct{}, n)
		return func() error {
			for i := range all {
				all[i] = make(chan struct{}, 1)
				go func() {
					for range all[i] {
					}
				}()
			}
			return nil
		}, nil
	}}
}
