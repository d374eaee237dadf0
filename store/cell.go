package store

import (
	"errors"
	"log/slog"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
)

var errAnswer = errors.New("store: an answer that is not to the request")

// isDefinite reports whether err says that nothing was executed.
func isDefinite(err error) bool {
	return errors.Is(err, ErrNotExecuted) || errors.Is(err, ErrInvalid)
}

// cell is what a Syncer knows about one key. Syncer.mu guards it.
type cell struct {
	s      *Syncer
	key    string
	share  *sharing // nil: nobody asks for permits
	member *link    // nil: nobody wants to hear of cooldowns

	due     int64 // when it is to be exchanged
	idx     int   // in Syncer.due, from 1; 0: not there
	busy    bool  // an exchange is under way
	hinted  bool  // something happened meanwhile
	told    bool  // the store knows of us
	pending *Item // sent, and perhaps executed

	// Of permits. What is taken comes from the lease that ends first.
	leases  []lease
	credit  int64 // their sum
	debt    int64 // taken beyond it
	open    int64 // taken and not settled
	stale   int64 // of those, from before the last grant
	usedEnd int64 // when the first of the leases ends that the others are of
	need    int   // somebody waits for so many; 0: nobody
	retryAt int64 // before, the store has none
	level   int64 // how many to want
	last    int64 // how many were granted last
	gotAt   int64 // when
	used    int64 // since the last item
	usedAt  int64 // that item
	rate    float64
	asked   int64 // when somebody did last
	nodes   int
	quota   []Limit // in force
	epoch   string
	seen    uint64
	own     []limiter.Counter // SafeShare's
	name    string            // the key, as the share or the slots have it

	// Of the return after a cooldown.
	probe     ProbeState
	probeEnds int64
	probing   bool // a call is under way that is the probe
	probedAt  time.Time
	passed    bool // the vendor accepted it, and the store has yet to hear

	// Of slots.
	slots      *Slots
	held       int64 // that the store knows of
	allowed    int64 // of those, that may be used
	inUse      int64
	wantSlots  int64
	busySlots  bool // one was taken since the last item
	slotsUntil int64
}

// lease is permits that may be used until end.
type lease struct {
	n, end int64
}

// drop forgets the leases that have ended.
func (c *cell) drop(now int64) {
	for len(c.leases) > 0 && c.leases[0].end <= now {
		c.credit -= c.leases[0].n
		c.level = max(1, c.level/2) // it was more than could be used
		c.leases = append(c.leases[:0], c.leases[1:]...)
	}
}

// give takes all leases, to be returned.
func (c *cell) give() (n int64) {
	n = c.credit
	c.leases, c.credit = c.leases[:0], 0
	return n
}

// take takes n permits of the leases.
func (c *cell) take(n int64) {
	c.open += n
	c.used += n
	for n > 0 && len(c.leases) > 0 {
		k := min(n, c.leases[0].n)
		c.usedEnd = min(c.usedEnd, c.leases[0].end)
		n -= k
		c.credit -= k
		if c.leases[0].n -= k; c.leases[0].n > 0 {
			break
		}
		c.leases = append(c.leases[:0], c.leases[1:]...)
	}
	c.debt += n
}

// horizon is for how long ahead permits are fetched.
func (c *cell) horizon() time.Duration {
	if h := c.s.cfg.Horizon; h > 0 || len(c.quota) == 0 {
		return h
	}
	h := 5 * time.Second
	for _, l := range c.quota {
		h = min(h, max(l.Per/12, 50*time.Millisecond))
		switch l.Kind { // what a lease does not live for is lost
		case Sliding:
			h = min(h, l.Step()/2)
		case Bucket:
			h = min(h, l.Fill().Lease)
		}
	}
	return h
}

// ahead is how many permits will be used within the horizon. Less than two are not
// worth fetching: they would be stranded.
func (c *cell) ahead() int64 {
	if n := int64(c.rate * c.horizon().Seconds()); n >= 2 {
		return n
	}
	return 0
}

// most is how many permits there can be at once.
func (c *cell) most() (n int64) {
	n = 1e9
	for _, l := range c.quota {
		if n = min(n, l.Quota); l.Kind == Bucket {
			n = min(n, l.Fill().Burst)
		}
	}
	return n
}

