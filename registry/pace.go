package registry

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// pace is a rate: limit permits come back in each period, to at most capacity.
type pace struct {
	limit    int
	period   time.Duration
	capacity int
}

func (p pace) rate() float64 { return float64(p.limit) / p.period.Seconds() }

func (p pace) bucket() limiter.BucketConfig {
	return limiter.BucketConfig{Rate: p.rate(), Burst: p.capacity, MaxKeys: 1}
}

// shared is p as all processes share it. A bucket has let pass no more than capacity
// and what comes back in a period; in a half-open one that is one less.
func (p pace) shared() store.Limit {
	return store.Limit{Kind: store.Bucket, Quota: int64(p.capacity) + int64(p.limit) - 1, Per: p.period, Burst: int64(p.capacity)}
}

// paced is a bucket whose pace changes as metadata says: what is lower counts at once,
// what is higher when the period that runs is over. Periods are counted from its
// beginning.
//
// It is a pure core, as any limiter.Limiter: the Shared that it is in calls it.
type paced struct {
	*limiter.Bucket
	begin time.Time
	now   pace // in force
	next  pace // from at on; now when nothing waits
	at    time.Time
}

func newPaced(begin time.Time, p pace) (*paced, error) {
	b, err := limiter.NewBucket(p.bucket())
	if err != nil {
		return nil, err
	}
	return &paced{Bucket: b, begin: begin, now: p, next: p}, nil
}

// Wait returns how long it is until n permits can be taken, or until there may be more
// of them.
func (p *paced) Wait(now time.Time, key string, n int) time.Duration {
	p.turn(now)
	w := p.Bucket.Wait(now, key, n)
	if w != limiter.Never && p.next != p.now { // Capacity is in force at once
		w = min(w, p.at.Sub(now))
	}
	return w
}

// Take takes n permits.
func (p *paced) Take(now time.Time, key string, n int) {
	p.turn(now)
	p.Bucket.Take(now, key, n)
}

// Idle reports whether nobody could tell p from a new one.
func (p *paced) Idle(now time.Time) bool {
	p.turn(now)
	return p.next == p.now && p.Bucket.Idle(now)
}

func (p *paced) turn(now time.Time) {
	if p.next != p.now && !now.Before(p.at) {
		p.set(now, p.next)
	}
}

// change makes to the pace.
func (p *paced) change(now time.Time, to pace) {
	if p.turn(now); p.next == p.now { // else a raise waits already, and what is new counts with it
		p.at = now.Add(p.now.period - now.Sub(p.begin)%p.now.period)
	}
	lower := p.now
	if to.rate() < p.now.rate() {
		lower.limit, lower.period = to.limit, to.period
	}
	lower.capacity = to.capacity
	p.set(now, lower)
	p.next = to
	if to.rate() == lower.rate() && to.capacity == lower.capacity {
		p.set(now, to) // there is nothing to wait for
	}
}

// set puts a pace in force, with the lower of two capacities between the rates, so that
// what NewBucket takes is in range all the way.
func (p *paced) set(now time.Time, to pace) {
	err := p.SetLimit(now, min(to.capacity, p.now.capacity))
	if err == nil {
		err = p.SetRate(now, to.rate())
	}
	if err == nil {
		err = p.SetLimit(now, to.capacity)
	}
	if err == nil {
		p.now, p.next = to, to
	}
}
