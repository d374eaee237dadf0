package store

import (
	"slices"
	"time"
)

// remember is how long a cooldown that was cleared is told: who is cut off for longer does
// not hear of it.
const remember = int64(15 * time.Minute)

// maxKnown is the largest Gen that a node is believed to know of, so that there are enough
// after it.
const maxKnown = 1 << 52

// cool takes what the vendor said, and reports whether anything was cleared.
func (r *resource) cool(now int64, in terms, it *Item) (cleared bool) {
	r.sweep(now)
	for _, k := range it.Clear {
		c := r.scope(k.Scope)
		if c == nil || c.until <= now || c.gen > k.Gen || it.Epoch != "" && it.Epoch != in.epoch {
			continue
		}
		r.gen++
		c.until, c.gen = now, r.gen
		if k.Scope == "" {
			r.probing = false
		}
		cleared = true
	}
	for _, k := range it.Known {
		c, gen := r.scope(k.Scope), min(k.Gen, maxKnown)
		if k.Left > 0 && (c == nil || c.gen < gen) {
			if gen <= r.gen { // which somebody may have seen without this scope
				gen = r.gen + 1
			}
			r.extend(k.Scope, now+int64(min(k.Left, MaxCool)), gen)
		}
	}
	for _, k := range it.Cool {
		r.extend(k.Scope, now+int64(min(k.For, MaxCool)), r.gen+1)
	}
	return cleared
}

func (r *resource) scope(name string) *cooled {
	for i := range r.cools {
		if r.cools[i].scope == name {
			return &r.cools[i]
		}
	}
	return nil
}

// extend moves the end of a scope's cooldown to until, if it is earlier.
func (r *resource) extend(scope string, until int64, gen uint64) {
	r.gen = max(r.gen, gen)
	c := r.scope(scope)
	if c == nil {
		if len(r.cools) >= MaxScopes {
			first := slices.MinFunc(r.cools, func(a, b cooled) int {
				if (a.scope == "") != (b.scope == "") { // the whole key stays
					return map[bool]int{true: 1, false: -1}[a.scope == ""]
				}
				return int(min(1, max(-1, a.until-b.until)))
			})
			r.cools = slices.DeleteFunc(r.cools, func(c cooled) bool { return c.scope == first.scope })
		}
		r.cools = append(r.cools, cooled{scope: scope})
		c = &r.cools[len(r.cools)-1]
	}
	c.until, c.gen = max(c.until, until), gen
	if scope == "" {
		r.probing, r.prober, r.probeEnds = true, "", 0
	}
}

// renumber gives the cooldowns that are not over a Gen of more than from, as if they had
// just changed. Those that are over say nothing to who knows of others than these.
func (r *resource) renumber(now int64, from uint64) {
	r.gen = max(r.gen, from)
	for i := range r.cools {
		if r.cools[i].until > now {
			r.gen++
			r.cools[i].gen = r.gen
		}
	}
}

// sweep forgets the cooldowns that are over. That of the whole key stays for its
// probe.
func (r *resource) sweep(now int64) {
	r.cools = slices.DeleteFunc(r.cools, func(c cooled) bool { return c.until+remember <= now })
}

// probe says how far the return of traffic is, and hands out the probe.
func (r *resource) probe(now int64, in terms, node Node, n *member, it *Item, a *Answer) (tell bool) {
	if c := r.scope(""); c != nil && c.until > now {
		a.Probe, a.ProbeFor = ProbeCooling, left(c.until, now)
		a.RetryAfter = a.ProbeFor
		return false
	}
	if !r.probing {
		return false
	}
	if it.Probe == ProbePassed && r.prober == node {
		r.probing, r.prober = false, ""
		return true
	}
	if r.prober != "" && r.probeEnds <= now {
		r.prober = ""
	}
	switch {
	case r.prober == "" && it.Probe == ProbeWanted && !it.Bye:
		r.prober, r.probeEnds = node, now+int64(in.ttl)
		fallthrough
	case r.prober == node:
		a.Probe = ProbeYours
	case r.prober == "":
		a.Probe = ProbeOpen
		return false
	default:
		a.Probe = ProbeOther
	}
	a.ProbeFor = left(r.probeEnds, now)
	return false
}

// cooling returns the cooldowns that are newer than seen.
func (r *resource) cooling(now int64, seen uint64) (all []Cooldown) {
	for _, c := range r.cools {
		if c.gen > seen && c.until > now {
			all = append(all, Cooldown{c.scope, left(c.until, now), c.gen})
		}
	}
	return all
}

// describe adds what the node may not know yet.
func (r *resource) describe(now int64, in terms, it *Item, a *Answer) {
	a.Gen, a.Version = r.gen, r.version
	if !slices.Equal(r.asked, it.Limits) {
		a.Limits = slices.Clone(r.asked)
	}
	for _, c := range r.cools {
		if it.Epoch == in.epoch && c.gen > it.Seen || it.Epoch != in.epoch && c.until > now {
			a.Cooldowns = append(a.Cooldowns, Cooldown{c.scope, left(c.until, now), c.gen})
		}
	}
}
