package governor

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts durations in log-linear buckets, eight to every doubling: a
// quantile is at most one eighth, or 8 µs, above the truth. What is longer than
// 2.3 hours counts in the last bucket. It may be used from any goroutine. It
// takes its memory, 2 KB, with the first duration.
type histogram struct {
	counts atomic.Pointer[[buckets]atomic.Uint64]
}

const (
	unit    = 8 * time.Microsecond
	subBits = 3
	octaves = 28
	buckets = octaves << subBits
)

// bucket returns the bucket of d: the highest bit and the three below it.
func bucket(d int64) int {
	u := uint64(max(d, 0)) / uint64(unit)
	if u < 1<<subBits {
		return int(u)
	}
	exp := bits.Len64(u) - 1 - subBits
	return min((exp+1)<<subBits|int(u>>exp&(1<<subBits-1)), buckets-1)
}

// top returns the upper end of bucket i.
func top(i int) time.Duration {
	exp := i>>subBits - 1
	if exp < 0 {
		return time.Duration(i+1) * unit
	}
	return time.Duration((1<<subBits|i&(1<<subBits-1))+1) << exp * unit
}

func (h *histogram) add(d int64) {
	c := h.counts.Load()
	if c == nil {
		h.counts.CompareAndSwap(nil, new([buckets]atomic.Uint64))
		c = h.counts.Load()
	}
	c[bucket(d)].Add(1)
}

// Latency summarises durations: how many, and upper bounds of the quantiles, at
// most one eighth, or 8 µs, above them. Beyond 2.3 hours they say 2.3 hours.
type Latency struct {
	Count uint64        `json:"count"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// tally is what a histogram has counted so far.
type tally [buckets]uint64

func (h *histogram) read() (counts tally) {
	if c := h.counts.Load(); c != nil {
		for i := range c {
			counts[i] = c[i].Load()
		}
	}
	return counts
}

func (counts *tally) sum() (all uint64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// plus adds what was counted elsewhere, to the first buckets.
func (counts *tally) plus(more ...uint64) {
	for i, n := range more {
		counts[i] += n
	}
}

func (counts *tally) summary() (l Latency) {
	l.Count = counts.sum()
	var seen uint64
	for i, n := range counts {
		if n == 0 {
			continue
		}
		before := seen
		seen += n
		for _, q := range [...]struct {
			share float64
			to    *time.Duration
		}{{0.5, &l.P50}, {0.9, &l.P90}, {0.99, &l.P99}} {
			if rank := uint64(q.share * float64(l.Count-1)); before <= rank && rank < seen {
				*q.to = top(i)
			}
		}
		l.Max = top(i)
	}
	return l
}
