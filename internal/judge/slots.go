package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Slots returns an error that names a call that was one of more than slots at the vendor,
// which keeps each for hold unless it refuses it. As for Windows, one that took longer
// than transit from when its permit was taken was there then: its process was stopped
// with it, and who is stopped cannot be told that its slot is another's by now.
//
// Who cannot be reached may begin calls until nine tenths of a store's TTL are over; so
// hold and transit have to fit into the last. It takes O(n log n).
func (h *History) Slots(slots int, hold, transit time.Duration) error {
	type step struct {
		at   int64
		by   int // 1: a call comes, -1: one goes
		node string
		id   int64
	}
	var steps []step
	begun := h.begun()
	for _, r := range h.Records {
		if r.Kind != Arrive || r.Until > r.At {
			continue
		}
		at := r.At
		if taken, ok := begun[call{r.Node, r.ID}]; ok && at-taken > int64(transit) {
			at = taken
		}
		steps = append(steps, step{at, 1, r.Node, r.ID}, step{at + int64(hold), -1, r.Node, r.ID})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	now := 0
	for _, s := range steps {
		if now += s.by; s.by > 0 && now > slots {
			return fmt.Errorf("judge: call %d of %s is one of %d at %v, want at most %d at once", s.id, s.node, now, time.Unix(0, s.at).UTC(), slots)
		}
	}
	return nil
}
