package main

import (
	"context"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// E7: how long it is from Submit to the start of the call, of a governor whose quota is in
// Redis, with permits at hand: beside one that has it for itself.
func init() {
	add(row{id: "E7/p99", what: "Submit to start with a quota in Redis, permits at hand, 99th percentile", peer: "the same governor without a store", unit: "ns",
		target: []bound{{amount, 1e6}}, measure: submitted(0.99)})
}

// submissions are those of a pass, one a millisecond.
const submissions = 1000

// submitted measures one that is alone each time.
func submitted(q float64) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		_, engine, end, err := redisEngine()
		if err != nil {
			return nil, err
		}
		defer end()
		shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		if err != nil {
			return nil, err
		}
		defer shared.Close()
		with, err := started(shared)
		if err != nil {
			return nil, err
		}
		defer with.Close()
		without, err := started(nil)
		if err != nil {
			return nil, err
		}
		defer without.Close()
		samples := make([]sample, passes)
		for i := range samples {
			if samples[i].ours, err = startDelay(q, with); err != nil {
				return nil, err
			}
			if samples[i].peer, err = startDelay(q, without); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
		}
		return samples, nil
	}
}

// started is a governor with a quota that it does not use up.
func started(shared *store.Syncer) (*governor.Plain, error) {
	return governor.New(governor.PlainConfig{Name: "bench", Store: shared, NoPace: true,
		Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 1e6, Per: time.Minute}}}})
}

// startDelay is the quantile of how long calls take to their start, of a pass; those of
// the first tenth, which fetches permits, are not measured.
func startDelay(q float64, g *governor.Plain) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []time.Duration
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range submissions + submissions/10 {
		<-tick.C
		begin := time.Now()
		at, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil }))
		if err != nil {
			return 0, err
		}
		if i >= submissions/10 {
			all = append(all, at.Sub(begin))
		}
	}
	return quantile(q, all), nil
}
