package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
	"github.com/stretchr/testify/require"
)

// What was submitted a moment ago waits, too.
func TestWaitingBehindWhatHasJustBeenSubmittedIsRefused(t *testing.T) {
	for range effort.Times(20) {
		synctest.Test(t, func(t *testing.T) {
			l, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 3})
			require.NoError(t, err)
			g, err := New(PlainConfig{Name: "test", Workers: 8, NoPace: true, Limits: []Limit{{Per: throttle.Tenant, Limiter: l}}})
			require.NoError(t, err)
			defer g.Close()
			g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "z"}, Delay: 10 * time.Second}) // who submits does not decide himself
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			none := Func(func(context.Context) (int, error) { return 0, nil })
			var inner error
			_, err = Do(ctx, g.With(Ask{Tenant: "a"}), "s", Func(func(ctx context.Context) (int, error) {
				Submit(t.Context(), g.With(Ask{Tenant: "a", Cost: 3}), "s", none)
				_, inner = Do(ctx, g.With(Ask{Tenant: "a"}), "s", none)
				return 0, nil
			}))
			require.NoError(t, err)
			require.ErrorIs(t, inner, ErrReentrant)
		})
	}
}

// What waits for something else than the permits does not keep a call inside from waiting, too.
func TestCallsInsideWaitForWhatTheirClosureDoesNotHold(t *testing.T) {
	spare, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 10})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		limits func() []Limit
		before func(g *Plain)
	}{
		"a rate of the host": {func() []Limit {
			rate, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
			require.NoError(t, err)
			return []Limit{{Per: throttle.Host, Limiter: rate}, {Per: throttle.Host, Limiter: spare}}
		}, func(*Plain) {}},
		"a cooldown": {func() []Limit { return []Limit{{Per: throttle.Tenant, Limiter: spare}} }, func(g *Plain) {
			g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: time.Second})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := New(PlainConfig{Name: "test", Workers: 8, NoPace: true, Limits: tt.limits()})
				require.NoError(t, err)
				defer g.Close()
				a, none := g.With(Ask{Tenant: "a"}), Func(func(context.Context) (int, error) { return 0, nil })
				var inner error
				_, err = Do(t.Context(), a, "s", Func(func(ctx context.Context) (int, error) {
					tt.before(g)
					r := Submit(ctx, a, "s", none)
					synctest.Wait()
					_, inner = r.Result(ctx)
					return 0, nil
				}))
				require.NoError(t, err)
				require.NoError(t, inner)
			})
		})
	}
}
