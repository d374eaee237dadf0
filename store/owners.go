package store

import (
	"math/rand/v2"
	"slices"
)

// owner is one of those in this process that share something, and tells it when there
// may be more of that.
type owner struct {
	changed func() // OnChange's; nil without
}

// owners are all of them. Syncer.mu guards them.
type owners struct {
	refs    int
	hearing []*owner
	stirred bool  // they are in Syncer.stirred
	stirAt  int64 // when they are to be woken, in Syncer.later; 0: not there
}

// hear has o hear of changes by fn.
func (os *owners) hear(o *owner, fn func()) {
	if o.changed = fn; !slices.Contains(os.hearing, o) {
		os.hearing = append(os.hearing, o)
	}
}

// drop forgets o, which is one of the refs of os.
func (s *Syncer) drop(os *owners, o *owner) {
	os.refs--
	os.hearing = slices.DeleteFunc(os.hearing, func(h *owner) bool { return h == o })
	if len(os.hearing) == 0 && os.stirAt > 0 {
		os.stirAt = 0
		s.later = slices.DeleteFunc(s.later, func(l *owners) bool { return l == os })
	}
}

// wake returns what tells all of them to ask again, in any order: where little comes at a
// time it is for whoever asks first, and that is not to be the same one always.
func (os *owners) wake() (after []func()) {
	for _, o := range os.hearing {
		after = append(after, o.changed)
	}
	rand.Shuffle(len(after), func(i, k int) { after[i], after[k] = after[k], after[i] })
	return after
}

// givesBack has the loop wake the owners, if one of them waits for what another gives
// back: who does so looks by himself, but holds his lock, under which nobody can be told.
func (c *cell) givesBack() {
	if !c.waits {
		return
	}
	c.waits = false
	c.stir()
}

// stir has the loop wake the owners.
func (c *cell) stir() {
	if os := c.owners(); os != nil && !os.stirred {
		os.stirred = true
		c.s.stirred = append(c.s.stirred, os)
		c.s.kick()
	}
}

// stirAt has the loop wake os at at, or before, all of them, each of which looks at all that
// waits with it then: it is not for what many wait for one after the other. The caller holds mu.
func (s *Syncer) stirAt(os *owners, at int64) {
	switch {
	case len(os.hearing) == 0: // they are closed, perhaps
		return
	case os.stirAt == 0:
		s.later = append(s.later, os)
	case os.stirAt <= at:
		return
	}
	os.stirAt = max(1, at)
	s.kick()
}

// owners are those of c; nil when there are none.
func (c *cell) owners() *owners {
	switch {
	case c.share != nil:
		return &c.share.owners
	case c.slots != nil:
		return &c.slots.owners
	}
	return nil
}

// wake returns what tells the owners of c to ask again.
func (c *cell) wake() (after []func()) {
	c.unsure = false
	if os := c.owners(); os != nil {
		after = os.wake()
	}
	return after
}

// rouse wakes those for whom another owner gave something back, and those who were to be woken
// by now, and returns when the next are.
func (s *Syncer) rouse() (next int64) {
	s.mu.Lock()
	var after []func()
	next = never
	now := s.now()
	s.later = slices.DeleteFunc(s.later, func(os *owners) bool {
		if os.stirAt > now {
			next = min(next, os.stirAt)
			return false
		}
		os.stirAt = 0
		after = append(after, os.wake()...)
		return true
	})
	for _, os := range s.stirred {
		os.stirred = false
		after = append(after, os.wake()...)
	}
	s.stirred = s.stirred[:0]
	s.mu.Unlock()
	for _, fn := range after {
		fn()
	}
	return next
}
