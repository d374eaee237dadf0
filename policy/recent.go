package policy

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recent estimates a quantile of durations: the one of rank ceil(q*n) among the
// latest n, at most 128 of them, computed anew with every 16th. It is exact for
// those, and follows a change within 128.
type recent struct {
	q float64

	estimate atomic.Int64 // 0: none yet

	// mu is held to note a duration, and to sort a copy of them.
	mu    sync.Mutex
	noted uint64
	ring  [128]time.Duration
}

const newEstimate = 16 // durations from one estimate to the next

func (r *recent) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.noted%uint64(len(r.ring))] = d
	if r.noted++; r.noted%newEstimate != 0 {
		return
	}
	sorted := r.ring
	known := sorted[:min(r.noted, uint64(len(sorted)))]
	slices.Sort(known)
	rank := int(math.Ceil(r.q * float64(len(known))))
	r.estimate.Store(int64(max(1, known[max(1, rank)-1])))
}

// value returns the estimate; ok is false before there is one.
func (r *recent) value() (d time.Duration, ok bool) {
	d = time.Duration(r.estimate.Load())
	return d, d > 0
}
