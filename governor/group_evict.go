package governor

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// inGroup is what a governor has that a Group made.
type inGroup struct {
	of      any         // *membership
	evicted atomic.Bool // set under door.mu, with door.closed
	kept    []inherited // at the eviction, by limit; nil: nothing. Set before evicted is
}

// inherited is what the next governor of a host gets for the limiter of a seat: of an
// Adaptive all that it knows, and of another learner, or where the next is configured
// otherwise, what it exports.
type inherited struct {
	at   seat
	all  *limiter.Snapshot // nil: of another learner
	rate limiter.Learned
	told []throttle.Quota // what of the vendor's word is not over
}

// remainer is a learner that keeps what the vendor said is left, as a limiter.Adaptive
// does.
type remainer interface {
	limiter.Learner
	Remaining(now time.Time) []throttle.Quota
}

// filler is a learner that knows whether what was taken still counts, which cannot be
// handed over.
type filler interface {
	Full(now time.Time) bool
}

func (c *core) evicted() bool { return c.group != nil && c.group.evicted.Load() }

// retire closes the governor when that loses nothing, and reports whether it did:
// nothing waits or runs, no scope is on its way back from a cooldown, the breaker is
// willing, and the limits have nothing to remember but what is kept.
func (c *core) retire() (ok bool) {
	if c.gate.word.v.Load()&^(wantBit|usedMask) != 0 || c.taken() > 0 {
		return false // without the actor: most that are tried in vain fail here
	}
	c.ask(func() { ok = c.retireNow() })
	if ok {
		c.begin(closing)
	}
	return ok
}

// retireNow is retire in the actor.
func (c *core) retireNow() bool {
	now := c.now()
	if c.stage != open || c.evicted() || c.paused || c.queue.Len()+c.backoffs > 0 {
		return false
	}
	running := c.attempts.len()
	if c.reclaim(); running > 0 || c.breaker != nil && c.breaker.Ready(c.gate.time(now)) != nil {
		return false
	}
	kept, blank := c.gate.blank(now)
	if !blank {
		return false
	}
	c.group.kept = kept
	return c.retireDoor()
}

// busy reports whether something runs, or waits.
func (c *core) busy() bool {
	return c.gate.word.v.Load()&(waitsBit|queueMax<<usedBits) != 0 || c.taken() > 0
}

// begun returns a number that has changed when calls were made.
func (c *core) begun() uint64 {
	_, inline := c.cells.sum()
	return inline + c.count.started.Load()
}

// retireDoor closes the door unless somebody is at it. What closes it is seen by all
// that comes later: Submit finds it closed, Learn asks for evicted under its mutex.
func (c *core) retireDoor() bool {
	d := &c.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.waiting > 0 || d.head != nil || !d.blocked.empty() || !c.gate.word.retire() {
		return false
	}
	d.closed = true
	c.group.evicted.Store(true)
	return true
}

// wasEvicted reports whether the governor was evicted before this call, which no
// other look at evicted can say while the eviction is under way.
func (c *core) wasEvicted() bool {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()
	return c.evicted()
}

// blank reports whether the limits remember nothing, but for what learning ones
// export, and whether all permits are back. That no scope is held, word.retire sees.
func (g *gate) blank(now int64) (kept []inherited, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.time(now)
	knows, shared := false, make(map[*limiter.Adaptive]*limiter.Snapshot) // by keys of a ByKey
	for at, l := range singles(g.limits) {
		switch l := l.(type) {
		case learner:
			if f, ok := l.(filler); ok && !f.Full(t) {
				return nil, false
			}
			h := inherited{at: at, rate: l.Export(t)}
			if r, ok := l.(remainer); ok {
				h.told = r.Remaining(t)
			}
			if a, ok := l.(*limiter.Adaptive); ok {
				if h.all = shared[a]; h.all == nil {
					h.all = a.Snapshot(t)
					shared[a] = h.all
				}
			}
			knows = knows || h.rate.Rate > 0 || h.rate.Pause > 0 || h.told != nil
			kept = append(kept, h)
		case limiter.Idler:
			if !l.Idle(t) {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	if !knows {
		return nil, true
	}
	return kept, true
}

// remember gives limits what an evicted governor of the same host had learned.
func (c *core) remember(kept []inherited) {
	now, all := time.Now(), seatedIn(c.limits)
	restored := make(map[*limiter.Adaptive]bool)
	for _, h := range kept {
		l, ok := all.next(h.at)
		if !ok {
			continue
		}
		if a, ok := l.(*limiter.Adaptive); ok && (restored[a] || a.Restore(h.all)) {
			restored[a] = true
			continue
		}
		_ = l.Import(now, h.rate) // of an Adaptive that is another now: not used
		if l, ok := l.(limiter.Learner); ok {
			for _, q := range h.told {
				l.Told(now, now, q)
			}
		}
	}
}

// membership is what a governor knows of the Group that made it.
type membership[S comparable, C any] struct {
	group *Group[S, C]
	host  string
}

// successor returns the view's governor as it is now, after g was evicted. With an
// error, because there is none, or ctx ends while another makes it, it returns g.
func (g *Governor[S, C]) successor(ctx context.Context) (*Governor[S, C], error) {
	m := g.group.of.(*membership[S, C])
	next, err := m.group.get(ctx, m.host)
	if err != nil {
		return g, err
	}
	return next.With(g.ask), nil
}
