package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/telemetry"
	"github.com/flyball-go/flyball/throttle"
)

// reading is all that a provider has: a value for each metric and its attributes,
// "name{key=value,...}". A histogram's is how many it has.
type reading map[string]float64

// additive are the metrics that go up and down, and are added up over governors.
var additive = map[string]bool{
	"flyball.cooling": true, "flyball.queue.length": true, "flyball.queue.limit": true, "flyball.queue.lanes": true, "flyball.queue.tenants": true, "flyball.breaker.state": true,
	"flyball.slots.usage": true, "flyball.slots.limit": true, "flyball.paused": true, "flyball.breaker.refusing": true,
	"flyball.pool.connections": true, "flyball.pool.limit": true,
}

func read(t *testing.T, from *metric.ManualReader) reading {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, from.Collect(t.Context(), &data))
	r := reading{}
	add := func(name string, attrs attribute.Set, v float64) {
		var pairs []string
		for _, a := range attrs.ToSlice() {
			pairs = append(pairs, strings.TrimPrefix(string(a.Key), "flyball.")+"="+a.Value.String())
		}
		key := name + "{" + strings.Join(pairs, ",") + "}"
		require.NotContains(t, r, key)
		r[key] = v
	}
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, telemetry.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[float64]:
				require.Equal(t, !additive[m.Name], d.IsMonotonic, m.Name)
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return r
}

// measured makes a Telemetry and what reads it.
func measured(t *testing.T, cfg telemetry.Config) (*telemetry.Telemetry, *metric.ManualReader) {
	t.Helper()
	reader := metric.NewManualReader()
	cfg.Meters = metric.NewMeterProvider(metric.WithReader(reader))
	tel, err := telemetry.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Close()) })
	return tel, reader
}

