package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Windows returns an error that names a window of l with more calls than its Quota,
// which Change records may change. They are counted as they arrived; but one that took
// longer than transit from when its permit was taken (without that, from its begin)
// counts then: its process, or the network, was stopped meanwhile, and nobody can call
// it back. Before, it sorts; the scan is O(n).
//
// A lower quota counts for the windows after the change. A higher one counts not
// before the next aligned window, or when a Per is over; so no window uses two.
func (h *History) Windows(l Limit, transit time.Duration) error {
	begun := h.begun()
	arrived := h.sorted(Arrive)
	for i, r := range arrived {
		if at, ok := begun[call{r.Node, r.ID}]; ok && r.At-at > int64(transit) {
			arrived[i].At = at
		}
	}
	slices.SortStableFunc(arrived, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	quota := l.changes(h.sorted(Change))
	for first, last := 0, 0; last < len(arrived); last++ {
		for !l.together(arrived[first].At, arrived[last].At) {
			first++
		}
		from := arrived[last].At - int64(l.Per) + 1
		if l.Aligned {
			from = arrived[last].At / int64(l.Per) * int64(l.Per)
		}
		if n, most := int64(last-first+1), quota(from, arrived[last].At); n > most {
			return fmt.Errorf("judge: %d calls from %v to %v, want at most %d in %v", n,
				time.Unix(0, arrived[first].At).UTC(), time.Unix(0, arrived[last].At).UTC(), most, l.Per)
		}
	}
	return nil
}

// begun returns when each call had its permit.
func (h *History) begun() map[call]int64 {
	begun := make(map[call]int64)
	for _, r := range h.Records {
		if r.Kind == Begin {
			begun[call{r.Node, r.ID}] = cmp.Or(r.Taken, r.At)
		}
	}
	return begun
}

// changes returns the largest quota that is in force at any time from from to to.
func (l Limit) changes(rs []Record) func(from, to int64) int64 {
	type span struct{ at, quota int64 }
	spans := []span{{0, l.Quota}}
	for _, r := range rs {
		// What had not come into force yet never does: what counts is what is.
		spans = slices.DeleteFunc(spans, func(s span) bool { return s.at > r.At })
		at := r.At
		if r.Quota > spans[len(spans)-1].quota {
			if at += int64(l.Per); l.Aligned {
				at = at / int64(l.Per) * int64(l.Per)
			}
		}
		spans = append(spans, span{at, r.Quota})
	}
	return func(from, to int64) (most int64) {
		for i, s := range spans {
			if s.at <= to && (i+1 == len(spans) || spans[i+1].at > from) {
				most = max(most, s.quota)
			}
		}
		return most
	}
}

// Pauses returns an error that names a call that a process began when it knew that it
// was not to: which had its permit then, where that is written down, since a process that
// is stopped begins it later. What it began within grace of the receipt it may have begun
// before.
func (h *History) Pauses(grace time.Duration) error {
	type pause struct{ known, until int64 }
	pauses := make(map[string]pause)
	records := h.sorted(Cool, Clear, Begin)
	for i, r := range records {
		if r.Kind == Begin {
			records[i].At = cmp.Or(r.Taken, r.At)
		}
	}
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	for _, r := range records {
		p := pauses[r.Node]
		switch {
		case r.Kind == Clear:
			delete(pauses, r.Node)
		case r.Kind == Cool && r.At >= p.until:
			pauses[r.Node] = pause{r.At, r.Until}
		case r.Kind == Cool && r.Until < p.until-int64(grace):
			return fmt.Errorf("judge: %s has a pause that ends %v earlier than before", r.Node, time.Duration(p.until-r.Until))
		case r.Kind == Cool:
			pauses[r.Node] = pause{p.known, max(p.until, r.Until)}
		case r.At > p.known+int64(grace) && r.At < p.until-int64(grace):
			return fmt.Errorf("judge: %s began call %d %v after it knew of a pause, %v before the end", r.Node, r.ID,
				time.Duration(r.At-p.known), time.Duration(p.until-r.At))
		}
	}
	return nil
}

// Ledger returns an error that names a request of nodes that ended twice or never, or
// a call for one that had ended. Nodes that were killed end nothing: they are not
// among nodes.
func (h *History) Ledger(nodes ...string) error {
	open := make(map[call]bool)
	ended := make(map[call]string)
	calls := make(map[call]bool)
	for _, r := range h.sorted(Submit, Begin, Settle) {
		id := call{r.Node, r.ID}
		if r.Kind == Begin {
			if calls[id] {
				return fmt.Errorf("judge: %s began call %d twice", r.Node, r.ID)
			}
			calls[id] = true
			id.id = r.Request
			if r.Request == 0 {
				continue
			}
		}
		outcome, over := ended[id]
		switch {
		case r.Kind == Submit && (open[id] || over):
			return fmt.Errorf("judge: %s accepted request %d twice", r.Node, r.ID)
		case r.Kind == Submit:
			open[id] = true
		case !open[id]:
			return fmt.Errorf("judge: a %s of request %d of %s, which has ended with %q, or was never accepted", r.Kind, id.id, r.Node, outcome)
		case r.Kind == Settle:
			delete(open, id)
			ended[id] = r.Outcome
		}
	}
	for id := range open {
		if slices.Contains(nodes, id.node) {
			return fmt.Errorf("judge: request %d of %s never ended; nor did %d in all", id.id, id.node, len(open))
		}
	}
	return nil
}

// Arrived is how many calls of node arrived from from to before to; of "" all.
func (h *History) Arrived(node string, from, to int64) (n int64) {
	for _, r := range h.Records {
		if r.Kind == Arrive && r.At >= from && r.At < to && (node == "" || node == r.Node) {
			n++
		}
	}
	return n
}

// Late is how many calls arrived later than transit after they had their permit.
func (h *History) Late(transit time.Duration) (n int) {
	begun := h.begun()
	for _, r := range h.Records {
		if at, ok := begun[call{r.Node, r.ID}]; ok && r.Kind == Arrive && r.At-at > int64(transit) {
			n++
		}
	}
	return n
}
