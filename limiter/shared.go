package limiter

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// Shared is limits that any number of goroutines use, without a governor. Each call
// names a key and how many permits it takes; it is admitted when all limits have
// them, and then takes them from all. What is not admitted at once is rejected, or
// waits in a bounded queue.
//
// Calls of one key are admitted in their order (or the newest first), so that one
// that needs many permits is not starved by those that need few. A key that has to
// wait for its own limits holds up no other; those whose turn it is wait for the
// Whole in the order in which they came. An Adaptive and an AdaptiveConcurrency, which
// ignore keys, are of the Whole, wherever they are given.
//
// After a refusal, see SharedConfig.RefusedOn and Refused, each Adaptive that is told of
// it lets nothing pass for as long as the error asked for by a method RetryAfter()
// time.Duration, a day at most: an event.Clamped tells of more. Where nothing was asked
// for, and there is no Window, it is for a second at first, and twice as long each time,
// up to a minute, that the vendor refuses again before it has accepted ten calls. Calls
// that were sent before the pause began prolong it only by what they ask for. Of a ByKey,
// the limiter of the call's key pauses. The other limiters go by what they are configured
// to.
//
// A call that waits has taken nothing. When it leaves, because its context ended
// or it was cancelled, everything is as if it had never come, and the next in the
// queue is looked at anew.
//
// The zero value is not ready; use NewShared. Allow and Wait allocate nothing for
// what is admitted at once; a call that waits costs two small allocations and no
// goroutine. A Shared has one timer while something waits, and none else. Everything
// is done under one mutex, in the time that its limits take and O(log k), with k keys
// that wait: the end of a call looks at its own key and, where MaxKeys of a limiter were
// in use, at as many others as there is room for, in their order. It is O(k) after Update,
// and where any other key may go: the limiter is an AdaptiveConcurrency or Adaptive of a
// ByKey, or somebody else's that does not say itself, as a Notifier, when they may.
type Shared struct {
	name            string
	limiters, whole []part
	maxWait         time.Duration // less than 0: none
	drainOn         policy.Predicate
	refusedOn       policy.Predicate
	onError         func(error) error
	key             func(context.Context) string // nil: ""
	permits         func(context.Context) int    // nil: 1
	releases        bool                         // some of the limiters are Releasers
	reach           map[reflect.Type]reach       // of all limiters, those of a ByKey among them

	bus event.Bus

	// mu guards all that follows and, since they have no lock of their own, the
	// limiters. It is held for moments: no function of a user's runs under it but
	// that of Update.
	mu      sync.Mutex
	calls   uint64 // how many there have been
	closed  bool
	queue   *queue
	crowded []roomy     // of serve, to be used again
	timer   *time.Timer // calls tick; nil until something waits
	alarm   time.Time   // what it is set to; zero when it is not set
}

// part is one of the limits.
type part struct {
	Limiter
	claims Claimer // the Limiter, if it has other owners, too
	soft   bool    // of no key it is sure when permits come back, or it is a ByKey
	name   string  // in the configuration
}

// isSoft reports whether permits of l may come back at any time.
func isSoft(l Limiter) bool {
	_, releases := l.(Releaser)
	_, notifies := l.(Notifier)
	return releases || notifies
}

// sure reports whether permits of key come back when Wait says, and not before.
func (p part) sure(key string) bool {
	if !p.soft {
		return true
	}
	_, byKey := p.Limiter.(*ByKey)
	return byKey && !isSoft(p.of(key))
}

// of returns the limit of key; nil when it has none.
func (p part) of(key string) Limiter {
	l := p.Limiter
	for {
		b, ok := l.(*ByKey)
		if !ok {
			return l
		}
		l = b.Of(key)
	}
}

// ignoresKeys reports whether l is one limit for all keys.
func ignoresKeys(l Limiter) bool {
	switch l.(type) {
	case *Adaptive, *AdaptiveConcurrency:
		return true
	}
	return false
}

// parts returns all limits.
func (s *Shared) parts() []part {
	return append(s.limiters[:len(s.limiters):len(s.limiters)], s.whole...)
}

