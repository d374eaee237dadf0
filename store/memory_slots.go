package store

// Slots are handed out by parts: all nodes that want more, or hold some, have the same
// part, and what one does not want of it is the others'. Who has more than its part, while
// another wants what it has not, or there are fewer now, is asked for it back: a call that
// runs goes on.
//
// A part may be of no use: where there are fewer slots than nodes, or its calls take more
// than it is (Item.LeastSlots); then it has none. A node on which nothing runs, though a
// call has waited for a while, stands in line (Item.Line): for the first in line what that
// takes is kept of what comes free, and asked back from all others, whatever their parts.
// Then it has a turn.

// shareSlots gives n the slots that it may have.
func (r *resource) shareSlots(now int64, in terms, n *member, it *Item, a *Answer) (freed bool) {
	before := n.held
	n.slots, n.wantSlots, n.leastSlots = it.Slots, it.WantSlots, it.LeastSlots
	if it.Slots == 0 || it.Bye {
		n.held, n.line, n.turn = 0, 0, false
		return before > 0
	}
	capacity, others, holders := it.Slots, int64(0), int64(1)
	for _, o := range r.nodes {
		if o.slots > 0 {
			capacity = min(capacity, o.slots)
		}
		if o != n && o.held > 0 {
			others += o.held
			holders++
		}
	}
	fair := r.slotsPart(n, it.Held, capacity)
	var first *member
	if now < r.slotsFrom {
		n.held = min(it.Held, capacity) // somebody may hold the rest
	} else {
		// What it holds and is not known to have, it can only ask for.
		want := it.WantSlots + max(0, it.Held-n.held)
		n.held = min(it.Held, n.held)
		free := capacity - others - n.held
		r.standInLine(n, it.Line, capacity)
		if first = r.first(now, in, n, capacity); first == n && !n.turn {
			k := max(0, min(n.leastSlots-n.held, free))
			n.held += k
			free -= k
			want -= k
			n.turn = n.held >= n.leastSlots
		}
		if free -= slotsKept(first, n); n != first || n.turn {
			if r.slotsWanted(n) { // beyond its part, one at a time of what is left of the others'
				want = min(want, max(fair-n.held, min(1, free-r.slotsLacking(n, first, fair))))
			}
			if want = min(want, free); want > 0 && n.held+want >= n.leastSlots {
				n.held += want
				if n != first {
					n.line = 0 // its part was of use
				}
			}
		}
	}
	n.wantSlots = max(0, n.wantSlots-max(0, n.held-it.Held)) // that it has yet to get
	a.Held, a.SlotsFor = n.held, left(n.expires, now)
	switch free := max(0, capacity-others-n.held); {
	case n.line > 0 && n != first:
		a.Held = 0
	case n.line == 0: // what is asked back is not to be started any more; what runs counts until it is over
		kept := slotsKept(first, n)
		if lack := r.slotsLacking(n, first, fair) - max(0, free-kept); lack > 0 {
			a.Held = max(min(n.held, fair), n.held-lack)
		}
		a.Held = min(a.Held, max(0, n.held-max(0, kept-free)))
	}
	if over := others + n.held - capacity; over > 0 { // there are fewer now: who holds some keeps an equal part
		a.Held = min(a.Held, max(n.held-over, min(n.held, capacity/holders)))
	}
	return n.held < before && r.slotsWanted(n)
}

// slotsPart is the part of n, which holds some: of what is left by those who want no more,
// or have no use for a part.
func (r *resource) slotsPart(n *member, held, capacity int64) (fair int64) {
	fair = capacity
	for range 2 { // who has no use for a part is known by its size
		rest, parts := capacity, int64(0)
		for _, o := range r.nodes {
			if o == n && o.wantSlots+held > 0 || o != n && o.wantSlots > 0 && o.leastSlots <= fair {
				parts++
			} else if o != n {
				rest -= o.held
			}
		}
		fair = max(1, rest/max(1, parts))
	}
	return fair
}

// standInLine has n stand in line, behind all who do, go on with its turn, or leave. There
// is no line for more than there are.
func (r *resource) standInLine(n *member, says LineWord, capacity int64) {
	lacks := says == LineWaits && n.leastSlots > n.held && n.leastSlots <= capacity
	switch {
	case n.turn && says != LineNothing && !lacks:
	case !lacks:
		n.line, n.turn = 0, false
	case n.line == 0 || n.turn:
		n.line, n.turn = 0, false
		for _, o := range r.nodes {
			n.line = max(n.line, o.line)
		}
		n.line++
	}
}

// first is who is first in line, as n sees it: nil when nobody is. Who has not been heard
// for half of a TTL has left, it seems; and who needs more slots than there are by now waits
// for another number of them.
func (r *resource) first(now int64, in terms, n *member, capacity int64) (first *member) {
	for _, o := range r.nodes {
		if o.line > 0 && o.leastSlots <= capacity && (o == n || o.expires-int64(in.ttl)/2 > now) &&
			(first == nil || o.line < first.line) {
			first = o
		}
	}
	return first
}

// slotsKept is how many slots are kept from n for the first in line, if there is one.
func slotsKept(first, n *member) int64 {
	if first == nil || first == n || first.turn {
		return 0
	}
	return max(0, first.leastSlots-first.held)
}

// slotsLacking is how many slots nodes other than n and first want that have less than
// their part, and have a use for it.
func (r *resource) slotsLacking(n, first *member, fair int64) (sum int64) {
	for _, o := range r.nodes {
		if o != n && o != first && o.leastSlots <= fair {
			sum += max(0, min(o.wantSlots, fair-o.held))
		}
	}
	return sum
}

// slotsWanted reports whether another node than n wants slots.
func (r *resource) slotsWanted(n *member) bool {
	for _, o := range r.nodes {
		if o != n && o.wantSlots > 0 {
			return true
		}
	}
	return false
}
