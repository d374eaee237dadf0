package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
)

// History is what a vendor saw: the judge of what nodes did together. The zero
// History is empty. It may be used by any number of goroutines at once.
type History struct {
	mu   sync.Mutex
	uses []use // guarded by mu
}

type use struct {
	at time.Time
	n  int64
}

// Use notes that n calls arrived at at.
func (h *History) Use(at time.Time, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses = append(h.uses, use{at, n})
}

// Total returns how many calls arrived from from to before to.
func (h *History) Total(from, to time.Time) (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range h.uses {
		if !u.at.Before(from) && u.at.Before(to) {
			n += u.n
		}
	}
	return n
}

// Check returns an error that names a window of l that holds more than its Quota:
// any half-open one of length Per, of a Window one that is aligned to Unix time. It
// takes O(n log n).
func (h *History) Check(l store.Limit) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.uses, func(a, b use) int { return a.at.Compare(b.at) })
	sum, first := int64(0), 0
	for i, u := range h.uses {
		sum += u.n
		for ; over(l, h.uses[first].at, u.at); first++ {
			sum -= h.uses[first].n
		}
		if sum > l.Quota {
			return fmt.Errorf("%d calls from %v to %v (%d uses), want at most %d in %v",
				sum, h.uses[first].at, u.at, i-first+1, l.Quota, l.Per)
		}
	}
	return nil
}

// over reports whether a is in no window with b, which is not before it.
func over(l store.Limit, a, b time.Time) bool {
	if l.Kind == store.Window {
		return a.UnixNano()/int64(l.Per) != b.UnixNano()/int64(l.Per)
	}
	return b.Sub(a) >= l.Per
}
