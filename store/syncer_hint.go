package store

import (
	"context"
	"time"
)

// headStart is how long exchanges wait for the hints' begin: what is heard of before that
// has to be asked for once more.
const headStart = 10 * time.Millisecond

// listen subscribes to the store's hints, if it is not yet. The store may answer and not
// let anybody subscribe, for as long as Timeout each time, and for good: that keeps
// nothing else waiting, as only the first try has a head start, and it is tried again as
// seldom as a store that is lost, since each try may be a connection of its own. No timer
// is set for the next: where there is a key to hear of, the loop turns once an Interval.
func (s *Syncer) listen() {
	s.mu.Lock()
	begins := s.watch == nil && !s.listens && s.now() >= max(s.retry, s.listenAt)
	s.listens = s.listens || begins
	first := s.refused == 0
	s.mu.Unlock()
	if !begins {
		return
	}
	over := make(chan struct{})
	s.work.Go(func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		defer cancel()
		stop, err := s.cfg.Store.Watch(ctx, s.hint)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.listens = false; err != nil {
			s.refused++
			s.listenAt = s.now() + backoff(s.refused, s.cfg.Interval)
			return
		}
		s.watch, s.watched = stop, s.now()
	})
	if !first {
		return
	}
	head := time.NewTimer(headStart)
	defer head.Stop()
	select {
	case <-over:
	case <-head.C:
	}
}

// attend finds out until when no hint is missing.
func (s *Syncer) attend() {
	a, ok := s.cfg.Store.(Attentive)
	if !ok {
		return
	}
	until := a.HeardUntil() // under no lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heardTo = -never; !until.IsZero() {
		s.heardTo = min(s.since(until), s.now())
	}
}

// hint has the exchange of a key come early, since there may be news.
func (s *Syncer) hint(h Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cells[h.Key]; c != nil {
		c.hint(&h)
	} else if h.Key == "" {
		for _, c := range s.cells {
			c.hint(&h)
		}
	}
}

// hint has c exchanged soon, unless it knows already, or hears now, what h says.
func (c *cell) hint(h *Hint) {
	if gen := h.gen(); gen > 0 && h.Epoch == c.epoch {
		if gen <= c.heard {
			return
		}
		// Each has a Gen of its own: if there are fewer than Gens since, a hint is missing.
		all := c.member != nil && c.member.hint(h) && gen-c.heard == uint64(len(h.Cooldowns))
		if all {
			c.heard = gen
		}
		if c.pending != nil { // the answer may know of it, or be from before
			c.hintedTo = max(c.hintedTo, gen)
		}
		if all || c.busy {
			return
		}
	}
	c.hinted = true
	c.s.plan(c, c.soon(c.s.now()))
}

// hintsAnswered is what follows an answer in whose exchange there were hints.
func (c *cell) hintsAnswered() {
	if c.pending != nil { // the next may be the one of before
		return
	}
	if c.hintedTo > c.seen {
		c.hinted = true
	}
	c.hintedTo, c.hostTo = 0, 0
}
