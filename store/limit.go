package store

import (
	"fmt"
	"math/bits"
	"time"
)

// Kind says how the vendor counts, and with it what the store promises.
type Kind uint8

const (
	// Sliding promises no more than Quota uses in any window of length Per. The
	// store counts the uses of each of 32 segments of a window, and a lease ends
	// with its segment: who always has something to do gets at least 32/33 of the
	// quota. This is the zero Kind, since no other reading of "so many per minute"
	// refuses what it lets pass.
	Sliding Kind = iota

	// Bucket promises the same, and spreads the uses: no more than Burst at once.
	// It needs the least state, and grants the smallest leases. It costs
	// Burst/Quota + (Lease+Transit)/Per of the quota.
	Bucket

	// Window promises no more than Quota uses in each window of length Per, from
	// one to the next, aligned to the store's clock (Unix time). All of the quota
	// can be used; around the border of two windows a span of one Per may hold
	// twice as many. It is for vendors that are known to count so.
	Window

	kinds
)

var kindNames = [kinds]string{"sliding", "bucket", "window"}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "invalid"
}

// Limit is one limit that all nodes share under one key.
type Limit struct {
	Kind Kind

	// Quota is how many permits there are per Per: 1 up to 1e9.
	Quota int64

	// Per is the length of the vendor's window: 1 ms up to 31 days; of a Window whole
	// microseconds, since the windows are those of every engine's clock.
	Per time.Duration

	// Burst is how many permits a full Bucket holds, at most Quota. 0 means 1 % of
	// Quota, but at least 2 if Quota is 20 or more, else 1. Other kinds have none.
	Burst int64

	// Lease is for how long a grant of a Bucket may be used, at most Per: the
	// longer, the fewer round trips are lost to it, and the more of the quota it
	// costs. 0 means 2 % of Per, but no more than 5 s. What the other kinds grant
	// may be used until its segment, or window, ends.
	Lease time.Duration

	// Transit is by how much the way to the vendor may differ from one call to the
	// next, less than Per (for Sliding, than a 32nd of Per). A grant may be used
	// that much less long. 0 means 1 % of Per, but no more than 10 ms; negative:
	// none.
	Transit time.Duration
}

// Segments is in how many parts a Sliding limit counts a window.
const Segments = 32

// Check returns an error that names the first field that is out of range.
func (l Limit) Check() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("%w: Limit.%s is %v, want %s", ErrInvalid, field, value, want)
	}
	switch {
	case l.Kind >= kinds:
		return bad("Kind", uint8(l.Kind), "Sliding, Bucket or Window")
	case l.Quota < 1 || l.Quota > 1e9:
		return bad("Quota", l.Quota, "1 up to 1e9")
	case l.Per < time.Millisecond || l.Per > 31*24*time.Hour:
		return bad("Per", l.Per, "1ms up to 744h")
	case l.Kind == Window && l.Per%time.Microsecond != 0:
		return bad("Per", l.Per, "whole microseconds of a Window")
	case l.Burst < 0 || l.Burst > l.Quota || l.Burst > 0 && l.Kind != Bucket:
		return bad("Burst", l.Burst, "0 up to Quota, of a Bucket alone")
	case l.Lease < 0 || l.Lease > l.Per || l.Lease > 0 && l.Kind != Bucket:
		return bad("Lease", l.Lease, "0 up to Per, of a Bucket alone")
	case l.Kind == Sliding && l.Transit >= l.Per/Segments || l.Transit >= l.Per:
		return bad("Transit", l.Transit, "less than Per, of a Sliding less than a 32nd of it")
	}
	return nil
}

// CheckLimits checks the limits of an Item: up to 8, each in range.
func CheckLimits(limits []Limit) error {
	if len(limits) > 8 {
		return fmt.Errorf("%w: %d limits on one key, want up to 8", ErrInvalid, len(limits))
	}
	for _, l := range limits {
		if err := l.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Fill returns l with its defaults written out, so that engines and nodes
// calculate with the same numbers.
func (l Limit) Fill() Limit {
	if l.Kind == Bucket && l.Burst == 0 {
		l.Burst = max(1, min(2, l.Quota/20), l.Quota/100)
	}
	if l.Kind == Bucket && l.Lease == 0 {
		l.Lease = min(l.Per/50, 5*time.Second)
	}
	if l.Transit == 0 {
		l.Transit = min(l.Per/100, 10*time.Millisecond)
	}
	l.Transit = max(0, l.Transit)
	return l
}

// Step is how long a window, or a segment, of l is: what a grant ends with. It is
// rounded up to the nanosecond, as Segments of them may not be shorter than Per.
func (l Limit) Step() time.Duration {
	if l.Kind == Sliding {
		return (l.Per + Segments - 1) / Segments
	}
	return l.Per
}

// Charge is what n permits, up to 1e9, of a filled Bucket add to its virtual
// schedule; Depth is how far that may then be ahead of the store's time.
//
// The uses in a half-open window of length Per were granted within less than W =
// Per+Lease+Transit. Meanwhile the schedule went by no more than W-1ns+Depth, which
// is at most W + Burst*W/m with m = Quota+1-Burst, and each permit took more than
// W/m of it: so there were less than m+Burst = Quota+1.
//
// When the limit changes the schedule stays ahead by as many permits (repaced). So what is
// granted in some time is no more than the Burst of the last limit, and for each limit its
// m/W times as long as it was in force. One that has no more Quota and Burst, and no less
// Lease and Transit, than that before comes into force at once: its W is no less, and the
// grants of a window lie within less than the first W of theirs, in which no m/W makes
// more than its m; nor is the last Burst more than those before. So there were less than
// the largest m+Burst of them. Any other one comes into force a W later: a window that
// has some of its grants has none of those before the change. Until then the smaller
// Burst counts, at the slower m/W and with the longer W, which comes at once (both).
func (l Limit) Charge(n int64) time.Duration { return time.Duration(l.spread(n) + 1) }

// Depth is how far the schedule of a filled Bucket may be ahead. See Charge.
func (l Limit) Depth() time.Duration { return time.Duration(l.spread(l.Burst) + 1) }

func (l Limit) spread(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(l.span()))
	m := uint64(l.rest())
	if hi >= m {
		return 1 << 61
	}
	q, _ := bits.Div64(hi, lo, m)
	return int64(min(q, 1<<61))
}

// span and rest are the W and m of Charge.
func (l Limit) span() int64 { return int64(l.Per + l.Lease + l.Transit) }
func (l Limit) rest() int64 { return l.Quota + 1 - l.Burst }

// repaced is how far a schedule of m is ahead that has as many permits to come as one of
// l, a filled limit like it, that is ahead by d. It is rounded up, by more than the
// arithmetic may err.
func (l Limit) repaced(d int64, m Limit) int64 {
	if l.span() == m.span() && l.rest() == m.rest() {
		return d
	}
	pace := float64(m.span()) * float64(l.rest()) / (float64(l.span()) * float64(m.rest()))
	to := float64(d) * pace
	return int64(min(1<<61, to+to/(1<<50)+8))
}

// both is the filled limit that grants nothing that l or m, of its Kind and Per, would
// not: their smaller burst at the slower of their paces.
func (l Limit) both(m Limit) Limit {
	b := l
	b.Lease, b.Transit = max(l.Lease, m.Lease), max(l.Transit, m.Transit)
	if b.Burst = min(l.Burst, m.Burst); l.Kind == Bucket {
		b.Quota = b.Burst - 1 + min(l.rest(), m.rest())
	} else {
		b.Quota = min(l.Quota, m.Quota)
	}
	return b
}
