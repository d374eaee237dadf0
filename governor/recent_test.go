package governor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

func TestRecentTellsOfACooldownToWhoComesLater(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for range 1000 { // they leave no trace
			_, err := governor.Do(t.Context(), g, "", sleep(time.Millisecond))
			require.NoError(t, err)
		}
		require.Empty(t, g.Recent())

		began := time.Now()
		g.Learn(throttle.Signal{Delay: 15 * time.Second, Source: "Retry-After: 15"})
		_, err := governor.Do(t.Context(), g, "", sleep(time.Millisecond))
		require.NoError(t, err)
		synctest.Wait()

		var kinds []event.Kind
		for _, e := range g.Recent() {
			kinds = append(kinds, e.Kind)
			require.Equal(t, "test", e.Name)
		}
		require.Equal(t, []event.Kind{event.Learned, event.Cooling, event.Cooled, event.Probe, event.Ramp}, kinds)
		cooling := g.Recent()[1]
		require.Equal(t, "Retry-After: 15", cooling.Source)
		require.Equal(t, began.Add(15*time.Second), cooling.Until)
	})
}

func TestRecentTellsOfWhatATrialWouldHaveRefused(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe, c.MaxWait = true, time.Second }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Minute})
		_, err := governor.Do(t.Context(), g, "", sleep(time.Millisecond))
		require.NoError(t, err)
		recent := g.Recent()
		require.Equal(t, event.WouldRefuse, recent[len(recent)-1].Kind)
		require.Error(t, recent[len(recent)-1].Err)
	})
}

func TestRecentIsTheLast256AndOutlivesTheGovernor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for range 300 {
			g.Pause()
			g.Resume()
		}
		require.Len(t, g.Recent(), 256)
		require.NoError(t, g.Close())
		recent := g.Recent()
		require.Len(t, recent, 256)
		require.Equal(t, event.Closed, recent[255].Kind)
	})
}
