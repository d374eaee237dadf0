package governor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// ErrNoAttempt is what Report and Settle return when no running closure, and no
// hold, has the given context.
var ErrNoAttempt = errors.New("governor: no running closure has this context")

// Report tells the governor what an answer of the vendor, good or bad, said about
// its quota. ctx is the context that the closure was given, or a descendant; it
// may be called from any goroutine, as often as there are answers, until the
// closure has returned and its holds have ended. What one answer says of several
// quotas belongs into one call; at most 16 are heard.
//
//	governor.Report(ctx, vendor.Learn(response)...)
//
// A quota's Scope says whose it is; an empty Key is the request's own, and of the Request
// level only the Cost counts. It is
//
//   - told to the limits of that level: an Adaptive, or another limiter.Learner,
//     and a limiter.Counter, in a limiter.ByKey to that of the key; but not to those
//     that a Config.Store shares. They only become more careful by it, an Adaptive for all
//     keys that it is the limit of.
//   - with nothing Remaining until Reset, a cooldown of kind quota until then, as
//     if the vendor had refused the call and said so: nothing is sent in the scope,
//     Config.MaxWait counts, and one probe comes first afterwards. It is no
//     refusal, and no learned rate is cut for it.
//   - with something Remaining, fresh evidence: it ends a cooldown of exactly that
//     scope, when the call was sent after the last signal about the scope. What
//     follows is the growth after a cooldown, without a probe.
//   - with a Cost, what the attempt cost, as Settle has it. Of several the highest
//     counts.
//
// Quotas with a Unit are not in calls: they begin cooldowns, and are told to the
// limits of the same Unit. Where there are such, only a cost in their Unit counts.
//
// Limit, Remaining and Cost count as not said when they are negative, Limit and
// Cost also when they are 0 (Settle says that a call was free), and a Remaining of
// 0 that comes with neither Limit nor Reset. So the zero Quota says nothing. A
// Reset that is not in the future is about a window that is over, and so is what it
// came with; one beyond Config.MaxCooldown is clamped, and an event says so.
//
// The error is nil or ErrNoAttempt, and can be ignored.
func Report(ctx context.Context, quotas ...throttle.Quota) error {
	a := attemptIn(ctx)
	if a == nil {
		return ErrNoAttempt
	}
	a.mu.Lock() // the attempt does not end meanwhile
	defer a.mu.Unlock()
	if a.isOver() {
		return ErrNoAttempt
	}
	a.core.tell(a, quotas, false)
	return nil
}

