package policy

import (
	"context"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
)

// CacheConfig says which results are stored, and for how long.
type CacheConfig[K comparable, R any] struct {
	// Name appears in events.
	Name string

	// Key finds the key of a call in its context. A call without one, and one
	// whose key is not equal to itself, as NaN is not, passes the Cache by. nil
	// means the key that WithKey has put there. Two Caches in one chain need
	// types of keys of their own, or Keys.
	Key func(ctx context.Context) (K, bool)

	// TTL is how long a result is used in place of a call, from when it is there.
	// 0 means 1 min.
	TTL time.Duration

	// StaleIfError is how long after its TTL a result is still used in place of
	// an error. 0: not at all.
	StaleIfError time.Duration

	// If says which results are stored. nil: all. Errors never are.
	If func(R) bool

	// Storage keeps the results. nil means an LRU of MaxEntries.
	Storage Storage[K, R]

	// MaxEntries is how many results the LRU keeps. 0 means 1,000.
	MaxEntries int

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. What panics in it passes
	// through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of CacheHit, CacheMiss, CacheStale and Collapsed, the last
	// three from the call that was made. It is called under no lock, and waited
	// for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// Cache answers calls with results of earlier ones with the same key, and of
// those that come at the same time makes only one: the others wait for it, each
// as long as its own context lasts, and share its outcome. When the context of the
// call that is made ends, one of those that wait makes a call in its place, even
// if the first never returns. When it panics, they get a *PanicError, after
// runtime.Goexit ErrGoexit, as errors.
//
// Calls with a result of another type than R pass the Cache by. A result is
// handed to many, who must not change what it refers to. A call must not, inside,
// wait for another one with the same key: that would be itself.
//
// With an LRU, a stored result costs its lock and no allocation.
type Cache[K comparable, R any] struct {
	cfg CacheConfig[K, R]

	// mu is held for one look at flights. No function of the user, and no method
	// of the Storage, runs under it.
	mu      sync.Mutex
	flights map[K]*flight[R] // the calls under way whose outcome may be shared
}

// NewCache returns a Cache. The error names a field that is out of range.
func NewCache[K comparable, R any](cfg CacheConfig[K, R]) (*Cache[K, R], error) {
	if cfg.TTL < 0 {
		return nil, outOfRange("CacheConfig.TTL", cfg.TTL, "0 or more")
	}
	if cfg.StaleIfError < 0 {
		return nil, outOfRange("CacheConfig.StaleIfError", cfg.StaleIfError, "0 or more")
	}
	if err := inRange("CacheConfig.MaxEntries", cfg.MaxEntries, 0); err != nil {
		return nil, err
	}
	if cfg.TTL == 0 {
		cfg.TTL = time.Minute
	}
	if cfg.Key == nil {
		cfg.Key = KeyOf[K]
	}
	if cfg.Storage == nil {
		cfg.Storage = newLRU[K, R](cfg.MaxEntries)
	}
	return &Cache[K, R]{cfg: cfg, flights: make(map[K]*flight[R])}, nil
}

// Layer returns CacheLayer.
func (x *Cache[K, R]) Layer() Layer { return CacheLayer }

// String describes the cache: "cache(1m0s, stale 1h0m0s)".
func (x *Cache[K, R]) String() string {
	settings := []string{x.cfg.TTL.String()}
	if x.cfg.StaleIfError > 0 {
		settings = append(settings, "stale "+x.cfg.StaleIfError.String())
	}
	return describe("cache", x.cfg.Name, settings...)
}

// Wrap puts the cache around next.
func (x *Cache[K, R]) Wrap(next Handler) Handler {
	return mapped(func(c *Call) error {
		if _, ok := Result[R](c); !ok {
			return next(c)
		}
		key, ok := x.cfg.Key(c.ctx)
		if !ok || key != key {
			return next(c)
		}
		if e, ok := x.fresh(key, c.Now()); ok {
			SetResult(c, e.Value)
			return nil
		}
		return x.miss(c, next, key)
	}, x.cfg.OnError)
}

func (x *Cache[K, R]) miss(c *Call, next Handler, key K) error {
	defer c.Later()
	r, err := x.share(c.ctx, key, func() (R, error) {
		c.Later() // it may have waited for another call
		err := next(c)
		r, _ := Result[R](c)
		return r, err
	})
	SetResult(c, r)
	return err
}
