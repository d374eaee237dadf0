package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

func newPermits(t *testing.T, cfg registry.PermitsConfig) *registry.Permits {
	t.Helper()
	p, err := registry.NewPermits(cfg)
	require.NoError(t, err)
	return p
}

func put(t *testing.T, p *registry.Permits, key, text string) {
	t.Helper()
	r, err := p.Get(t.Context(), key)
	require.NoError(t, err)
	_, err = p.Put(t.Context(), key, json.RawMessage(text), r.Version)
	require.NoError(t, err)
}

func requireCode(t *testing.T, code registry.Code, err error) {
	t.Helper()
	var e *registry.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, err)
	require.ErrorContains(t, err, string(code))
}

// passes is how many acquires pass without a wait.
func passes(t *testing.T, p *registry.Permits, key string) (n int) {
	t.Helper()
	for {
		began := time.Now()
		_, err := p.Acquire(t.Context(), key, 1)
		require.Zero(t, time.Since(began), "metadata with timeoutInMillis 0 is meant")
		if err != nil {
			requireCode(t, registry.FailedToAcquirePermit, err)
			return n
		}
		n++
	}
}

func TestRateLimiterOfTheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		const key = "tenant1-ratelimiter:servicea"
		began := time.Now()
		for range 5 { // limitForPeriod
			_, err := p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
		m, err := p.Acquire(t.Context(), key, 1) // 5 per 100 ms
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, time.Since(began))
		m.Release(nil)
		m.Release(errors.New("x"))
		began = time.Now()
		_, err = p.Acquire(t.Context(), key, 5)
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		_, err = p.Acquire(t.Context(), key, 6)
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.ErrorIs(t, err, limiter.ErrLimited)

		// 500 ms are enough for 25 that wait; the 26th is refused at once.
		var passed, refused atomic.Int64
		for range 30 {
			go func() {
				if _, err := p.Acquire(t.Context(), key, 1); err == nil {
					passed.Add(1)
				} else {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		require.Equal(t, []int64{25, 5}, []int64{passed.Load(), refused.Load()})
		_, err = p.Acquire(t.Context(), "tenant2-RateLimiter:servicea", 5)
		require.NoError(t, err)
	})
}

func TestRateLimiterChangesWithItsMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		const key = "ratelimiter:x"
		put(t, p, key, `{"limitForPeriod": 10, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 0}`)
		require.Equal(t, 10, passes(t, p, key))
		time.Sleep(3 * time.Second)
		// A raise counts when the period is over, 7 s from now: not before.
		put(t, p, key, `{"limitForPeriod": 100, "limitRefreshPeriodInMillis": 10000, "capacity": 50, "timeoutInMillis": 0}`)
		require.Equal(t, 3, passes(t, p, key))
		time.Sleep(7*time.Second - 1)
		require.Equal(t, 6, passes(t, p, key)) // 7 but for a nanosecond
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, passes(t, p, key))
		time.Sleep(2 * time.Second)
		require.Equal(t, 20, passes(t, p, key))
		time.Sleep(time.Hour)
		require.Equal(t, 50, passes(t, p, key))
		// A lowering counts at once.
		time.Sleep(time.Hour)
		put(t, p, key, `{"limitForPeriod": 2, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 0}`)
		require.Equal(t, 2, passes(t, p, key))
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, passes(t, p, key))
		// A raise, and a lowering of it before it counts.
		put(t, p, key, `{"limitForPeriod": 1000, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 0}`)
		put(t, p, key, `{"limitForPeriod": 1, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 0}`)
		time.Sleep(time.Hour)
		require.Equal(t, 1, passes(t, p, key))
		// Deleted: the defaults, at the next period.
		r, err := p.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, p.Delete(t.Context(), key, r.Version))
		time.Sleep(time.Hour)
		for range 5 {
			_, err = p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
		}
		began := time.Now()
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		require.Equal(t, 20*time.Millisecond, time.Since(began))
	})
}

func TestRaiseReachesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		const key = "ratelimiter:x"
		put(t, p, key, `{"limitForPeriod": 1, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 60000}`)
		_, err := p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		began := time.Now()
		waits := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				if _, err := p.Acquire(t.Context(), key, 1); err == nil {
					waits <- time.Since(began).Truncate(time.Microsecond) // a change of rate costs some nanoseconds
				}
			}()
		}
		synctest.Wait()
		put(t, p, key, `{"limitForPeriod": 100, "limitRefreshPeriodInMillis": 10000, "timeoutInMillis": 60000}`)
		require.Equal(t, 5*time.Second, <-waits)
		require.Equal(t, 5100*time.Millisecond, <-waits) // not 15 s
		require.Equal(t, 5200*time.Millisecond, <-waits)
	})
}

// The most that any window of a period let pass, with random changes: never more than
// the largest capacity and rate in force in it.
func TestRateLimiterNeverExceedsTheMetadata(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		synctest.Test(t, func(t *testing.T) {
			p := newPermits(t, registry.PermitsConfig{})
			defer p.Close()
			r := rand.New(rand.NewPCG(seed, 2))
			const key = "ratelimiter:x"
			limit, capacity := 10, 10
			change := func() {
				put(t, p, key, fmt.Sprintf(`{"limitForPeriod": %d, "capacity": %d, "limitRefreshPeriodInMillis": 1000, "timeoutInMillis": 0}`, limit, capacity))
			}
			change()
			require.Equal(t, 10, passes(t, p, key))
			tokens, last := 0.0, time.Now() // what a bucket that is raised at once would hold
			for range 300 {
				if r.IntN(5) == 0 {
					limit, capacity = 1+r.IntN(20), 1+r.IntN(20)
					change()
				}
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
				// A limit lowered in between counts from then on: count the higher of the two.
				tokens = min(20, tokens+20*time.Since(last).Seconds())
				last = time.Now()
				n := passes(t, p, key)
				if n > capacity {
					t.Fatalf("%d at once, capacity %d", n, capacity)
				}
				if tokens -= float64(n); tokens < -1e-6 {
					t.Fatal("more than the largest limit of all lets pass")
				}
			}
		})
	}
}

func TestBulkheadHoldsItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		const key = "bulkhead:servicea"
		var all []*registry.Permit
		for range 25 {
			m, err := p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			all = append(all, m)
		}
		began := time.Now()
		_, err := p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, limiter.ErrLimited)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		within, done := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer done()
		_, err = p.Acquire(within, key, 1)
		requireCode(t, registry.InterruptedWhileAcquiringPermit, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(100*time.Millisecond, func() { all[0].Release(nil); all[0].Release(nil) })
		began = time.Now()
		m, err := p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = p.Acquire(ctx, key, 1)
		requireCode(t, registry.InterruptedWhileAcquiringPermit, err)
		require.ErrorIs(t, err, context.Canceled)
		_, err = p.Acquire(ctx, key, 1)
		requireCode(t, registry.InterruptedWhileAcquiringPermit, err)

		// More room counts at once, less when it has come back.
		put(t, p, key, `{"maxConcurrentCalls": 26, "maxWaitDurationInMillis": 0}`)
		m2, err := p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		put(t, p, key, `{"maxConcurrentCalls": 24, "maxWaitDurationInMillis": 0}`)
		m.Release(nil)
		m2.Release(nil)
		began = time.Now()
		_, err = p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.Zero(t, time.Since(began))
		all[1].Release(nil)
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), key, 25)
		requireCode(t, registry.FailedToAcquirePermit, err)
	})
}

func TestCircuitBreakerCountsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []event.Kind
		p := newPermits(t, registry.PermitsConfig{OnEvent: func(e event.Event) {
			if e.Kind == event.BreakerState {
				require.Equal(t, "t-circuitbreaker:b", e.Name)
				told = append(told, e.Kind)
			}
		}})
		defer p.Close()
		const key = "t-circuitbreaker:b"
		down := errors.New("down")
		call := func(result error) error {
			_, err := registry.Do(t.Context(), p, key, func(context.Context) (int, error) { return 1, result })
			return err
		}
		for range 10 {
			require.NoError(t, call(nil))
		}
		for range 10 { // of 20: half
			err := call(down)
			requireCode(t, registry.FailureWhileExecutingOperation, err)
			require.ErrorIs(t, err, down)
		}
		require.Len(t, told, 1)
		err := call(nil)
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.ErrorIs(t, err, breaker.ErrOpen)
		time.Sleep(time.Minute - 1)
		requireCode(t, registry.FailedToAcquirePermit, call(nil))
		put(t, p, key, `{"permittedNumberOfCallsInHalfOpenState": 1, "minimumNumberOfCalls": 1, "slidingWindowSize": 1}`) // stays open
		requireCode(t, registry.FailedToAcquirePermit, call(nil))
		time.Sleep(time.Nanosecond)
		require.NoError(t, call(nil))
		require.ErrorIs(t, call(down), down)
		requireCode(t, registry.FailedToAcquirePermit, call(nil))
		require.PanicsWithValue(t, "x", func() {
			_, _ = registry.Do(t.Context(), p, "bulkhead:x", func(context.Context) (int, error) { panic("x") })
		})
	})
}

func TestKeysThatGuardNothing(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{Allow: func(key string) bool { return key != "ratelimiter:vetoed" }})
	defer p.Close()
	for _, key := range []string{"", "x", "semaphore:x", "bulkhead:", "cooldown:x", "governor:x"} {
		_, err := p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.RegistryNotFound, err)
		require.ErrorIs(t, err, registry.ErrInvalid)
	}
	_, err := p.Acquire(t.Context(), "RateLimiter:vetoed", 1)
	requireCode(t, registry.FailedToAcquirePermit, err)
	for _, n := range []int{0, -1} {
		_, err = p.Acquire(t.Context(), "ratelimiter:x", n)
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.ErrorIs(t, err, registry.ErrInvalid)
	}
	var none context.Context
	_, err = p.Acquire(none, "ratelimiter:x", 1)
	require.ErrorIs(t, err, registry.ErrInvalid)
	_, err = registry.Do[int](t.Context(), p, "ratelimiter:x", nil)
	require.ErrorIs(t, err, registry.ErrInvalid)
	for _, cfg := range []registry.PermitsConfig{{Refresh: time.Millisecond}, {MaxKeys: -1}, {Refresh: -1}} {
		_, err := registry.NewPermits(cfg)
		require.ErrorIs(t, err, registry.ErrInvalid)
	}
}

// metaFunc is a MetaStore.
type metaFunc func(context.Context, store.MetaOp) ([]store.Record, error)

func (f metaFunc) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	return f(ctx, op)
}

func TestMetadataThatCannotBeHad(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{Meta: metaFunc(func(_ context.Context, op store.MetaOp) ([]store.Record, error) {
		if op.Key == "bulkhead:bad" {
			return []store.Record{{Key: op.Key, Value: json.RawMessage(`{"maxConcurrentCalls": 0}`), Version: 1}}, nil
		}
		return nil, errors.New("gone")
	})})
	defer p.Close()
	_, err := p.Acquire(t.Context(), "bulkhead:bad", 1)
	requireCode(t, registry.FailedToInstantiateRegistry, err)
	require.ErrorContains(t, err, "maxConcurrentCalls is 0")
	_, err = p.Acquire(t.Context(), "bulkhead:x", 1)
	requireCode(t, registry.FailedToInstantiateRegistry, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Acquire(ctx, "bulkhead:x", 1)
	requireCode(t, registry.InterruptedWhileAcquiringPermit, err)
	_, err = p.Get(t.Context(), "bulkhead:x")
	requireCode(t, registry.FailureWhileExecutingOperation, err)
	_, err = p.List(t.Context(), "", 0)
	requireCode(t, registry.FailureWhileExecutingOperation, err)
}