// leastPause is between two requests of which the first was of no use.
const leastPause = int64(100 * time.Microsecond)

// needed forgets a need that its owner has not come back for.
func (c *cell) needed(now int64) {
	if c.need > 0 && c.asked < c.gotAt && now-c.gotAt > int64(10*time.Millisecond) || len(c.quota) == 0 && !c.frozen(now) {
		c.need = 0
	}
}

// item is what to send now: what was sent and not answered, or what there is to say.
func (c *cell) item(now int64) *Item {
	c.hinted = false
	if c.pending != nil {
		return c.pending
	}
	c.drop(now)
	c.s.seq++
	it := &Item{Key: c.key, Seq: c.s.seq, Epoch: c.epoch, Seen: c.seen, Debt: min(c.debt, 1e9)}
	c.debt -= it.Debt
	c.pending, c.told = it, true
	if past := now - c.usedAt; past > 0 {
		if r := float64(c.used) / (float64(max(past, int64(time.Millisecond))) / 1e9); c.usedAt > 0 {
			c.rate = (c.rate + r) / 2
		}
	}
	if c.share != nil {
		it.Limits, it.Version = c.share.limits, c.share.version
		c.wish(it, now)
	}
	if c.member != nil {
		c.member.say(it, now)
	}
	if c.slots != nil {
		it.Slots, it.Held, it.WantSlots = c.slots.max, c.inUse, c.wantSlots
		if c.busySlots { // what is not in use now will be soon
			it.Held = max(c.inUse, min(c.allowed, c.held))
		}
		c.busySlots = false
		c.allowed = min(c.allowed, it.Held)
	}
	c.used, c.usedAt = 0, now
	return it
}

// wish fills in how many permits are wanted, or given back.
func (c *cell) wish(it *Item, now int64) {
	c.needed(now)
	frozen := c.frozen(now)
	switch {
	case c.passed:
		it.Probe, c.passed = ProbePassed, false
	case c.need > 0 && (c.probe == ProbeOpen || c.probe == ProbeCooling && c.probeEnds <= now):
		it.Probe = ProbeWanted
	}
	switch {
	case frozen && it.Probe == ProbeNothing, c.need == 0 && c.used == 0:
		it.Returned = c.give() // nobody uses them
		c.level = max(1, c.level/2)
	case it.Probe == ProbeWanted:
		it.Want, it.Least = int64(c.need), int64(c.need)
	case int64(c.need) > c.credit:
		if it.Least = int64(c.need) - c.credit; c.last > 0 && now-c.gotAt <= int64(c.horizon()) {
			c.level = 2 * max(c.level, c.last) // what came last was used up soon
		} else {
			c.level = max(1, c.level/2)
		}
		it.Want = max(it.Least, c.level, c.ahead()-c.credit)
	default:
		it.Want = max(0, c.ahead()-c.credit)
	}
	most := c.most()
	c.level = min(c.level, most)
	it.Want = max(it.Least, min(it.Want, most))
}

// frozen reports whether a cooldown, or what follows it, keeps permits from being
// used.
func (c *cell) frozen(now int64) bool {
	switch c.probe {
	case ProbeOver:
		return false
	case ProbeYours:
		return c.probing || now >= c.probeEnds
	}
	return true
}

// failed is what follows an exchange without an answer. The item is sent again, by
// the same number, since it may have been executed; but not what is invalid.
func (c *cell) failed(now int64, err error) (after []func()) {
	if errors.Is(err, ErrInvalid) {
		c.pending = nil
	}
	return nil
}

