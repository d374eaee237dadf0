package store

import (
	"encoding/binary"
	"math"
	"strings"
)

// stateFormat is the first byte of a State. Another is of a version of this package
// that cannot be mixed with this one.
const stateFormat = 1

// maxStateNodes bounds what a State is read of.
const maxStateNodes = 1 << 16

// coder writes or reads a State, by the same functions, so that both go through the
// same fields in the same order. What is out of range is bad in either direction.
type coder struct {
	b     []byte // what was written
	in    string // what is read, and is used for what names there are
	at    int    // what of it was read
	reads bool
	bad   bool
	now   int64 // times are written by their distance from it
	step  int64 // of this time steps are the last
}

// uint writes v, or returns what is read.
func (c *coder) uint(v uint64) uint64 {
	if c.reads {
		return c.read()
	}
	c.b = binary.AppendUvarint(c.b, v)
	return v
}

func (c *coder) read() uint64 {
	if c.at < len(c.in) && c.in[c.at] < 0x80 { // as most are
		c.at++
		return uint64(c.in[c.at-1])
	}
	return c.readLong()
}

func (c *coder) readLong() (v uint64) {
	for shift := 0; c.at < len(c.in) && shift < 64; shift += 7 {
		d := c.in[c.at]
		c.at++
		if v |= uint64(d&0x7f) << shift; d < 0x80 {
			if shift == 63 && d > 1 || shift > 0 && d == 0 {
				break // too large, or not as it is written
			}
			return v
		}
	}
	c.fail()
	return 0
}

// fail says that what is read is garbage, and that there is no more.
func (c *coder) fail() { c.bad, c.at = true, len(c.in) }

// num is a number from 0 to most.
func num[T ~int64 | ~uint64 | ~uint8 | ~int](c *coder, v *T, most uint64) {
	if *v < 0 {
		c.bad = true
	}
	u := c.uint(uint64(*v))
	if u > most {
		c.bad, u = true, 0
	}
	*v = T(u)
}

func (c *coder) flag(v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	n = c.uint(n)
	c.bad = c.bad || n > 1
	*v = n == 1
}

// signed is any number; small ones are short, whatever their sign.
func (c *coder) signed(v *int64) {
	u := c.uint(uint64(*v<<1 ^ *v>>63))
	*v = int64(u>>1) ^ -int64(u&1)
}

// time is 0, or a time not too far from now.
func (c *coder) time(v *int64) {
	known := *v != 0
	if c.flag(&known); !known {
		return
	}
	d := *v - c.now
	if c.signed(&d); d > 1<<62 || d < -1<<62 {
		c.bad, d = true, 0
	}
	if *v = c.now + d; c.reads && *v == 0 {
		c.bad = true
	}
}

func text[T ~string](c *coder, s *T, most int) {
	n := c.count(len(*s), most)
	if !c.reads {
		c.b = append(c.b, *s...)
		return
	}
	if n > len(c.in)-c.at {
		c.fail()
		return
	}
	*s = T(c.in[c.at : c.at+n])
	c.at += n
}

// scope is that of a cooldown, which is kept when the rest is long gone.
func scope(c *coder, s *string) {
	if text(c, s, maxScope); c.reads {
		*s = strings.Clone(*s)
	}
}

func (c *coder) count(n, most int) int {
	num(c, &n, uint64(most))
	if c.reads && n > len(c.in)-c.at { // each is a byte at least
		c.bad, n = true, 0
	}
	return n
}

func list[T any](c *coder, s *[]T, most int, each func(*T)) {
	n := c.count(len(*s), most)
	if c.reads {
		*s = nil
		if n > 0 {
			*s = make([]T, n)
		}
	}
	for i := range *s {
		each(&(*s)[i])
	}
}

// huge is more than any count that has a sense, and far from an overflow.
const huge = 1 << 60

