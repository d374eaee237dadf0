package pool

import (
	"slices"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/flyball-go/flyball/event"
)

// conn is a connection and what is known about it. An idle one belongs to the
// pool and is touched under Pool.mu only. Any other belongs to one reservation,
// task or teardown; it changes hands under Pool.mu.
type conn[S comparable, C any] struct {
	value C
	entry *entry[S, C]
	res   *puddle.Resource[*conn[S, C]]

	opened time.Time
	idleAt time.Time // when it was last opened, checked or given back; zero if Pool.timed is false
	last   uint64    // Pool.uses at that time, which orders the idle lists
	uses   int
	gen    int // of the entry's failures when it was opened

	older, newer *conn[S, C] // in Pool.lru

	// Set when it is to be closed.
	why    error
	reason reason
	gone   chan struct{} // closed when it is; nil: nobody waits, and its place becomes free
}

// reason says which event tells of the closing of a connection, if any.
type reason uint8

const (
	ended     reason = iota // the pool is closed, or was when it was given back
	discarded               // bad, old or worn
	stolen                  // to make room
)

func (r reason) kind() event.Kind {
	switch r {
	case discarded:
		return event.PoolDiscarded
	case stolen:
		return event.PoolStolen
	}
	return event.None
}

// unfit returns why c may not be lent at now, nil if it may.
func (p *Pool[S, C]) unfit(c *conn[S, C], now time.Time) error {
	switch {
	case p.cfg.MaxUses > 0 && c.uses >= p.cfg.MaxUses:
		return errUses
	case p.cfg.MaxAge > 0 && now.Sub(c.opened) >= p.cfg.MaxAge:
		return errAge
	case p.cfg.IdleTimeout > 0 && now.Sub(c.idleAt) >= p.cfg.IdleTimeout:
		return errIdle
	}
	return nil
}

// expiry returns when an idle c becomes unfit, zero for never.
func (p *Pool[S, C]) expiry(c *conn[S, C]) (at time.Time) {
	if p.cfg.MaxAge > 0 {
		at = c.opened.Add(p.cfg.MaxAge)
	}
	if p.cfg.IdleTimeout > 0 {
		at = sooner(at, c.idleAt.Add(p.cfg.IdleTimeout))
	}
	return at
}

func (p *Pool[S, C]) dueForCheck(c *conn[S, C], now time.Time) bool {
	return p.cfg.Check != nil && (p.cfg.CheckAfter == 0 || now.Sub(c.idleAt) >= p.cfg.CheckAfter)
}

// touchLocked makes c the most recently used connection.
func (p *Pool[S, C]) touchLocked(c *conn[S, C], now time.Time) {
	p.uses++
	c.last = p.uses
	c.idleAt = now
}

// idleLocked makes c idle, at the place in both lists that its last use gives
// it: at the end, unless it comes back unused.
func (p *Pool[S, C]) idleLocked(c *conn[S, C]) {
	p.lru.add(c)
	e := c.entry
	i := len(e.idle)
	for i > 0 && e.idle[i-1].last > c.last {
		i--
	}
	e.idle = slices.Insert(e.idle, i, c)
	if at := p.expiry(c); !at.IsZero() {
		p.armLocked(at)
	}
}

// takeLocked removes c from the idle lists. In its entry's it is nearly always
// the last, or the first.
func (p *Pool[S, C]) takeLocked(c *conn[S, C]) {
	p.lru.remove(c)
	e := c.entry
	if last := len(e.idle) - 1; e.idle[last] == c {
		e.idle[last] = nil
		e.idle = e.idle[:last]
		return
	}
	i := slices.Index(e.idle, c)
	e.idle = slices.Delete(e.idle, i, i+1)
}

// lru is a list of idle connections ordered by last.
type lru[S comparable, C any] struct {
	oldest, newest *conn[S, C]
	len            int
}

func (l *lru[S, C]) add(c *conn[S, C]) {
	before := l.newest
	for before != nil && before.last > c.last {
		before = before.older
	}
	c.older = before
	if before != nil {
		c.newer, before.newer = before.newer, c
	} else {
		c.newer, l.oldest = l.oldest, c
	}
	if c.newer != nil {
		c.newer.older = c
	} else {
		l.newest = c
	}
	l.len++
}

func (l *lru[S, C]) remove(c *conn[S, C]) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		l.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		l.newest = c.older
	}
	c.older, c.newer = nil, nil
	l.len--
}

// sooner returns the earlier of two times of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