// answered takes an answer to it.
func (c *cell) answered(it *Item, a *Answer, sent, now int64) (after []func()) {
	c.pending = nil
	if a.Stale || !a.sane(it) {
		return nil
	}
	if c.epoch != "" && a.Epoch != c.epoch {
		after = append(after, c.s.forgot(a.Epoch)...)
		if c.member != nil {
			c.member.resend = true
			c.hinted = true
		}
	}
	c.epoch, c.seen, c.nodes = a.Epoch, a.Gen, a.Nodes
	if c.share != nil {
		c.quota = c.share.limits
		if a.Limits != nil {
			c.quota = a.Limits
		}
	}
	was := c.frozen(now)
	if c.probe = a.Probe; c.probe != ProbeYours {
		c.probing = false
	}
	c.probeEnds = sent + int64(a.ProbeFor)
	if c.probe == ProbeCooling || c.probe == ProbeOther {
		c.probeEnds = now + int64(a.ProbeFor) // who waits for it counts from when he heard
	}
	if end := sent + int64(a.ValidFor); a.Granted > 0 && end > now {
		c.stale, c.usedEnd = c.open, never
		c.grant(lease{a.Granted, end})
		c.last, c.gotAt = a.Granted, now
	} else if it.Want > 0 {
		c.last = 0
	}
	c.retryAt = 0
	if a.RetryAfter > 0 || a.Granted == 0 && it.Want > 0 {
		c.retryAt = now + max(int64(a.RetryAfter), leastPause)
	}
	if c.slots != nil {
		c.held, c.allowed = max(a.Held, min(it.Held, c.inUse)), a.Held
		c.slotsUntil = sent + int64(a.SlotsFor-a.SlotsFor/10)
		if c.wantSlots = max(0, c.wantSlots-(a.Held-it.Held)); c.wantSlots > 0 && c.allowed > c.inUse {
			c.wantSlots = 0
		}
	}
	if c.member != nil {
		after = append(after, c.member.hear(a, sent, now)...)
	}
	if a.Granted > 0 || was != c.frozen(now) {
		after = append(after, c.share.wake()...)
	}
	if c.slots != nil && c.slots.changed != nil && c.allowed > c.inUse {
		after = append(after, c.slots.changed)
	}
	return after
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
		ok = ok && c.Left >= 0 && c.Left <= most && len(c.Scope) <= 256
	}
	return ok
}

// grant adds a lease. There are few at a time: one that would be the ninth ends as
// early as the last.
func (c *cell) grant(l lease) {
	c.credit += l.n
	i := len(c.leases)
	for ; i > 0 && c.leases[i-1].end > l.end; i-- {
	}
	if len(c.leases) == 8 {
		i = min(i, 7)
		c.leases[i].n += l.n
		c.leases[i].end = min(c.leases[i].end, l.end)
		return
	}
	c.leases = append(c.leases, lease{})
	copy(c.leases[i+1:], c.leases[i:])
	c.leases[i] = l
}

// next is when c is to be exchanged next; never when there is no need to.
func (c *cell) next(now int64) int64 {
	beat := now + int64(c.s.cfg.Interval)
	c.needed(now)
	switch {
	case c.hinted || c.passed || c.member != nil && c.member.toSay():
		return now
	case c.pending != nil:
		return now // Syncer.retry puts it off
	case c.probe == ProbeYours && c.need > 0 && !c.probing && c.credit == 0 && now < c.probeEnds:
		return min(beat, max(now, c.retryAt))
	case c.frozen(now):
		if c.need > 0 {
			if c.probe == ProbeOpen {
				return max(now, c.retryAt)
			}
			beat = min(beat, max(now, c.probeEnds))
		}
		return beat
	case int64(c.need) > c.credit:
		return min(beat, max(now, c.retryAt))
	case c.slots != nil && (c.inUse > 0 || c.held > 0 || c.wantSlots > 0), c.member != nil:
		return beat
	case c.credit > 0 || c.debt > 0 || now-c.asked < int64(5*time.Second) || c.open > 0 && now-c.asked < int64(15*time.Minute):
		return beat
	}
	c.s.forget(c)
	return never
}

// rater is how fast limits let permits through, for each of nodes.
func rater(limits []Limit, nodes int) (rate float64) {
	for _, l := range limits {
		if r := float64(l.Quota) / l.Per.Seconds() / float64(max(1, nodes)); rate == 0 || r < rate {
			rate = r
		}
	}
	return rate
}

// forgot reports once that the store has lost its state.
func (s *Syncer) forgot(epoch string) (after []func()) {
	if s.epoch == epoch {
		return nil
	}
	s.epoch = epoch
	return []func(){func() { s.tell(slog.LevelWarn, event.StoreLost, "what was granted counts as taken", errForgot) }}
}

var errForgot = errors.New("store: its state was lost")
