package store

import "time"

// frozen reports whether a cooldown, or what follows it, keeps permits from being
// used. Without the store nobody hands out a probe: a governor makes its own.
func (c *cell) frozen(now int64) bool {
	switch {
	case c.probe == ProbeOver:
		return false
	case now >= c.probeEnds:
		return !c.adrift()
	case c.probe == ProbeYours:
		return c.probing || c.probeEnds-now < c.s.probePatience() // then another's would begin beside it
	}
	return true
}

// probes reports whether a call is under way that is the probe of all processes.
func (c *cell) probes() bool { return c.probing && c.probe == ProbeYours }

// probePatience is how long the store's probe may run before the others go on: as
// governor.Config.ProbePatience has it, and well before the store takes it for lost.
func (s *Syncer) probePatience() int64 {
	return int64(min(5*time.Second, s.cfg.Store.TTL()/2))
}

// returns takes how far the return after a cooldown is.
func (c *cell) returns(a *Answer, sent, now int64) {
	if a.Probe == ProbeCooling && c.probe != ProbeCooling {
		c.cools(0)
	}
	if a.Probe != c.probe && (a.Probe == ProbeOther || a.Probe == ProbeOpen) {
		if c.probe == ProbeYours && !c.probing {
			c.leaves = now + int64(c.s.cfg.Interval)/2 // others hear of it a while later
		}
		c.asksAgain()
	}
	if c.probe = a.Probe; c.probe != ProbeYours {
		c.probing = false
	}
	c.probeEnds = sent + int64(a.ProbeFor)
	if c.probe == ProbeCooling || c.probe == ProbeOther {
		c.probeEnds = now + int64(a.ProbeFor) // who waits for it counts from when he heard
	}
}

// cools notes that the host cools until then, or longer if that is known.
func (c *cell) cools(until int64) {
	if c.probe == ProbeCooling {
		until = max(until, c.probeEnds)
	}
	c.probe, c.probeEnds, c.probing = ProbeCooling, until, false
	c.asksAgain()
}

// asksAgain has who waits for permits hear for how long, and ask again: the next probe is for
// nobody who has gone meanwhile.
func (c *cell) asksAgain() {
	c.need, c.unsure = 0, false
	c.stir()
}
