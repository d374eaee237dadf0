package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/event"
)

// parked is an attempt as it is while its closure runs, in the crew with number at.
func (c *core) parked(at int) *attempt {
	a := &attempt{core: c, r: &request{ctx: context.Background()}, granted: c.now()}
	a.r.status.move(Running, 0)
	c.track(a, at, true)
	return a
}

func crewed(t *testing.T, test func(t *testing.T, g *Plain)) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", Workers: 8, StuckAfter: 10 * time.Second})
		require.NoError(t, err)
		test(t, g)
		require.NoError(t, g.Close())
	})
}

func TestWhatRunsIsFoundInEveryCrew(t *testing.T) {
	crewed(t, func(t *testing.T, g *Plain) {
		one, two := g.parked(0), g.parked(len(g.crews)-1)
		require.Equal(t, 2, g.underWay())
		g.untrack(one)
		require.Equal(t, 1, g.underWay())
		g.untrack(one) // twice does nothing
		g.untrack(two)
		require.Zero(t, g.underWay())
	})
}

func TestCloseCancelsWhatRunsInEveryCrewAndWhatBeginsLater(t *testing.T) {
	crewed(t, func(t *testing.T, g *Plain) {
		one, two := g.parked(0), g.parked(len(g.crews)-1)
		require.NoError(t, one.Err())
		g.stop()
		late := g.parked(1)
		for _, a := range []*attempt{one, two, late} {
			require.ErrorIs(t, context.Cause(a), ErrClosed)
			g.untrack(a)
		}
	})
}

func TestStuckIsSaidInTimeWhicheverCrewRunsIt(t *testing.T) {
	crewed(t, func(t *testing.T, g *Plain) {
		start := time.Now()
		var at []time.Duration
		cancel := g.Listen(func(event.Event) { at = append(at, time.Since(start)) }, event.Stuck)
		defer cancel()
		g.mindStuck()
		last := len(g.crews) - 1
		var stuck []*attempt
		for _, in := range []int{last, 0, last} {
			stuck = append(stuck, g.parked(in))
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

// tracked is a request with an attempt.
func tracked() *request {
	r := new(request)
	r.class.Store(&class{att: new(attempt)})
	return r
}

// A worker of another crew that has finished takes what was granted there.
func TestWhatIsStolenIsRunOnce(t *testing.T) {
	var c *core // of whom nothing is needed
	w := new(crew)
	a, b := tracked(), tracked()
	w.head, w.tail, a.next, w.queued, w.free = a, b, b, 2, 1
	require.Same(t, a, c.steal(w))
	got, left := c.take(w, false, false)
	require.Same(t, b, got)
	require.False(t, left)
	require.Nil(t, c.steal(w))
	got, left = c.take(w, true, true)
	require.Nil(t, got)
	require.True(t, left)
	require.Zero(t, w.queued)
	require.Zero(t, w.free)
	require.Nil(t, w.tail)
}

// Of workers with nothing to do one looks again before it ends.
func TestOneWorkerOfACrewLooksAgain(t *testing.T) {
	var c *core // of whom nothing is needed
	w := new(crew)
	for i, leaves := range []bool{false, true, true} {
		a, left := c.take(w, true, false)
		require.Nil(t, a)
		require.Equal(t, leaves, left, i)
		require.EqualValues(t, 1, w.free)
	}
	a := tracked()
	w.head, w.tail, w.queued = a, a, 1
	got, left := c.take(w, false, true)
	require.Same(t, a, got)
	require.False(t, left)
	require.Zero(t, w.free)
}
