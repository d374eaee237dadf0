package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// maxRunning is how many exchanges are under way at once.
const maxRunning = 16

// plan has c exchanged at at, or earlier if that is planned. The caller holds mu.
func (s *Syncer) plan(c *cell, at int64) {
	at = max(at, c.pause)
	if c.busy || c.idx > 0 && c.due <= at || s.closed {
		return
	}
	c.due = at
	if s.due.fix(c); s.due.first() == c {
		s.kick()
	}
}

func (s *Syncer) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin sends what is due at now, and returns that and when the next is. The caller is loop.
func (s *Syncer) begin() (now, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.now()
	if now < s.retry {
		return now, s.retry
	}
	for s.running < maxRunning {
		var batch []*cell
		var items []Item
		var firstAt []int64
		for len(batch) < MaxItems {
			c := s.due.first()
			if c == nil || c.due > now {
				break
			}
			s.due.remove(c)
			if !c.speaks(now) {
				s.plan(c, max(now+1, c.next(now)))
				continue
			}
			c.busy = true
			batch = append(batch, c)
			items, firstAt = append(items, *c.item(now)), append(firstAt, c.begunAt)
		}
		if len(batch) == 0 {
			if c := s.due.first(); c != nil {
				return now, c.due
			}
			return now, never
		}
		s.running++
		s.work.Add(1)
		go s.exchange(batch, items, firstAt, now, s.steady())
	}
	return now, never // the end of one wakes us
}

// exchange sends items, up to three times while nobody knows whether they arrived,
// and takes the answers. sent, by steady sentAt, is before the first time, and firstAt when
// each item was sent first of all.
func (s *Syncer) exchange(batch []*cell, items []Item, firstAt []int64, sent, sentAt int64) {
	defer s.work.Done()
	var answers []Answer
	var err error
	told, ttl := items, s.cfg.Store.TTL()
	tried := sentAt
	for try := range 3 {
		if try > 0 {
			pause := time.NewTimer(time.Duration(1+rand.Int64N(20)) * time.Millisecond)
			select {
			case <-pause.C:
			case <-s.ctx.Done():
				pause.Stop()
			}
			told = make([]Item, len(items)) // a Store may keep what it was given
			tried = s.steady()
			for i := range items {
				told[i] = *items[i].after(time.Duration(tried-sentAt), ttl-time.Duration(sentAt-firstAt[i]))
			}
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
		answers, err = s.cfg.Store.Exchange(ctx, s.node, told)
		cancel()
		if err == nil && len(answers) != len(items) {
			err = errAnswer
		}
		// What came too late to be sent is no word of the store's.
		if err == nil || s.ctx.Err() != nil || isDefinite(err) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	s.settled(batch, items, answers, err, sent, sentAt, tried)
}

// settled takes what came of an exchange, whose last try was at tried, by steady.
func (s *Syncer) settled(batch []*cell, items []Item, answers []Answer, err error, sent, sentAt, tried int64) {
	var after []func() // to be called under no lock
	s.mu.Lock()
	now := s.now()
	s.running--
	s.kick()
	if err == nil {
		s.answered = max(s.answered, sentAt)
	}
	whole := err == nil // what came says something of the store as a whole
	for i, c := range batch {
		c.busy = false
		switch {
		case isOfItem(err):
			// It says nothing of the store, which may be there for all but the one that is
			// at fault: that comes apart from the others.
			after = append(after, c.alone(now, err)...)
		case err != nil:
			of, wakes := c.misses(now, tried, err)
			whole, after = whole || of, append(after, wakes...)
		case answers[i].Err != nil: // what others got says that the store is there
			after = append(after, c.apart(now, answers[i].Err)...)
		case answers[i].Node != s.node || answers[i].Key != items[i].Key || answers[i].Seq != items[i].Seq:
			err = errAnswer // of somebody else's request
			_, wakes := c.misses(now, tried, err)
			after = append(after, wakes...)
		case !answers[i].Stale && !answers[i].sane(&items[i]):
			after = append(after, c.apart(now, errNonsense)...)
		default:
			after = append(after, c.answered(&items[i], &answers[i], sent, sentAt, now)...)
		}
		c.hintsAnswered()
		if c.member != nil {
			c.member.part()
		}
		s.plan(c, c.next(now))
	}
	if whole {
		after = append(after, s.mood(err, now)...)
	}
	s.mu.Unlock()
	for _, f := range after {
		f()
	}
}
