package limiter

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"
)

// ByKeyConfig says which keys have limits of their own.
type ByKeyConfig struct {
	// Keys are the limiters of single keys. Several keys may have the same one: each
	// is counted there under its own name, as in every limiter with keys.
	Keys map[string]Limiter

	// Others is the limiter of all other keys. nil: they have no limit.
	Others Limiter
}

// ByKey is a limit of which some keys have another one than the rest: a customer
// with a contract, a resource that is in the news. It passes each key, and what is
// said about it, on to the limiter of that key.
//
// It admits what that limiter admits, and costs a map access more. ByKey belongs to
// one owner and has no lock. Its limiters belong to it; Of, Others and All return them,
// to be looked at, changed or drained.
type ByKey struct {
	keys   map[string]Limiter
	names  []string // of keys, in order
	others Limiter
	all    []Limiter // each once
}

// NewByKey returns a ByKey. The error, which matches ErrInvalid, names the key whose
// limiter is nil, or a nil pointer.
func NewByKey(cfg ByKeyConfig) (*ByKey, error) {
	b := &ByKey{keys: maps.Clone(cfg.Keys), names: slices.Sorted(maps.Keys(cfg.Keys)), others: cfg.Others}
	seen := make(map[Limiter]bool)
	add := func(l Limiter) {
		if !reflect.ValueOf(l).Comparable() {
			b.all = append(b.all, l)
		} else if !seen[l] {
			seen[l] = true
			b.all = append(b.all, l)
		}
	}
	if cfg.Others != nil {
		if err := checkLimiter("ByKeyConfig.Others", cfg.Others); err != nil {
			return nil, err
		}
		add(cfg.Others)
	}
	for key, l := range cfg.Keys {
		if err := checkLimiter(fmt.Sprintf("ByKeyConfig.Keys[%q]", key), l); err != nil {
			return nil, err
		}
		add(l)
	}
	return b, nil
}

// Of returns the limiter of key; nil when it has no limit.
func (b *ByKey) Of(key string) Limiter {
	if l, ok := b.keys[key]; ok {
		return l
	}
	return b.others
}

// Others returns the limiter of the keys that have none of their own; nil: no limit.
func (b *ByKey) Others() Limiter { return b.others }

// All returns the keys that have limiters of their own, in order, and those limiters.
func (b *ByKey) All() iter.Seq2[string, Limiter] {
	return func(yield func(string, Limiter) bool) {
		for _, key := range b.names {
			if !yield(key, b.keys[key]) {
				return
			}
		}
	}
}

// Wait asks the limiter of key. Without one it returns 0.
func (b *ByKey) Wait(now time.Time, key string, n int) time.Duration {
	if l := b.Of(key); l != nil {
		return l.Wait(now, key, n)
	}
	return 0
}

// Take takes n permits from the limiter of key.
func (b *ByKey) Take(now time.Time, key string, n int) {
	if l := b.Of(key); l != nil {
		l.Take(now, key, n)
	}
}

// Claim takes n permits from the limiter of key, if they are to be had: in one step from
// a Claimer.
func (b *ByKey) Claim(now time.Time, key string, n int) (wait time.Duration) {
	l := b.Of(key)
	if l == nil {
		return 0
	}
	return claim(l, now, key, n)
}

func claim(l Limiter, now time.Time, key string, n int) (wait time.Duration) {
	if c, ok := l.(Claimer); ok {
		return c.Claim(now, key, n)
	}
	if wait = l.Wait(now, key, n); wait <= 0 {
		l.Take(now, key, n)
	}
	return wait
}

// Settle tells the limiter of key.
func (b *ByKey) Settle(now time.Time, key string, n, used int) {
	if l := b.Of(key); l != nil {
		l.Settle(now, key, n, used)
	}
}

// SettleAt tells the limiter of key: when the take was made only if it is Dated.
func (b *ByKey) SettleAt(now, taken time.Time, key string, n, used int) {
	if l := b.Of(key); l != nil {
		settleAt(l, now, taken, key, n, used)
	}
}

// Accepted tells the limiter of key.
func (b *ByKey) Accepted(now, sent time.Time, key string) {
	if l := b.Of(key); l != nil {
		l.Accepted(now, sent, key)
	}
}

// Refused tells the limiter of key.
func (b *ByKey) Refused(now, sent time.Time, key string) {
	if l := b.Of(key); l != nil {
		l.Refused(now, sent, key)
	}
}

// Release tells the limiter of key, if it is a Releaser.
func (b *ByKey) Release(now time.Time, key string, n int) {
	if r, ok := b.Of(key).(Releaser); ok {
		r.Release(now, key, n)
	}
}

// Rate asks the limiter of key. It is 0 when that is not a Rater.
func (b *ByKey) Rate(now time.Time, key string) float64 {
	if r, ok := b.Of(key).(Rater); ok {
		return r.Rate(now, key)
	}
	return 0
}

// Idle reports whether all of the limiters are Idlers, and idle.
func (b *ByKey) Idle(now time.Time) bool {
	for _, l := range b.all {
		if i, ok := l.(Idler); !ok || !i.Idle(now) {
			return false
		}
	}
	return true
}

// OnChange makes those of the limiters that are Notifiers call fn.
func (b *ByKey) OnChange(fn func()) {
	for _, l := range b.all {
		if n, ok := l.(Notifier); ok {
			n.OnChange(fn)
		}
	}
}

// Close closes the limiters that have a method Close() error, and returns their
// errors.
func (b *ByKey) Close() error {
	var errs []error
	for _, l := range b.all {
		if c, ok := l.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
