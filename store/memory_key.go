package store

import (
	"slices"
	"time"
)

// resource is what a Memory knows about one key.
type resource struct {
	nodes   map[Node]*member
	limits  []*counted
	asked   []Limit // as the item of this version had them
	version uint64
	drained bool // limits that are set now begin drained

	// lent is until when something may be in use that was granted under limits of another
	// shape than those there are: they begin drained then. It is whole microseconds.
	lent int64

	round int64 // of member.got

	cools []cooled
	gen   uint64

	probing   bool // between the cooldown of the whole key and the success of its probe
	prober    Node
	probeEnds int64

	slotsFrom int64 // before, slots are not handed out: somebody may hold them
}

// member is what it knows about a node.
type member struct {
	expires int64
	seq     uint64
	answer  Answer // to seq
	at      int64  // of the answer

	want    int64
	got     int64 // permits, in this round
	open    int64 // permits granted in steps that are not over
	granted int64 // when the last of them were
	promise int64 // when it has been told to come again

	slots, held, wantSlots int64
	leastSlots             int64
	line                   int64 // the smallest is first in line for leastSlots; 0: not in line
	turn                   bool  // it is first, and has what it stood in line for
}

// cooled is a cooldown of one scope.
type cooled struct {
	scope string
	until int64
	gen   uint64
}

func newResource(now int64, lost bool, ttl time.Duration) *resource {
	r := &resource{nodes: make(map[Node]*member), drained: lost}
	if lost {
		r.slotsFrom = now + int64(ttl)
	}
	return r
}

// terms are what a resource has to know of its engine.
type terms struct {
	ttl   time.Duration
	epoch string
}

// exchange executes it, or finds what was answered to it. words are what others may want to
// hear of it; tell says that there is something else.
func (r *resource) exchange(now int64, in terms, node Node, it *Item) (a Answer, tell bool, words []Cooldown) {
	r.expire(now)
	n := r.nodes[node]
	switch {
	case n == nil:
		n = &member{}
		r.nodes[node] = n
	case it.Seq < n.seq:
		return Answer{Node: node, Key: it.Key, Seq: it.Seq, Stale: true}, false, nil
	case it.Seq == n.seq:
		return n.again(now), false, nil
	}
	before := r.gen
	n.seq, n.expires = it.Seq, now+int64(in.ttl)
	a = Answer{Node: node, Key: it.Key, Seq: it.Seq}
	tell = r.setLimits(now, it)
	for _, c := range r.limits {
		c.roll(now)
	}
	tell = r.cool(now, in, it) || tell
	words = r.cooling(now, before)
	tell = r.shareSlots(now, in, n, it, &a) || tell
	r.giveBack(now, n, it)
	tell = r.probe(now, in, node, n, it, &a) || tell
	r.grant(now, n, it, &a)
	a.RetryAfter = min(a.RetryAfter, MaxCool) // then it is told the rest
	r.describe(now, in, it, &a)
	a.Nodes = len(r.nodes)
	n.answer, n.at = a, now
	if it.Bye {
		tell = tell || n.held > 0 || r.prober == node
		r.forget(node)
	}
	return a, tell, words
}

// again is the answer of n with what is left of it.
func (n *member) again(now int64) Answer {
	a := n.answer
	gone := time.Duration(now - n.at)
	for _, d := range []*time.Duration{&a.ValidFor, &a.RetryAfter, &a.ProbeFor, &a.SlotsFor} {
		*d = max(0, *d-gone)
	}
	a.Cooldowns = slices.Clone(a.Cooldowns)
	for i := range a.Cooldowns {
		a.Cooldowns[i].Left = max(0, a.Cooldowns[i].Left-gone)
	}
	if a.ValidFor == 0 {
		a.Granted = 0
	}
	if a.SlotsFor == 0 {
		a.Held = 0
	}
	return a
}

func (r *resource) forget(node Node) {
	delete(r.nodes, node)
	if r.prober == node {
		r.prober, r.probeEnds = "", 0
	}
}

// expire forgets the nodes that were silent for a TTL.
func (r *resource) expire(now int64) {
	for name, n := range r.nodes {
		if n.expires <= now {
			r.forget(name)
		}
	}
}

// setLimits takes the limits of it, if they are newer.
func (r *resource) setLimits(now int64, it *Item) (changed bool) {
	if len(it.Limits) == 0 || r.limits != nil && it.Version <= r.version {
		return false
	}
	first := r.limits == nil
	asked := slices.Clone(it.Limits)
	alike := len(asked) == len(r.limits)
	for i := 0; alike && i < len(asked); i++ {
		was := r.limits[i].limit
		alike = was.Kind == asked[i].Kind && was.Per == asked[i].Per
	}
	if alike {
		for i, l := range asked {
			r.limits[i].roll(now)
			r.limits[i].set(now, r.lent, l.Fill())
		}
	} else {
		if !first {
			// A grant is of all limits, and ends with the first of them.
			ends := int64(never)
			for _, c := range r.limits {
				ends = min(ends, c.lends(now))
			}
			r.lent = max(r.lent, (ends+999)/1000*1000)
		}
		r.limits = nil
		for _, l := range asked {
			c := newCounted(now, l.Fill(), r.drained)
			if !first {
				c.follow(r.lent)
			}
			r.limits = append(r.limits, c)
		}
		for _, n := range r.nodes {
			n.open = 0
		}
	}
	r.asked, r.version, r.drained = asked, it.Version, false
	return !first
}

// stepped reports whether a step of any limit has ended between then and now.
func (r *resource) stepped(then, now int64) bool {
	return slices.ContainsFunc(r.limits, func(c *counted) bool {
		step := int64(c.limit.Step())
		return c.limit.Kind != Bucket && then/step != now/step
	})
}

// giveBack takes what n returns, and charges what it owes.
func (r *resource) giveBack(now int64, n *member, it *Item) {
	if r.stepped(n.granted, now) {
		n.open = 0
	}
	back := min(it.Returned, n.open)
	n.open -= back
	n.got = max(0, n.got-back)
	for _, c := range r.limits {
		c.charge(now, -back)
		if it.Debt > 0 {
			c.charge(now, it.Debt)
		}
	}
}

// idle reports whether nobody could tell r from a key never seen; but for a probe, which is
// for who comes as long as its cooldown is remembered.
func (r *resource) idle(now int64) bool {
	r.expire(now)
	if len(r.nodes) > 0 || r.drained || r.slotsFrom > now {
		return false
	}
	r.sweep(now)
	for _, c := range r.limits {
		if !c.idle(now) {
			return false
		}
	}
	return len(r.cools) == 0
}
