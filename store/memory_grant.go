package store

import "time"

// grant gives n what it may have of what it wants.
func (r *resource) grant(now int64, n *member, it *Item, a *Answer) {
	promised, turn := n.promise, n.want >= turns
	n.want, n.promise = it.Want, 0
	if len(r.limits) == 0 || it.Want == 0 || it.Bye || a.Probe == ProbeCooling {
		return
	}
	want, least := it.Want, max(1, it.Least)
	switch a.Probe {
	case ProbeYours:
		want = least
	case ProbeOpen, ProbeOther:
		a.RetryAfter = a.ProbeFor
		return
	}
	avail, valid := int64(1e9), int64(1<<62)
	for _, c := range r.limits {
		avail, valid = min(avail, c.available(now)), min(valid, c.valid(now))
	}
	kept := r.kept(now, n)
	if avail -= kept; avail < least || valid <= 0 {
		n.promise = r.comeAgain(now, n, promised, least, kept)
		if promised > now && least > 1 && r.limits[0].limit.Kind == Bucket {
			n.promise = min(n.promise, promised) // it is early, so as not to be forgotten: it has its turn when it was to have it
		}
		a.RetryAfter = left(n.promise, now)
		if least > 1 && avail < least && kept == 0 && promised != 0 && (turn || promised <= now) && r.holds(now, least) {
			if _, fair := r.chunk(now, n, max(0, avail)); fair > 0 {
				n.want = turns + least
			}
		}
		return
	}
	chunk, fair := r.chunk(now, n, avail)
	if until := r.expected(now, n); fair <= 0 && r.limits[0].limit.Kind != Bucket && until > now {
		a.RetryAfter = left(until, now)
		return
	}
	k := min(want, avail, max(least, chunk))
	for _, c := range r.limits {
		c.charge(now, k)
	}
	n.got += k
	n.open += k
	n.granted = now
	a.Granted, a.ValidFor = k, left(valid, 0)
	// Each step a Sliding limit gives back is small: what is left of it is about to
	// be taken by those who are expected.
	if k < want && (avail-k < least || r.limits[0].limit.Kind == Sliding && avail-k < int64(len(r.nodes)) && r.expected(now, n) > now) {
		n.promise = r.comeAgain(now, n, 0, least+max(0, avail-k), kept)
		a.RetryAfter = left(n.promise, now)
	}
}

// moment is how late a node may come that was told when to come again.
const moment = int64(5 * time.Millisecond)

// A Bucket gives back little by little, and who can use little takes it: a node that has
// no use for less than some would wait for ever beside it. So one that came at the time
// that it was told, and was refused again, has a turn: until it comes next, by when there
// is enough if nobody else takes it, the others are refused what it needs. One node at a
// time has a turn, none that has had its part of the round, and none for longer than it
// was told to wait, and a while for the way: one that is gone costs no more than that. Nor
// does anybody have one for what is not to be had: more than a Burst that was lowered
// meanwhile, or than another limit has left, for which the others would wait in vain.
//
// Whose turn it is his want says, turns and what he needs.
const turns = int64(1 << 30) // more than anybody wants

// way is how late a node may come that has a turn: a round trip after it was to, at least.
const way = int64(250 * time.Millisecond)

// kept is how many permits are kept for another node than n, whose turn it is.
func (r *resource) kept(now int64, n *member) (k int64) {
	for _, o := range r.nodes {
		if o != n && o.want >= turns && o.promise+way > now {
			k = max(k, o.want-turns)
		}
	}
	if !r.holds(now, k) {
		return 0
	}
	return k
}

// holds reports whether there are so many permits, or will be as soon as the Buckets among
// the limits have them.
func (r *resource) holds(now, k int64) bool {
	for _, c := range r.limits {
		if c.limit.Kind == Bucket && k > c.limit.Burst || c.limit.Kind != Bucket && k > c.available(now) {
			return false
		}
	}
	return true
}

// expected is until when another node may yet come for permits that it was refused
// before, or for more of what it has just been granted.
func (r *resource) expected(now int64, n *member) (until int64) {
	for _, o := range r.nodes {
		if o != n && o.promise != 0 && o.promise <= now {
			until = max(until, o.promise+moment)
		} else if o != n && o.promise == 0 && o.answer.Granted > 0 && o.answer.Granted < o.want {
			until = max(until, o.granted+moment)
		}
	}
	return until
}

// chunk is how many of avail permits n may have at once. All nodes that want some
// are to get the same in a round, the fair share, and what is left at its end goes in ever smaller
// pieces, so that none is stranded with one that does not use it.
func (r *resource) chunk(now int64, n *member, avail int64) (k, fair int64) {
	if round := now / int64(r.limits[0].limit.Per); round != r.round {
		r.round = round
		for _, o := range r.nodes {
			o.got = 0
		}
	}
	active, sum := int64(0), int64(0)
	for _, o := range r.nodes {
		if o.want > 0 || o.got > 0 {
			active++
			sum += o.got
		}
	}
	fair = (avail+sum+active-1)/active - n.got
	if fair > 0 {
		return fair, fair
	}
	parts := (active + 2) / 3
	return max(1, (avail+parts-1)/parts), fair
}

// comeAgain is when n is to ask again. Who was told so before is expected to come
// before it: else all would come at once, for one permit. So is who has a turn, for whom
// so many are kept. One that was promised a time itself has its place: it may come before
// that, so as not to be forgotten; or in time, and there is less than was foreseen, since
// another was late. Where permits come as fast as nodes are late that is left to chance: to
// come again for each costs more.
func (r *resource) comeAgain(now int64, n *member, promised, least, kept int64) (at int64) {
	place := int64(1 << 62)
	if promised > now {
		place = micros(promised) - 1
	} else if l := r.limits[0].limit; promised != 0 && l.Kind == Bucket && int64(l.Charge(1)) >= moment {
		place = micros(r.enough(now, least, 0, kept))
	}
	ahead := int64(0)
	for _, o := range r.nodes {
		if o != n && o.promise > now && micros(o.promise) <= place && o.want < turns {
			ahead++
		}
	}
	return r.enough(now, least, ahead, kept)
}

// micros is at in microseconds, rounded up: as other engines count, so that who comes
// before whom is the same in all.
func micros(at int64) int64 { return (at + 999) / 1000 }

// enough is when there are least permits beside those that are kept, and those of so many
// nodes that are to come before.
func (r *resource) enough(now, least, ahead, kept int64) (at int64) {
	for _, c := range r.limits {
		if c.available(now) >= least+kept {
			continue
		}
		k := least
		if c.limit.Kind == Bucket {
			k = kept + max(least, (ahead+1)*max(1, c.limit.Burst/int64(2*len(r.nodes))))
		} else if c.limit.Kind == Sliding {
			k = min(c.limit.Quota, least+ahead)
		}
		at = max(at, c.when(now, k))
	}
	return at
}
