package store

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// SlotsConfig says what Slots share.
type SlotsConfig struct {
	// Name is the vendor's, the same in all processes. Required.
	Name string

	// Per says whose calls share the slots, as in governor.Limit.
	Per throttle.Level

	// Max is how many calls may run at once in all processes: 1 up to 1<<20. The
	// smallest that a process says counts.
	Max int
}

// Slots bound how many calls run at once in all processes that share them. They are
// a limiter.Releaser for a governor's Limits: a permit is held while a call runs.
//
// Slots belong to processes, which use the same ones again and again without asking
// the store. One that dies leaves its slots to the others after the store's TTL; one
// that does not reach the store starts nothing more when nine tenths of the TTL are
// over, unless Outage is Open: then each process has up to Max calls run at once. A
// call that then still runs may overlap with one that another process has started: as
// many as this one had, until they end: no context ends with a slot. A call that must
// not should have a timeout of a tenth of the TTL, and another Outage.
//
// All processes that want some have the same part of them. A process in which nothing runs
// stands in line with others of which that is true, when a call has waited for an Interval of
// the Syncer: the first is kept what its call takes, whatever the parts, and has a turn then,
// of an Interval. So every call begins that takes no more than there are, when enough of
// those have ended that run; but where others run in its own process all the time, as
// streams do, it may not begin if it does not fit beside them into the process's part.
//
// Slots have one owner, as every limiter. Those of one Name and level in a process are
// the same slots, each under its own owner's lock, and so a limiter.Claimer; the smallest
// Max of them counts. What a call of one waits for, for an Interval, the others leave.
type Slots struct {
	*slotting
	owner
	max int64 // this owner's; guarded by Syncer.mu
}

// slotting is what the Slots of one Name and level in this process have together.
// Syncer.mu guards what may change.
type slotting struct {
	s    *Syncer
	id   string // in Syncer.slots
	name string
	per  throttle.Level
	all  []*Slots
	most int64 // their smallest max
	keys map[string]*cell
	owners
}

var (
	_ limiter.Releaser = (*Slots)(nil)
	_ limiter.Claimer  = (*Slots)(nil)
)

// Slots returns Slots, to be closed when they are needed no more and the Syncer goes on.
// The error names the field that is wrong.
func (s *Syncer) Slots(cfg SlotsConfig) (*Slots, error) {
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("store: SlotsConfig.Name is empty, want a name")
	case cfg.Per > throttle.Bucket:
		return nil, fmt.Errorf("store: SlotsConfig.Per is %v, want Host, Selector, Tenant or Bucket", cfg.Per)
	case cfg.Max < 1 || cfg.Max > 1<<20:
		return nil, fmt.Errorf("store: SlotsConfig.Max is %d, want 1 up to %d", cfg.Max, 1<<20)
	}
	id := cfg.Per.String() + ":" + cfg.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[id] == nil {
		s.slots[id] = &slotting{s: s, id: id, name: cfg.Name, per: cfg.Per, keys: make(map[string]*cell)}
	}
	l := &Slots{slotting: s.slots[id], max: int64(cfg.Max)}
	l.refs++
	l.all = append(l.all, l)
	l.limit()
	return l, nil
}

// Close says that the Slots are not used any more, but to Release what is in use still:
// OnChange's function is not called again, but for a call that is under way, and Max
// counts no more. It must be called once.
func (l *Slots) Close() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o *Slots) bool { return o == l })
	if l.s.drop(&l.owners, &l.owner); l.refs > 0 {
		l.limit()
	} else if l.s.slots[l.id] == l.slotting {
		delete(l.s.slots, l.id) // what it holds goes back when it has been idle
	}
}

// limit has the smallest max count. The caller holds mu.
func (l *slotting) limit() {
	was := l.most
	l.most = math.MaxInt64
	for _, o := range l.all {
		l.most = min(l.most, o.max)
	}
	if l.most == was {
		return
	}
	for _, c := range l.keys {
		c.allowed = min(c.allowed, l.most) // at once, here
		l.s.plan(c, l.s.now())
	}
}

