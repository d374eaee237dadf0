package main

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flyball-go/flyball/limiter"
)

// L1: a permit of a full token bucket, by one goroutine. Ours is a pure core, so
// a lock and a clock reading are added to make it what the peer is; L1/now is the
// core as a governor uses it, under its own lock and clock.
func init() {
	add(
		row{id: "L1", what: "a permit, lock and clock added", peer: "x/time/rate Allow", unit: "ns", measure: timed(1, lockedBucket, timeRate)},
		row{id: "L1/now", what: "a permit, time given", peer: "x/time/rate Allow", unit: "ns", measure: timed(1, bareBucket, timeRate)},
	)
}

// Rate and burst at which nothing is ever refused.
const (
	plenty = 1e9
	burst  = 1e9
)

var errRefused = errors.New("a permit was refused")

func lockedBucket() (func(int) error, func(), error) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: plenty, Burst: burst})
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	return each(func() error {
		mu.Lock()
		defer mu.Unlock()
		return take(b, time.Now())
	}), nil, nil
}

func bareBucket() (func(int) error, func(), error) {
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: plenty, Burst: burst})
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	return each(func() error {
		now = now.Add(100)
		return take(b, now)
	}), nil, nil
}

func take(l limiter.Limiter, now time.Time) error {
	if l.Wait(now, "", 1) != 0 {
		return errRefused
	}
	l.Take(now, "", 1)
	return nil
}

func timeRate() (func(int) error, func(), error) {
	l := rate.NewLimiter(plenty, burst)
	return each(func() error {
		if !l.Allow() {
			return errRefused
		}
		return nil
	}), nil, nil
}
