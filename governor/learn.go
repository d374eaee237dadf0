package governor

import (
	"math"
	"slices"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// learn asks the adapter about err and records every signal in the gate: the
// receipt. It returns the scopes that were paused.
func (c *core) learn(a *attempt, err error) (refused []throttle.Scope) {
	if c.vendor == nil {
		return nil
	}
	at, now := time.Now(), c.now()
	sigs, bad := readSignals(c.vendor, err, at)
	c.panicked(a, bad)
	for _, sig := range sigs {
		sig.Scope = own(sig.Scope, &a.key.laneKey)
		a.final = a.final || sig.NoRetry
		if a.narrowed(sig, sigs) {
			c.emit(event.Event{Kind: event.Learned, Time: c.gate.time(now), Request: a.r.seq, Attempt: a.n, Scope: sig.Scope.String(), Delay: sig.Delay, Source: sig.Source, Err: err})
			continue
		}
		if l := sig.Scope.Level; l != throttle.Request && a.scopes()[l] != sig.Scope {
			alone := sig // a pause of others must not let this one repeat its call at once
			alone.Scope = throttle.Scope{Level: throttle.Request}
			c.received(alone, at, now, a, err)
		}
		sc := c.received(sig, at, now, a, err)
		refused = append(refused, sc)
	}
	quotas := c.quotas(a, err, at)
	a.read = len(sigs)+len(quotas) > 0
	c.tell(a, quotas, len(sigs) > 0)
	if len(sigs) > 0 {
		c.count.limited.Add(1)
		c.wakeUp()
	}
	return refused
}

// narrowed reports whether sig, one of an answer's signals, would have to be guessed
// for more than another one means that gives a time: the vendor's own words come
// before a guess, and the narrower ones of the same kind say whom it meant. Signals
// that give a time all count.
func (a *attempt) narrowed(sig throttle.Signal, sigs []throttle.Signal) bool {
	if sig.Delay >= 0 || !sig.Until.IsZero() { // what is negative is unknown: see clamp
		return false
	}
	return slices.ContainsFunc(sigs, func(o throttle.Signal) bool {
		said := o.Delay >= 0 || !o.Until.IsZero()
		alike := o.Kind == sig.Kind || o.Kind == throttle.KindUnknown || sig.Kind == throttle.KindUnknown
		o.Scope = own(o.Scope, &a.key.laneKey)
		l := o.Scope.Level
		ours := l == throttle.Request || a.scopes()[l] == o.Scope
		narrower := l == throttle.Request || sig.Scope.Level == throttle.Host
		return said && alike && ours && narrower && l != sig.Scope.Level
	})
}

// quotas asks the adapter what err says about quotas, if it can tell.
func (c *core) quotas(a *attempt, err error, at time.Time) []throttle.Quota {
	v, ok := c.vendor.(Quoter)
	if !ok {
		return nil
	}
	qs, bad := readQuotas(v, err, at)
	c.panicked(a, bad)
	return qs
}

// panicked reports an adapter that did, if bad says so.
func (c *core) panicked(a *attempt, bad error) {
	if bad != nil {
		c.count.badVendor.Add(1)
		c.emit(event.Event{Kind: event.BadVendor, Request: a.r.seq, Attempt: a.n, Err: bad})
	}
}

// received puts one signal, whose scope is resolved, into the gate. a is nil
// for signals from outside.
func (c *core) received(sig throttle.Signal, at time.Time, now int64, a *attempt, err error) throttle.Scope {
	clamped, source := c.clamp(&sig, at), sig.Source
	began, req, n := c.gate.seq.Load(), uint64(0), 0
	if a != nil {
		began, req, n = a.seq, a.r.seq, a.n
	}
	ch := change{scope: sig.Scope}
	if sig.Scope.Level == throttle.Request {
		d := sig.Delay
		if d == throttle.Unknown {
			h := a.r.history()
			h.guesses++
			d = c.gate.guessDelay(backoff.Step{Attempt: h.guesses})
		}
		if t := a.ill(); d >= t.pause {
			said := sig
			t.pause, t.signal = d, &said
		}
		ch.until = add(now, d)
	} else {
		ch = c.gate.receive(now, began, sig.Scope, sig)
	}
	c.emit(event.Event{Kind: event.Learned, Time: c.gate.time(now), Request: req, Attempt: n, Scope: sig.Scope.String(), Delay: sig.Delay, Source: sig.Source, Err: err})
	if ch.scope != sig.Scope {
		source = store.WiderSource + source
	}
	if clamped || ch.scope != sig.Scope {
		c.count.clamped.Add(1)
		c.emit(event.Event{Kind: event.Clamped, Scope: ch.scope.String(), Delay: sig.Delay, Source: source})
	}
	if ch.kind != event.None {
		if ch.fresh {
			c.count.cooldowns.Add(1)
		}
		c.emit(event.Event{Kind: ch.kind, Time: c.gate.time(now), Scope: ch.scope.String(), Until: c.gate.time(ch.until), Delay: time.Duration(ch.until - now), Source: source})
	}
	return ch.scope
}

// clamp turns what a vendor said into a delay that can be used, Unknown, or MinCooldown
// to MaxCooldown, and the rest into what Export may hand out.
func (c *core) clamp(sig *throttle.Signal, at time.Time) (clamped bool) {
	if !sig.Until.IsZero() {
		sig.Delay, clamped = c.until(sig, at)
	}
	if sig.Kind > throttle.KindBilling {
		sig.Kind, clamped = throttle.KindUnknown, true
	}
	switch d := sig.Delay; {
	case d == throttle.Unknown:
	case d < 0:
		sig.Delay, clamped = throttle.Unknown, true
	case d < c.minCooldown && !store.Shared(sig.Source): // else it is what is left of a pause
		sig.Delay = c.minCooldown
	case d > c.maxCooldown && !(sig.Scope.Level == throttle.Host && store.Shared(sig.Source)): // of that its permits wait for the end
		sig.Delay, clamped = c.maxCooldown, true
	}
	return clamped
}

// until cuts sig.Until to what MaxCooldown and JSON have room for, and returns how long it
// is until then.
func (c *core) until(sig *throttle.Signal, at time.Time) (d time.Duration, clamped bool) {
	sig.Until = sig.Until.UTC() // JSON has no word for some zones either
	d = max(0, sig.Until.Sub(at))
	switch y := sig.Until.Year(); { // of others than JSON has, some are so far away that they count as long over
	case y < 1:
		sig.Until, clamped = at, true
	case y > 9999:
		d = math.MaxInt64
	}
	if d > c.maxCooldown {
		sig.Until = at.Add(c.maxCooldown)
	}
	return d, clamped
}
