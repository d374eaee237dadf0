package registry_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

// cluster makes n Permits that share one engine, as n processes do.
func cluster(t *testing.T, n int) (all []*registry.Permits, end func()) {
	t.Helper()
	engine, err := store.NewMemory(store.MemoryConfig{})
	require.NoError(t, err)
	var ends []func() error
	for range n {
		s, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		require.NoError(t, err)
		p := newPermits(t, registry.PermitsConfig{Meta: engine, Store: s})
		all = append(all, p)
		ends = append(ends, p.Close, s.Close)
	}
	return all, func() {
		for _, end := range ends {
			require.NoError(t, end())
		}
		require.NoError(t, engine.Close())
	}
}

// flood acquires from all until some time has passed, and returns when it did.
func flood(t *testing.T, all []*registry.Permits, key string, d time.Duration) (times []time.Time) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	until := time.Now().Add(d)
	for _, p := range all {
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(until) {
					if _, err := p.Acquire(t.Context(), key, 1); err != nil {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					mu.Lock()
					times = append(times, time.Now())
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	return times
}

// most is the largest number of times in any window, and after from.
func most(times []time.Time, window time.Duration, from time.Time) (n int) {
	for i := range times {
		if times[i].Before(from) {
			continue
		}
		k := 0
		for _, at := range times[i:] {
			if at.Sub(times[i]) < window {
				k++
			}
		}
		n = max(n, k)
	}
	return n
}

func TestRateLimiterOfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, end := cluster(t, 3)
		defer end()
		const key = "ratelimiter:x"
		put(t, all[0], key, `{"limitForPeriod": 100, "limitRefreshPeriodInMillis": 1000, "capacity": 10}`)
		times := flood(t, all, key, 10*time.Second)
		require.LessOrEqual(t, most(times, time.Second, time.Time{}), 109)
		require.InDelta(t, 1000, len(times), 60) // 100 a second, less what leases cost

		// Lowered in one process, it counts in all: at once in the store, for what has been
		// fetched when that is used or its lease is over.
		put(t, all[1], key, `{"limitForPeriod": 10, "limitRefreshPeriodInMillis": 1000, "capacity": 5}`)
		began := time.Now()
		times = flood(t, all, key, 20*time.Second)
		require.LessOrEqual(t, most(times, time.Second, began.Add(2*time.Second)), 14)
		require.InDelta(t, 200, len(times), 40)

		// Raised, and not before a period is over.
		put(t, all[2], key, `{"limitForPeriod": 50, "limitRefreshPeriodInMillis": 1000, "capacity": 10}`)
		began = time.Now()
		times = flood(t, all, key, 20*time.Second)
		early := 0
		for _, at := range times {
			if at.Sub(began) < time.Second {
				early++
			}
		}
		require.LessOrEqual(t, early, 14)
		require.InDelta(t, 1000, len(times), 150)
	})
}

func TestBulkheadOfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, end := cluster(t, 2)
		defer end()
		const key = "bulkhead:x"
		put(t, all[0], key, `{"maxConcurrentCalls": 4, "maxWaitDurationInMillis": 60000}`)
		var mu sync.Mutex
		running, peak, done := 0, 0, 0
		work := func(d time.Duration) {
			var wg sync.WaitGroup
			until := time.Now().Add(d)
			for _, p := range all {
				for range 5 {
					wg.Go(func() {
						for time.Now().Before(until) {
							m, err := p.Acquire(t.Context(), key, 1)
							if err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							running++
							peak = max(peak, running)
							mu.Unlock()
							time.Sleep(10 * time.Millisecond)
							mu.Lock()
							running--
							done++
							mu.Unlock()
							m.Release(nil)
						}
					})
				}
			}
			wg.Wait()
		}
		work(10 * time.Second)
		require.LessOrEqual(t, peak, 4)
		require.Greater(t, done, 2000) // who gets the last ones, when all want more, the store decides
		put(t, all[1], key, `{"maxConcurrentCalls": 1, "maxWaitDurationInMillis": 60000}`)
		time.Sleep(5 * time.Second)
		peak, done = 0, 0
		work(10 * time.Second)
		require.Equal(t, 1, peak)
		require.Greater(t, done, 800)
		put(t, all[0], key, `{"maxConcurrentCalls": 6, "maxWaitDurationInMillis": 60000}`)
		work(5 * time.Second) // both read it meanwhile
		peak = 0
		work(10 * time.Second)
		require.LessOrEqual(t, peak, 6)
		require.Greater(t, peak, 3)
	})
}

func TestMetadataThatAStoreCannotShareIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, end := cluster(t, 1)
		defer end()
		const text = `{"capacity": 1000000000, "limitForPeriod": 1000000000, "limitRefreshPeriodInMillis": 1000}`
		_, err := all[0].Put(t.Context(), "ratelimiter:x", []byte(text), 0)
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = all[0].Put(t.Context(), "bulkhead:x", []byte(text), 0)
		require.NoError(t, err)
	})
}

func TestDeletedMetadataOfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, end := cluster(t, 2)
		defer end()
		const key = "ratelimiter:x"
		put(t, all[0], key, `{"limitForPeriod": 1, "limitRefreshPeriodInMillis": 10000}`)
		require.Len(t, flood(t, all, key, time.Second), 1)
		for range 3 {
			r, err := all[0].Get(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, all[0].Delete(t.Context(), key, r.Version))
			flood(t, all, key, 30*time.Second)
			require.InDelta(t, 500, len(flood(t, all, key, 10*time.Second)), 60) // 5 per 100 ms
			put(t, all[1], key, `{"limitForPeriod": 1, "limitRefreshPeriodInMillis": 10000}`)
			flood(t, all, key, 30*time.Second)
			require.LessOrEqual(t, len(flood(t, all, key, 30*time.Second)), 4)
		}
	})
}
