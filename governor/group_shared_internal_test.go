package governor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// An Adaptive that is the limit of several keys is kept, and goes on, once.
func TestASharedAdaptiveIsHandedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := func() (*Plain, *limiter.Adaptive) {
			a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{})
			require.NoError(t, err)
			by, err := limiter.NewByKey(limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"ann": a, "bob": a}, Others: a})
			require.NoError(t, err)
			g, err := New(PlainConfig{Name: "x", NoPace: true, Limits: []Limit{{Per: throttle.Tenant, Limiter: by}}})
			require.NoError(t, err)
			return g, a
		}
		g, a := start()
		now := time.Now()
		require.NoError(t, a.Import(now, limiter.Learned{Rate: 10, Pause: time.Second, When: now}))
		for range 300 { // so that it is not what another would begin with
			time.Sleep(a.Wait(time.Now(), "", 1))
			a.Take(time.Now(), "", 1)
			a.Accepted(time.Now(), time.Now(), "")
		}
		time.Sleep(time.Second)
		kept, ok := g.gate.blank(g.now())
		require.True(t, ok)
		require.Len(t, kept, 3)
		for _, h := range kept {
			require.Same(t, kept[0].all, h.all)
		}
		next, b := start()
		next.remember(kept)
		time.Sleep(time.Hour)
		require.Equal(t, a.Rate(time.Now(), ""), b.Rate(time.Now(), ""))
		require.Equal(t, a.Export(time.Now()), b.Export(time.Now()))
		require.NoError(t, g.Close())
		require.NoError(t, next.Close())
	})
}
