package judge

import (
	"cmp"
	"slices"
	"time"
)

// Unleased returns, by node, when those calls had their permit for which there was none
// among those that the node had been granted: all used, or ended. Each grant is good for as
// many calls as it says from grace before it was asked for, as a permit is noted a moment
// before it is found, until Until. What was given back counts as if it was not, so that a
// call that is returned here had no permit for sure. They are in order.
func (h *History) Unleased(grace time.Duration) map[string][]int64 {
	rs := h.sorted(Grant, Begin)
	for i := range rs {
		if r := &rs[i]; r.Kind == Begin {
			r.At = cmp.Or(r.Taken, r.At)
		} else {
			r.At = r.Sent - int64(grace)
		}
	}
	slices.SortStableFunc(rs, func(a, b Record) int { // a grant comes before what is taken at that time
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Kind, a.Kind))
	})
	leases := make(map[string][]Record) // by node, what ends first comes first
	unleased := make(map[string][]int64)
	for _, r := range rs {
		have := slices.DeleteFunc(leases[r.Node], func(l Record) bool { return l.Quota == 0 || l.Until < r.At })
		switch {
		case r.Kind == Grant:
			have = append(have, r)
			slices.SortStableFunc(have, func(a, b Record) int { return cmp.Compare(a.Until, b.Until) })
		case len(have) > 0:
			have[0].Quota--
		default:
			unleased[r.Node] = append(unleased[r.Node], r.At)
		}
		leases[r.Node] = have
	}
	return unleased
}
