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
	all := make([]*Record, len(rs))
	for i := range rs {
		all[i] = &rs[i]
	}
	// What had come when a call looked is its own first: what is lent, while it is on its way
	// and by grace, to a call that had another permit would be lacking to one that had this,
	// which comes later than the other.
	left := unmatched(all, func(g *Record) int64 { return g.At })
	for _, r := range all {
		if r.Kind == Grant && r.Quota > 0 {
			left = append(left, r)
		}
	}
	unleased := make(map[string][]int64)
	for _, r := range unmatched(left, func(g *Record) int64 { return g.Sent - int64(grace) }) {
		unleased[r.Node] = append(unleased[r.Node], r.taken())
	}
	return unleased
}

// taken is when a call had its permit.
func (r *Record) taken() int64 { return cmp.Or(r.Taken, r.At) }

// unmatched uses up grants for calls, what ends first before others, and returns the calls
// for which there are none. A grant is good from on.
func unmatched(rs []*Record, from func(grant *Record) int64) (without []*Record) {
	at := func(r *Record) int64 {
		if r.Kind == Grant {
			return from(r)
		}
		return r.taken()
	}
	slices.SortStableFunc(rs, func(a, b *Record) int { // a grant comes before what is taken at that time
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(b.Kind, a.Kind))
	})
	leases := make(map[string][]*Record) // by node, what ends first comes first
	for _, r := range rs {
		have := slices.DeleteFunc(leases[r.Node], func(l *Record) bool { return l.Quota == 0 || l.Until < at(r) })
		switch {
		case r.Kind == Grant:
			have = append(have, r)
			slices.SortStableFunc(have, func(a, b *Record) int { return cmp.Compare(a.Until, b.Until) })
		case len(have) > 0:
			have[0].Quota--
		default:
			without = append(without, r)
		}
		leases[r.Node] = have
	}
	return without
}
