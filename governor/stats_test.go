package governor_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// Calls go on while Stats counts. None has ended that has not begun, none has begun
// that was not submitted, and nothing counts back.
func TestStatsAgreeAtAnyMoment(t *testing.T) {
	for _, workers := range []int{1, 4} {
		g, err := governor.New(governor.PlainConfig{Name: "x", Workers: workers, NoPace: true})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for n := i; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					fails := governor.Func(func(context.Context) (int, error) {
						if n%2 == 0 {
							return 0, errors.New("no")
						}
						return 0, nil
					})
					if n%4 < 2 {
						governor.Do(t.Context(), g, "", fails)
						continue
					}
					r := governor.Submit(t.Context(), g, "", fails)
					if n%3 == 0 {
						r.Cancel()
					}
					<-r.Done()
				}
			})
		}
		var last governor.Stats
		for range effort.Times(500) {
			s := g.Stats()
			for what, ok := range map[string]bool{
				"more done or queued than submitted": s.Succeeded+s.Failed+s.Dropped+uint64(s.Queued) <= s.Submitted,
				"more done than started":             s.Succeeded+s.Failed <= s.Started,
				"more ended than started":            s.Call.Count <= s.Started,
				"more have waited than started":      s.Wait.Count <= s.Started,
				"more started than submitted":        s.Started <= s.Submitted,
				"counted back": s.Submitted >= last.Submitted && s.Started >= last.Started && s.Succeeded >= last.Succeeded &&
					s.Failed >= last.Failed && s.Wait.Count >= last.Wait.Count && s.Call.Count >= last.Call.Count,
			} {
				if !ok {
					t.Errorf("%d workers: %s: %+v", workers, what, s)
				}
			}
			if last = s; t.Failed() {
				break
			}
		}
		close(stop)
		wg.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func window(t *testing.T, limit int) limiter.Limiter {
	l, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: limit, Period: time.Minute})
	require.NoError(t, err)
	return l
}

func TestStatsSayWhatLimitsHaveLeft(t *testing.T) {
	host := window(t, 100)
	each := window(t, 2)
	limits := []governor.Limit{{Limiter: host}, {Per: throttle.Tenant, Limiter: each}}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = limits }, func(t *testing.T, g *governor.Plain) {
		for i := range 12 {
			for range 3 + i {
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: string(rune('a' + i))}), "", sleep(0))
			}
		}
		synctest.Wait()
		s := g.Stats()
		require.Equal(t, 12, s.TenantCount)
		require.Equal(t, governor.TenantStats{Tenant: "l", Waiting: 12, Lanes: 1}, s.Tenants[0])
		require.Len(t, s.Limits, 2)
		whole, tenants := s.Limits[0], s.Limits[1]
		require.Equal(t, int64(100), whole.Quota.Limit)
		require.Equal(t, int64(100-24), whole.Quota.Remaining)
		require.InDelta(t, 100./60, whole.Rate, .001)
		require.Nil(t, tenants.Quota)
		require.Len(t, tenants.Keys, 10, "no more, and those for which most waits")
		require.Equal(t, "l", tenants.Keys[0].Key)
		require.Equal(t, int64(0), tenants.Keys[0].Quota.Remaining)
		require.Equal(t, throttle.Scope{Level: throttle.Tenant, Key: "l"}, tenants.Keys[0].Quota.Scope)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		require.Contains(t, string(text), `"quota":{"scope":{"level":"host"},"limit":100,`)
	})
}

// untold is a Circuit that says nothing of itself.
type untold struct{ breaker.Circuit }

func TestStatsSayWhenABreakerMayClose(t *testing.T) {
	for _, own := range []bool{true, false} {
		b, err := breaker.New(breaker.Config{Failures: 2, OpenFor: backoff.Constant(time.Minute)})
		require.NoError(t, err)
		bubble(t, func(c *governor.PlainConfig) {
			if c.Breaker = b; !own {
				c.Breaker = untold{b}
			}
		}, func(t *testing.T, g *governor.Plain) {
			s := g.Stats().Breaker
			require.Equal(t, breaker.Closed, s.State)
			require.False(t, s.Refusing)
			require.Empty(t, s.Answer)
			for range 2 {
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, errors.New("no") }))
				require.Error(t, err)
			}
			s = g.Stats().Breaker
			require.Equal(t, breaker.Open, s.State)
			require.True(t, s.Refusing)
			require.True(t, s.Until.Equal(time.Now().Add(time.Minute)), s.Until)
			require.Contains(t, s.Answer, "open until")
			if own {
				require.Equal(t, 2, s.Failed)
			}
			time.Sleep(time.Minute)
			s = g.Stats().Breaker
			require.False(t, s.Refusing, "the next call tries")
			if own {
				require.Equal(t, breaker.Open, s.State)
			}
		})
	}
}

// What was slow long ago is in the quantiles since New, and not in those of the last
// minutes.
func TestStatsTellNowFromThen(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		call := func(d time.Duration) {
			_, err := governor.Do(t.Context(), g, "", sleep(d))
			require.NoError(t, err)
		}
		for range 10 {
			call(30 * time.Second)
			g.Stats()
		}
		for range 10 {
			call(time.Second)
			time.Sleep(14 * time.Second)
			g.Stats()
		}
		s := g.Stats()
		require.Equal(t, uint64(20), s.Call.Count)
		require.GreaterOrEqual(t, s.Call.P99, 30*time.Second)
		require.Less(t, s.RecentCall.P99, 2*time.Second)
		require.Equal(t, uint64(s.Recent/(15*time.Second)), s.RecentCall.Count)
		require.Equal(t, s.RecentCall.Count, s.RecentWait.Count)
	})
}
