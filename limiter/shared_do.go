package limiter

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/policy"
)

// Do waits until a call that takes n permits of key is admitted, as Wait does, and
// makes it: it returns what fn returns, or, when it was not admitted, Wait's error,
// through OnError in both cases. fn gets ctx.
//
// When fn has ended, even by a panic or runtime.Goexit, the call is settled and
// what it holds is released: to n, or to 0 when fn's error says, by a method
// Refused() bool, that the vendor was not called. DrainOn is asked before that. For
// a call whose cost is known only afterwards use Wait, Settle and Release.
func Do[R any](ctx context.Context, s *Shared, key string, n int, fn func(context.Context) (R, error)) (result R, err error) {
	if ctx == nil || fn == nil {
		return result, ErrInvalid
	}
	if s.drainOn != nil { // which needs a policy's call
		return policy.Do(ctx, policy.Chain(&sharedCall{s, key, n}), fn)
	}
	if _, err = s.wait(ctx, key, n); err != nil {
		return result, s.mapped(err)
	}
	used := n
	defer func() { s.ended(key, n, used) }()
	if result, err = fn(ctx); refused(err) {
		used = 0
	}
	return result, s.mapped(err)
}

// mapped is what OnError makes of err.
func (s *Shared) mapped(err error) error {
	if err != nil && s.onError != nil {
		return s.onError(err)
	}
	return err
}

// ended settles a call that was admitted, and releases what it holds.
func (s *Shared) ended(key string, n, used int) {
	if n < 1 {
		return
	}
	s.each(key, func(l Limiter, now time.Time, key string) {
		l.Settle(now, key, n, used)
		if r, ok := l.(Releaser); ok {
			r.Release(now, key, used)
		}
	})
}
