package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/flyball-go/flyball/limiter"
)

// C1: the bytes of a key of a keyed limiter, beside those of the key itself. C2: a
// permit of a key, any one of a million or always the same.
func init() {
	const keys = 1_000_000
	const peer = "x/time/rate in a map"
	add(row{
		id: "C1", what: "a key of a million, in use", peer: peer, unit: "B",
		target:  []bound{{amount, 24}, {ratio, 0.18}, {allocs, 0}},
		measure: memory("C1", keyedCrowd(keys, newKeyed), keyedCrowd(keys, newLimiterMap)),
	})
	const permits = 30_000_000 // for each key, which is not taken so often
	both("C2uniform", "Keyed.Allow, any of a million keys", peer+", RWMutex", most(0.75),
		anyKey(keys, permits, newKeyed), anyKey(keys, permits, newLimiterMap))
	both("C2hot", "Keyed.Allow, always the same key", peer+", RWMutex", most(0.5),
		hotKey(1000, permits, newKeyed), hotKey(1000, permits, newLimiterMap))
}

// keyed is a bucket of so many permits for each key.
type keyed interface{ Allow(key string) bool }

type newStore func(keys, permits int) (keyed, error)

// slowly is a rate at which a key remains in use for a minute or more after one
// take, and at which so many permits come back in 63 years: a Keyed allows for 100.
func slowly(permits int) float64 { return max(1e-6, float64(permits)/2e9) }

func newKeyed(keys, permits int) (keyed, error) {
	// With some room, since a key may have to wait from some 97 % of MaxKeys on.
	return limiter.NewKeyed(limiter.KeyedConfig{Rate: slowly(permits), Burst: permits, MaxKeys: keys + keys/8})
}

// limiterMap is what one makes of x/time/rate: a limiter for each key, for good.
type limiterMap struct {
	mu      sync.RWMutex
	byKey   map[string]*rate.Limiter
	permits int
}

func newLimiterMap(_, permits int) (keyed, error) {
	return &limiterMap{byKey: make(map[string]*rate.Limiter), permits: permits}, nil
}

func (m *limiterMap) Allow(key string) bool {
	m.mu.RLock()
	l := m.byKey[key]
	m.mu.RUnlock()
	if l == nil {
		l = m.add(key)
	}
	return l.Allow()
}

func (m *limiterMap) add(key string) *rate.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.byKey[key]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(slowly(m.permits)), m.permits)
		m.byKey[key] = l
	}
	return l
}

// keyNames returns n keys of one length.
func keyNames(n int) []string {
	const length = len("tenant-00000000")
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "tenant-%08d", i)
	}
	names := make([]string, n)
	for i := range names {
		names[i] = all.String()[i*length : (i+1)*length]
	}
	return names
}

// use takes a permit of each key.
func use(store keyed, names []string) error {
	for _, name := range names {
		if !store.Allow(name) {
			return errRefused
		}
	}
	return nil
}

// keyedCrowd is n keys that are in use for the whole measurement: their buckets
// are not full again.
func keyedCrowd(n int, make newStore) crowd {
	return crowd{n: n, prepare: func(n int) (func() error, error) {
		names := keyNames(n)
		store, err := make(n, 10)
		return func() error { return use(store, names) }, err
	}}
}

// anyKey takes from the keys in an order that no cache foresees, after all are in
// use.
func anyKey(keys, permits int, make newStore) side {
	return filled(keys, permits, make, func(store keyed, names []string) func(int) error {
		order := rand.New(rand.NewPCG(1, 2)).Perm(len(names))
		var begin atomic.Int64 // each goroutine somewhere else
		return func(n int) error {
			at := int(begin.Add(int64(len(order)/3+1))) % len(order)
			for range n {
				if !store.Allow(names[order[at]]) {
					return errRefused
				}
				if at++; at == len(order) {
					at = 0
				}
			}
			return nil
		}
	})
}

func hotKey(keys, permits int, make newStore) side {
	return filled(keys, permits, make, func(store keyed, names []string) func(int) error {
		hot := names[len(names)/2]
		return each(func() error { return granted(store.Allow(hot)) })
	})
}

// filled is a side that takes from a store in which all keys are in use.
func filled(keys, permits int, make newStore, take func(keyed, []string) func(int) error) side {
	return func() (func(int) error, func(), error) {
		store, err := make(keys, permits)
		if err != nil {
			return nil, nil, err
		}
		names := keyNames(keys)
		if err := use(store, names); err != nil {
			return nil, nil, err
		}
		return take(store, names), nil, nil
	}
}
