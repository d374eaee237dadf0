package governor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
)

var errReset = errors.New("connection reset")

// However an attempt fails, a breaker that it opens can say so.
func TestABreakerLearnsWhatHasOpenedIt(t *testing.T) {
	type plain = func(t *testing.T, g *governor.Plain)
	for name, tt := range map[string]struct {
		do   plain
		want error
	}{
		"in the queue": {func(t *testing.T, g *governor.Plain) { governor.Submit(t.Context(), g, "", answers(errReset)) }, errReset},
		"on the spot":  {func(t *testing.T, g *governor.Plain) { governor.Do(t.Context(), g, "", answers(errReset)) }, errReset},
		"while it held": {func(t *testing.T, g *governor.Plain) {
			governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				release := governor.Hold(ctx)
				time.AfterFunc(time.Second, func() { release(errReset) })
				return 0, nil
			}))
		}, errReset},
		"by a panic": {func(t *testing.T, g *governor.Plain) {
			governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { panic(errReset) }))
		}, errReset},
		"by its end": {func(t *testing.T, g *governor.Plain) {
			governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }))
		}, governor.ErrGoexit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "test", Vendor: governortest.Vendor{}, Breaker: brittle(t)})
				require.NoError(t, err)
				defer g.Close()
				tt.do(t, g)
				time.Sleep(2 * time.Second)
				told := g.Recent()
				at := slices.IndexFunc(told, func(e event.Event) bool { return e.Kind == event.BreakerState })
				require.GreaterOrEqual(t, at, 0, "%v", told)
				require.ErrorIs(t, told[at].Err, tt.want)
				require.Contains(t, g.Stats().Breaker.Cause, tt.want.Error())
			})
		})
	}
}

// What package breaker hears of an error, it hears from a governor too.
func TestABreakerOfAGovernorHeedsOpenOnAndRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{
			OpenOn:  func(err error) bool { return errors.Is(err, errReset) },
			OpenFor: backoff.Constant(time.Minute),
		})
		require.NoError(t, err)
		g, err := governor.New(governor.PlainConfig{Name: "test", Breaker: b})
		require.NoError(t, err)
		defer g.Close()
		governor.Do(t.Context(), g, "", answers(errors.Join(errReset, again(7*time.Second))))
		require.Equal(t, breaker.Open, b.State())
		require.Equal(t, time.Now().Add(7*time.Second), b.Stats().Until)
	})
}

// again is an error that says after which time to try again.
type again time.Duration

func (again) Error() string               { return "again later" }
func (a again) RetryAfter() time.Duration { return time.Duration(a) }
