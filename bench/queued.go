package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/governor"
)

// Q: what a request costs from Submit to the end of a closure that does nothing,
// when a million wait in 100,000 lanes. The peer is the same governor with 1,000
// in 100 lanes, as often as it takes for a million. In Q1 each lane is a tenant's
// of its own; in Q1mixed there are also four priorities, two weights and costs from
// 1 to 10, for which lanes are in heaps, and those of 100,000 lanes are in no cache: it
// may cost half as much again. Nothing is collected while the time is taken.
func init() {
	const n = 1_000_000
	plain := func(i int) governor.Ask { return governor.Ask{Tenant: "tenant-" + strconv.Itoa(i)} }
	mixed := func(i int) governor.Ask {
		return governor.Ask{Tenant: "tenant-" + strconv.Itoa(i), Priority: i % 4, Cost: 1 + i%10}
	}
	for _, r := range []struct {
		id, what string
		ask      func(i int) governor.Ask
		most     float64 // times the peer
	}{
		{"Q1", "submit to end, 1,000,000 queued in 100,000 lanes", plain, 2},
		{"Q1mixed", "Q1 with priorities, weights and costs", mixed, 3},
	} {
		add(row{
			id: r.id, what: r.what, peer: "1,000 queued in 100 lanes", unit: "ns", target: []bound{{ratio, r.most}},
			measure: func(passes int) ([]sample, error) {
				samples := make([]sample, min(passes, 3))
				for i := range samples {
					var err error
					if samples[i].ours, err = backlog(n, n, 100_000, r.ask); err != nil {
						return nil, err
					}
					if samples[i].peer, err = backlog(n, 1000, 100, r.ask); err != nil {
						return nil, err
					}
				}
				return samples, nil
			},
		})
	}
}

// backlog has total requests done, queued at a time, and returns the nanoseconds
// of one.
func backlog(total, queued, lanes int, ask func(i int) governor.Ask) (float64, error) {
	g, err := governor.New(governor.PlainConfig{
		Name: "bench", Workers: 64, MaxQueue: queued, NoPace: true,
		Weight: func(tenant string) int { return 1 + len(tenant)%2 },
	})
	if err != nil {
		return 0, err
	}
	defer g.Close()
	views := make([]*governor.Plain, lanes)
	for i := range views {
		views[i] = g.With(ask(i))
	}
	var done atomic.Int64
	all := make(chan struct{})
	fn := func(context.Context, struct{}) (int, error) {
		if done.Add(1)%int64(queued) == 0 {
			all <- struct{}{}
		}
		return 0, nil
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	ctx := context.Background()
	start := time.Now()
	for range total / queued {
		g.Pause()
		for i := range queued {
			governor.Submit(ctx, views[i%lanes], "", fn)
		}
		g.Resume()
		<-all
	}
	return float64(time.Since(start)) / float64(total), nil
}
