package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/governor"
)

// tooMany is the vendor's answer to a call that it refuses.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string { return "wait " + e.wait.String() }

// waits is the adapter that reads it.
type waits struct{}

func (waits) DelayError(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*tooMany](err); ok {
		return e.wait, true
	}
	return 0, false
}

// client calls a vendor by the clock of the bubble that it was made in.
type client struct {
	start time.Time
	mu    sync.Mutex // guards vendor
	*vendor
}

func (c *client) call(context.Context) (int, error) {
	c.mu.Lock()
	up, service, down := c.about(c.up), c.about(c.service), c.about(c.down)
	c.mu.Unlock()
	time.Sleep(up)
	c.mu.Lock()
	wait, ok := c.arrive(time.Since(c.start))
	c.mu.Unlock()
	if !ok {
		time.Sleep(down)
		return 0, &tooMany{wait}
	}
	time.Sleep(service)
	c.mu.Lock()
	c.serving--
	c.mu.Unlock()
	time.Sleep(down)
	return 0, nil
}

// governed is a governor's configuration for a vendor at the scale of the rows. Without
// Limits it finds a pace of its own, unless NoPace is set.
func governed(v *vendor) governor.PlainConfig {
	return governor.PlainConfig{
		Name: "vendor", Vendor: waits{}, Workers: v.concurrent, MinCooldown: time.Millisecond, LimitedAttempts: -1,
	}
}

// through makes calls through a governor. Each of the submitters waits for a call's
// result before it makes the next. It is to be called in a bubble, and returns the
// errors that calls ended with.
func through(cfg governor.PlainConfig, v *vendor, calls, submitters int) (o outcome, err error) {
	g, err := governor.New(cfg)
	if err != nil {
		return o, err
	}
	defer g.Close()
	c := &client{vendor: v, start: time.Now()}
	call := governor.Func(c.call)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards what follows, o and err
		left = calls
		took []time.Duration
	)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		left--
		return left >= 0 && err == nil
	}
	for range submitters {
		all.Go(func() {
			for next() {
				asked := time.Now()
				_, e := governor.Do(context.Background(), g, "", call)
				mu.Lock()
				if took = append(took, time.Since(asked)); len(took) == 1 {
					o.First = took[0]
				}
				err = errors.Join(err, e)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	o.P50, o.P99 = took[len(took)/2], took[len(took)*99/100]
	o.Elapsed, o.Longest, o.Refused = time.Since(c.start), v.longest, v.refused
	return o, err
}