// Settle tells the governor what the running attempt truly cost, in permits, where
// that is known only when it has been made: tokens, points, rows. ctx is as for
// Report. Each limit was charged with Ask.Cost when the attempt began (where limits
// have a Unit, each of those, which alone are meant here); when it ends (with its last
// hold, if it has any) the difference is given back, or charged on top. What was said
// last counts. A cost of 0 gives everything back. Among tenants the difference counts,
// too: what is charged on top for the starts that follow, what is given back for the
// next one, and for more of them as far as others have had what it was charged.
//
// What is charged on top may have to be waited for by those who come later, but for each
// call not for longer than Config.MaxCooldown where the limit has a rate. Among tenants
// one call counts at most as a thousand of those whose cost was told, or a thousand times
// what was asked for. More is clamped, and an event says so.
//
// The error is nil, ErrNoAttempt, or says that cost is negative or more than
// math.MaxInt32, and then nothing is changed.
func Settle(ctx context.Context, cost int) error {
	if cost < 0 || int64(cost) > math.MaxInt32 {
		return fmt.Errorf("governor: cost is %d, want 0 up to %d", cost, math.MaxInt32)
	}
	a := attemptIn(ctx)
	if a == nil {
		return ErrNoAttempt
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isOver() {
		return ErrNoAttempt
	}
	a.used, a.metered = int32(cost), true
	return nil
}

// attemptIn returns the attempt whose closure was given ctx or its nearest
// ancestor; nil if there is none.
func attemptIn(ctx context.Context) *attempt {
	if ctx == nil {
		return nil
	}
	a, _ := ctx.Value(token{}).(*attempt)
	return a
}

// isOver reports whether the closure has returned and nothing is held. The caller
// holds a.mu.
func (a *attempt) isOver() bool { return a.ended && a.holds == 0 }

// tell hands on what an answer that a got said about quotas. refused says that
// the answer was a refusal, whose signals have been received: how long to pause
// is theirs to say. Either the caller holds a.mu, or a has ended.
func (c *core) tell(a *attempt, quotas []throttle.Quota, refused bool) {
	if len(quotas) == 0 {
		return
	}
	at, now := time.Now(), c.now()
	var few [4]throttle.Quota
	qs := append(few[:0], quotas[:min(len(quotas), maxSignals)]...)
	cost := int64(0)
	for i := range qs {
		q := &qs[i]
		q.Scope = own(q.Scope, &a.key.laneKey)
		c.tidy(q, at)
		if counted(c.limits, q.Unit) {
			cost = max(cost, q.Cost)
		}
	}
	if cost > 0 {
		a.used, a.metered = int32(min(cost, math.MaxInt32)), true
	}
	wake := false
	for _, q := range qs {
		if q.Scope.Level == throttle.Request {
			continue
		}
		if !refused && isSpent(q) {
			c.received(throttle.Signal{Kind: throttle.KindQuota, Scope: q.Scope, Delay: q.Reset.Sub(at), Source: spentSource(&q)}, at, now, a, nil)
			wake = true
		}
		fresh := !refused && q.Remaining > 0 && !slices.ContainsFunc(qs, func(o throttle.Quota) bool { return o.Scope == q.Scope && o.Remaining == 0 })
		if changed, cleared := c.gate.told(now, a, q, fresh); changed {
			wake = true
			if cleared {
				c.emit(event.Event{Kind: event.Cleared, Time: at, Request: a.r.seq, Attempt: a.n, Scope: q.Scope.String(), Source: q.Name})
			}
		}
	}
	c.relimit()
	if wake {
		c.wakeUp()
	}
}

// isSpent reports whether nothing is left of q until a known time.
func isSpent(q throttle.Quota) bool { return q.Remaining == 0 && !q.Reset.IsZero() }

func spentSource(q *throttle.Quota) string {
	s := "remaining 0"
	if q.Limit > 0 {
		s = fmt.Sprintf("remaining 0 of %d", q.Limit)
	}
	if q.Name != "" {
		s = q.Name + ": " + s
	}
	return s
}

// tidy makes -1 of what is not said, or cannot be believed, and puts Reset on the
// governor's clock.
func (c *core) tidy(q *throttle.Quota, at time.Time) {
	if q.Limit <= 0 {
		q.Limit = -1
	}
	if q.Remaining < 0 || q.Remaining == 0 && q.Limit < 0 && q.Reset.IsZero() {
		q.Remaining = -1
	}
	switch {
	case q.Reset.IsZero():
		return
	case !q.Reset.After(at):
		q.Remaining, q.Reset = -1, time.Time{}
		return
	case q.Reset.Sub(at) > c.maxCooldown:
		q.Reset = at.Add(c.maxCooldown)
		c.count.clamped.Add(1)
		c.emit(event.Event{Kind: event.Clamped, Scope: q.Scope.String(), Delay: c.maxCooldown, Source: "reset"})
	}
	q.Reset = c.gate.time(c.gate.ns(q.Reset))
}

// told hands q, which a's answer said, to the limits of its level. Of what is
// left, nothing is not handed on when it is known until when: that is a cooldown,
// which Clear can end. fresh says that q may be evidence that its scope has quota
// again; changed, that it was.
//
// What is counted in another unit than calls is for limits of that unit only, and
// no evidence.
func (g *gate) told(now int64, a *attempt, q throttle.Quota, fresh bool) (changed, cleared bool) {
	if q.Unit != "" && !counted(g.limits, q.Unit) {
		return false, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fresh && q.Unit == "" {
		changed, cleared = g.evident(now, a, q.Scope)
	}
	if isSpent(q) {
		q.Remaining = -1
	}
	t, sent := g.time(now), g.time(a.began)
	sc := a.scopes()
	g.tell(t, &sc, 0)
	hears := func(l limit) bool { return l.Per == q.Scope.Level && l.unit == q.Unit }
	if g.lax.Load() && !q.Reset.IsZero() && slices.ContainsFunc(g.limits, hears) { // who hears is lax no more
		g.tellAhead(t, &sc, a)
	}
	defer g.relax()
	for _, l := range g.limits {
		if !hears(l) {
			continue
		}
		switch l := hearer(l.Limiter, q.Scope.Key).(type) {
		case limiter.Learner:
			if cleared {
				l.Forget(t, q.Scope.Key)
			}
			l.Told(t, sent, q)
		case limiter.Counter:
			// Only what is less than we know of: to the limit it means that the vendor may
			// count already what calls that run will give back.
			if q.Remaining >= 0 && int64(l.Available(t, q.Scope.Key)) > q.Remaining {
				l.SetRemaining(t, sent, q.Scope.Key, int(min(q.Remaining, math.MaxInt)))
			}
		}
	}
	return changed, cleared
}

// hearer returns the limiter to which what is said about key is of concern: that of the
// key, of a limiter.ByKey; nil: there is none.
func hearer(l limiter.Limiter, key string) limiter.Limiter {
	for {
		b, ok := l.(*limiter.ByKey)
		if !ok {
			return l
		}
		l = b.Of(key)
	}
}

// evident lets traffic grow in sc, without a probe or without waiting for its end,
// if a was sent after the last signal about it. cleared says that it was cooling.
// The scope stays in the table: only the actor ends a hold. The caller holds mu.
func (g *gate) evident(now int64, a *attempt, sc throttle.Scope) (changed, cleared bool) {
	st := g.table[sc]
	if st == nil || a.seq <= st.heard || st.phase == ramping {
		return false, false
	}
	if cleared = st.phase == cooling; cleared {
		st.until, st.allowed, st.inflight, st.good = now, 1, 0, 0
		st.unsays(forever)
	}
	g.ramp(st, now)
	return true, cleared
}

// settleUp tells the limits what a truly cost, and releases what it held. Every
// take is settled, for only so do those limits give back exactly that count what
// is open. The caller holds mu.
func (g *gate) settleUp(now int64, a *attempt) {
	if !a.lax && !a.charged {
		return
	}
	t, sc := g.time(now), a.scopes()
	g.settleRest(t)
	if a.lax {
		a.lax = false
		if g.tell(t, &sc, 1); a.metered && a.used != 1 {
			used := g.owe(a, true) // for these have no rate by which it could be bounded
			for _, l := range g.limits {
				if !l.calls {
					settleAt(l.Limiter, t, g.time(a.began), sc[l.Per].Key, 1, used)
				}
			}
		}
		return
	}
	a.charged = false
	if !a.metered || a.used == a.cost {
		g.settle(t, g.time(a.taken), &sc, int(a.cost))
		return
	}
	g.owe(a, false)
	used := int(a.used)
	for i := range g.limits {
		l := &g.limits[i]
		key, cost, u := sc[l.Per].Key, l.of(int(a.cost)), l.of(used)
		if r, ok := l.Limiter.(limiter.Rater); ok && u > cost {
			if rate := r.Rate(t, key); rate > 0 {
				if most := float64(cost) + rate*a.core.maxCooldown.Seconds(); float64(u) > most {
					u = int(most)
					a.core.clampedCost(sc[l.Per], a.core.maxCooldown)
				}
			}
		}
		settleAt(l.Limiter, t, g.time(a.taken), key, cost, u)
		if l.releases {
			l.Limiter.(limiter.Releaser).Release(t, key, u)
		}
	}
}

// settleAt says when the take was made where that is of use.
func settleAt(l limiter.Limiter, now, taken time.Time, key string, n, used int) {
	if d, ok := l.(limiter.Dated); ok {
		d.SettleAt(now, taken, key, n, used)
	} else {
		l.Settle(now, key, n, used)
	}
}

// clampedCost says that a call cost more than is believed.
func (c *core) clampedCost(sc throttle.Scope, d time.Duration) {
	c.count.clamped.Add(1)
	c.emit(event.Event{Kind: event.Clamped, Scope: sc.String(), Delay: d, Source: "cost"})
}

// owe notes what a cost more than it was charged, and returns what it cost as far as
// that is believed, for the limits, too, if they are lax. The caller holds mu.
func (g *gate) owe(a *attempt, lax bool) (used int) {
	fair := g.word.minded() // otherwise nobody waits that it would be fair to
	used = int(a.used)
	if most := g.usual.most(int(a.cost)); used > most {
		if used = most; fair || lax {
			a.core.clampedCost(throttle.Scope{Level: throttle.Tenant, Key: a.key.tenant}, 0)
		}
	}
	g.usual.add(used)
	if fair {
		g.stirred.Store(true)
		g.indebted.Store(true)
		g.debts = append(g.debts, debt{a.key, max(1, used) - max(1, int(a.cost)), int(a.waited)})
	}
	return used
}

// usual is what calls cost whose cost was told, on average.
type usual struct {
	mean float64
	n    int // at most remembered
}

const (
	remembered = 1000 // calls
	unheardOf  = 1000 // times what is usual is no cost, but a mistake
)

func (u *usual) add(cost int) {
	u.n = min(u.n+1, remembered)
	u.mean += (float64(cost) - u.mean) / float64(u.n)
}

// most is the most that a call may cost of which cost was asked for.
func (u *usual) most(cost int) int {
	return int(min(unheardOf*max(1, float64(cost), u.mean), math.MaxInt32))
}

// settle is settleUp for what cost as much as was taken. The caller holds mu.
func (g *gate) settle(t, taken time.Time, sc *scopes, cost int) {
	for i := range g.limits {
		l := &g.limits[i]
		if l.exact {
			settleAt(l.Limiter, t, taken, sc[l.Per].Key, l.of(cost), l.of(cost))
		}
		if l.releases {
			l.Limiter.(limiter.Releaser).Release(t, sc[l.Per].Key, l.of(cost))
		}
	}
}

// newLimit looks a limiter through, once.
func newLimit(per throttle.Level, l limiter.Limiter) limit {
	_, adaptive := l.(*limiter.Adaptive) // keeps no account of takes
	_, releases := l.(limiter.Releaser)
	claims, _ := l.(limiter.Claimer)
	return limit{Per: per, exact: !adaptive, releases: releases, Limiter: l, claims: claims}
}
