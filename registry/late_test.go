package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

// What follows comes at a bad time: while something else is under way.

const one = `{"maxConcurrentCalls": 1, "maxWaitDurationInMillis": 0}`

func TestLateDeleteDoesNotUndoAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		slow := make(chan struct{})
		p := newPermits(t, registry.PermitsConfig{Meta: metaFunc(func(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			found, err := engine.Meta(ctx, op)
			if op.Do == store.Delete {
				<-slow
			}
			return found, err
		})})
		defer p.Close()
		const key = "bulkhead:x"
		put(t, p, key, `{}`)
		_, err = p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		deleted := make(chan error)
		go func() { deleted <- p.Delete(t.Context(), key, 1) }()
		synctest.Wait()
		put(t, p, key, one)
		close(slow)
		require.NoError(t, <-deleted)
		_, err = p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
		time.Sleep(2 * time.Second) // it is read again
		_, _ = p.Acquire(t.Context(), key, 1)
		synctest.Wait()
		_, err = p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
	})
}

func TestPutDuringTheFirstUseCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		slow := make(chan struct{})
		p := newPermits(t, registry.PermitsConfig{Meta: metaFunc(func(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
			found, err := engine.Meta(ctx, op)
			if op.Do == store.Get {
				<-slow
			}
			return found, err
		})})
		defer p.Close()
		const key = "bulkhead:x"
		acquired := make(chan error)
		go func() { _, err := p.Acquire(t.Context(), key, 1); acquired <- err }()
		synctest.Wait() // there was no metadata
		_, err = p.Put(t.Context(), key, json.RawMessage(one), 0)
		require.NoError(t, err)
		close(slow)
		require.NoError(t, <-acquired)
		_, err = p.Acquire(t.Context(), key, 1)
		requireCode(t, registry.FailedToAcquirePermit, err)
	})
}

func TestKeyInUseIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{MaxKeys: 1, Allow: func(key string) bool {
			if key == "bulkhead:slow" {
				time.Sleep(5 * time.Second)
			}
			return true
		}})
		defer p.Close()
		acquired := make(chan error)
		go func() { _, err := p.Acquire(t.Context(), "bulkhead:slow", 1); acquired <- err }()
		time.Sleep(2 * time.Second)
		m, err := p.Acquire(t.Context(), "bulkhead:y", 1)
		if err == nil {
			m.Release(nil)
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, <-acquired)
	})
}

func TestCircuitOfACallUnderWayIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{MaxKeys: 1})
		defer p.Close()
		const key = "circuitbreaker:x"
		put(t, p, key, `{"minimumNumberOfCalls": 1, "slidingWindowSize": 1}`)
		m, err := p.Acquire(t.Context(), key, 1)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = p.Acquire(t.Context(), "circuitbreaker:y", 1)
		require.ErrorIs(t, err, registry.ErrTooMany)
		m.Release(errors.New("x"))
		_, err = p.Acquire(t.Context(), key, 1)
		require.ErrorIs(t, err, breaker.ErrOpen)
	})
}

func TestBreakerWhoseTimeHasComeIsReplacedByAHalfOpenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		b, err := r.Breakers.Add("x", "", registry.Override[breaker.Config]([]byte(`{"consecutive": 1, "openFor": "10s", "halfOpenCalls": 1}`)))
		require.NoError(t, err)
		_, err = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
		require.Error(t, err)
		time.Sleep(10 * time.Second)
		require.NoError(t, r.Breakers.Change("x", registry.Override[breaker.Config]([]byte(`{"consecutive": 2, "openFor": "10s", "halfOpenCalls": 1}`))))
		b, _ = r.Breakers.Lookup("x")
		_, err = b.Allow()
		require.NoError(t, err)
		_, err = b.Allow()
		require.ErrorIs(t, err, breaker.ErrOpen, "one trial call")
	})
}

func TestClosedGovernorIsNotRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		g, err := governor.New(governor.PlainConfig{Name: "x"})
		require.NoError(t, err)
		require.NoError(t, g.Close())
		require.ErrorIs(t, r.Register(g), registry.ErrClosed)
		_, ok := r.Governor("x")
		require.False(t, ok)
	})
}

