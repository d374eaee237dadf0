// Package ottercache keeps what a policy.Cache stores in otter
// (https://github.com/maypok86/otter), in place of the LRU that it has by itself: when
// it is full, what is asked for rarely goes first, and nothing stays longer than it can
// be used.
//
//	storage, err := ottercache.New[int, User](100_000)
//	cache, err := policy.NewCache(policy.CacheConfig[int, User]{Storage: storage})
//
// It shows how a library becomes a policy.Storage: copy it, for this one or another.
package ottercache

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/flyball-go/flyball/policy"
)

// Storage is a policy.Storage. All methods may be called by any number of goroutines at
// once. It has one goroutine, of otter's, which ends some time after nobody has the
// Storage any more.
type Storage[K comparable, R any] struct {
	entries *otter.Cache[K, policy.Entry[R]]
}

var _ policy.Storage[string, int] = (*Storage[string, int])(nil)

// New returns a Storage for up to most entries; for a moment there may be a few more.
// The error says that most is less than 1.
func New[K comparable, R any](most int) (*Storage[K, R], error) {
	if most < 1 { // to otter it is no limit
		return nil, fmt.Errorf("ottercache: room for %d entries, want 1 or more", most)
	}
	entries, err := otter.New(&otter.Options[K, policy.Entry[R]]{
		MaximumSize: most,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[K, policy.Entry[R]]) time.Duration {
			return max(1, time.Until(e.Value.Keep)) // 0 and less would be for ever
		}),
	})
	if err != nil {
		return nil, err
	}
	return &Storage[K, R]{entries}, nil
}

// Get returns the entry of a key.
func (s *Storage[K, R]) Get(key K) (policy.Entry[R], bool) { return s.entries.GetIfPresent(key) }

// Set stores an entry until its Keep.
func (s *Storage[K, R]) Set(key K, e policy.Entry[R]) { s.entries.Set(key, e) }

// Delete forgets the entry of a key.
func (s *Storage[K, R]) Delete(key K) { s.entries.Invalidate(key) }
