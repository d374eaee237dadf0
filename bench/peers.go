package main

import (
	"context"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// The peers of the rows A: each as its documentation has it, made once.

func newGobreaker(seconds bool) *gobreaker.CircuitBreaker[int] {
	s := gobreaker.Settings{Name: "bench"} // opens after 5 failures in a row
	if seconds {
		s.Interval, s.BucketPeriod = 10*time.Second, time.Second
	}
	return gobreaker.NewCircuitBreaker[int](s)
}

func gobreakerExecute(j job, seconds bool) side {
	return func() (func(int) error, func(), error) {
		b := newGobreaker(seconds)
		op := func(n int) error {
			for range n {
				if err := did(b.Execute(j.alone)); err != nil {
					return err
				}
			}
			return nil
		}
		return op, nil, nil
	}
}

func backoffRetry(j job) side {
	return func() (func(int) error, func(), error) {
		ctx, cancel := alive()
		op := func(n int) error {
			for range n {
				if err := did(backoff.Retry(ctx, j.alone)); err != nil {
					return err
				}
			}
			return nil
		}
		return op, cancel, nil
	}
}

func newAvast(ctx context.Context) *avast.RetrierWithData[int] {
	return avast.NewWithData[int](avast.Attempts(3), avast.Context(ctx))
}

func avastDo(j job) side {
	return func() (func(int) error, func(), error) {
		ctx, cancel := alive()
		r := newAvast(ctx)
		op := func(n int) error {
			for range n {
				if err := did(r.Do(j.alone)); err != nil {
					return err
				}
			}
			return nil
		}
		return op, cancel, nil
	}
}

// failsafeGet is an executor with the policies of chain, outermost first.
func failsafeGet(j job, withTimeout bool) side {
	return func() (func(int) error, func(), error) {
		policies := []failsafe.Policy[int]{
			retrypolicy.NewBuilder[int]().WithMaxRetries(2).WithBackoff(500*time.Millisecond, time.Minute).Build(),
			circuitbreaker.NewBuilder[int]().WithFailureThreshold(5).WithDelay(time.Minute).Build(),
			ratelimiter.NewSmoothBuilder[int](plenty, time.Second).WithMaxWaitTime(time.Second).Build(),
			bulkhead.NewBuilder[int](inFlight).WithMaxWaitTime(time.Second).Build(),
		}
		if withTimeout {
			policies = append(policies, timeout.New[int](time.Minute))
		}
		ctx, cancel := alive()
		exec := failsafe.With(policies...).WithContext(ctx)
		return each(func() error { return did(exec.Get(j.alone)) }), cancel, nil
	}
}

// handMade is what one writes with the usual parts: a retrier around a breaker
// around a limiter around a semaphore.
func handMade(j job) side {
	return func() (func(int) error, func(), error) {
		ctx, cancel := alive()
		breaker := newGobreaker(false)
		limit := rate.NewLimiter(plenty, burst)
		room := semaphore.NewWeighted(inFlight)
		inside := func() (int, error) {
			if err := limit.Wait(ctx); err != nil {
				return 0, err
			}
			if err := room.Acquire(ctx, 1); err != nil {
				return 0, err
			}
			defer room.Release(1)
			return j.alone()
		}
		guarded := func() (int, error) { return breaker.Execute(inside) }
		r := newAvast(ctx)
		return each(func() error { return did(r.Do(guarded)) }), cancel, nil
	}
}
