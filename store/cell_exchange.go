package store

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
)

var (
	errAnswer   = errors.New("store: an answer that is not to the request")
	errNonsense = errors.New("store: an answer that makes no sense")
)

// isDefinite reports whether err says that nothing was executed.
func isDefinite(err error) bool {
	return errors.Is(err, ErrNotExecuted) || errors.Is(err, ErrInvalid)
}

// isOfItem reports whether err is of what was sent, and says that the store was there to
// refuse it: the same item would be refused again.
func isOfItem(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooMany) }

// item is what to send now: what was sent and not answered, or what there is to say.
// The answer to what was sent before may be that of then, and not know of what was
// hinted at since.
func (c *cell) item(now int64) *Item {
	if c.pending != nil {
		return c.pending.after(c.ago(), c.s.cfg.Store.TTL())
	}
	if c.news() {
		c.paced = min(max(c.paced, now), now+wordsAtOnce*c.step()) + c.step()
	}
	c.hinted = false
	c.drop(now)
	c.s.seq++
	it := &Item{Key: c.key, Seq: c.s.seq, Epoch: c.epoch, Seen: c.seen, Debt: min(c.debt, 1e9)}
	c.debt -= it.Debt
	c.pending, c.begun, c.begunAt, c.told = it, now, c.s.steady(), true
	c.pace.measure(now)
	if c.share != nil {
		it.Limits, it.Version = c.share.limits, c.share.version
		c.wish(it, now)
	}
	if c.member != nil {
		c.member.say(it)
	}
	if c.slots != nil {
		c.prune(now)
		it.Slots, it.Held, it.WantSlots = c.slots.most, c.inUse, c.wantSlots
		if c.busySlots && c.fits() { // what is not in use now will be soon
			it.Held = max(c.inUse, min(c.allowed, c.held))
		}
		c.sayLine(it, now)
		c.busySlots, c.toldWant = false, c.wantSlots
		c.allowed = min(c.allowed, it.Held)
	}
	return it
}

// ago is how long ago the pending item was sent first.
func (c *cell) ago() time.Duration { return time.Duration(c.s.steady() - c.begunAt) }

// after is it as it is to be sent again d later: its cooldowns have gone on meanwhile, and
// after the store's ttl its slots are others'. If the store has executed it before, it does
// not look at them.
func (it *Item) after(d, ttl time.Duration) *Item {
	again := *it
	if d >= ttl {
		again.Held, again.Line, again.LeastSlots = 0, LineNothing, min(it.LeastSlots, it.WantSlots)
	}
	again.Cool, again.Known = nil, nil
	for _, cool := range it.Cool {
		if cool.For -= d; cool.For > 0 {
			again.Cool = append(again.Cool, cool)
		}
	}
	for _, known := range it.Known {
		if known.Left > 0 {
			if known.Left -= d; known.Left <= 0 {
				continue // 0 would say that it was cleared
			}
		}
		again.Known = append(again.Known, known)
	}
	return &again
}

// wish fills in how many permits are wanted, or given back.
func (c *cell) wish(it *Item, now int64) {
	c.needed(now)
	frozen := c.frozen(now)
	switch {
	case c.passed, c.probes() && now >= c.patience: // frozen until the store has heard it
		it.Probe, c.passed = ProbePassed, false
	case c.need > 0 && now >= c.leaves && (c.probe == ProbeOpen || c.probe == ProbeCooling && c.probeEnds <= now):
		it.Probe = ProbeWanted
	}
	switch {
	case frozen && it.Probe == ProbeNothing, c.unused(now):
		it.Returned = c.give() // nobody uses them
	case it.Probe == ProbeWanted:
		it.Want, it.Least = int64(c.need), int64(c.need)
	case int64(c.need) > c.credit:
		it.Least = int64(c.need) - c.credit
		c.pace.top = max(c.pace.top, 2*c.last) // what came last was not enough
		it.Want = max(it.Least, c.ahead(now)-c.credit)
	case c.short(now):
		c.pace.top = max(c.pace.top, 2*c.last)
		it.Want = c.ahead(now) - c.credit
	}
	it.Want = max(it.Least, min(it.Want, max(2, c.most())))
	if n, _ := c.spare(now); n > 0 {
		it.Returned += c.giveSome(n)
	}
	if len(it.Limits) == 0 { // it may have the probe, and takes nothing of a limit that others have
		it.Want, it.Least = 0, 0
	}
}

