package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/registry"
)

func newRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Config{})
	require.NoError(t, err)
	return r
}

func TestGovernorsAreRegisteredUntilTheyAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := registry.New(registry.Config{Max: 2})
		require.NoError(t, err)
		var told []string
		defer r.Listen(func(e event.Event) { told = append(told, e.Name+" "+e.Source) })()
		make := func(name string) *governor.Plain {
			g, err := governor.New(governor.PlainConfig{Name: name})
			require.NoError(t, err)
			return g
		}
		a, b, c := make("a"), make("b"), make("c")
		defer c.Close()
		require.NoError(t, r.Register(a))
		require.NoError(t, r.Register(b.With(governor.Ask{Tenant: "x"})))
		require.ErrorIs(t, r.Register(a), registry.ErrExists)
		require.ErrorIs(t, r.Register(c), registry.ErrTooMany)
		require.ErrorIs(t, r.Register(nil), registry.ErrInvalid)
		g, ok := r.Governor("a")
		require.True(t, ok)
		require.Same(t, a, g)
		var names []string
		for name := range r.Governors() {
			names = append(names, name)
		}
		require.Equal(t, []string{"a", "b"}, names)
		require.True(t, r.Unregister("a"))
		require.False(t, r.Unregister("a"))
		a2 := make("a")
		defer a2.Close()
		require.NoError(t, r.Register(a2))
		require.NoError(t, a.Close()) // not the one that is registered now
		require.NoError(t, b.Close())
		synctest.Wait()
		g, ok = r.Governor("a")
		require.True(t, ok)
		require.Same(t, a2, g)
		_, ok = r.Governor("b")
		require.False(t, ok)
		require.Equal(t, []string{"a added governor", "b added governor", "a removed governor", "a added governor", "b removed governor"}, told)
		_, err = registry.New(registry.Config{Max: -1})
		require.ErrorIs(t, err, registry.ErrInvalid)
	})
}

func TestReplacedBreakerKeepsBackWhatTheOldOneDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		b, err := r.Breakers.Add("x", "", registry.Override[breaker.Config]([]byte(`{"consecutive": 1, "openFor": "10s"}`)))
		require.NoError(t, err)
		require.Contains(t, b.String(), "x")
		down := errors.New("down")
		_, err = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, down })
		require.ErrorIs(t, err, down)
		time.Sleep(4 * time.Second)
		require.NoError(t, r.Breakers.Change("x", registry.Override[breaker.Config]([]byte(`{"consecutive": 2, "openFor": "1h"}`))))
		b, _ = r.Breakers.Lookup("x")
		time.Sleep(6*time.Second - 1)
		require.ErrorIs(t, b.Ready(time.Now()), breaker.ErrOpen)
		time.Sleep(time.Nanosecond)
		require.NoError(t, b.Ready(time.Now()))
		for _, state := range []breaker.State{breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly, breaker.HalfOpen, breaker.Closed} {
			require.NoError(t, b.Transition(state))
			require.NoError(t, r.Breakers.Change("x", nil))
			b, _ = r.Breakers.Lookup("x")
			require.Equal(t, state, b.State())
		}
		require.ErrorContains(t, r.Breakers.Change("x", registry.Override[breaker.Config]([]byte(`{"failureRate": 2}`))), "FailureRate")
	})
}

func TestBulkheadChangesWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		b, err := r.Bulkheads.Add("x", "", func(c *policy.BulkheadConfig) error {
			c.Max, c.MaxWait, c.OnEvent = 1, time.Minute, func(event.Event) {}
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, b.Acquire(t.Context()))
		done := make(chan error, 1)
		go func() { done <- b.Acquire(t.Context()) }()
		synctest.Wait()
		require.NoError(t, r.Bulkheads.Change("x", registry.Override[policy.BulkheadConfig]([]byte(`{"max": 2}`))))
		require.NoError(t, <-done)
		now, _ := r.Bulkheads.Lookup("x")
		require.Same(t, b, now)
		require.Equal(t, 2, b.Max())
		var full *policy.FullError
		require.ErrorAs(t, b.Acquire(t.Context()), &full) // MaxWait is 0 now
		for text, want := range map[string]error{`{"maxQueue": 2}`: registry.ErrNotLive, `{"name": "y"}`: registry.ErrNotLive, `{"max": -1}`: policy.ErrInvalid} {
			require.ErrorIs(t, r.Bulkheads.Change("x", registry.Override[policy.BulkheadConfig]([]byte(text))), want, text)
			require.Equal(t, 2, b.Max())
		}
	})
}

// allowed is how many calls are let pass now.
func allowed(l *registry.Limiter) (n int) {
	for l.Allow("k", 1) == nil {
		n++
	}
	return n
}

