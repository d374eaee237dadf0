package store

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// cell is what a Syncer knows about one key. Syncer.mu guards it.
type cell struct {
	s      *Syncer
	key    string
	share  *sharing // nil: nobody asks for permits
	member *link    // nil: nobody wants to hear of cooldowns

	due      int64  // when it is to be exchanged
	idx      int    // in Syncer.due, from 1; 0: not there
	busy     bool   // an exchange is under way
	hinted   bool   // something happened meanwhile
	hintedTo uint64 // up to this Gen, since the pending item was sent
	hostTo   uint64 // and by that of the host's cooldown
	told     bool   // the store knows of us
	met      bool   // and has said what it knows of; for a governor that has joined, since then
	pending  *Item  // sent, and perhaps executed
	begun    int64  // when it was sent first
	begunAt  int64  // the same, by steady
	lost     bool   // the store answers, but not about this key
	missed   int64  // since the last answer: the last try, by steady, of the first exchange that had none; 0: each had
	pause    int64  // then, it is not asked before
	paced    int64  // see soon
	took     int64  // the last exchange
	fresh    int64  // when the last item was sent first whose answer was taken; -1: too long ago

	// Of permits. What is taken comes from the lease that ends first.
	leases   []lease
	credit   int64     // their sum
	debt     int64     // taken beyond it
	open     int64     // taken and not settled
	stale    int64     // at most so many of those are of no lease, or from before the last grant or the probe
	since    time.Time // when it was made
	unsureAt time.Time // the others were taken after this, and are of leases
	usedEnd  int64     // when the first of these ends
	need     int       // somebody waits for so many; 0: nobody
	neededAt int64     // when somebody said so last; others may have asked for less since
	retryAt  int64     // before, the store has none
	lacks    int64     // so many at once, that is; 0: of any number
	lacksTo  int64     // before, as many as lacks are not asked for, while it is for fewer
	last     int64     // how many were granted last
	gotAt    int64     // when
	low      int64     // with so few left, more are fetched
	spoilt   int       // grants in a row that had ended when they came
	pace     pace
	asked    int64 // when somebody did last
	nodes    int
	quota    []Limit // in force
	behind   bool    // the store has yet to hear of those that the share has
	epoch    string
	seen     uint64            // by answers
	heard    uint64            // by answers and hints
	own      []limiter.Counter // SafeShare's
	name     string            // the key, as the share or the slots have it
	waits    bool              // one of several owners was told to, since they were woken
	unsure   bool              // one was told to until he is woken, and was not since

	// Of the return after a cooldown.
	probe     ProbeState
	probeEnds int64
	probing   bool // a call is under way that is the probe
	probedAt  time.Time
	patience  int64 // then it has run for long enough, whatever comes of it
	passed    bool  // the vendor accepted it, and the store has yet to hear
	leaves    int64 // before, it is for others: this process has had it, and could not begin it

	// Of slots.
	slots      *slotting
	held       int64 // that the store knows of
	allowed    int64 // of those, that may be used
	inUse      int64
	wantSlots  int64
	toldWant   int64 // of that, the store was told
	toldLeast  int64 // and of the call that waits, that it needs so many beside what runs
	busySlots  bool  // one was taken since the last item
	slotsUntil int64
	claims     []claim // on them, by who has waited for longest
	beganAt    int64   // a call, last
	turn       int64   // until then this process has its turn
	toldLine   LineWord
}

// most is how many permits there can be at once, as far as is known.
func (c *cell) most() int64 {
	if c.behind {
		return max(mostOf(c.quota), mostOf(c.share.limits))
	}
	return mostOf(c.quota)
}

func mostOf(limits []Limit) (n int64) {
	n = 1e9
	for _, l := range limits {
		if n = min(n, l.Quota); l.Kind == Bucket {
			n = min(n, l.Fill().Burst)
		}
	}
	return n
}

// idle is for how long nobody has asked for what is forgotten.
const idle = int64(5 * time.Second)

// leastPause is between two requests of which the first was of no use.
const leastPause = int64(100 * time.Microsecond)

// needed forgets a need that its owner has not come back for, or that there are never so
// many for: he is told so when he asks again.
func (c *cell) needed(now int64) {
	if int64(c.need) > c.most() {
		c.need = 0
	}
	if c.need > 0 && c.neededAt < c.gotAt && now-c.gotAt > int64(10*time.Millisecond) || len(c.quota) == 0 && !c.frozen(now) {
		c.need = 0
	}
}