func TestMetadataIsComparedAndSet(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{})
	defer p.Close()
	const key = "a-BulkHead:x"
	r, err := p.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, store.Record{Key: "a-bulkhead:x"}, r)
	const text = `{ "maxConcurrentCalls":3,"etc": [1.0 , {"b":null}] }`
	r, err = p.Put(t.Context(), key, json.RawMessage(text), 0)
	require.NoError(t, err)
	require.Equal(t, text, string(r.Value), "what is not known is kept, as it is written")
	for _, version := range []uint64{0, r.Version + 1} {
		_, err = p.Put(t.Context(), key, json.RawMessage(`{}`), version)
		requireCode(t, registry.FailureWhileExecutingOperation, err)
		require.ErrorIs(t, err, store.ErrConflict)
		err = p.Delete(t.Context(), key, version)
		require.ErrorIs(t, err, store.ErrConflict)
	}
	_, err = p.Put(t.Context(), key, json.RawMessage(`{"maxConcurrentCalls": 0}`), r.Version)
	require.ErrorIs(t, err, registry.ErrInvalid)
	again, err := p.Get(t.Context(), "a-bulkhead:x")
	require.NoError(t, err)
	require.Equal(t, r, again)
	found, err := p.List(t.Context(), "a-", 0)
	require.NoError(t, err)
	require.Equal(t, []store.Record{r}, found)
	require.NoError(t, p.Delete(t.Context(), key, r.Version))
	for _, key := range []string{"x", "bulkhead:"} {
		_, err = p.Get(t.Context(), key)
		requireCode(t, registry.RegistryNotFound, err)
		_, err = p.Put(t.Context(), key, json.RawMessage(`{}`), 0)
		requireCode(t, registry.RegistryNotFound, err)
		requireCode(t, registry.RegistryNotFound, p.Delete(t.Context(), key, 0))
	}
}

// Random metadata of a few keys against a map: versions only grow, and what was stored
// is what is read, in all Permits over one store.
func TestMetadataAgainstAModel(t *testing.T) {
	synctest.Test(t, metadataAgainstAModel)
}

func metadataAgainstAModel(t *testing.T) {
	engine, err := store.NewMemory(store.MemoryConfig{})
	require.NoError(t, err)
	var all []*registry.Permits
	for range 3 {
		p := newPermits(t, registry.PermitsConfig{Meta: engine})
		defer p.Close()
		all = append(all, p)
	}
	model, top := map[string]store.Record{}, uint64(0)
	r := rand.New(rand.NewPCG(3, 4))
	keys := []string{"ratelimiter:a", "bulkhead:a", "t-ratelimiter:a", "circuitbreaker:a"}
	for range effort.Times(500) {
		p, key := all[r.IntN(3)], keys[r.IntN(len(keys))]
		version := model[key].Version
		right := r.IntN(4) > 0
		if !right {
			version += uint64(1 + r.IntN(3))
		}
		switch r.IntN(4) {
		case 0, 1:
			text := fmt.Sprintf(`{"limitForPeriod": %d, "x": %d}`, 1+r.IntN(10), r.IntN(1000))
			got, err := p.Put(t.Context(), key, json.RawMessage(text), version)
			if !right {
				require.ErrorIs(t, err, store.ErrConflict)
				continue
			}
			require.NoError(t, err)
			require.Greater(t, got.Version, top)
			top = got.Version
			model[key] = store.Record{Key: key, Value: json.RawMessage(text), Version: top}
		case 2:
			err := p.Delete(t.Context(), key, version)
			if !right {
				require.ErrorIs(t, err, store.ErrConflict)
				continue
			}
			require.NoError(t, err)
			delete(model, key)
		case 3:
			if m, err := p.Acquire(t.Context(), key, 1); err == nil {
				m.Release(nil)
			}
		}
		got, err := all[r.IntN(3)].Get(t.Context(), key)
		require.NoError(t, err)
		want := model[key]
		want.Key = key
		require.Equal(t, want, got)
	}
}

func TestChangesOfOtherProcessesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		var reads atomic.Int64
		counted := metaFunc(func(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			reads.Add(1)
			return engine.Meta(ctx, op)
		})
		here := newPermits(t, registry.PermitsConfig{Meta: counted})
		defer here.Close()
		there := newPermits(t, registry.PermitsConfig{Meta: engine})
		defer there.Close()
		const key = "bulkhead:x"
		for range 1000 {
			m, err := here.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			m.Release(nil)
		}
		require.EqualValues(t, 1, reads.Load())
		put(t, there, key, `{"maxConcurrentCalls": 1, "maxWaitDurationInMillis": 0}`)
		time.Sleep(time.Second)
		if m, err := here.Acquire(t.Context(), key, 2); err == nil { // which begins to read, and may be the faster
			m.Release(nil)
		}
		synctest.Wait()
		require.EqualValues(t, 2, reads.Load())
		_, err = here.Acquire(t.Context(), key, 2)
		requireCode(t, registry.FailedToAcquirePermit, err)
		// It was deleted: the defaults again.
		r, err := there.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, there.Delete(t.Context(), key, r.Version))
		time.Sleep(time.Second)
		_, _ = here.Acquire(t.Context(), key, 2)
		synctest.Wait()
		_, err = here.Acquire(t.Context(), key, 2)
		require.NoError(t, err)
		// What makes no sense changes nothing.
		_, err = engine.Meta(t.Context(), store.MetaOp{Do: store.Put, Key: key, Value: json.RawMessage(`{"maxConcurrentCalls": -1}`)})
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, _ = here.Acquire(t.Context(), key, 2)
		synctest.Wait()
		_, err = here.Acquire(t.Context(), key, 2)
		require.NoError(t, err)
	})
}

// That there is no record, read before a Put but heard of after it, does not undo it.
func TestLateReadDoesNotUndoAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		slow := make(chan struct{})
		var gets atomic.Int64
		p := newPermits(t, registry.PermitsConfig{Meta: metaFunc(func(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			found, err := engine.Meta(ctx, op)
			if op.Do == store.Get && gets.Add(1) == 2 {
				<-slow
			}
			return found, err
		})})
		defer p.Close()
		const key = "bulkhead:x"
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		synctest.Wait()
		_, err = p.Put(t.Context(), key, json.RawMessage(`{"maxConcurrentCalls": 2, "maxWaitDurationInMillis": 0}`), 0)
		require.NoError(t, err)
		close(slow)
		synctest.Wait()
		_, err = p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
	})
}

func TestKeysAreBoundedAndIdleOnesForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{MaxKeys: 3})
		defer p.Close()
		_, err := p.Acquire(t.Context(), "ratelimiter:a", 1)
		require.NoError(t, err)
		held, err := p.Acquire(t.Context(), "bulkhead:a", 1)
		require.NoError(t, err)
		_, err = registry.Do(t.Context(), p, "circuitbreaker:a", func(context.Context) (int, error) { return 0, errors.New("x") })
		require.Error(t, err)
		_, err = p.Acquire(t.Context(), "ratelimiter:b", 1)
		requireCode(t, registry.FailedToInstantiateRegistry, err)
		require.ErrorIs(t, err, registry.ErrTooMany)
		time.Sleep(2 * time.Second) // the bucket is full again
		_, err = p.Acquire(t.Context(), "ratelimiter:b", 1)
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), "ratelimiter:c", 1)
		require.ErrorIs(t, err, registry.ErrTooMany, "b was just used, a is held, and the breaker has counted a failure")
		held.Release(nil)
		time.Sleep(2 * time.Second)
		for _, key := range []string{"ratelimiter:c", "ratelimiter:d"} {
			_, err = p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
		}
		_, err = p.Acquire(t.Context(), "ratelimiter:e", 1)
		require.ErrorIs(t, err, registry.ErrTooMany)
	})
}

func TestCloseReleasesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		const key = "bulkhead:x"
		put(t, p, key, `{"maxConcurrentCalls": 1, "maxWaitDurationInMillis": 100000}`)
		m, err := p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { _, err := p.Acquire(t.Context(), key, 1); done <- err }()
		synctest.Wait()
		require.NoError(t, p.Close())
		err = <-done
		requireCode(t, registry.FailedToAcquirePermit, err)
		require.ErrorIs(t, err, limiter.ErrClosed)
		m.Release(nil)
		_, err = p.Acquire(t.Context(), key, 1)
		require.ErrorIs(t, err, registry.ErrClosed)
		_, err = p.Acquire(t.Context(), "bulkhead:y", 1)
		require.ErrorIs(t, err, registry.ErrClosed)
		require.NoError(t, p.Close())
	})
}

