package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	heard "github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// E3: how long it is from Learn of one governor, which its vendor has refused, to the
// event of each of the others, which share the store with it. Each has an engine of its
// own, with its own connections, as a process has.

// replicas is how many share a store.
const replicas = 8

// patience is how long one pass of a row may take that waits for a server.
const patience = 30 * time.Second

// meeting is a server through which processes meet.
type meeting struct {
	open  func(context.Context) (store.Attentive, error)
	peer  func(context.Context) (*circle, error)
	close func()
}

// circle is one who says words, and the others, all but one of replicas, each of whom
// sends when he has heard one.
type circle struct {
	say   func(n int) error
	heard chan time.Time
	stop  func()
}

// propagation measures how long each of the words of a pass takes to each of the others,
// and takes the quantile of all that.
func propagation(q float64, words int, in func(context.Context) (*meeting, error)) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		m, err := in(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
		defer m.close()
		samples := make([]sample, passes)
		for i := range samples {
			samples[i].ours, err = delay(q, words, func(ctx context.Context) (*circle, error) { return governors(ctx, i, m.open) })
			if err != nil {
				return nil, err
			}
			if samples[i].peer, err = delay(q, words, m.peer); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
		}
		return samples, nil
	}
}

// delay is the quantile of how long words take in a circle that it makes and ends.
func delay(q float64, words int, made func(context.Context) (*circle, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := made(ctx)
	if err != nil {
		return 0, err
	}
	defer c.stop()
	all, err := c.delays(ctx, words)
	return quantile(q, all), err
}

// delays says words, each when all have heard the one before, a few at a time: those of a
// burst are told together. The first is not measured: connections are made by it.
func (c *circle) delays(ctx context.Context, words int) ([]time.Duration, error) {
	var all []time.Duration
	for n := range words + 1 {
		if n%6 == 0 {
			time.Sleep(50 * time.Millisecond)
		}
		start := time.Now()
		if err := c.say(n); err != nil {
			return nil, err
		}
		for i := range replicas - 1 {
			select {
			case at := <-c.heard:
				if n > 0 {
					all = append(all, at.Sub(start))
				}
			case <-ctx.Done():
				return nil, fmt.Errorf("%d of %d have heard word %d: %w", i, replicas-1, n, ctx.Err())
			}
		}
	}
	return all, nil
}

// quantile is the least of all that q of them do not exceed, in nanoseconds.
func quantile(q float64, all []time.Duration) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return float64(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
}

// step is how much longer each word's cooldown is than the one before, so that all of
// them are news. That many words of a pass are well below governor.Config.MaxCooldown.
const step = time.Second

// governors are a circle of those with an engine each. A pass has names of its own, as
// what another has said still holds.
func governors(ctx context.Context, pass int, open func(context.Context) (store.Attentive, error)) (c *circle, err error) {
	var stops []func()
	stop := func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	c = &circle{heard: make(chan time.Time, replicas), stop: stop}
	done := make(chan struct{})
	stops = append(stops, func() { close(done) })
	var engines []store.Attentive
	for i := range replicas {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		stops = append(stops, func() { s.Close() })
		engines = append(engines, s)
		shared, err := store.NewSyncer(store.SyncerConfig{Store: s})
		if err != nil {
			return nil, err
		}
		stops = append(stops, func() { shared.Close() })
		g, err := governor.New(governor.PlainConfig{Name: fmt.Sprint("bench", pass), Store: shared})
		if err != nil {
			return nil, err
		}
		stops = append(stops, func() { g.Close() })
		if i == 0 {
			c.say = func(n int) error {
				g.Learn(throttle.Signal{Kind: throttle.KindBurst, Delay: time.Minute + time.Duration(n)*step})
				return nil
			}
			continue
		}
		var last time.Time
		g.Listen(func(e heard.Event) {
			if e.Until.Sub(last) < step/2 {
				return // the same cooldown once more
			}
			last = e.Until
			select {
			case c.heard <- time.Now():
			case <-done:
			}
		}, heard.Cooling, heard.Extended)
	}
	for _, s := range engines { // what is said before would come late
		if err := until(ctx, func() error { return listens(s) }); err != nil {
			return nil, err
		}
	}
	return c, nil
}

var errDeaf = errors.New("an engine does not hear the others")

func listens(s store.Attentive) error {
	if s.HeardUntil().IsZero() {
		return errDeaf
	}
	return nil
}

// until asks one until it returns no error.
func until(ctx context.Context, one func() error) error {
	for {
		err := one()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w, at last: %w", ctx.Err(), err)
		}
	}
}