// next is when c is to be exchanged next; never when there is no need to.
func (c *cell) next(now int64) int64 {
	beat := now + int64(c.s.cfg.Interval)
	if c.slots == nil && !c.frozen(now) && c.upToDate(now) {
		beat = c.s.heardTo + int64(c.s.cfg.Interval) // if nothing is heard until then
	}
	c.needed(now)
	if _, early := c.spare(now); early > now {
		beat = min(beat, early)
	}
	if c.slots != nil {
		beat = min(beat, c.nextInLine(now))
	}
	if c.news() {
		beat = min(beat, c.soon(now))
	}
	switch {
	case c.orphaned(now):
		c.s.forget(c)
		return never
	case c.passed, c.hinted && c.member == nil:
		return now
	case c.pending != nil || !c.knows() && (c.member == nil || c.member.meets == 0):
		return now // Syncer.retry puts it off
	case c.slots != nil && c.slotsToSay():
		return now // it came while an exchange was under way
	case c.probe == ProbeYours && c.need > 0 && c.credit == 0 && now < c.probeEnds && !c.frozen(now):
		return min(beat, max(now, c.retryAt))
	case c.frozen(now) && !c.left(now):
		if c.probes() {
			beat = min(beat, max(now, c.patience))
		}
		if c.probe == ProbeOther && c.share != nil { // its callers say whether they still wait when it is over
			beat = min(beat, max(now, c.probeEnds))
		}
		if c.need > 0 {
			if c.probe == ProbeOpen {
				return min(beat, max(now, c.retryAt, c.leaves))
			}
			beat = min(beat, max(now, c.probeEnds))
		}
		return beat
	case int64(c.need) > c.credit:
		return min(beat, max(now, c.retryAt))
	case c.left(now): // what the store still keeps of a cooldown it says again
	case c.slots != nil && (c.inUse > 0 || c.held > 0 || c.wantSlots > 0), c.member != nil:
		return beat
	case c.credit > 0 || c.debt > 0 || now-c.asked < idle || c.open > 0 && now-c.asked < int64(15*time.Minute):
		return beat
	}
	c.s.forget(c)
	return never
}

// knows reports whether it is known here, or cannot be, what cools: for a governor that has
// just joined, and where nothing but that keeps calls back.
func (c *cell) knows() bool {
	return c.met || c.cutOff() || c.s.closed || c.member == nil && (c.share == nil || len(c.quota) > 0)
}

// news reports whether there is something to tell about cooldowns, or to hear.
func (c *cell) news() bool { return c.hinted || c.member != nil && c.member.toSay() }

// wordsAtOnce is how many exchanges there are at once for words about cooldowns, to tell or to
// hear. In a burst, where each of many calls is refused, words go together then, some 250
// times in an Interval, or less often where an exchange takes long.
const wordsAtOnce = 8

// soon is when they go: a bucket of exchanges, as of limiter.Bucket. Those that there are for
// permits take them along. Of slots what there is to tell and to hear always goes at once:
// calls wait for it.
func (c *cell) soon(now int64) int64 {
	if c.member == nil || c.slots != nil {
		return now
	}
	return max(now, c.paced-wordsAtOnce*c.step())
}

// step is how long it is from one of these exchanges to the next.
func (c *cell) step() int64 {
	interval := int64(c.s.cfg.Interval)
	return min(interval/50, max(interval/250, 4*c.took))
}

// left reports whether nobody has come for so long that what runs, and the return after
// a cooldown, are nobody's here.
func (c *cell) left(now int64) bool {
	return c.member == nil && c.slots == nil && c.need == 0 && !c.unsure && c.credit == 0 && c.debt == 0 &&
		now-c.asked >= int64(15*time.Minute) && (c.probe == ProbeOver || now >= c.probeEnds)
}

// orphaned reports whether nobody is left who uses c, though its last item was not answered, as
// none is as long as the store is away, and there is nothing to say that would matter: what
// comes for the key later has a larger Seq. After its TTL the store has forgotten what this
// process holds, so that it cannot give it back any more.
func (c *cell) orphaned(now int64) bool {
	it := c.pending
	if it == nil || it.Probe == ProbePassed || c.passed || it.Debt > 0 || c.debt > 0 || now < c.probeEnds {
		return false
	}
	if l := c.member; l != nil && (len(l.gov) > 0 || len(l.clear) > 0 || len(it.Clear) > 0 || l.cooling()) {
		return false
	}
	held := c.ago() <= c.s.cfg.Store.TTL()
	if c.slots != nil {
		return c.slots.refs == 0 && c.inUse == 0 && !held
	}
	if c.share == nil {
		return true
	}
	gives := it.Returned > 0 || it.Want > 0 // which may have been granted
	return c.share.refs == 0 && c.credit == 0 && now-c.asked >= idle && !c.partless() && !(gives && held) &&
		(c.open == 0 || now-c.asked >= int64(15*time.Minute))
}

// partless reports whether c knows why this process has no part of SafeShare, which a cell that
// is new would not.
func (c *cell) partless() bool {
	s := c.s
	return s.cfg.Outage == SafeShare && (c.nodes > s.cfg.Nodes || len(c.own) < len(c.share.own))
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
