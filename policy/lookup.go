package policy

import (
	"context"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/event"
)

// Do returns the result stored for key, or that of fn, without a chain.
func (x *Cache[K, R]) Do(ctx context.Context, key K, fn func(context.Context) (R, error)) (R, error) {
	if ctx == nil || fn == nil {
		return invalid[R]()
	}
	if key != key {
		var none R
		return none, fmt.Errorf("%w: a key that is not equal to itself", ErrInvalid)
	}
	if e, ok := x.fresh(key, time.Now()); ok {
		return e.Value, nil
	}
	r, err := x.share(ctx, key, func() (R, error) { return fn(ctx) })
	return r, mapError(err, x.cfg.OnError)
}

// fresh finds a result that can be used in place of a call.
func (x *Cache[K, R]) fresh(key K, now time.Time) (Entry[R], bool) {
	e, ok := x.cfg.Storage.Get(key)
	if !ok || !now.Before(e.Fresh) {
		return e, false
	}
	report(x.cfg.OnEvent, event.Event{Kind: event.CacheHit, Name: x.cfg.Name})
	return e, true
}

// Invalidate forgets what is stored for key. Of calls under way the result goes
// to those who wait for it, but is not stored; nobody joins them any more. When
// one is just being stored, Invalidate waits for that.
func (x *Cache[K, R]) Invalidate(key K) {
	if key != key {
		return
	}
	x.forget(key)
	x.cfg.Storage.Delete(key)
}

// keyIn finds a key of its type in a context.
type keyIn[K comparable] struct{}

// WithKey returns a context with a key in it for a Cache whose keys are of type K.
func WithKey[K comparable](ctx context.Context, key K) context.Context {
	return context.WithValue(ctx, keyIn[K]{}, key)
}

// KeyOf returns the key of type K that WithKey has put into ctx.
func KeyOf[K comparable](ctx context.Context) (key K, ok bool) {
	key, ok = ctx.Value(keyIn[K]{}).(K)
	return key, ok
}
