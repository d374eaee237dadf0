package registry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/store"
)

// What a text says of an instance comes into force at once with what it says of its base:
// the instance is never what neither the text before nor this one says.

const (
	oneOfBase = `{"bulkheads": {"bases": {"default": {"Max": 1, "MaxWait": "1h"}}, "instances": {"x": {}}}}`
	oneItself = `{"bulkheads": {"bases": {"default": {"Max": 100, "MaxWait": "1h"}}, "instances": {"x": {"config": {"Max": 1}}}}}`
)

func TestATextThatRaisesABaseLetsNobodyIntoWhatItKeepsAsItIs(t *testing.T) {
	for name, load := range map[string]func(t *testing.T, r *registry.Registry) func(text string){
		"Load": func(t *testing.T, r *registry.Registry) func(string) {
			return func(text string) { require.NoError(t, r.Load([]byte(text))) }
		},
		"a Follower": func(t *testing.T, r *registry.Registry) func(string) {
			m, err := store.NewMemory(store.MemoryConfig{})
			require.NoError(t, err)
			t.Cleanup(func() { m.Close() })
			f, err := r.Follow(registry.FollowerConfig{Store: m, Key: "config:x"})
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			version := uint64(0)
			return func(text string) {
				rec, err := f.Put(t.Context(), []byte(text), version)
				require.NoError(t, err)
				version = rec.Version
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := registry.New(registry.Config{})
			require.NoError(t, err)
			load := load(t, r)
			load(oneOfBase)
			b, ok := r.Bulkheads.Lookup("x")
			require.True(t, ok)
			for range 10 {
				go func() {
					if b.Acquire(context.Background()) == nil {
						time.Sleep(time.Minute)
						b.Release()
					}
				}()
			}
			synctest.Wait()
			load(oneItself)
			synctest.Wait()
			require.Equal(t, 1, b.InUse(), name)
			time.Sleep(time.Hour)
		})
	}
}

func TestATextThatLowersABaseLeavesWhatItKeepsAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := registry.New(registry.Config{})
		require.NoError(t, err)
		require.NoError(t, r.Load([]byte(`{"limiters": {"bases": {"default": {"Limits": [{"Calendar": {"Limit": 100}}]}}, "instances": {"x": {}}}}`)))
		x, _ := r.Limiters.Lookup("x")
		require.NoError(t, x.Allow("", 20))
		require.NoError(t, r.Load([]byte(`{"limiters": {"bases": {"default": {"Limits": [{"Calendar": {"Limit": 10}}]}}, "instances": {"x": {"config": {"Limits": [{"Calendar": {"Limit": 100}}]}}}}}`)))
		require.NoError(t, x.Allow("", 1), "it may be 100 before and after")
	})
}

func TestATextMayChangeABaseInAWayThatItSparesAnInstance(t *testing.T) {
	r, err := registry.New(registry.Config{})
	require.NoError(t, err)
	require.NoError(t, r.Load([]byte(`{"limiters": {"bases": {"default": {"Limits": [{"SlidingLog": {"Limit": 5, "Window": "1s"}}]}}, "instances": {"x": {}}}}`)))
	require.NoError(t, r.Load([]byte(`{"limiters": {"bases": {"default": {"Limits": [{"SlidingLog": {"Limit": 5, "Window": "2s"}}]}}, "instances": {"x": {"config": {"Limits": [{"SlidingLog": {"Limit": 5, "Window": "1s"}}]}}}}}`)))
}

func TestABreakerThatComesOutTheSameStays(t *testing.T) {
	r, err := registry.New(registry.Config{})
	require.NoError(t, err)
	require.NoError(t, r.Load([]byte(`{"breakers": {"bases": {"default": {"Window": 20}}, "instances": {"x": {}}}}`)))
	listens, err := r.Breakers.Add("y", registry.Default, func(c *breaker.Config) error {
		c.OnEvent = func(event.Event) {} // functions cannot be compared
		return nil
	})
	require.NoError(t, err)
	x, _ := r.Breakers.Lookup("x")
	require.NoError(t, r.Load([]byte(`{"breakers": {"bases": {"default": {"Window": 20}}, "instances": {"x": {}}}}`)))
	y, _ := r.Breakers.Lookup("y")
	require.Same(t, listens, y)
	require.NoError(t, r.Load([]byte(`{"breakers": {"bases": {"default": {"Window": 50}}, "instances": {"x": {"config": {"Window": 20}}}}}`)))
	now, _ := r.Breakers.Lookup("x")
	require.Same(t, x, now)
	y, _ = r.Breakers.Lookup("y")
	require.NotSame(t, listens, y)
	require.NoError(t, r.Breakers.Change("y", func(c *breaker.Config) error {
		c.OnEvent = func(event.Event) { panic("another") }
		return nil
	}))
	other, _ := r.Breakers.Lookup("y")
	require.NotSame(t, y, other)
}