// answered takes an answer to it, which was sent at sent, by steady at sentAt.
func (c *cell) answered(it *Item, a *Answer, sent, sentAt, now int64) (after []func()) {
	c.pause, c.missed = 0, 0
	if c.lost {
		c.lost = false
		c.s.tell(event.StoreBack, c.governs(), c.key, nil)
		after = c.wake()
	}
	if a.Stale {
		c.fresh = -1
		c.unsaid(now)
		return after
	}
	c.pending = nil
	c.fresh, c.took = c.begun, now-sent
	if c.epoch != "" && a.Epoch != c.epoch {
		c.s.forgot(a.Epoch)
		if c.member != nil {
			c.member.tellAgain()
			c.hinted = true
		}
	}
	after = append(after, c.surprises(it, a)...)
	c.nodes = a.Nodes
	// Else somebody has joined meanwhile, who wants to hear all, and is not to hear of what was
	// cleared since: of that he is told nothing more.
	asked := it.Epoch == c.epoch && it.Seen == c.seen
	heard := c.heard // with which our own words are not counted
	if asked {
		c.epoch, c.seen, c.heard = a.Epoch, a.Gen, a.Gen
	} else {
		c.fresh, c.hinted = -1, true
	}
	if c.share != nil && it.Version > 0 { // else it was sent before there was a share
		quota := it.Limits
		if a.Limits != nil && len(quota) > 0 {
			quota = a.Limits // who has none goes by none
		}
		c.behind = (it.Version != c.share.version || !slices.Equal(it.Limits, c.share.limits)) &&
			(a.Version <= c.share.version || len(it.Limits) == 0) // else they are not to come into force
		if c.behind {
			quota, c.hinted = c.quota, true // it is of what the share had before: the next answer tells
		}
		if !slices.Equal(quota, c.quota) {
			c.quota = quota
			c.part(time.Now())
			if int64(c.need) > c.most() || len(quota) == 0 {
				after = append(after, c.wake()...)
			}
		}
	}
	was := c.frozen(now)
	if c.probe != ProbeCooling || c.hostTo <= a.Gen && !(c.member != nil && c.member.tells("")) { // else it is from before what a hint said, or the vendor
		c.returns(a, sent, now)
	}
	if end := sent + int64(a.ValidFor); a.Granted > 0 && end > now {
		c.stale, c.unsureAt, c.usedEnd = c.open, time.Now(), never
		c.grant(lease{a.Granted, end})
		c.got(a.Granted, end, sent, now)
		c.spoilt = 0
	} else if a.Granted > 0 {
		c.last = 0
		after = append(after, c.spoils(a, now-sent)...)
	} else if it.Want > 0 {
		c.last = 0
	}
	c.retryAt, c.lacks, c.lacksTo = 0, 0, 0
	if a.Granted == 0 && it.Want > 0 && a.Probe == ProbeOver && !slices.ContainsFunc(c.quota, func(l Limit) bool { return l.Kind == Bucket }) {
		// Of a Bucket the store saves for them, and says when half of a Burst is there: who needs
		// less waits for that, too, also behind a large call that has gone since.
		c.lacks = max(1, it.Least)
	}
	if a.RetryAfter > 0 || a.Granted == 0 && it.Want > 0 {
		c.retryAt = now + max(int64(a.RetryAfter), leastPause)
	}
	if c.unsure && (int64(a.RetryAfter) > idle || a.RetryAfter > 0 && a.Granted == 0 && (it.Least > 1 || len(c.own) > 0)) {
		c.asksAgain() // so that he knows when, and it may be forgotten; or has fewer asked for, or goes by a part
	}
	if c.slots != nil {
		// SetMax may have made it fewer since the item was sent.
		c.held, c.allowed = max(a.Held, min(it.Held, c.inUse)), min(a.Held, c.slots.most)
		c.slotsUntil = sent + int64(a.SlotsFor-c.s.cfg.Store.TTL()/10) // of a repeated answer less is left
		if it.Line == LineWaits && a.Held >= it.LeastSlots {
			c.turn = now + int64(c.s.cfg.Interval)
		}
		got := a.Held - it.Held
		c.toldWant = max(0, c.toldWant-got)
		if c.wantSlots = max(0, c.wantSlots-got); c.wantSlots > 0 && c.fitsAll() {
			c.wantSlots = 0
		}
		if a.Held < it.Held && c.inUse < it.Held {
			c.hinted = true // what others wait for goes back at once
		}
	}
	if c.member != nil {
		if asked {
			c.member.hear(it, a, sentAt, heard)
			if _, ends := c.member.clear[""]; ends && c.probe == ProbeCooling { // it has not heard of that
				c.probeEnds = min(c.probeEnds, now)
			}
		}
	}
	if asked && !c.met {
		after = append(after, c.meet(now)...)
	}
	if a.Granted > 0 || was != c.frozen(now) || c.slots != nil && c.fits() {
		after = append(after, c.wake()...)
	}
	return after
}

