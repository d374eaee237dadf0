package governor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// The end of a ramp is the last that is told of it, also where there is nothing to grow.
func TestRampIsToldBeforeItsEnd(t *testing.T) {
	for workers := range 4 {
		for _, clears := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "x", Workers: workers + 1, Vendor: governortest.Vendor{}})
				require.NoError(t, err)
				defer g.Close()
				rec := governortest.Record(g, event.Ramp, event.Resumed, event.Cleared)
				defer rec.Stop()
				g.Learn(throttle.Signal{Delay: time.Second})
				for i := range 4 {
					_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { time.Sleep(time.Second); return 1, nil }))
					require.NoError(t, err)
					if clears && i == 0 {
						g.Clear(throttle.Scope{})
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				all := rec.Events()
				require.NotEmpty(t, all)
				for i, e := range all {
					require.Equal(t, i == len(all)-1, e.Kind != event.Ramp, "%d workers: %v", workers+1, all)
				}
			})
		}
	}
}

// However often a request that waits is looked at, it is told once that it does.
func TestAWaitIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 1, Window: time.Hour})
		require.NoError(t, err)
		g, err := governor.New(governor.Config[string, int]{
			Name: "x", Workers: 4, MaxWait: -1, Limits: []governor.Limit{{Per: throttle.Bucket, Limiter: one}},
			Pool: &pool.Config[string, int]{Max: 4, MaxPerSelector: 1, Open: func(context.Context, string) (int, error) { return 1, nil }},
		})
		require.NoError(t, err)
		defer g.Close()
		rec := governortest.Record(g, event.LimitRefused, event.PoolWait)
		defer rec.Stop()
		takes := func(d time.Duration) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) { time.Sleep(d); return 1, nil }
		}
		slow := g.With(governor.Ask{Bucket: "slow"})
		governor.Submit(t.Context(), slow, "a", takes(time.Minute))
		synctest.Wait()
		governor.Submit(t.Context(), slow, "a", takes(time.Second))
		governor.Submit(t.Context(), g.With(governor.Ask{Bucket: "other"}), "a", takes(time.Second))
		for i := range 50 {
			_, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "other", Bucket: fmt.Sprint(i)}), "b", takes(time.Second))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		count := map[event.Kind]int{}
		for _, e := range rec.Events() {
			count[e.Kind]++
		}
		require.Equal(t, map[event.Kind]int{event.LimitRefused: 1, event.PoolWait: 1}, count)
	})
}

// odd is a limit whose rate is none.
type odd struct {
	limiter.Limiter
	rate float64
}

func (o odd) Rate(time.Time, string) float64 { return o.rate }

func TestStatsAreJSONWhateverALimitersRate(t *testing.T) {
	for _, rate := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		one, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 1, Window: time.Hour})
		require.NoError(t, err)
		g, err := governor.New(governor.PlainConfig{Name: "x", Limits: []governor.Limit{{Limiter: odd{one, rate}}}})
		require.NoError(t, err)
		s := g.Stats()
		require.NoError(t, g.Close())
		require.Zero(t, s.Limits[0].Rate)
		_, err = json.Marshal(s)
		require.NoError(t, err)
	}
}
