package store

import (
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// OnChange has fn called when permits have come, or may pass without.
func (sh *Share) OnChange(fn func()) {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	sh.hear(&sh.owner, fn)
}

// Wait returns how long it is until n permits for key can be taken; Never when they
// are more than the limits ever have.
func (sh *Share) Wait(now time.Time, key string, n int) time.Duration {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	return sh.wait(now, key, n)
}

// wait is Wait. The caller holds mu.
func (sh *Share) wait(now time.Time, key string, n int) time.Duration {
	s := sh.s
	c := sh.keys[key]
	if c == nil {
		if c = sh.cell(key, now); c == nil {
			return s.cfg.Interval / 4 // in an outage those that may be forgotten are under way half of the time
		}
	}
	if n < 1 {
		return 0
	}
	t := s.now()
	if c.asked = t; sh.refs == 1 {
		c.neededAt = t // who asks is who had the need
	}
	c.drop(t)
	goes := !c.frozen(t) && c.knows()
	if goes && (c.credit >= int64(n) || len(c.quota) == 0) {
		c.pace.goes(t)
		return 0
	}
	if int64(n) > c.most() {
		c.needed(t)
		return limiter.Never
	}
	how, own := c.unleased(now, n)
	if goes && how != shut {
		return 0
	}
	return sh.refuse(c, n, t, own)
}

// refuse has permits fetched for who needs n, and returns for how long he has to wait at
// least; own is how long it is until this process may have them without the store. The caller
// holds mu.
func (sh *Share) refuse(c *cell, n int, t int64, own time.Duration) time.Duration {
	frozen, ends := c.frozen(t), time.Duration(c.probeEnds-t)
	if frozen && c.probe == ProbeCooling && ends > 0 {
		return ends // then he asks again, if he has not gone
	}
	c.pace.waits(t)
	if frozen && c.probe == ProbeOther && ends > 0 { // likewise, when he is told that it is over
		if c.adrift() {
			return ends
		}
		return c.untilWoken(t)
	}
	goes, hearsay := !frozen && c.knows(), c.hearsay()
	c.waits = sh.refs > 1
	if goes && !hearsay && c.standsBack(n, t) {
		return min(own, time.Duration(c.lacksTo-t))
	}
	c.needs(n, t)
	sh.s.plan(c, c.next(t))
	if hearsay {
		c.hinted = c.hinted || !c.busy // so that it is asked for him, too
		sh.s.plan(c, t)
	}
	switch {
	case frozen && c.adrift() && ends > 0:
		return ends
	case goes && !hearsay && c.retryAt > t: // else what the store has said before may be for nothing
		return min(own, time.Duration(c.retryAt-t))
	case goes && own < limiter.Unsure && c.cutOff():
		return own
	case goes && own < limiter.Unsure: // the store may have some before, or not answer for long
		sh.s.stirAt(&sh.owners, sh.s.grid(t+int64(own), 50))
	}
	return c.untilWoken(t)
}

// needs notes that somebody waits for n permits.
func (c *cell) needs(n int, t int64) {
	if n >= c.need || c.neededAt < c.gotAt { // for that nobody has come back since permits did
		c.need, c.neededAt = n, t
	}
	if c.retryAt > t && int64(n)-c.credit < c.lacks { // the store has not been asked for so few
		c.need, c.neededAt, c.lacksTo, c.retryAt = n, t, c.retryAt, 0
	}
}

// standsBack reports whether who needs n is not asked for as long as the store is for somebody
// who needs fewer: of so many it has said when there are some, lacksTo.
func (c *cell) standsBack(n int, t int64) bool {
	return c.retryAt <= t && c.lacksTo > t && int64(n)-c.credit >= c.lacks && int64(c.need) < c.lacks && c.need > 0
}

// untilWoken is what he is told who is woken when the store has said more. One for whom a lost
// store was not asked goes by Outage when that was so for long enough: he is woken then, too.
func (c *cell) untilWoken(t int64) time.Duration {
	if c.hearsay() {
		c.s.stirAt(&c.share.owners, c.s.allLost)
	}
	c.unsure = true
	return limiter.Unsure
}

// pass is how a permit may pass that was not granted.
type pass uint8

const (
	shut pass = iota
	byPart
	byOpen
)

// unleased says how n permits may pass that were not granted, or how long it is
// until they may.
func (c *cell) unleased(now time.Time, n int) (how pass, wait time.Duration) {
	if c.cutOff() && c.s.cfg.Outage == Open {
		return byOpen, 0
	}
	if len(c.own) == 0 || c.s.closed || c.nodes > c.s.cfg.Nodes {
		return shut, limiter.Never
	}
	for _, l := range c.own {
		wait = max(wait, l.Wait(now, "", n))
	}
	if wait > 0 {
		return shut, wait
	}
	return byPart, 0
}

// Take takes n permits for key, for which Wait has just said 0.
func (sh *Share) Take(now time.Time, key string, n int) {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	sh.take(now, key, n)
}

// Claim takes n permits for key if they are to be had, in one step.
func (sh *Share) Claim(now time.Time, key string, n int) (wait time.Duration) {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	if wait = sh.wait(now, key, n); wait == 0 {
		sh.take(now, key, n)
	}
	return wait
}

// take is Take. The caller holds mu.
func (sh *Share) take(now time.Time, key string, n int) {
	s := sh.s
	c := sh.keys[key]
	if c == nil || n < 1 {
		return
	}
	if now.Before(c.since) { // the owner read his clock before Wait made it
		c.since = now
	}
	if sh.refs == 1 {
		c.need = 0 // else another owner's may be among it, which is forgotten when nobody asks
	}
	if c.probe == ProbeYours && !c.probing {
		c.probing, c.probedAt, c.patience = true, now, s.now()+s.probePatience()
		c.stale = c.open // what was taken before is not the probe
		s.plan(c, c.patience)
	}
	if len(c.quota) == 0 {
		c.open += int64(n) // so that it is known when none but the probe is under way
		return
	}
	if c.credit < int64(n) {
		how, _ := c.unleased(now, n)
		if how == byPart {
			for _, l := range c.own {
				l.Take(now, "", n)
			}
		} else if how == byOpen {
			s.unguarded(sh.name, throttle.Scope{Level: sh.per, Key: key})
		}
		if how != shut {
			c.open += int64(n)
			c.stale += int64(n) // nothing of it goes back to a lease
			if now.After(c.unsureAt) {
				c.unsureAt = now
			}
			return
		}
	}
	c.take(int64(n))
	if c.credit <= c.low && !c.busy && c.credit+int64(n) > c.low { // once
		if now := s.now(); c.short(now) {
			s.plan(c, max(now, c.retryAt))
		}
	}
}

// unguarded tells of a call that passes with Open, unless there is too much to tell.
func (s *Syncer) unguarded(name string, scope throttle.Scope) {
	if s.cfg.OnEvent != nil && len(s.news) < mostNews {
		s.report(event.Event{Time: time.Now(), Kind: event.Unguarded, Name: name, Scope: scope.String()})
	}
}

// Settle corrects the cost of permits taken before. More is charged by the next
// exchange, even if there is none, as long as there is room for the key; less can be taken
// again, as long as it is certain that its lease has not ended: where some were open when
// the store granted the last, it is not, until none is. What is open of a key that nobody
// has asked for permits for 15 minutes is forgotten, which only SettleAt knows.
func (sh *Share) Settle(now time.Time, key string, n, used int) {
	sh.settle(time.Time{}, key, n, used)
}

// SettleAt is Settle for a take that was made at taken: what it cost less can be taken
// again if that was after the last grant.
func (sh *Share) SettleAt(now, taken time.Time, key string, n, used int) {
	sh.settle(taken, key, n, used)
}

// late returns whose the calls are that end when all Shares are closed, those of a later Share
// of the Name if there is one, and the cell of key: of the later one, or nobody has asked that
// for it, and it is as it was.
func (sh *sharing) late(key string) (of *sharing, c *cell) {
	of = sh
	if next := sh.s.shares[sh.id]; next != nil {
		of = next
	}
	if c = of.keys[key]; c == nil {
		c = sh.keys[key]
	}
	if c != nil && sh.s.cells[c.key] != c { // it was the later one's, and is forgotten
		c = nil
	}
	return of, c
}

// settle is SettleAt, and Settle where taken is zero.
func (sh *Share) settle(taken time.Time, key string, n, used int) {
	s := sh.s
	s.mu.Lock()
	defer s.mu.Unlock()
	of, c := sh.sharing, sh.keys[key]
	if sh.refs == 0 {
		of, c = sh.late(key)
	}
	if c == nil && used > n && n >= 0 && len(of.limits) > 0 { // it was forgotten: the call was long
		c = of.cell(key, time.Now())
	}
	if c == nil || n < 0 || used < 0 {
		return
	}
	k, fresh := min(int64(n), c.open), c.stale == 0
	leased, probe := fresh, fresh
	if !taken.IsZero() {
		leased, probe = fresh || taken.After(c.unsureAt), !taken.Before(c.probedAt)
		if taken.Before(c.since) {
			k, leased = 0, false // of what is open that is not
		}
	}
	c.open -= k
	c.stale = min(c.stale, c.open)
	if c.probing && (probe || taken.IsZero() && c.open == 0) {
		c.probing = false // it has ended; if well, Accepted follows
		c.givesBack()
	}
	switch {
	case len(c.quota)+len(of.limits) == 0: // a Gate, of which nothing is taken
	case used > n:
		c.drop(s.now())
		c.take(int64(used - n))
		c.open -= min(c.open, int64(used-n))
		s.plan(c, s.now())
	case leased && used < n && c.usedEnd > s.now():
		c.grant(lease{min(k, int64(n-used)), c.usedEnd})
		c.givesBack()
	}
}

// Accepted lets everybody go on after a cooldown, if the call was the probe.
func (sh *Share) Accepted(now, sent time.Time, key string) {
	s := sh.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := sh.keys[key]; c != nil && c.probe == ProbeYours && !sent.Before(c.probedAt) && !c.probedAt.IsZero() {
		c.passed, c.probe = true, ProbeOver
		c.givesBack()
		s.plan(c, s.now())
	}
}

// Idle reports whether this process holds nothing for anybody: no permit is taken and
// not settled, none is owed, and no key is in a cooldown or the probe after it. What else
// is known the Syncer keeps, and who makes the Share again goes on with it.
func (sh *Share) Idle(time.Time) bool {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	for _, c := range sh.keys {
		if c.open > 0 || c.debt > 0 || c.passed || c.probe != ProbeOver && c.probe != ProbeOpen {
			return false
		}
	}
	return true
}

// Refused does nothing: the cooldown comes as the governor's event.
func (sh *Share) Refused(now, sent time.Time, key string) {}

// Rate returns this process's part of the permits per second, if all use as many.
func (sh *Share) Rate(now time.Time, key string) float64 {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	if c := sh.keys[key]; c != nil {
		return rater(c.quota, c.nodes)
	}
	return rater(sh.limits, 1)
}

// Quota returns the narrowest of the limits in force, for all processes together: its
// Limit and Window. Remaining is less than 0, for nobody here knows: the store tells a
// process what it may use of a quota, not what the others have left of it, and what
// this one has fetched and not used yet is no measure of that. ok is false without any
// limit.
func (sh *Share) Quota(now time.Time, key string) (q throttle.Quota, ok bool) {
	sh.s.mu.Lock()
	defer sh.s.mu.Unlock()
	limits := sh.asked // of which the store may grant a part
	if c := sh.keys[key]; c != nil && len(c.own) == 0 {
		limits = c.quota
	}
	least := 0.
	for _, l := range limits {
		if rate := rater([]Limit{l}, 1); !ok || rate < least {
			q, least, ok = throttle.Quota{Limit: l.Quota, Window: l.Per, Remaining: -1, Cost: -1}, rate, true
		}
	}
	return q, ok
}
