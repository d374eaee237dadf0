package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Grants returns an error that names a grant of an Aligned l that the quota, which
// Change records may change, had no room for: a lower one counts at once, for what is
// granted from then on, a higher one not before the next window. So it finds what
// Windows cannot: permits that a store granted twice and nobody used, and a lower
// limit that counted too late.
//
// A grant was made between its Sent and its At, and a return between its Ask and the
// answer to that. What is certain counts against the store, and what is possible for
// it: an order of two that overlap is not known. It takes O(n log n), and of each
// window the square of its grants.
func (h *History) Grants(l Limit) error {
	per := int64(l.Per)
	back := h.returns()
	quota := l.changes(h.sorted(Change))
	windows := make(map[int64][]Record)
	for _, r := range h.sorted(Grant) {
		if r.Quota > 0 && r.At-r.Sent < per { // else it could be of either of two
			windows[r.window(l.Per)] = append(windows[r.window(l.Per)], r)
		}
	}
	for w, grants := range windows {
		for _, g := range grants {
			sum := g.Quota
			for _, o := range grants {
				if o.At < g.Sent {
					sum += o.Quota
				}
			}
			for _, r := range back {
				if r.from < g.At && r.from < (w+1)*per && r.to >= w*per {
					sum -= r.n
				}
			}
			if most := quota(g.Sent, g.At); sum > most {
				return fmt.Errorf("judge: %s was granted %d at %v, %d of the window in all, want at most %d in %v", g.Node, g.Quota,
					time.Unix(0, g.At).UTC(), sum, most, l.Per)
			}
		}
	}
	return nil
}

// window is the number of that which a Grant is of. It ends when Until says, or earlier
// by as long as the answer took; stores may round by less than a millisecond.
func (r Record) window(per time.Duration) int64 {
	return (r.Until+int64(time.Millisecond))/int64(per) - 1
}

// returned is permits that were given back, at some time from from to to.
type returned struct{ from, to, n int64 }

func (h *History) returns() (all []returned) {
	answered := make(map[call]int64)
	for _, r := range h.Records {
		if r.Kind == Grant {
			answered[call{r.Node, r.ID}] = r.At
		}
	}
	for _, r := range h.Records {
		if r.Kind == Ask && r.Returned > 0 {
			all = append(all, returned{r.At, cmp.Or(answered[call{r.Node, r.ID}], 1<<62), r.Returned})
		}
	}
	slices.SortFunc(all, func(a, b returned) int { return cmp.Compare(a.from, b.from) })
	return all
}

// Granted returns how many permits that may be used until the end of the aligned window
// of per that holds at, or longer, node has been granted and has not used in it, as far
// as is written down.
func (h *History) Granted(node string, at int64, per time.Duration) (n int64) {
	window := at / int64(per)
	for _, r := range h.Records {
		switch {
		case r.Node != node:
		case r.Kind == Grant && r.window(per) >= window:
			n += r.Quota
		case r.Kind == Ask && r.At/int64(per) == window:
			n -= r.Returned
		case r.Kind == Begin && cmp.Or(r.Taken, r.At)/int64(per) == window:
			n--
		}
	}
	return n
}
