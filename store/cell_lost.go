package store

import (
	"errors"
	"math/rand/v2"

	"github.com/flyball-go/flyball/event"
)

// adrift reports whether the store does not answer and calls pass nevertheless, as far
// as Outage lets them.
func (c *cell) adrift() bool { return c.cutOff() && c.s.cfg.Outage != Closed }

// cutOff reports whether the store does not answer. Who is closed does not ask it. That it is
// lost a part of it may have said, of other keys: who had an answer from it before is asked
// for himself first, for an Interval.
func (c *cell) cutOff() bool {
	s := c.s
	return !s.closed && (c.lost || s.lost && (c.missed > 0 || c.epoch == "" || s.now() >= s.allLost))
}

// hearsay reports whether it was said of other keys alone that the store is lost: from allLost
// on c goes by that, too. Who is closed asks nobody, and goes by nothing.
func (c *cell) hearsay() bool { return c.s.lost && !c.s.closed && !c.cutOff() }

// failed is what follows an exchange without an answer. The item is sent again, by
// the same number, since it may have been executed; but not what was refused, which was
// not, nor what was answered with nonsense, which a repetition is as well: what it was to
// say the next one says.
func (c *cell) failed(now int64, err error) {
	c.fresh = -1
	if isOfItem(err) || errors.Is(err, errNonsense) {
		c.unsaid(now)
	}
}

// misses is what follows an exchange without an answer, whose last try was at tried, and reports
// whether it says anything of the store as a whole. It does not if the store has answered what
// was sent after such a try, or after that of the first of c's exchanges in a row that had no
// answer: then it is there, and does not answer about c.
func (c *cell) misses(now, tried int64, err error) (whole bool, after []func()) {
	first := c.missed == 0
	if first {
		c.missed = max(1, tried)
	}
	if c.s.answered > c.missed {
		return false, c.alone(now, err)
	}
	if first && c.s.lost { // which was said of others, until now
		after = c.wake()
	}
	c.failed(now, err)
	return true, after
}

// unsaid takes back what the pending item was to say, which nobody has heard, but for a
// try whose answer was lost, or nonsense: to say it twice is on the safe side. Permits that it
// was to return are not to be used, nor returned once more; they come back with their
// window, or lease.
func (c *cell) unsaid(now int64) {
	it := c.pending
	c.pending = nil
	c.debt += it.Debt
	c.passed = c.passed || it.Probe == ProbePassed
	if c.member != nil {
		c.member.unsaid(it, c.begunAt)
	}
	c.rest(now)
}

// rest has c not exchanged for a while: for half an Interval up to one.
func (c *cell) rest(now int64) {
	c.pause = now + int64(c.s.cfg.Interval)/2 + rand.Int64N(int64(c.s.cfg.Interval)*3/8)
}

// grid is the first of times, so many in an Interval, that is not before at.
func (s *Syncer) grid(at, many int64) int64 {
	step := int64(s.cfg.Interval) / many
	return (at + step - 1) / step * step
}

// apart is alone where the store has said what of the exchange has failed: many such keys may
// go together again. Else the one that is at fault has to come apart from the others, so that
// each has a pause of its own.
func (c *cell) apart(now int64, err error) (after []func()) {
	after = c.alone(now, err)
	c.pause = c.s.grid(c.pause, 8)
	return after
}

// alone is what follows an exchange that failed for c, and need not for others: as if
// the store were lost for this key.
func (c *cell) alone(now int64, err error) (after []func()) {
	c.failed(now, err)
	c.rest(now)
	if os := c.owners(); isOfItem(err) && os != nil && (c.need > 0 || c.unsure) {
		// Else it would be asked for on and on, for who has gone. Of many keys that are refused
		// the owners are woken together.
		c.need, c.unsure = 0, false
		c.s.stirAt(os, c.pause)
	}
	if c.lost {
		return nil
	}
	c.lost = true
	c.s.tell(event.StoreLost, c.governs(), c.s.cfg.Outage.String()+" for "+c.key, err)
	return c.wake()
}
