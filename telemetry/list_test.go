package telemetry_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/telemetry"
)

func newGroup(t *testing.T) *governor.Group[string, struct{}] {
	t.Helper()
	group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
		Config:      func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil },
		IdleTimeout: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	return group
}

func use(t *testing.T, group *governor.Group[string, struct{}], host string) {
	t.Helper()
	g, err := group.Get(host)
	require.NoError(t, err)
	_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) { return 1, nil }))
	require.NoError(t, err)
}

func TestGovernorsOfAGroupAreMeasuredAsTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, reader := measured(t, telemetry.Config{Histograms: true})
		group := newGroup(t)
		use(t, group, "early")
		stop, err := tel.WatchAll(group.Handles)
		require.NoError(t, err)
		use(t, group, "early")
		synctest.Wait() // the listener has heard
		r := read(t, reader)
		require.Equal(t, 2.0, r["flyball.requests.ended{governor=early,outcome=succeeded}"])
		require.Equal(t, 1.0, r["flyball.attempt.duration{governor=early,outcome=succeeded}"], "since it is watched")

		use(t, group, "late")
		r = read(t, reader)
		require.Equal(t, 1.0, r["flyball.requests.ended{governor=late,outcome=succeeded}"])
		require.Contains(t, r, "flyball.requests.ended{governor=early,outcome=succeeded}")

		for range 150 { // measuring is no use of a governor
			time.Sleep(time.Second)
			read(t, reader)
		}
		require.NotContains(t, read(t, reader), "flyball.queue.length{governor=early}")
		use(t, group, "early") // another of its name
		require.Equal(t, 1.0, read(t, reader)["flyball.requests.ended{governor=early,outcome=succeeded}"])

		stop()
		stop()
		require.NotContains(t, read(t, reader), "flyball.queue.length{governor=early}")
		g, err := group.Get("early")
		require.NoError(t, err)
		watch(t, tel, g) // the name is free again
	})
}

func TestWhatIsWrongInAListIsToldAtEachCollection(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{})
	one, twin := plain(t, governor.PlainConfig{Name: "twin"}), plain(t, governor.PlainConfig{Name: "twin"})
	watch(t, tel, one)
	good := plain(t, governor.PlainConfig{Name: "good"})
	list := []governor.Handle{nil, twin, asking{good, func() {}}, good}
	angry := false
	stop, err := tel.WatchAll(func() []governor.Handle {
		if angry {
			panic("boom")
		}
		return list
	})
	require.NoError(t, err)
	defer stop()
	for range 2 {
		var data metricdata.ResourceMetrics
		err = reader.Collect(t.Context(), &data)
		require.ErrorContains(t, err, "is a <nil>")
		require.ErrorContains(t, err, `"twin" is watched already`)
		require.ErrorContains(t, err, "telemetry_test.asking")
	}
	list = []governor.Handle{good}
	require.Contains(t, read(t, reader), "flyball.queue.length{governor=good}")
	angry = true
	var data metricdata.ResourceMetrics
	require.ErrorContains(t, reader.Collect(t.Context(), &data), "WatchAll panicked: boom")
	angry = false
	require.Contains(t, read(t, reader), "flyball.queue.length{governor=good}")
}

func TestAListNeedsAFunctionAndAnOpenTelemetry(t *testing.T) {
	tel, _ := measured(t, telemetry.Config{})
	_, err := tel.WatchAll(nil)
	require.ErrorContains(t, err, "the function is nil")
	asked := 0
	stop, err := tel.WatchAll(func() []governor.Handle { asked++; return nil })
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	require.NoError(t, tel.Close())
	stop()
	_, err = tel.WatchAll(func() []governor.Handle { return nil })
	require.ErrorContains(t, err, "closed")
}

func TestListsCollectionsAndStopsAtOnce(t *testing.T) {
	tel, reader := measured(t, telemetry.Config{Histograms: true})
	group := newGroup(t)
	var all sync.WaitGroup
	for _, host := range []string{"a", "b", "c"} {
		all.Go(func() {
			for range 30 {
				stop, err := tel.WatchAll(group.Handles)
				require.NoError(t, err)
				g, err := group.Get(host)
				require.NoError(t, err)
				_, _ = governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
				var data metricdata.ResourceMetrics
				_ = reader.Collect(t.Context(), &data) // lists of one group are in each other's way
				stop()
			}
		})
	}
	all.Wait()
	for key := range read(t, reader) {
		require.NotContains(t, key, "flyball.queue.length{", "nothing is watched any more")
	}
}
