package governor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

func TestAGovernorAndARequestAreShortToPrint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "acme"})
		require.NoError(t, err)
		defer g.Close()
		g.Pause()
		r := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
		synctest.Wait()
		require.Equal(t, "governor acme, governor acme, request queued", fmt.Sprintf("%v, %v, %v", g, g.With(governor.Ask{Tenant: "ann"}), r))
		require.Equal(t, "acme: 1 queued, 0 of 16 in flight, paused; submitted 1, succeeded 0", fmt.Sprint(g.Stats()))
		g.Resume()
		<-r.Done()
		require.Equal(t, "request done", r.String())

		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "g", g)
		require.Contains(t, out.String(), `"g":"acme"`)
	})
}

func TestStatsAreALineOfWhatMatters(t *testing.T) {
	now := time.Unix(1000, 0)
	s := governor.Stats{
		Name: "acme", Time: now, Closed: true, Paused: true, Workers: 16, InFlight: 2, Queued: 3,
		Breaker: &governor.BreakerStats{}, Pool: pool.Stats{Max: 8, Open: 4},
		Submitted: 104, Started: 103, Succeeded: 101, Limited: 1, HookPanics: 2,
		Wait: governor.Latency{P50: time.Millisecond, P99: time.Second}, Call: governor.Latency{P50: 8 * time.Microsecond, P99: 48 * time.Microsecond},
	}
	for i, phase := range []string{"cooling", "probing", "ramping", "cooling", "cooling"} {
		sc := throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}
		s.Cooldowns = append(s.Cooldowns, governor.CooldownStats{Scope: sc, Phase: phase, Until: now.Add(time.Duration(1-i) * 59_940 * time.Millisecond)})
	}
	s.CooldownCount = 7
	const counts = "; submitted 104, succeeded 101, limited 1, hook panics 2; wait p50 1ms p99 1s, call p50 8µs p99 48µs"
	require.Equal(t, "acme: 3 queued, 2 of 16 in flight, closed, tenant:0 cooling for 59.9s, tenant:1 probing, tenant:2 ramping, 4 more cooling, 4 of 8 connections"+counts, s.String())

	s.Cooldowns, s.Closed, s.Pool, s.Breaker.State = nil, false, pool.Stats{}, breaker.Open
	require.Equal(t, "acme: 3 queued, 2 of 16 in flight, paused, breaker open"+counts, s.String())
}