func TestLimitersChangeWhileTheyRun(t *testing.T) {
	// first is how many pass at once; then the limit changes, and again a window later.
	for text, c := range map[string]struct {
		to                  string
		first, then, window int
	}{
		`{"limits": [{"slidingLog": {"limit": 5, "window": "1m"}}]}`:                                {`{"limits": [{"slidingLog": {"limit": 8, "window": "1m"}}]}`, 5, 0, 8},
		`{"limits": [{"slidingLog": {"limit": 8, "window": "1m"}}]}`:                                {`{"limits": [{"slidingLog": {"limit": 5, "window": "1m"}}]}`, 8, 0, 5},
		`{"whole": [{"slidingCounter": {"limit": 5, "window": "50s"}}]}`:                            {`{"whole": [{"slidingCounter": {"limit": 8, "window": "50s"}}]}`, 5, 0, 8},
		`{"limits": [{"fixedWindow": {"limit": 5, "period": "1m"}}]}`:                               {`{"limits": [{"fixedWindow": {"limit": 8, "period": "1m"}}]}`, 5, 0, 8},
		`{"limits": [{"quota": {"limit": 5, "per": "1m", "margin": "-1s"}}]}`:                       {`{"limits": [{"quota": {"limit": 8, "per": "1m", "margin": "-1s"}}]}`, 5, 0, 8},
		`{"limits": [{"approx": {"limit": 5, "window": "20s"}}]}`:                                   {`{"limits": [{"approx": {"limit": 8, "window": "20s"}}]}`, 5, 0, 8},
		`{"limits": [{"concurrency": {"limit": 5}}]}`:                                               {`{"limits": [{"concurrency": {"limit": 8}}]}`, 5, 3, 0},
		`{"limits": [{"bucket": {"rate": 1, "burst": 5}}]}`:                                         {`{"limits": [{"bucket": {"rate": 2, "burst": 8}}]}`, 5, 0, 8},
		`{"limits": [{"bucket": {"rate": 2, "burst": 8}}]}`:                                         {`{"limits": [{"bucket": {"rate": 0.05, "burst": 8}}]}`, 8, 0, 3},
		`{"limits": [{"bucket": {"rate": 2}}]}`:                                                     {`{"limits": [{"bucket": {"rate": 4}}]}`, 2, 0, 4},
		`{"limits": [{"leaky": {"rate": 1}}]}`:                                                      {`{"limits": [{"leaky": {"rate": 2}}]}`, 1, 0, 1},
		`{"limits": [{"calendar": {"limit": 5, "cycle": "hourly"}}]}`:                               {`{"limits": [{"calendar": {"limit": 8, "cycle": "hourly"}}]}`, 5, 0, 0},
		`{"limits": [{"slidingLog": {"limit": 5, "window": "1m"}}, {"concurrency": {"limit": 2}}]}`: {`{"limits": [{"slidingLog": {"limit": 5, "window": "1m"}}, {"concurrency": {"limit": 4}}]}`, 2, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(t)
			l, err := r.Limiters.Add("x", "", registry.Override[registry.LimiterConfig]([]byte(text)))
			require.NoError(t, err, text)
			defer l.Close()
			require.Equal(t, c.first, allowed(l), text)
			require.NoError(t, r.Limiters.Change("x", registry.Override[registry.LimiterConfig]([]byte(c.to))), text)
			require.Equal(t, c.then, allowed(l), text)
			time.Sleep(time.Minute)
			require.Equal(t, c.window, allowed(l), text)
		})
	}
}

func TestLimiterChangesThatAreRefused(t *testing.T) {
	r := newRegistry(t)
	const text = `{"limits": [{"bucket": {"rate": 1, "burst": 5}}], "shared": {"maxQueue": 5}}`
	l, err := r.Limiters.Add("x", "", registry.Override[registry.LimiterConfig]([]byte(text)))
	require.NoError(t, err)
	for to, want := range map[string]error{
		`{}`: registry.ErrNotLive,
		`{"limits": [{"leaky": {"rate": 1}}], "shared": {"maxQueue": 5}}`:                            registry.ErrNotLive,
		`{"limits": [{"bucket": {"rate": 1, "burst": 5, "maxKeys": 7}}], "shared": {"maxQueue": 5}}`: registry.ErrNotLive,
		`{"limits": [{"bucket": {"rate": 1, "burst": 5}}], "shared": {"maxQueue": 6}}`:               registry.ErrNotLive,
		`{"limits": [{"bucket": {"rate": 0}}], "shared": {"maxQueue": 5}}`:                           limiter.ErrInvalid,
		`{"limits": [{"bucket": {"rate": 1}, "leaky": {"rate": 1}}], "shared": {"maxQueue": 5}}`:     registry.ErrInvalid,
		`{"limits": [{}], "shared": {"maxQueue": 5}}`:                                                registry.ErrInvalid,
		`{"limits": [{"bucket": {"rate": 9, "burst": 9}}, {"bucket": {"rate": -1}}]}`:                limiter.ErrInvalid,
	} {
		err := r.Limiters.Change("x", registry.Override[registry.LimiterConfig]([]byte(to)))
		require.ErrorIs(t, err, want, to)
	}
	require.Equal(t, 5, allowed(l))
	require.NoError(t, r.Limiters.Change("x", registry.Override[registry.LimiterConfig]([]byte(strings.Replace(text, "5}}]", "5}}]", 1)))))
	_, err = registry.NewLimiter("x", registry.LimiterConfig{Shared: limiter.SharedConfig{Limiters: []limiter.Limiter{nil}}})
	require.ErrorIs(t, err, registry.ErrInvalid)
	l, err = r.Limiters.Get("default")
	require.NoError(t, err)
	require.Equal(t, 1000, allowed(l)) // that of a SharedConfig
}