func plain(t *testing.T, cfg governor.PlainConfig) *governor.Plain {
	t.Helper()
	if cfg.Vendor == nil {
		cfg.Vendor = governortest.Vendor{}
	}
	g, err := governor.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func watch(t *testing.T, tel *telemetry.Telemetry, h governor.Handle) (stop func()) {
	t.Helper()
	stop, err := tel.Watch(h)
	require.NoError(t, err)
	t.Cleanup(stop)
	return stop
}

func TestMetricsSayWhatStatsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{})
		rate, err := limiter.NewBucket(limiter.BucketConfig{Rate: 100, Burst: 50})
		require.NoError(t, err)
		b, err := breaker.New(breaker.Config{})
		require.NoError(t, err)
		g, err := governor.New(governor.Config[string, int]{
			Name: "acme", Vendor: governortest.Vendor{}, Workers: 4, MaxQueue: 20,
			Pool: &pool.Config[string, int]{
				Open: func(_ context.Context, sel string) (int, error) {
					if sel == "down" {
						return 0, errors.New("no such host")
					}
					return 1, nil
				},
				Max: 3,
			},
			Limits:  []governor.Limit{{Per: throttle.Host, Limiter: rate}},
			Breaker: b,
		})
		require.NoError(t, err)
		defer g.Close()
		watch(t, tel, g)
		call := func(sel string, err error) {
			req := governor.Submit(t.Context(), g, sel, func(ctx context.Context, _ int) (int, error) {
				time.Sleep(10 * time.Millisecond)
				return 0, err
			})
			_, _ = req.Result(t.Context())
		}
		for range 5 {
			call("a", nil)
			call("b", errors.New("not found"))
		}
		call("c", nil) // one too many: an idle connection makes room
		call("d", nil)
		refusals := 0
		governor.Do(t.Context(), g, "a", func(context.Context, int) (int, error) {
			if refusals++; refusals == 1 {
				return 0, governortest.Limited(time.Second)
			}
			return 0, nil
		})
		governor.Do(t.Context(), g, "a", func(context.Context, int) (int, error) { panic("boom") })
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "ann"}, Delay: 40 * time.Second, Source: "429"})
		cancelled, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := governor.Submit(cancelled, g.With(governor.Ask{Tenant: "ann"}), "a", func(context.Context, int) (int, error) { return 0, nil })
		_, err = late.Result(t.Context())
		require.Error(t, err)
		time.Sleep(time.Second)

		s, got := g.Stats(), read(t, reader)
		require.NotZero(t, s.Pool.Stolen)
		require.NotZero(t, s.Limited)
		require.NotZero(t, s.Dropped)
		q := func(metric string, l governor.Latency) {
			for name, d := range map[string]time.Duration{"0.5": l.P50, "0.9": l.P90, "0.99": l.P99, "1": l.Max} {
				got.take(t, metric, "governor=acme,quantile="+name, d.Seconds())
			}
		}
		q("flyball.wait.quantile", s.RecentWait)
		q("flyball.call.quantile", s.RecentCall)
		for name, v := range map[string]float64{
			"requests.submitted": float64(s.Submitted), "requests.gave_up": float64(s.GaveUp), "requests.overflowed": float64(s.Overflow),
			"attempts.started": float64(s.Started), "attempts.limited": float64(s.Limited), "attempts.retried": float64(s.Retried),
			"attempts.again": float64(s.Again), "attempts.stuck": float64(s.Stuck), "panics": float64(s.Panics),
			"hook.panics": float64(s.HookPanics + s.BadVendor), "events.dropped": float64(s.EventsDropped), "cooldowns": float64(s.Episodes),
			"delays.clamped": float64(s.Clamped), "cooling": float64(s.CooldownCount), "queue.length": float64(s.Queued),
			"queue.limit": 20, "queue.lanes": float64(s.LaneCount), "queue.tenants": float64(s.TenantCount), "slots.usage": float64(s.InFlight), "slots.limit": 3,
			"paused": 0, "breaker.refusing": 0,
			"pool.limit": 3, "pool.created": float64(s.Pool.Created), "pool.failed": float64(s.Pool.Failed),
			"pool.reused": float64(s.Pool.Reused), "pool.stolen": float64(s.Pool.Stolen), "pool.discarded": float64(s.Pool.Discarded),
		} {
			got.take(t, "flyball."+name, "governor=acme", v)
		}
		for outcome, v := range map[string]uint64{"succeeded": s.Succeeded, "failed": s.Failed, "dropped": s.Dropped, "refused": s.Refused} {
			got.take(t, "flyball.requests.ended", "governor=acme,outcome="+outcome, float64(v))
		}
		for state, v := range map[string]int{"idle": s.Pool.Idle, "used": s.Pool.InUse, "opening": s.Pool.Opening, "closing": s.Pool.Closing} {
			got.take(t, "flyball.pool.connections", "governor=acme,state="+state, float64(v))
		}
		for _, state := range []string{"closed", "open", "half-open", "disabled", "forced-open", "metrics-only"} {
			got.take(t, "flyball.breaker.state", "governor=acme,state="+state, map[string]float64{"closed": 1}[state])
		}
		got.take(t, "flyball.limit.rate", "governor=acme,level=host,limit=0", 100)
		got.take(t, "flyball.limit.remaining", "governor=acme,level=host,limit=0", float64(s.Limits[0].Quota.Remaining))
		got.take(t, "flyball.cooldown.remaining", "governor=acme,level=tenant,phase=cooling,scope=tenant:ann", 39)
		require.Empty(t, got, "nothing else is measured")
	})
}

// take checks a value, which is then gone.
func (r reading) take(t *testing.T, name, attrs string, want float64) {
	t.Helper()
	key := name + "{" + attrs + "}"
	got, ok := r[key]
	require.True(t, ok, "no %s in %v", key, r)
	require.InDelta(t, want, got, 1e-9, key)
	delete(r, key)
}

func TestAnOpenBreakerIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{})
		b, err := breaker.New(breaker.Config{Initial: breaker.Open})
		require.NoError(t, err)
		watch(t, tel, plain(t, governor.PlainConfig{Name: "acme", Breaker: b}))
		time.Sleep(20 * time.Second)
		got := read(t, reader)
		got.take(t, "flyball.breaker.refusing", "governor=acme", 1)
		got.take(t, "flyball.breaker.state", "governor=acme,state=open", 1)
		got.take(t, "flyball.breaker.state", "governor=acme,state=closed", 0)
		got.take(t, "flyball.breaker.remaining", "governor=acme", 40)
	})
}

func TestObserveModeTellsWhatItWouldHaveDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{})
		g := plain(t, governor.PlainConfig{Name: "acme", Observe: true})
		watch(t, tel, g)
		g.Learn(throttle.Signal{Delay: time.Minute})
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		require.NoError(t, err)
		got := read(t, reader)
		require.Equal(t, 1.0, got["flyball.requests.observed{governor=acme,outcome=waited}"])
		require.Contains(t, got, "flyball.requests.observed{governor=acme,outcome=refused}")
	})
}

