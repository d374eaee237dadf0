package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// E7: how long it is from Submit to the start of the call, of a governor whose quota is in
// Redis: with permits at hand, beside one that has it for itself; and without any, as of a
// tenant's first call, beside the exchange that it needs.
func init() {
	const what = "Submit to start with a quota in Redis, "
	add(
		row{id: "E7/p99", what: what + "permits at hand, 99th percentile", peer: "the same governor without a store", unit: "ns",
			target: []bound{{amount, 1e6}}, measure: submitted(0.99)},
		row{id: "E7none/p99", what: what + "no permits, 99th percentile, beyond an exchange", peer: "an exchange, 99th percentile", unit: "ns",
			target: []bound{{amount, 1e6}}, measure: firsts(0.99)},
	)
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
		with, err := started(shared, throttle.Host)
		if err != nil {
			return nil, err
		}
		defer with.Close()
		without, err := started(nil, throttle.Host)
		if err != nil {
			return nil, err
		}
		defer without.Close()
		samples := make([]sample, passes)
		for i := range samples {
			if samples[i].ours, err = startDelay(q, alone(with)); err != nil {
				return nil, err
			}
			if samples[i].peer, err = startDelay(q, alone(without)); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
		}
		return samples, nil
	}
}

// started is a governor with a quota that it does not use up, of the host or for each of
// what level says.
func started(shared *store.Syncer, level throttle.Level) (*governor.Plain, error) {
	return governor.New(governor.PlainConfig{Name: "bench", Store: shared, NoPace: true, MaxKeys: 1e6,
		Limits: []governor.Limit{{Per: level, Quota: limiter.QuotaConfig{Limit: 1e6, Per: time.Minute}}}})
}

// alone calls through g, by one caller.
func alone(g *governor.Plain) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) { return governor.Do(ctx, g, "", begun) }
}

// firsts measures first calls of tenants.
func firsts(q float64) func(passes int) ([]sample, error) {
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
		g, err := started(shared, throttle.Tenant)
		if err != nil {
			return nil, err
		}
		defer g.Close()
		tenants, a := 0, newAsker(engine)
		samples := make([]sample, passes)
		for i := range samples {
			s := &samples[i]
			if s.ours, err = startDelay(q, func(ctx context.Context) (time.Time, error) {
				tenants++
				return governor.Do(ctx, g.With(governor.Ask{Tenant: strconv.Itoa(tenants)}), "", begun)
			}); err != nil {
				return nil, err
			}
			if s.peer, err = startDelay(q, func(context.Context) (time.Time, error) {
				err := a.alive()
				return time.Now(), err
			}); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			s.ours -= s.peer
		}
		return samples, nil
	}
}

// begun says when a call began.
var begun = governor.Func(func(context.Context) (time.Time, error) { return time.Now(), nil })

// startDelay is the quantile of how long it is until what call returns, of a pass; those of
// the first tenth, which fetches permits, are not measured.
func startDelay(q float64, call func(context.Context) (time.Time, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []time.Duration
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range submissions + submissions/10 {
		<-tick.C
		begin := time.Now()
		at, err := call(ctx)
		if err != nil {
			return 0, err
		}
		if i >= submissions/10 {
			all = append(all, at.Sub(begin))
		}
	}
	return quantile(q, all), nil
}