func TestLoadSetsBasesAndInstances(t *testing.T) {
	r := newRegistry(t)
	const text = `{
		"breakers": {"bases": {"default": {"window": 50, "openFor": "exponential 30s x2 up to 10m"}, "strict": {"consecutive": 3}},
			"instances": {"billing": {"base": "strict"}, "Billing": {"config": {"window": 20}}}},
		"limiters": {"bases": {"default": {"limits": [{"bucket": {"rate": 10}}]}}, "instances": {"a": {}}},
		"bulkheads": {"instances": {"b": {"config": {"max": 3}}}},
		"retries": {"bases": {"default": {"attempts": 5}}},
		"timeouts": {"bases": {"default": {"after": "3s"}}}
	}`
	require.NoError(t, r.Load([]byte(text)))
	cfg, ok := r.Breakers.Config("Billing")
	require.True(t, ok)
	require.Equal(t, breaker.Config{Window: 20, OpenFor: backoff.Exponential{Initial: 30 * time.Second, Multiplier: 2, Max: 10 * time.Minute}}, cfg)
	cfg, _ = r.Breakers.Config("billing")
	require.Equal(t, breaker.Config{Consecutive: 3}, cfg)
	b, _ := r.Bulkheads.Lookup("b")
	require.Equal(t, 3, b.Max())
	retry, err := r.Retries.Get("any")
	require.NoError(t, err)
	require.Contains(t, retry.String(), "5 attempts")
	timeout, err := r.Timeouts.Get("any")
	require.NoError(t, err)
	require.Contains(t, timeout.String(), "3s")

	// Loaded again with changes, it changes what is there.
	require.NoError(t, r.Load([]byte(`{"bulkheads": {"instances": {"b": {"config": {"max": 4}}, "c": {}}}, "breakers": {"instances": {"billing": {"base": "default"}}}}`)))
	require.Equal(t, 4, b.Max())
	require.Equal(t, 2, r.Bulkheads.Len())
	cfg, _ = r.Breakers.Config("billing")
	require.Equal(t, 50, cfg.Window)

	for text, want := range map[string]string{
		`[]`: "want an object", `{"breakers": 1}`: "breakers is 1", `{"governors": {}}`: "governors is {}", `{`: "JSON",
		`{"breakers": {"base": {}}}`:  "breakers.base is {}",
		`{"breakers": {"bases": []}}`: "breakers.bases is []",
		`{"bulkheads": {"bases": {"default": {"max": 9}}}, "breakers": {"bases": {"a": {"x": 1}}}}`: `breakers.bases."a": registry: x is 1`,
		`{"breakers": {"instances": {"a": 5}}}`:                                                     "breakers.instances.a is 5",
		`{"breakers": {"instances": {"a": {"base": 5}}}}`:                                           "breakers.instances.a.base is 5",
		`{"breakers": {"instances": {"a": {"base": "none"}}}}`:                                      "not found",
		`{"breakers": {"instances": {"a": {"bases": {}}}}}`:                                         "breakers.instances.a.bases",
		`{"breakers": {"instances": {"a": {"config": {"window": "x"}}}}}`:                           `breakers.instances."a": registry: Window is "x"`,
		`{"breakers": {"instances": {"a": {}, "a": {}}}}`:                                           `"a" twice`,
	} {
		err := r.Load([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	_, ok = r.Bulkheads.Base("default")
	require.False(t, ok, "nothing is set of a text that cannot be read")
	err = r.Load([]byte(`{"bulkheads": {"instances": {"b": {"config": {"max": -1}}, "d": {}}}}`))
	require.ErrorContains(t, err, "Max is -1")
	_, ok = r.Bulkheads.Lookup("d")
	require.True(t, ok, "what can be set is")
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"breakers": {"bases": {"default": {"window": 50}}, "instances": {"billing": {"base": "default", "config": {}}}}}`)
	f.Add(`{"limiters": {"instances": {"a": {"config": {"limits": [{"bucket": {"rate": 10}}]}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := registry.New(registry.Config{Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Load([]byte(text)); err == nil {
			if err := r.Load([]byte(text)); err != nil {
				t.Fatalf("loaded, and then: %v", err)
			}
		}
	})
}
