package limiter

import (
	"slices"
	"time"
)

// Snapshot is all that an Adaptive knows, for another one in the same process. Make one
// with [Adaptive.Snapshot].
type Snapshot struct{ of Adaptive }

// Snapshot returns what a knows now. It has some 1 KiB, 5 KiB when the vendor has told
// something, and 8 KiB more if permits were taken in the last four Windows.
func (a *Adaptive) Snapshot(now time.Time) *Snapshot {
	a.at(now)
	return &Snapshot{of: a.copy()}
}

// Restore makes a new Adaptive go on exactly as the one would of which s is. It reports
// false, and changes nothing, when that was configured differently, or a was told or asked
// anything before. What is for another process, or for another configuration, Export gives.
func (a *Adaptive) Restore(s *Snapshot) bool {
	if s == nil || s.of.cfg != a.cfg || a.begun {
		return false
	}
	*a = s.of.copy()
	if w, ok := a.model.(*windowed); ok && w.tally.counts == nil {
		w.tally.counts = make([]uint32, inTally)
	}
	return true
}

// copy shares nothing with a.
func (a *Adaptive) copy() Adaptive {
	c := *a
	c.model = a.model.copy()
	if a.told != nil {
		c.told = &told{slices.Clone(a.told.windows)}
	}
	c.takes.taken = append(make([]stamp, 0, cap(a.takes.taken)), a.takes.taken...)
	return c
}

func (p *bucketed) copy() model {
	c := *p
	return &c
}

func (w *windowed) copy() model {
	c := *w
	if c.tally.counts = nil; slices.ContainsFunc(w.tally.counts, func(n uint32) bool { return n > 0 }) {
		c.tally.counts = slices.Clone(w.tally.counts)
	}
	return &c
}
