package limiter

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// Do waits until a call that takes n permits of key is admitted, as Wait does, and
// makes it: it returns what fn returns, or, when it was not admitted, Wait's error,
// through OnError in both cases. fn gets ctx.
//
// When fn has ended, even by a panic or runtime.Goexit, the limiters are told what
// came of it, see SharedConfig.RefusedOn, the call is settled and what it holds is
// released: to n, or to 0 when fn's error says, by a method Refused() bool, that the
// vendor was not called. DrainOn and RefusedOn are asked before that. For a call
// whose cost is known only afterwards use Wait, Accepted or Refused, Settle and
// Release.
func Do[R any](ctx context.Context, s *Shared, key string, n int, fn func(context.Context) (R, error)) (result R, err error) {
	if ctx == nil || fn == nil {
		return result, errNil
	}
	if s.drainOn != nil || s.refusedOn != nil { // which need a policy's call
		return policy.Do(ctx, policy.Chain(&sharedCall{s, key, n}), fn)
	}
	taken, _, err := s.wait(ctx, key, n)
	if err != nil {
		return result, mapped(err, s.onError)
	}
	o := ending{taken: taken, sent: time.Now(), used: n}
	defer func() { s.ended(key, n, o) }()
	result, err = fn(ctx)
	o.of(err)
	return result, mapped(err, s.onError)
}

// ending is what came of a call that was admitted. What neither succeeds nor is
// refused by the vendor teaches nothing.
type ending struct {
	taken, sent       time.Time
	used              int // permits
	accepted, refused bool
	asked             time.Duration // by a refusal; 0: nothing
	err               error         // that is the refusal
}

// of is what err alone says.
func (o *ending) of(err error) {
	if o.accepted = err == nil; errtree.Refused(err) {
		o.used = 0
	}
}

// ended tells the limiters of a call that was admitted what came of it, settles it,
// and releases what it holds.
func (s *Shared) ended(key string, n int, o ending) {
	if n < 1 {
		return
	}
	clamped := false
	s.each(key, func(l Limiter, now time.Time, key string) {
		switch {
		case o.refused:
			clamped = refused(l, now, o.sent, key, o.asked) || clamped
		case o.accepted:
			l.Accepted(now, o.sent, key)
		}
		settleAt(l, now, o.taken, key, n, o.used)
		if r, ok := l.(Releaser); ok {
			r.Release(now, key, o.used)
		}
	})
	if clamped {
		s.emit(time.Now(), event.Clamped, 0, key, mostAsked*time.Second, o.err)
	}
}