func TestOnlyTheScopesThatCoolLongestAreMeasured(t *testing.T) {
	for scopes, want := range map[int]int{0: 20, 3: 3, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			tel, reader := measured(t, telemetry.Config{Scopes: scopes})
			g := plain(t, governor.PlainConfig{Name: "acme"})
			watch(t, tel, g)
			for i := range 30 {
				g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}, Delay: time.Duration(i+1) * time.Second})
			}
			n := 0
			for key, v := range read(t, reader) {
				if strings.HasPrefix(key, "flyball.cooldown.remaining") {
					n++
					require.Greater(t, v, float64(30-want), key)
				}
			}
			require.Equal(t, want, n)
			require.Equal(t, 30.0, read(t, reader)["flyball.cooling{governor=acme}"])
		})
	}
}

func TestEveryMetricHasTheConstantAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{Attributes: []attribute.KeyValue{attribute.String("region", "eu")}, Histograms: true})
		g := plain(t, governor.PlainConfig{Name: "acme"})
		watch(t, tel, g)
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		require.NoError(t, err)
		tel.OnEvent(event.Event{Kind: event.BreakerSuccess, Name: "b", Delay: time.Second})
		synctest.Wait()
		got := read(t, reader)
		require.Greater(t, len(got), 30)
		for key := range got {
			require.Contains(t, key, "region=eu", key)
		}
	})
}

func TestHistogramsCountEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{Histograms: true})
		g := plain(t, governor.PlainConfig{Name: "acme"})
		stop := watch(t, tel, g)
		call := func(err error) {
			governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, err }))
		}
		call(nil)
		call(nil)
		call(errors.New("not found"))
		synctest.Wait()
		got := read(t, reader)
		got.take(t, "flyball.attempt.wait", "governor=acme", 3)
		got.take(t, "flyball.attempt.duration", "governor=acme,outcome=succeeded", 2)
		got.take(t, "flyball.attempt.duration", "governor=acme,outcome=failed", 1)
		stop()
		call(nil)
		synctest.Wait()
		read(t, reader).take(t, "flyball.attempt.wait", "governor=acme", 3)
	})
}

func TestPoliciesUsedAloneAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{})
		b, err := breaker.New(breaker.Config{Name: "db", Window: 2, MinCalls: 2, OnEvent: tel.OnEvent})
		require.NoError(t, err)
		for range 3 {
			breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errors.New("down") })
		}
		got := read(t, reader)
		got.take(t, "flyball.policy.events", "event=breaker failure,name=db", 2)
		got.take(t, "flyball.policy.duration", "event=breaker failure,name=db", 2)
		got.take(t, "flyball.policy.events", "event=breaker state,name=db", 1)
		got.take(t, "flyball.policy.events", "event=breaker refused,name=db", 1)
	})
}

func TestAGovernorIsWatchedOnceUntilItIsStopped(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{})
	a, twin := plain(t, governor.PlainConfig{Name: "acme"}), plain(t, governor.PlainConfig{Name: "acme"})
	other := plain(t, governor.PlainConfig{Name: "other"})
	stop := watch(t, tel, a)
	watch(t, tel, other)
	for _, h := range []governor.Handle{a, twin} {
		_, err := tel.Watch(h)
		require.ErrorContains(t, err, `"acme"`)
	}
	_, err := tel.Watch(nil)
	require.Error(t, err)
	require.Contains(t, read(t, reader), "flyball.paused{governor=acme}")
	stop()
	stop()
	got := read(t, reader)
	require.NotContains(t, got, "flyball.paused{governor=acme}")
	require.Contains(t, got, "flyball.paused{governor=other}")
	watch(t, tel, twin)
	require.Contains(t, read(t, reader), "flyball.paused{governor=acme}")

	require.NoError(t, tel.Close())
	require.NoError(t, tel.Close())
	require.Empty(t, read(t, reader))
	_, err = tel.Watch(a)
	require.Error(t, err)
}

func TestNewNamesTheFieldThatIsOutOfRange(t *testing.T) {
	for field, cfg := range map[string]telemetry.Config{
		"Config.Scopes is 10001": {Scopes: 10_001},
		"Config.Attributes[1]":   {Attributes: []attribute.KeyValue{attribute.Int("ok", 1), {}}},
	} {
		_, err := telemetry.New(cfg)
		require.ErrorContains(t, err, field)
	}
	tel, err := telemetry.New(telemetry.Config{}) // the global providers
	require.NoError(t, err)
	require.NoError(t, tel.Close())
}
