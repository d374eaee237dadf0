package store

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// ends has the store told that scope's cooldown was ended as k knows it. Of a state that was
// lost nothing is to be ended any more: 0 is the Gen of no word. What the store has never
// heard of it need not be told, unless a word of it is on its way.
func (l *link) ends(scope string, k *cooling) {
	gen := k.gen
	if k.old {
		gen = 0
	}
	if gen == 0 && (l.c.pending == nil || !l.c.pending.speaksOf(scope)) {
		delete(l.clear, scope)
		return
	}
	l.clear[scope] = gen
}

// tells reports whether the store is to be told of a cooldown of scope.
func (l *link) tells(scope string) bool {
	_, tells := l.tell[scope]
	return tells
}

// speaksOf reports whether there is anything to say of scope.
func (l *link) speaksOf(scope string) bool {
	_, clears := l.clear[scope]
	return clears || l.tells(scope) || l.again[scope]
}

func (l *link) toSay() bool { return len(l.tell) > 0 || len(l.clear) > 0 || len(l.again) > 0 }

// tellAgain has the store told what is known of: it has lost it. What was cleared before may
// be told to it by another, and then is not cleared: its words have other numbers now.
func (l *link) tellAgain() {
	now := l.c.s.steady()
	l.again = make(map[string]bool)
	for scope, k := range l.known {
		if k.old = true; k.until > now {
			l.again[scope] = true
		}
	}
	for scope := range l.clear {
		l.clear[scope] = 0
	}
}

// say fills in what the store is to be told.
func (l *link) say(it *Item) {
	now := l.c.s.steady()
	for scope, u := range l.tell {
		if len(it.Cool) == 16 {
			break
		}
		delete(l.tell, scope)
		if u.until > now {
			it.Cool = append(it.Cool, Cool{scope, time.Duration(min(u.until-now, int64(MaxCool)))})
		}
	}
	for scope, gen := range l.clear {
		if len(it.Clear) == 16 {
			break
		}
		delete(l.clear, scope)
		it.Clear = append(it.Clear, Cleared{scope, gen})
	}
	if len(l.again) == 0 {
		return
	}
	// In the order of their Gens, which they keep so.
	again := slices.SortedFunc(maps.Keys(l.again), func(a, b string) int { return cmp.Compare(l.of(a).gen, l.of(b).gen) })
	for _, scope := range again {
		if len(it.Known) == 16 {
			break
		}
		delete(l.again, scope)
		if k := l.known[scope]; k != nil && k.until > now {
			it.Known = append(it.Known, Cooldown{scope, time.Duration(min(k.until-now, int64(MaxCool))), k.gen})
		}
	}
}

// unsaid takes back what it, of begun, was to say and nobody has heard. What this process
// has heard since is newer: a cooldown that has come, and one that was cleared.
func (l *link) unsaid(it *Item, begun int64) {
	for _, cool := range it.Cool {
		if _, ended := l.clear[cool.Scope]; !ended {
			l.owes(cool.Scope, begun+int64(cool.For), 0)
		}
	}
	for _, k := range it.Clear {
		if _, ended := l.clear[k.Scope]; !ended {
			l.clear[k.Scope] = k.Gen
		}
	}
	for _, known := range it.Known {
		if l.again == nil {
			l.again = make(map[string]bool)
		}
		l.again[known.Scope] = true // if it is known still
	}
}

// hint takes what a hint says of words that are newer than the last answer, and reports
// whether it has taken all. Of a scope of which this process has something to say, or has said
// it and is not answered, only the answer tells what of it is new: a Clear may come between.
func (l *link) hint(h *Hint) (all bool) {
	c := l.c
	all = true
	for _, cd := range h.Cooldowns {
		if cd.Gen <= c.seen || cd.Left <= 0 || cd.Left > MaxCool || len(cd.Scope) > maxScope ||
			l.speaksOf(cd.Scope) || c.pending != nil && c.pending.speaksOf(cd.Scope) {
			all = false
			continue
		}
		before := l.of(cd.Scope).until
		if c.s.steady()+int64(cd.Left) < before-int64(time.Second) {
			all = false // what is known was cleared before: an answer tells of that, and may be on its way
			continue
		}
		l.hear(&Item{Epoch: h.Epoch, Seen: c.seen}, &Answer{Epoch: h.Epoch, Gen: cd.Gen, Cooldowns: []Cooldown{cd}}, c.s.steady(), 0)
		if cd.Scope == "" && l.of("").until > before {
			c.cools(c.s.now() + int64(cd.Left))
			c.hostTo = cd.Gen
		}
	}
	return all
}

