package store

import (
	"slices"
	"time"
)

// Slots are shared in parts: who holds more than the level, at which all that want more
// have as many, or what they want if that is less, is asked back what others lack.
//
// A call may take more than the level (Item.LeastSlots). If all kept their parts none like
// it could ever begin: so they take turns. In line is who waits and holds less than his call
// takes, be it one or all of the slots; and who waits for more than the level, until he
// says that his call has begun. The first is who has waited for longest, by his own word
// (Item.SlotsWaited), which is the same whoever asks. What is free is kept for him until it
// is enough, and the others share what he leaves.
//
// So nobody starves. Whoever is before a node in line is after it when he has been served,
// as what he waits for then he has waited for less long; and the first is served when what
// runs is over, since nothing else is begun with what he needs. Nor does one who has gone
// keep others: who was not heard of for half a TTL is not the first. What no node can have,
// as another says that there are less, nobody waits for.

// sharer is a node that holds slots, or waits for some.
type sharer struct {
	*member
	name   Node
	least  int64 // that its call takes; 0: it does not wait, or there never are as many
	demand int64 // what it would hold
}

// shareSlots gives n, whose name is name, the slots that it may have. last is when it was
// heard of before.
func (r *resource) shareSlots(now, last int64, in terms, name Node, n *member, it *Item, a *Answer) (tell bool) {
	before, waited := n.held, n.waits
	n.slots, n.wantSlots, n.leastSlots, n.waits = it.Slots, it.WantSlots, it.LeastSlots, 0
	n.held = min(it.Held, before)
	if it.Slots == 0 || it.Bye {
		n.held = 0
		return before > 0
	}
	if it.WantSlots > 0 || it.LeastSlots > 0 {
		n.waits = stamp(now - int64(min(it.SlotsWaited, maxWaited)))
	}
	capacity := r.capacity()
	var room [16]sharer
	all, self := room[:0], sharer{member: n, name: name}
	others, contested := int64(0), false
	for oname, o := range r.nodes {
		s := sharer{o, oname, 0, o.held}
		if least := max(1, o.leastSlots); o.waits > 0 && least <= capacity {
			s.least, s.demand = least, min(capacity, max(least, o.held+o.wantSlots))
		}
		if o == n {
			self = s
		} else {
			others += o.held
			contested = contested || s.least > 0
		}
		if s.demand > 0 {
			all = append(all, s)
		}
	}

	part := level(capacity, all)
	even := part
	first, big := sharer{}, false // who comes first; whether his call takes more than the level
	for _, s := range all {
		if s.least > 0 && (s.held < s.least || s.least > part) && s.expires-int64(in.ttl)/2 > now &&
			(first.member == nil || s.before(&first, now)) {
			first = s
		}
	}
	kept := int64(0) // for him, with what he holds
	if first.member != nil {
		big = first.least > part
		kept = max(first.least, min(first.demand, part))
		rest := all[:0]
		for _, s := range all {
			if s.member == first.member {
				continue
			}
			if s.least > part {
				s.demand = s.held // it is not its turn
			}
			if s.member == n {
				self = s
			}
			rest = append(rest, s)
		}
		all, part = rest, level(capacity-kept, rest)
	}
	// due is how many slots s, who is not the first, is to have: calls of its part.
	due := func(s *sharer) int64 {
		if s.least == 0 {
			return 0
		}
		return min(s.demand, part-part%s.least)
	}
	mine, lack, reserved := due(&self), int64(0), int64(0) // lack: what the others are due; reserved: what the first has to have
	for i := range all {
		if s := &all[i]; s.member != n {
			lack += max(0, due(s)-s.held)
		}
	}
	if first.member == n {
		mine = kept
	} else if first.member != nil {
		lack += max(0, kept-first.held)
		reserved = max(0, first.least-first.held)
	}

	if now < r.slotsFrom {
		n.held = min(it.Held, capacity) // somebody may hold the rest
	} else {
		// What it holds and is not known to have, it can only ask for.
		want := it.WantSlots + max(0, it.Held-before)
		free := capacity - others - n.held
		if contested && n.held < mine {
			want = min(want, mine-n.held, free-reserved)
		} else if contested { // beyond its part, a call at a time of what is left of the others'
			call := max(1, self.least)
			if n.held < call {
				call -= n.held
			}
			if want = min(want, call); free-lack < want {
				want = 0
			}
		}
		if want = min(want, free); n.held+want >= max(1, n.leastSlots) {
			n.held += max(0, want)
		}
	}
	free := capacity - others - n.held
	if first.member == n {
		part = kept
	}
	a.Held, a.SlotsFor, a.Slots = n.held, left(n.expires, now), capacity
	if short := lack - free; short > 0 && n.held > part && now >= r.slotsFrom {
		a.Held = max(part, n.held-short) // no more is to be started; what runs counts until it is over
	}
	if n.held < before && contested && free >= reserved {
		return true // the first comes for it, or another one
	}
	// When a call comes first that takes more than its part, who holds something hears of
	// it: that is when another one has begun, or n begins to wait.
	grown := n.held > min(it.Held, before)
	began := (waited == 0) != (n.waits == 0) || n.waits != 0 && now-int64(it.SlotsWaited) > last
	if first.member == n && !big && grown {
		first, big, began = sharer{}, false, true
		for _, s := range all {
			if s.least > 0 && (s.held < s.least || s.least > even) && (first.member == nil || s.before(&first, now)) {
				first = s
			}
		}
		big = first.least > even
	}
	if !began || !big || first.least-first.held <= free {
		return false
	}
	return grown || slices.ContainsFunc(all, func(s sharer) bool { return s.member != n && s.held > 0 })
}

// capacity is how many slots there are: as few as one says.
func (r *resource) capacity() int64 {
	capacity := int64(1 << 20)
	for _, o := range r.nodes {
		if o.slots > 0 {
			capacity = min(capacity, o.slots)
		}
	}
	return capacity
}

// level is how many slots each of all may have, of so many: what is left by those who want
// less, in equal parts.
func level(slots int64, all []sharer) int64 {
	var room [16]int64
	demands := room[:0]
	for i := range all {
		demands = append(demands, all[i].demand)
	}
	slices.Sort(demands)
	rest := slots
	for i, d := range demands {
		part := rest / int64(len(demands)-i)
		if d > part {
			return part
		}
		rest -= d
	}
	return slots
}

// Since when a node waits is a stamp: milliseconds that begin anew after 49 days, from 1,
// so that it fits beside a number of slots into one number. 0: it does not.
const stamps = 1<<32 - 1

// maxWaited is for how long at most a node is believed to have waited.
const maxWaited = 24 * time.Hour

func stamp(at int64) int64 { return at/1e6%stamps + 1 }

// before reports whether s waits since before o does, or as long and has the lesser name.
func (s *sharer) before(o *sharer, now int64) bool {
	of := func(s *sharer) int64 { return (stamp(now) - s.waits + stamps) % stamps }
	if a, b := of(s), of(o); a != b {
		return a > b
	}
	return s.name < o.name
}
