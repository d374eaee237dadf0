package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/internal/spin"
)

// RateConfig says what a Rate admits.
type RateConfig struct {
	// Rate is how many permits per second come back: at least one per century,
	// at most 1e9. The time between two permits is rounded up to the next
	// nanosecond, which matters above 1e6 per second only: there the rate kept
	// is lower by up to Rate/1e9 of it.
	Rate float64

	// Burst is how many permits a full bucket holds. 0 means one second's worth,
	// rounded up: max(1, ceil(Rate)). Burst/Rate is at most a century.
	Burst int
}

// Rate is a token bucket for any number of goroutines: Burst permits, of which
// Rate per second come back. It is for callers that limit themselves; a governor
// takes a Limiter, such as Bucket.
//
// In any window of length d at most
//
//	Burst + Rate*d
//
// permits are used, wherever it begins: each counted at the now that was given
// for it, read from the clock by methods that take none, or at the end of the
// wait that it was reserved with. That of WaitN may be over up to 10 ms before it
// returns: it does not charge those in line for the lateness of timers, and by the
// clock it is Burst + Rate*(d + 10 ms). Goroutines may come with their nows in any
// order, as it happens between reading the clock and calling. All nows are to be
// of one clock, that of time.Now unless only methods are used that take a now;
// then a step of the wall clock changes nothing.
//
// A take costs one compare-and-swap and, if it is not given now, one reading of
// the monotonic clock. Allow, Try, Reserve and a Wait that need not wait take no
// lock and allocate nothing. There is no goroutine and nothing to close.
type Rate struct {
	time instants
	cur  atomic.Pointer[rateState]
	line waitingLine

	// mu is held by what changes the limit, or cancels a reservation or makes one that
	// has to wait, never while waiting.
	mu     sync.Mutex
	undone undone // guarded by mu
	turn   place  // what who has the turn in line has reserved; likewise
}

// rateState is the bucket under one limit. tat is all that changes; a new limit
// is a new rateState, and the tat of the old one becomes moved. So whoever has
// decided by an old limit fails to swap, and decides again.
type rateState struct {
	tat atomic.Int64
	gcra
	since  int64 // when this limit came into force: a now before that has to wait for it
	owner  *Rate
	number int64 // how many limits came before
	// All of it is a cache line of its own: the neighbour's writes would slow every take
}

const moved = math.MaxInt64

// NewRate returns a Rate whose bucket is full. The error names the field that is
// out of range.
func NewRate(cfg RateConfig) (*Rate, error) {
	g, err := newGCRA("RateConfig", cfg.Rate, cfg.Burst)
	if err != nil {
		return nil, err
	}
	r := &Rate{time: instants{time.Now()}}
	r.line.turn = make(chan struct{}, 1)
	r.cur.Store(&rateState{gcra: g, since: math.MinInt64, owner: r})
	return r, nil
}

// Allow takes a permit if there is one now, and reports whether it did.
func (r *Rate) Allow() bool { return r.AllowN(1) }

// AllowN takes n permits if they are there now, and reports whether it did: all
// or none. n below 1 takes nothing and is allowed; more than Burst never are.
func (r *Rate) AllowN(n int) bool {
	_, _, wait := r.take(r.time.now(), n, 0)
	return wait == 0
}

// AllowAt is AllowN by the caller's reading of the clock, which it saves.
func (r *Rate) AllowAt(now time.Time, n int) bool {
	_, _, wait := r.take(r.time.at(now), n, 0)
	return wait == 0
}

// Try takes n permits if they are there at now and returns 0. Otherwise it takes
// nothing and returns how long from now it is until they are, if nobody else
// takes any; Never when n is more than Burst.
func (r *Rate) Try(now time.Time, n int) time.Duration {
	_, _, wait := r.take(r.time.at(now), n, 0)
	return time.Duration(wait)
}

// Take is AllowN with a reason: a *LimitedError that says how long to wait.
func (r *Rate) Take(n int) error {
	if _, _, wait := r.take(r.time.now(), n, 0); wait > 0 {
		return refuse(NoPermits, time.Duration(wait), "")
	}
	return nil
}

// take takes n permits if from now they have to wait for at most most, and
// returns the wait, the tat after them and the state that holds it; those two
// mean nothing when nothing was taken.
//
// tat moves by compare-and-swap only, so that each take builds on all before it.
// Two loads that do not belong together are no harm: the limits in s never
// change, and a tat that moved on after it was loaded, or whose state is no
// longer the current one, is not swapped.
func (r *Rate) take(now int64, n int, most int64) (s *rateState, after, wait int64) {
	s = r.cur.Load()
	for {
		if n < 1 {
			return s, 0, 0
		}
		if int64(n) > s.burst {
			return s, 0, int64(Never)
		}
		tat := s.tat.Load()
		if tat == moved {
			s = r.settled()
			continue
		}
		at := max(now, s.since)
		wait = at - now + s.wait(tat, at, n)
		if wait > most {
			return s, 0, wait
		}
		after = s.next(tat, at, n)
		if s.tat.CompareAndSwap(tat, after) {
			return s, after, wait
		}
		spin.Aside()
	}
}

// settled returns the current state when the one at hand was replaced. Who
// replaces holds mu until the new one is there.
func (r *Rate) settled() *rateState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cur.Load()
}