func TestPermitsUnderRandomUse(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{MaxKeys: 4, Refresh: 10 * time.Millisecond})
	var wg sync.WaitGroup
	var running [6]atomic.Int64
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			for range effort.Times(150) {
				i := r.IntN(6)
				key := fmt.Sprintf("%s:k%d", []string{"bulkhead", "ratelimiter", "circuitbreaker"}[i%3], i)
				switch r.IntN(8) {
				case 0:
					rec, err := p.Get(t.Context(), key)
					if err == nil {
						_, _ = p.Put(t.Context(), key, json.RawMessage(fmt.Sprintf(`{"maxConcurrentCalls": %d, "maxWaitDurationInMillis": 1, "limitForPeriod": %d, "timeoutInMillis": 0}`, 1+r.IntN(3), 1+r.IntN(9))), rec.Version)
					}
				default:
					m, err := p.Acquire(t.Context(), key, 1)
					if err != nil {
						continue
					}
					if n := running[i].Add(1); i%3 == 0 && n > 25 {
						t.Errorf("%d run", n)
					}
					running[i].Add(-1)
					m.Release([]error{nil, errors.New("x")}[r.IntN(2)])
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, p.Close())
}

// What is never to be had is refused, also while a larger limit waits for the next period.
func TestMoreThanCapacityIsRefusedWhileARaiseWaits(t *testing.T) {
	for _, raise := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPermits(t, registry.PermitsConfig{})
			defer p.Close()
			const key = "ratelimiter:x"
			put(t, p, key, `{"capacity": 10, "limitForPeriod": 10, "limitRefreshPeriodInMillis": 3600000, "timeoutInMillis": 7200000}`)
			_, err := p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			if raise {
				put(t, p, key, `{"capacity": 10, "limitForPeriod": 20, "limitRefreshPeriodInMillis": 3600000, "timeoutInMillis": 7200000}`)
			}
			began := time.Now()
			_, err = p.Acquire(t.Context(), key, 11)
			require.Error(t, err)
			_, err = p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "a raise waits: %v", raise)
		})
	}
}

func TestABreakerThatIsPutStaysOpenForAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{})
		defer p.Close()
		const key = "circuitbreaker:x"
		const week = `{"minimumNumberOfCalls": 2, "slidingWindowSize": 2, "waitInOpenStateInMillis": 604800000}`
		put(t, p, key, week)
		for range 2 {
			m, err := p.Acquire(t.Context(), key, 1)
			require.NoError(t, err)
			m.Release(errors.New("down"))
		}
		put(t, p, key, week)
		time.Sleep(6 * 24 * time.Hour)
		_, err := p.Acquire(t.Context(), key, 1)
		require.ErrorIs(t, err, breaker.ErrOpen)
		time.Sleep(24 * time.Hour)
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
	})
}

// slowMeta is metadata that is far away.
type slowMeta struct{ *store.Memory }

func (s slowMeta) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Memory.Meta(ctx, op)
}

// That the metadata of other keys changes all the time keeps nobody from the first use of one.
func TestTheFirstUseOfAKeyIsNotKeptBackByChangesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		defer m.Close()
		p := newPermits(t, registry.PermitsConfig{Meta: slowMeta{m}})
		defer p.Close()
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 2500 * time.Microsecond)
				var r store.Record
				for ctx.Err() == nil {
					var err error
					if r, err = p.Put(context.Background(), fmt.Sprintf("ratelimiter:other%d", i), []byte(`{}`), r.Version); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(101 * time.Millisecond)
		began := time.Now()
		permit, err := p.Acquire(ctx, "ratelimiter:mine", 1)
		require.NoError(t, err)
		permit.Release(nil)
		require.Less(t, time.Since(began), time.Second)
	})
}
