package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
)

// parked is an attempt as it is while its closure runs.
func (c *core) parked() *attempt {
	a := &attempt{core: c, r: &request{ctx: context.Background()}, granted: c.now()}
	a.r.status.move(Running, 0)
	c.track(a, true)
	return a
}

func parking(t *testing.T, test func(t *testing.T, g *Plain)) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 8, StuckAfter: 10 * time.Second})
		require.NoError(t, err)
		test(t, g)
		require.NoError(t, g.Close())
	})
}

func TestWhatRunsIsFoundUntilItHasEnded(t *testing.T) {
	parking(t, func(t *testing.T, g *Plain) {
		one, two := g.parked(), g.parked()
		require.Equal(t, 2, g.attempts.len())
		g.untrack(one)
		require.Equal(t, 1, g.attempts.len())
		g.untrack(one) // twice does nothing
		g.untrack(two)
		require.Zero(t, g.attempts.len())
	})
}

func TestCloseCancelsWhatRunsAndWhatBeginsLater(t *testing.T) {
	parking(t, func(t *testing.T, g *Plain) {
		one, two := g.parked(), g.parked()
		require.NoError(t, one.Err())
		g.stop()
		late := g.parked()
		for _, a := range []*attempt{one, two, late} {
			require.ErrorIs(t, context.Cause(a), ErrClosed)
			g.untrack(a)
		}
	})
}

func TestStuckIsSaidInTimeOfEachAttempt(t *testing.T) {
	parking(t, func(t *testing.T, g *Plain) {
		start := time.Now()
		var at []time.Duration
		cancel := g.Listen(func(event.Event) { at = append(at, time.Since(start)) }, event.Stuck)
		defer cancel()
		g.mindStuck()
		var stuck []*attempt
		for range 3 {
			stuck = append(stuck, g.parked())
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second}, at)
		for _, a := range stuck {
			g.untrack(a)
		}
	})
}

// What runs is in several lists: the earliest of all says when to look, and of what is found
// by one look the one that has run for longest is told first.
func TestStuckIsSaidOfAllLists(t *testing.T) {
	parking(t, func(t *testing.T, g *Plain) {
		start := time.Now()
		var told []uint64
		var at []time.Duration
		cancel := g.Listen(func(e event.Event) { told, at = append(told, e.Request), append(at, time.Since(start)) }, event.Stuck)
		defer cancel()
		in := func(list int, number uint64) {
			a := &attempt{core: g.core, r: &request{ctx: context.Background(), seq: number}, granted: g.now()}
			g.attempts[list].add(a)
		}
		in(1, 1)
		time.Sleep(time.Second)
		in(0, 2)
		time.Sleep(15 * time.Second)
		g.mindStuck() // late
		time.Sleep(time.Second)
		in(0, 3)
		time.Sleep(time.Second)
		in(2, 4)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []uint64{1, 2, 3, 4}, told)
		require.Equal(t, []time.Duration{26 * time.Second, 26 * time.Second, 27 * time.Second, 28 * time.Second}, at)
		for i := range g.attempts {
			for g.attempts[i].head != nil {
				g.attempts[i].remove(g.attempts[i].head)
			}
		}
	})
}
