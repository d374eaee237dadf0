package governor

import (
	"slices"
	"time"
)

const (
	recently = 2 * time.Minute  // what Stats calls lately
	lookStep = 20 * time.Second // between two that are kept
)

// looks are what the histograms had counted when somebody looked at them. What was
// counted since one of them is what happened lately. They are kept by who looks: to
// look at a clock for those who never do would cost each call. Whoever has the turn
// owns them.
type looks []look

// look is a moment and what was counted until then, but for empty buckets.
type look struct {
	at          int64
	waits, runs []bucketCount
}

type bucketCount struct {
	bucket uint16
	n      uint64
}

// lately returns what was counted in the last minutes, and how long that was. It is
// since the last look of recently ago or before; when that is long before, since a
// younger one, if there is one.
func (m *looks) lately(now int64, waits, runs *tally) (recentWaits, recentRuns tally, span time.Duration) {
	for len(*m) > 1 && now-(*m)[1].at >= int64(recently) {
		*m = slices.Delete(*m, 0, 1)
	}
	var base look // New
	for _, k := range *m {
		if age := now - k.at; age < int64(lookStep) {
			break
		} else if age >= int64(recently) || now-base.at > 2*int64(recently) {
			base = k
		}
	}
	if n := len(*m); n == 0 || now-(*m)[n-1].at >= int64(lookStep) {
		*m = append(*m, look{now, waits.brief(), runs.brief()})
	}
	return waits.since(base.waits), runs.since(base.runs), time.Duration(now - base.at)
}

// brief is what is in the buckets that are not empty.
func (counts *tally) brief() (all []bucketCount) {
	for i, n := range counts {
		if n > 0 {
			all = append(all, bucketCount{uint16(i), n})
		}
	}
	return slices.Clip(all)
}

// since is what was counted since it was then.
func (counts *tally) since(then []bucketCount) (more tally) {
	more = *counts
	for _, b := range then {
		more[b.bucket] -= min(b.n, more[b.bucket])
	}
	return more
}
