package store

// Slots are shared in parts: each node that wants more is due a fair part of what those
// have who want no more leave, and beyond it what others leave of theirs.
//
// A call may take more than the part of its node (Item.LeastSlots). If all kept theirs
// for it nobody could ever begin one: so such nodes take turns. Their order is since when
// they wait for what they are due, which the store notes by its own clock, of each other
// node that waits too; so all agree on it, and who has had his turn is the last.
//
//   - Who waits, and is the first, is kept what is free until it is enough.
//   - Who is not, keeps nothing that lets none of its calls begin: it is asked back, and
//     is given nothing before it is enough.
//   - The others, though they have no more than their part, are asked back what the first
//     still lacks, down to an equal part of what it leaves. They wait then in their turn.
//
// Nobody starves: who is before a node in the order comes after it when he is served,
// and he is served when what runs is over, since nothing is given to those behind him. A
// first one that dies is forgotten after the TTL, and one that has given up says so.

// shareSlots gives n, whose name is name, the slots that it may have.
func (r *resource) shareSlots(now int64, name Node, n *member, it *Item, a *Answer) (freed bool) {
	before := n.held
	n.slots, n.wantSlots, n.leastSlots = it.Slots, it.WantSlots, max(1, it.LeastSlots)
	if it.Slots == 0 || it.Bye {
		n.held, n.waits = 0, 0
		return before > 0
	}
	if n.wantSlots > 0 && n.waits == 0 {
		n.waits = stamp(now)
	}
	capacity, others, content, wanting := int64(1<<20), int64(0), int64(0), int64(0)
	for _, o := range r.nodes {
		if o.slots > 0 {
			capacity = min(capacity, o.slots)
		}
		if o != n {
			others += o.held
		}
		if o.wantSlots > 0 {
			wanting++
		} else if o != n {
			content += o.held
		}
	}
	fair := max(1, (capacity-content)/max(1, wanting)) // of those who want more
	part := n.part(fair, capacity)
	ahead, lack, rest := int64(0), int64(0), int64(1) // of the others: who are before n; all; who hold some
	var first *member
	var firstName Node
	for oname, o := range r.nodes {
		if o == n {
			continue
		}
		lacks := o.lacks(fair, capacity)
		lack += lacks
		if lacks > 0 && o.waits > 0 && (n.waits == 0 || o.before(oname, n, name, now)) {
			ahead += lacks
			if first == nil || o.before(oname, first, firstName, now) {
				first, firstName = o, oname
			}
		}
		if o.held > 0 {
			rest++
		}
	}
	if now < r.slotsFrom {
		n.held = min(it.Held, capacity) // somebody may hold the rest
	} else {
		// What it holds and is not known to have, it can only ask for.
		want := it.WantSlots + max(0, it.Held-n.held)
		n.held = min(it.Held, n.held)
		free := capacity - others - n.held
		if r.slotsWanted(n) {
			if n.held < part {
				want = min(want, part-n.held, free-ahead)
			} else { // beyond its part, a call at a time of what is left of the others'
				want = min(want, n.leastSlots)
				if free-lack < want {
					want = 0
				}
			}
			if n.leastSlots > fair && n.held+want < n.leastSlots {
				want = 0
			}
		}
		n.held += max(0, min(want, free))
	}
	if n.lacks(fair, capacity) == 0 {
		n.waits = 0
	}
	a.Held, a.SlotsFor = n.held, left(n.expires, now)
	// Of what is asked back no more is to be started; what runs counts until it is over.
	// Who has just got some begins something with it first: that was his turn.
	grown := n.held > min(before, it.Held)
	if !grown && n.held > fair && lack > 0 {
		a.Held = max(fair, n.held-lack)
	}
	if !grown && first != nil && first.leastSlots > fair {
		if first.held > 0 {
			rest--
		}
		if short := first.lacks(fair, capacity) - (capacity - others - n.held); short > 0 {
			a.Held = min(a.Held, max((capacity-first.leastSlots)/rest, n.held-short))
		}
	}
	if n.leastSlots > fair && n.held < n.leastSlots {
		a.Held = 0
	}
	return n.held < before && r.slotsWanted(n)
}

// part is how many slots n is due: as many as make calls of what is fair, or, if that is
// too little for one, in its turn what one takes. What nobody can have nobody is due.
func (n *member) part(fair, capacity int64) int64 {
	switch least := max(1, n.leastSlots); {
	case least > capacity:
		return 0
	case least > fair:
		return least
	default:
		return fair - fair%least
	}
}

// lacks is how many slots n wants that it is due.
func (n *member) lacks(fair, capacity int64) int64 {
	return max(0, min(n.wantSlots, n.part(fair, capacity)-n.held))
}

// Since when a node waits is a stamp: milliseconds that begin anew after 49 days, from 1,
// so that it fits beside a number of slots into one number. 0: it does not.
const stamps = 1<<32 - 1

func stamp(now int64) int64 { return now/1e6%stamps + 1 }

// before reports whether n waits since before o does, or as long and has the lesser name.
func (n *member) before(name Node, o *member, oname Node, now int64) bool {
	of := func(m *member) int64 { return (stamp(now) - m.waits + stamps) % stamps }
	if a, b := of(n), of(o); a != b {
		return a > b
	}
	return name < oname
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