func (r *resource) code(c *coder) {
	// drained is 1, and 2 says that there is lent.
	word := 0
	if r.drained {
		word = 1
	}
	if r.lent != 0 {
		word += 2
	}
	num(c, &word, 3)
	if r.drained = word&1 == 1; word >= 2 {
		c.time(&r.lent)
		c.bad = c.bad || r.lent == 0 || r.lent-c.now > 3*int64(MaxCool) // more than any Per, Lease and Transit
	}
	c.step = max(c.now, r.lent-1)
	c.flag(&r.probing)
	text(c, &r.prober, 32)
	c.time(&r.probeEnds)
	c.time(&r.slotsFrom)
	num(c, &r.version, math.MaxUint64)
	num(c, &r.gen, huge)
	num(c, &r.round, huge)
	list(c, &r.asked, 8, func(l *Limit) { l.code(c) })
	list(c, &r.limits, 8, func(p **counted) {
		if *p == nil {
			*p = &counted{}
		}
		(*p).code(c)
	})
	if len(r.asked) != len(r.limits) {
		c.bad = true
	}
	list(c, &r.cools, MaxScopes, func(k *cooled) {
		scope(c, &k.scope)
		c.time(&k.until)
		if num(c, &k.gen, huge); k.gen > r.gen {
			c.bad = true
		}
	})
}

func (l *Limit) code(c *coder) {
	num(c, &l.Kind, uint64(kinds)-1)
	num(c, &l.Quota, 1e9)
	num(c, &l.Per, huge)
	num(c, &l.Burst, 1e9)
	num(c, &l.Lease, huge)
	c.signed((*int64)(&l.Transit))
	if c.reads && l.Check() != nil {
		c.bad, *l = true, Limit{Quota: 1, Per: MaxCool}
	}
}

func (c *counted) code(w *coder) {
	c.limit.code(w)
	if w.time(&c.at); c.at != 0 {
		c.next.code(w)
	}
	if c.limit.Transit < 0 || c.next.Transit < 0 {
		w.bad = true // it is not filled
	}
	w.time(&c.full)
	// What was executed last has brought it up to now, or to what is lent.
	c.step = w.step / max(1, int64(c.limit.Step()))
	for i := range c.used {
		if c.limit.Kind == Sliding || c.limit.Kind == Window && i == 0 {
			num(w, &c.used[i], huge)
		}
	}
}

// moreSlots is more slots than there can be.
const moreSlots = 1 << 21

func (n *member) code(c *coder) {
	c.time(&n.expires)
	num(c, &n.seq, math.MaxUint64)
	c.time(&n.at)
	for _, v := range []*int64{&n.want, &n.got, &n.open} {
		num(c, v, huge)
	}
	// Who waits for a call's slots, which is seldom, has more than slots.
	waits := n.leastSlots > 0 || n.line > 0 || n.turn
	if waits {
		n.slots += moreSlots
	}
	num(c, &n.slots, huge)
	if waits = n.slots >= moreSlots; waits {
		n.slots -= moreSlots
	}
	num(c, &n.held, huge)
	num(c, &n.wantSlots, huge)
	if waits {
		num(c, &n.leastSlots, 1<<21)
		num(c, &n.line, huge)
		c.flag(&n.turn)
		c.bad = c.bad || n.leastSlots == 0 && n.line == 0 && !n.turn // nobody does: not as it is written
	}
	c.time(&n.granted)
	c.time(&n.promise)
	a := &n.answer
	num(c, &a.Granted, 1e9)
	num(c, &a.ValidFor, 1<<62)
	num(c, &a.RetryAfter, 1<<62)
	num(c, &a.Version, math.MaxUint64)
	num(c, &a.Gen, huge)
	num(c, &a.Probe, uint64(ProbeOther))
	num(c, &a.ProbeFor, 1<<62)
	num(c, &a.Held, 1<<20)
	num(c, &a.SlotsFor, 1<<62)
	num(c, &a.Nodes, maxStateNodes)
	list(c, &a.Limits, 8, func(l *Limit) { l.code(c) })
	list(c, &a.Cooldowns, MaxScopes, func(k *Cooldown) {
		scope(c, &k.Scope)
		num(c, &k.Left, uint64(MaxCool))
		num(c, &k.Gen, huge)
	})
}