func TestChangeThatIsRefusedChangesNoneOfTheLimits(t *testing.T) {
	r := newRegistry(t)
	l, err := r.Limiters.Add("x", "", registry.Override[registry.LimiterConfig]([]byte(
		`{"limits": [{"bucket": {"rate": 1, "burst": 5}}, {"bucket": {"rate": 1e6, "burst": 10}}]}`)))
	require.NoError(t, err)
	require.Error(t, r.Limiters.Change("x", registry.Override[registry.LimiterConfig]([]byte(
		`{"limits": [{"bucket": {"rate": 1, "burst": 2}}, {"bucket": {"rate": 2e6, "burst": 2199023255552}}]}`))))
	require.Equal(t, 5, allowed(l))
}

func TestSameConfigurationAgainLeavesTheInstance(t *testing.T) {
	r := newRegistry(t)
	text := []byte(`{"breakers": {"bases": {"default": {"window": 20}}, "instances": {"x": {"config": {"minCalls": 5}}}}}`)
	require.NoError(t, r.Load(text))
	was, _ := r.Breakers.Lookup("x")
	require.NoError(t, r.Load(text))
	is, _ := r.Breakers.Lookup("x")
	require.Same(t, was, is)
}

func TestNilContextsAreRefused(t *testing.T) {
	p := newPermits(t, registry.PermitsConfig{})
	defer p.Close()
	s, err := registry.NewPackets(registry.PacketsConfig{Permits: p})
	require.NoError(t, err)
	defer s.Close()
	var none context.Context
	for _, text := range []string{
		`{"operation": "metadata:get", "data": {"key": "bulkhead:x"}}`,
		`{"operation": "metadata:put", "data": {"key": "bulkhead:x", "value": {}}}`,
		`{"operation": "metadata:delete", "data": {"key": "bulkhead:x"}}`,
		`{"operation": "metadata:list", "data": {}}`,
		`{"operation": "bulkhead:acquire", "data": {"key": "bulkhead:x"}}`,
	} {
		require.Contains(t, string(s.Handle(none, []byte(text))), "nil context")
	}
}

func TestKeyWhoseAllowPanicsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(t, registry.PermitsConfig{MaxKeys: 1, Allow: func(key string) bool {
			if key == "bulkhead:x" {
				panic("x")
			}
			return true
		}})
		defer p.Close()
		require.Panics(t, func() { _, _ = p.Acquire(t.Context(), "bulkhead:x", 1) })
		time.Sleep(2 * time.Second)
		_, err := p.Acquire(t.Context(), "bulkhead:y", 1)
		require.NoError(t, err)
	})
}

func TestErrorsOfDecodeDoNotRepeatLongNames(t *testing.T) {
	var m struct{ Of map[string]int }
	err := registry.Decode([]byte(`{"of": {"`+strings.Repeat("n", 60_000)+`": "x"}}`), &m)
	require.ErrorIs(t, err, registry.ErrInvalid)
	require.Less(t, len(err.Error()), 200)
}

func TestMetaStoreThatPanicsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := newPermits(t, registry.PermitsConfig{Meta: metaFunc(func(context.Context, store.MetaOp) ([]store.Record, error) {
			if calls++; calls > 1 {
				panic("x")
			}
			return []store.Record{{Key: "bulkhead:x", Value: json.RawMessage(one), Version: 1}}, nil
		})})
		defer p.Close()
		_, err := p.Acquire(t.Context(), "bulkhead:x", 1)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = p.Acquire(t.Context(), "bulkhead:x", 1) // and it is read again
		requireCode(t, registry.FailedToAcquirePermit, err)
		synctest.Wait()
		require.Equal(t, 2, calls)
		_, err = p.Get(t.Context(), "bulkhead:x")
		requireCode(t, registry.FailureWhileExecutingOperation, err)
	})
}

func TestReplacedBreakerAdmitsNoFurtherTrialCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		change := func(n int) {
			text := fmt.Sprintf(`{"consecutive": %d, "halfOpenCalls": 2, "lease": "30s"}`, n)
			require.NoError(t, r.Breakers.Change("x", registry.Override[breaker.Config]([]byte(text))))
		}
		_, err := r.Breakers.Get("x")
		require.NoError(t, err)
		change(1)
		b, _ := r.Breakers.Lookup("x")
		require.NoError(t, b.Transition(breaker.HalfOpen))
		out := 0
		for i := range 5 {
			b, _ = r.Breakers.Lookup("x")
			if _, err := b.Allow(); err == nil {
				out++
			}
			change(i + 2)
		}
		require.Equal(t, 2, out)
		time.Sleep(30 * time.Second) // the lease
		b, _ = r.Breakers.Lookup("x")
		_, err = b.Allow()
		require.NoError(t, err)
	})
}