// SetMax changes how many calls may run at once in all processes, as this one says:
// a smaller number counts with its next exchange, a larger one when no other process
// says less. What is held stays held. The error says that max is out of range.
func (l *Slots) SetMax(max int) error {
	if max < 1 || max > 1<<20 {
		return fmt.Errorf("store: SetMax is %d, want 1 up to %d", max, 1<<20)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.max = int64(max)
	l.limit()
	return nil
}

// OnChange has fn called when slots have come.
func (l *Slots) OnChange(fn func()) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.hear(&l.owner, fn)
}

// Wait returns 0 when n slots of key are to be had, Never when there are not so
// many; else when to ask again at the latest.
func (l *Slots) Wait(now time.Time, key string, n int) time.Duration {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.wait(key, n)
}

// wait is Wait. The caller holds mu.
func (l *Slots) wait(key string, n int) time.Duration {
	s := l.s
	if int64(n) > l.most {
		return limiter.Never
	}
	c := l.keys[key]
	if c == nil {
		if len(l.keys) >= s.cfg.MaxKeys && !s.makeRoom(l.keys) {
			return s.cfg.Interval
		}
		c = s.cell(KeyFor(l.name, "slots", throttle.Scope{Level: l.per, Key: key}.String()))
		c.slots, c.name = l.slotting, key
		c.allowed = min(c.allowed, l.most) // of Slots before these
		l.keys[key] = c
	}
	t := s.now()
	c.asked, c.busySlots = t, true
	if room := c.allowed - c.reserved(l, t); n < 1 || c.inUse+int64(n) <= room && t < c.slotsUntil || c.openly(int64(n)) {
		return 0
	}
	return c.refuse(l, int64(n), t)
}

// Take takes n slots of key, for which Wait has just said 0.
func (l *Slots) Take(now time.Time, key string, n int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.take(key, n)
}

// Claim takes n slots of key if they are to be had, in one step.
func (l *Slots) Claim(now time.Time, key string, n int) (wait time.Duration) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if wait = l.wait(key, n); wait == 0 {
		l.take(key, n)
	}
	return wait
}

// take is Take. The caller holds mu.
func (l *Slots) take(key string, n int) {
	if c := l.keys[key]; c != nil && n > 0 {
		c.began(l, int64(n))
		if c.inUse += int64(n); (c.inUse > c.allowed || l.s.now() >= c.slotsUntil) && c.openly(0) {
			l.s.unguarded(l.name, throttle.Scope{Level: l.per, Key: key})
		}
	}
}

// openly reports whether n slots more may be used since the store does not answer, and
// Outage is Open: as many in each process as there may be in all.
func (c *cell) openly(n int64) bool {
	return c.cutOff() && c.s.cfg.Outage == Open && c.inUse+n <= c.slots.most
}

// Release gives n slots of key back.
func (l *Slots) Release(now time.Time, key string, n int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if c := l.keys[key]; c != nil && n > 0 {
		over := c.inUse > c.allowed
		if c.inUse = max(0, c.inUse-int64(n)); over {
			l.s.plan(c, l.s.now()) // others wait for it
		}
		c.givesBack()
	}
}

// Settle corrects how many slots a call holds from n to used. The call releases
// used.
func (l *Slots) Settle(now time.Time, key string, n, used int) {
	l.Release(now, key, n-min(n, used))
	l.Take(now, key, used-min(n, used))
}

// Idle reports whether no slot is in use here. What the process holds of them the
// Syncer gives back.
func (l *Slots) Idle(time.Time) bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for _, c := range l.keys {
		if c.inUse > 0 {
			return false
		}
	}
	return true
}

// Accepted does nothing.
func (l *Slots) Accepted(now, sent time.Time, key string) {}

// Refused does nothing.
func (l *Slots) Refused(now, sent time.Time, key string) {}
