package main

import (
	"context"
	"strconv"
	"sync/atomic"

	heard "github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
)

// V: what it costs to be seen. V1 are the events of a request that nobody hears: the
// questions that a governor asks before it makes one. V2 is a look at a governor
// that has calls behind it, one of a thousand in turn; V3 at one in which much waits.
func init() {
	add(
		row{
			id: "V1", what: "the events of a request that nobody hears", peer: "as many atomic loads", unit: "ns",
			target: []bound{{amount, 10}, {allocs, 0}}, measure: timed(1, unheard, loads),
		},
		row{
			id: "V2", what: "Stats of one of 1,000 governors", peer: "a question to a goroutine, and its answer", unit: "ns",
			target: []bound{{amount, 20_000}}, measure: timed(1, glances, questions),
		},
		row{
			id: "V3", what: "Stats while 100,000 wait, each in a lane of its own", peer: "a question to a goroutine, and its answer", unit: "ns",
			target: []bound{{amount, 200_000}}, measure: timed(1, crowded, questions),
		},
	)
}

// course are the kinds of a request that waits, starts and succeeds.
var course = [...]heard.Kind{heard.Submitted, heard.Queued, heard.Started, heard.AttemptEnded, heard.Completed}

func unheard() (func(int) error, func(), error) {
	var bus heard.Bus
	bus.Keep(256, heard.Cooling)
	return each(func() error {
		for _, k := range course {
			if bus.Wants(k) {
				bus.Emit(heard.Event{Kind: k})
			}
		}
		return nil
	}), nil, nil
}

func loads() (func(int) error, func(), error) {
	var word atomic.Uint64
	return each(func() error {
		for range course {
			if word.Load() != 0 {
				return errRefused
			}
		}
		return nil
	}), nil, nil
}

const seen = 1000

func glances() (func(int) error, func(), error) {
	all := make([]*governor.Plain, seen)
	stop := func() {
		for _, g := range all {
			if g != nil {
				g.Close()
			}
		}
	}
	for i := range all {
		g, err := governor.New(governor.PlainConfig{Name: "host" + strconv.Itoa(i)})
		if err != nil {
			stop()
			return nil, nil, err
		}
		all[i] = g
		for range 100 {
			if _, err := governor.Do(context.Background(), g, "", noop); err != nil {
				stop()
				return nil, nil, err
			}
		}
	}
	next := 0
	return each(func() error {
		all[next%seen].Stats()
		next++
		return nil
	}), stop, nil
}

// crowded looks at a governor that is paused, and so at all that waits.
func crowded() (func(int) error, func(), error) {
	const waiting = 100_000
	g, err := governor.New(governor.PlainConfig{Name: "host", MaxQueue: waiting})
	if err != nil {
		return nil, nil, err
	}
	g.Pause()
	for i := range waiting {
		who := governor.Ask{Tenant: "tenant" + strconv.Itoa(i)}
		governor.Submit(context.Background(), g.With(who), "", noop)
	}
	return each(func() error {
		if s := g.Stats(); s.Queued != waiting || s.TenantCount != waiting {
			return errRefused
		}
		return nil
	}), func() { g.Close() }, nil
}

func questions() (func(int) error, func(), error) {
	all := make([]chan chan int, seen)
	for i := range all {
		all[i] = make(chan chan int)
		go func() {
			for answer := range all[i] {
				answer <- 1
			}
		}()
	}
	next := 0
	return each(func() error {
			answer := make(chan int, 1)
			all[next%seen] <- answer
			<-answer
			next++
			return nil
		}), func() {
			for _, c := range all {
				close(c)
			}
		}, nil
}