// Allow admits a call that takes n permits of key, or returns an error at once: a
// *LimitedError, or ErrClosed. It does not overtake calls that wait for the same
// permits, unless the newest come first. n below 1 takes nothing and is admitted.
func (s *Shared) Allow(key string, n int) error {
	_, _, err := s.enter(key, n, time.Time{}, false)
	return err
}

// Wait waits until a call that takes n permits of key is admitted, and returns
// nil, or why it is not: a *LimitedError, ErrClosed, one that matches ErrInvalid
// when ctx is nil, or when ctx ends first an error that matches ctx.Err() and
// context.Cause(ctx). A ctx that has ended takes nothing. When ctx ends and the call
// is admitted at the same time, it is admitted.
func (s *Shared) Wait(ctx context.Context, key string, n int) error {
	_, _, err := s.wait(ctx, key, n)
	return err
}

// wait is Wait, and says whether time has passed and when the permits were taken.
func (s *Shared) wait(ctx context.Context, key string, n int) (taken time.Time, waited bool, err error) {
	if ctx == nil {
		return taken, false, errNil
	}
	if ctx.Err() != nil {
		return taken, false, endOf(ctx)
	}
	deadline, _ := ctx.Deadline()
	r, taken, err := s.enter(key, n, deadline, true)
	if r == nil {
		return taken, false, err
	}
	select {
	case <-r.done:
		err = r.err
	case <-ctx.Done():
		// r may be decided at this moment, too. Under the lock there is one winner.
		err = s.leave(r, endOf(ctx))
	}
	return r.taken, true, err
}

// Waiting returns how many calls wait at present, of all keys.
func (s *Shared) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.len
}

// Settle corrects the cost of a call that was admitted, from n to used permits,
// in all limits. What they give back is for the next in the queue.
func (s *Shared) Settle(key string, n, used int) {
	if n < 1 && used < 1 {
		return
	}
	s.each(key, func(l Limiter, now time.Time, key string) { l.Settle(now, key, n, used) })
}

// Release must be called once for each call that was admitted, when it has ended,
// if there is a Concurrency or another Releaser among the limits; n is what the call
// took, or was settled to. Without one it does nothing. Do calls it by itself.
func (s *Shared) Release(key string, n int) {
	if s.releases && n > 0 {
		s.each(key, func(l Limiter, now time.Time, key string) {
			if r, ok := l.(Releaser); ok {
				r.Release(now, key, n)
			}
		})
	}
}

// Accepted tells the limiters that the vendor accepted a call of key that was sent at
// sent. Do and a chain do that by themselves: it is for those who use Allow, Wait or
// Reserve with a limiter that learns, and comes before Release.
func (s *Shared) Accepted(key string, sent time.Time) {
	s.each(key, func(l Limiter, now time.Time, key string) { l.Accepted(now, sent, key) })
}

// Refused tells the limiters, as Accepted does, that the vendor refused a call
// because there were too many, without saying when to come again.
func (s *Shared) Refused(key string, sent time.Time) {
	s.each(key, func(l Limiter, now time.Time, key string) { refused(l, now, sent, key, 0) })
}

// each calls fn with each of the limits and the key that it is asked with, and then
// looks at who may be admitted.
func (s *Shared) each(key string, fn func(l Limiter, now time.Time, key string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, others := time.Now(), false
	for _, p := range s.limiters {
		l := p.of(key)
		if l == nil {
			continue
		}
		fn(l, now, key)
		if len(s.queue.timed.heap) == 0 {
			continue
		}
		switch s.reach[reflect.TypeOf(l)] {
		case newKeys:
			s.queue.told(l.(roomy))
		case anyKey:
			others = true
		}
	}
	for _, p := range s.whole {
		if l := p.of(""); l != nil {
			fn(l, now, "")
		}
	}
	if others {
		s.queue.lookAll()
	} else {
		s.queue.lookAgain(key)
	}
	s.pump(now)
}

// Update calls fn under the lock that guards the limiters, so that it may call their
// methods, and then looks at who may be admitted: to change a limit at run time, to
// tell it what a vendor's answer said, or to read what is left. fn must not call
// methods of the Shared.
func (s *Shared) Update(fn func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fn(now)
	s.queue.lookAll()
	s.pump(now)
}