// hear takes what the store says in answer to it, which was sent at sent. Of what others said
// up to the Gen heard it has been told by hints.
func (l *link) hear(it *Item, a *Answer, sent int64, heard uint64) {
	now := l.c.s.steady()
	slack := now - sent + int64(time.Millisecond) // what we told comes back a round trip later
	// Each word of ours has a Gen. If others have said something meanwhile, there are more. One
	// that was over when the item was repeated may have none.
	plain, ours := it.Epoch == a.Epoch && len(it.Known)+len(it.Clear) == 0, max(it.Seen, heard)+uint64(len(it.Cool))
	over := uint64(0)
	for _, cool := range it.Cool {
		if int64(cool.For) <= now-sent {
			over++
		}
	}
	alone, others := plain && over == 0 && a.Gen == ours, plain && a.Gen > ours-over
	for _, cd := range a.Cooldowns {
		k := l.of(cd.Scope)
		if !k.old && cd.Gen < k.gen {
			continue // a hint has told what came after it
		}
		was, until := k.until, now+int64(cd.Left)
		// A word of another's is longer than what we say of the scope, or may be, be it by little.
		longer := (k.old || cd.Gen > k.gen) && (others || cd.Left > it.says(cd.Scope)+time.Millisecond)
		k.gen, k.old = cd.Gen, false
		if gen, ended := l.clear[cd.Scope]; ended && cd.Left > 0 {
			told := slices.ContainsFunc(it.Cool, func(c Cool) bool { return c.Scope == cd.Scope })
			knew := slices.ContainsFunc(it.Known, func(k Cooldown) bool {
				return k.Scope == cd.Scope && k.Gen == cd.Gen && until <= sent+int64(k.Left)+slack && until >= sent+int64(k.Left)-int64(time.Millisecond)
			})
			if alone && told || knew {
				gen = cd.Gen // our own word, from before it was ended, behind which no other's is hidden
				l.clear[cd.Scope] = gen
			}
			if cd.Gen <= gen {
				continue
			}
			delete(l.clear, cd.Scope) // which was of an earlier one
		}
		switch {
		case cd.Left == 0 && was <= now: // it is over here, too
		case cd.Left == 0: // all is but what the store had not been told
			k.until = 0
			u, more := l.tell[cd.Scope]
			at := k.own + 1
			if more {
				at = u.since
			}
			k.ended = max(k.ended, at)
			l.allClear(cd.Scope, l.c.s.base.Add(time.Duration(at)), nil)
			if more {
				k.until = u.until
				l.allLearn(cd.Scope, u.until, fromGovernor, nil)
			}
		case until > was+slack, longer && until > was:
			k.until, k.at = until, now
			l.allLearn(cd.Scope, until, fromProcess, nil)
		case l.again[cd.Scope] && was > until+slack: // it has lost it, and heard of less from another
			delete(l.again, cd.Scope)
			l.owes(cd.Scope, was, k.at)
		}
	}
}

// speaksOf reports whether it has anything to say of scope.
func (it *Item) speaksOf(scope string) bool {
	return it.says(scope) > 0 || slices.ContainsFunc(it.Clear, func(c Cleared) bool { return c.Scope == scope })
}

// says is how long it says that scope cools.
func (it *Item) says(scope string) (d time.Duration) {
	for _, c := range it.Cool {
		if c.Scope == scope {
			d = max(d, c.For)
		}
	}
	for _, c := range it.Known {
		if c.Scope == scope {
			d = max(d, c.Left)
		}
	}
	return d
}