// spoils is what follows a grant that had ended when it came; what logs, once, that
// several have in a row.
func (c *cell) spoils(a *Answer, took int64) (after []func()) {
	sh := c.share
	if c.spoilt++; c.spoilt < 3 || sh == nil || sh.far {
		return nil
	}
	sh.far = true
	name := sh.name
	return append(after, func() {
		c.s.warn("store: permits end on their way: the store is too far for so short a limit; a longer Per, or the Lease and Burst of a Bucket, would help",
			slog.String("name", name), slog.Duration("took", time.Duration(took)), slog.Duration("valid for", a.ValidFor))
	})
}

// sane reports whether a can be an answer to it.
func (a *Answer) sane(it *Item) bool {
	most := 31 * 24 * time.Hour
	ok := a.Epoch != "" && a.Granted >= 0 && a.Granted <= it.Want && a.Held >= 0 && a.Held <= it.Held+it.WantSlots &&
		len(a.Cooldowns) <= MaxScopes && CheckLimits(a.Limits) == nil && a.Probe <= ProbeOther
	for _, d := range []time.Duration{a.ValidFor, a.RetryAfter, a.ProbeFor, a.SlotsFor} {
		ok = ok && d >= 0 && d <= most
	}
	for _, c := range a.Cooldowns {
		ok = ok && c.Left >= 0 && c.Left <= most && len(c.Scope) <= maxScope
	}
	return ok
}

// surprises returns what logs, once, that a store grants less than its user may expect.
func (c *cell) surprises(it *Item, a *Answer) (after []func()) {
	s := c.s
	if c.epoch == "" && it.Want > 0 && a.Granted == 0 && a.Probe == ProbeOver && a.Nodes == 1 &&
		a.RetryAfter > s.cfg.Interval && !s.empty {
		s.empty = true
		after = append(after, func() {
			s.warn("store: nothing is granted at first, as all may be used: nothing is known of before",
				slog.String("key", c.key), slog.Duration("for", a.RetryAfter))
		})
	}
	if sh := c.share; sh != nil && a.Limits != nil && a.Version == it.Version && it.Version == sh.version && !sh.warned {
		sh.warned = true
		after = append(after, func() {
			s.warn("store: other limits are in force than this process has of the same version: raise it",
				slog.String("name", sh.name), slog.Uint64("version", a.Version), slog.Any("in force", a.Limits), slog.Any("here", it.Limits))
		})
	}
	return after
}

// forgot reports once that the store has lost its state: keys that were lost by one event
// have epochs that are the same up to "--".
func (s *Syncer) forgot(epoch string) {
	if epoch, _, _ = strings.Cut(epoch, "--"); s.epoch != epoch {
		s.epoch = epoch
		s.tell(event.StoreLost, "", "what was granted counts as taken", errForgot)
	}
}

var errForgot = errors.New("store: its state was lost")
