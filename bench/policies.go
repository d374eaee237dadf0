package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/retry"
)

// A1, A2 and A5: what a policy by itself adds to a call that does nothing and
// succeeds; "serial" is one goroutine, "par" one for each processor.
//
//	A1    breaker, failures in a row
//	A2    breaker, by the calls of the last seconds; now: with the clock read by the
//	      caller; count: by the last calls, and so without the clock; slow: with the
//	      default Config, which judges slow calls
//	A5    retry, from a Retry made once; do: from a Config; av: beside avast/retry-go
func init() {
	both("A1", "breaker, failures in a row", "gobreaker Execute", most(0.1),
		breakerDo(empty, breaker.Config{Consecutive: 5}), gobreakerExecute(empty, false))

	seconds := breaker.Config{WindowTime: 10 * time.Second, SlowCall: -1} // gobreaker has no slow calls either
	both("A2", "breaker, calls of 10 s", "gobreaker Execute, 10 s", most(0.4),
		breakerDo(empty, seconds), gobreakerExecute(empty, true))
	both("A2now", "breaker, calls of 10 s, time given", "gobreaker Execute, 10 s", most(0.15),
		breakerPermit(empty, seconds), gobreakerExecute(empty, true))
	both("A2count", "breaker, last 100 calls", "gobreaker Execute", most(0.4),
		breakerDo(empty, breaker.Config{SlowCall: -1}), gobreakerExecute(empty, false))
	both("A2slow", "breaker, last 100 calls, slow ones judged", "gobreaker Execute", most(0.5),
		breakerDo(empty, breaker.Config{}), gobreakerExecute(empty, false))

	both("A5", "retry, made once", "backoff/v5 Retry", most(0.1), retryWith(empty), backoffRetry(empty))
	both("A5do", "retry, by its Config", "backoff/v5 Retry", most(0.1), retryDo(empty), backoffRetry(empty))
	both("A5av", "retry, made once", "avast/retry-go/v5 Do", most(1.5), retryWith(empty), avastDo(empty))
	both("A5avdo", "retry, by its Config", "avast/retry-go/v5 Do", most(1.5), retryDo(empty), avastDo(empty))
}

// both adds a row for one goroutine and one for as many as there are processors.
func both(id, what, peer string, target []bound, ours, theirs side) {
	add(
		row{id: id + "/serial", what: what, peer: peer, unit: "ns", target: target, measure: timed(1, ours, theirs)},
		row{id: id + "/par", what: what, peer: peer, unit: "ns", target: target, measure: timed(runtime.GOMAXPROCS(0), ours, theirs)},
	)
}

// most is the target of a policy that is not in the way: a ratio, and nothing
// allocated.
func most(x float64) []bound { return []bound{{ratio, x}, {allocs, 0}} }

// job is what is called, in the forms that libraries want. It returns 1.
type job struct {
	with  func(context.Context) (int, error)
	alone func() (int, error)
}

// empty is a job that does nothing.
var empty = job{nothing, noopAlone}

//go:noinline
func nothing(context.Context) (int, error) { return 1, nil }

var errNotCalled = errors.New("the job was not called")

// did is the error of a call of a job.
func did(v int, err error) error {
	if err == nil && v != 1 {
		return errNotCalled
	}
	return err
}

// loops is a side that makes a P for each pass, and then runs loop, which does n
// operations. The loops of the policies alone, and of their peers, are written out:
// a function for one operation costs a third of what some of them do.
func loops[P any](made func() (P, error), loop func(ctx context.Context, p P, n int) error) side {
	return func() (func(int) error, func(), error) {
		p, err := made()
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := alive()
		return func(n int) error { return loop(ctx, p, n) }, cancel, nil
	}
}

func newBreaker(cfg breaker.Config) func() (*breaker.Breaker, error) {
	return func() (*breaker.Breaker, error) { return breaker.New(cfg) }
}

func breakerDo(j job, cfg breaker.Config) side {
	return loops(newBreaker(cfg), func(ctx context.Context, b *breaker.Breaker, n int) error {
		for range n {
			if err := did(breaker.Do(ctx, b, j.with)); err != nil {
				return err
			}
		}
		return nil
	})
}

// breakerPermit is how a governor uses a breaker: it has read the clock anyway.
func breakerPermit(j job, cfg breaker.Config) side {
	return loops(newBreaker(cfg), func(ctx context.Context, b *breaker.Breaker, n int) error {
		now := time.Now()
		for range n {
			p, err := b.Acquire(now)
			if err != nil {
				return err
			}
			if err := did(j.with(ctx)); err != nil {
				return err
			}
			b.Report(p, now, breaker.Success, 0)
		}
		return nil
	})
}

var threeTimes = retry.Config{Attempts: 3}

func retryWith(j job) side {
	made := func() (*retry.Retry, error) { return retry.New(threeTimes) }
	return loops(made, func(ctx context.Context, r *retry.Retry, n int) error {
		for range n {
			if err := did(retry.DoWith(ctx, r, j.with)); err != nil {
				return err
			}
		}
		return nil
	})
}

func retryDo(j job) side {
	made := func() (retry.Config, error) { return threeTimes, nil }
	return loops(made, func(ctx context.Context, cfg retry.Config, n int) error {
		for range n {
			if err := did(retry.Do(ctx, cfg, j.with)); err != nil {
				return err
			}
		}
		return nil
	})
}
