package main

import (
	"runtime"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// A6: retry, breaker, limiter and bulkhead around a call that does nothing.
//
//	A6fs   beside failsafe-go with the same policies
//	A6hm   beside what one makes by hand of avast/retry-go, gobreaker, x/time
//	       and x/sync
//	A6floor beside the same written out (floor.go)
//	A6t    with a timeout, too, beside failsafe-go with one
//	A6gov  inside a governor's Do, beside failsafe-go with the four
func init() {
	one := bound{allocs, 1} // the context of a timeout
	for _, c := range []struct {
		name           string
		cores          int
		fs, hands, gov float64
	}{{"serial", 1, 0.06, 0.3, 0.2}, {"par", runtime.GOMAXPROCS(0), 0.09, 0.3, 0.2}} {
		four, five := chain(empty, false), chain(empty, true)
		add(
			row{
				id: "A6fs/" + c.name, what: "retry, breaker, limiter, bulkhead", peer: "failsafe-go Get, the same", unit: "ns",
				target: []bound{{ratio, c.fs}, one}, measure: timed(c.cores, four, failsafeGet(empty, false)),
			},
			row{
				id: "A6hm/" + c.name, what: "retry, breaker, limiter, bulkhead", peer: "avast, gobreaker, x/time, x/sync", unit: "ns",
				target: []bound{{ratio, c.hands}, one}, measure: timed(c.cores, four, handMade(empty)),
			},
			row{
				id: "A6t/" + c.name, what: "the same and a timeout", peer: "failsafe-go Get, the same", unit: "ns",
				target: []bound{one}, measure: timed(c.cores, five, failsafeGet(empty, true)),
			},
			row{
				id: "A6gov/" + c.name, what: "governor.Do with retry, breaker, limit, slots", peer: "failsafe-go Get, the same", unit: "ns",
				target: []bound{{ratio, c.gov}, one}, measure: timed(c.cores, inGovernor, failsafeGet(empty, false)),
			},
		)
	}
}

const inFlight = 1000

func chain(j job, withTimeout bool) side {
	return func() (func(int) error, func(), error) {
		policies, err := layers()
		if err != nil {
			return nil, nil, err
		}
		if !withTimeout {
			policies = policies[:len(policies)-1]
		}
		p := policy.Chain(policies...)
		ctx, cancel := alive()
		return each(func() error { return did(policy.Do(ctx, p, j.with)) }), cancel, nil
	}
}

// inGovernor is a governor that has those policies inside.
func inGovernor() (func(int) error, func(), error) {
	open, err := breaker.New(breaker.Config{Consecutive: 5})
	if err != nil {
		return nil, nil, err
	}
	rate, err := limiter.NewBucket(limiter.BucketConfig{Rate: plenty, Burst: burst})
	if err != nil {
		return nil, nil, err
	}
	g, err := governor.New(governor.PlainConfig{
		Name: "bench", Workers: inFlight, Retry: &retry.Config{}, Breaker: open,
		Limits: []governor.Limit{{Limiter: rate}},
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := alive()
	op := each(func() error { return did(governor.Do(ctx, g, "", noop)) })
	return op, func() { g.Close(); cancel() }, nil
}

// layers are the policies of a chain, outermost first.
func layers() ([]policy.Policy, error) {
	again, err := retry.New(retry.Config{})
	if err != nil {
		return nil, err
	}
	open, err := breaker.New(breaker.Config{Consecutive: 5})
	if err != nil {
		return nil, err
	}
	rate, err := limiter.NewRate(limiter.RateConfig{Rate: plenty, Burst: burst})
	if err != nil {
		return nil, err
	}
	limit, err := limiter.NewRateLayer(rate, limiter.RateLayerConfig{MaxWait: -1})
	if err != nil {
		return nil, err
	}
	room, err := policy.NewBulkhead(policy.BulkheadConfig{Max: inFlight, MaxWait: time.Second})
	if err != nil {
		return nil, err
	}
	over, err := policy.NewTimeout(policy.TimeoutConfig{After: time.Minute})
	return []policy.Policy{again, open, limit, room, over}, err
}
