package breaker_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
)

func TestOnChangeHearsOfTheBreakerAndNotOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Name: "db", Window: 2, MinCalls: 2, HalfOpenCalls: 1, OpenFor: backoff.Constant(time.Minute)})
		var heard, other []event.Event
		stop := b.OnChange(func(e event.Event) { heard = append(heard, e) })
		b.OnChange(func(e event.Event) { other = append(other, e); panic("boom") })
		b.OnChange(nil)()
		call := func(err error) {
			if done, refused := b.Allow(); refused == nil {
				done(err)
			}
		}
		call(nil)
		call(errDown)
		call(nil) // refused
		time.Sleep(time.Minute)
		call(nil)
		b.Reset()
		var kinds []event.Kind
		for _, e := range heard {
			kinds = append(kinds, e.Kind)
			require.Equal(t, "db", e.Name)
		}
		require.Equal(t, []event.Kind{event.BreakerRate, event.BreakerState, event.BreakerState, event.BreakerState, event.BreakerReset}, kinds)
		require.Equal(t, []string{"failure rate: 0.5", "open", "half-open", "closed"},
			[]string{heard[0].Source, heard[1].Source, heard[2].Source, heard[3].Source})
		require.Equal(t, heard[1].Time.Add(time.Minute), heard[1].Until)
		require.Equal(t, heard, other, "a panic harms nobody else")
		require.EqualValues(t, len(other), b.Stats().Panics)

		stop()
		stop()
		b.Reset()
		require.Len(t, heard, 5)
		require.Len(t, other, 6)
	})
}

func TestWatchersComeAndGoWhileTheBreakerMoves(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				stop := b.OnChange(func(event.Event) { b.Stats() }) // it may use the breaker
				b.Reset()
				stop()
			}
		})
	}
	wg.Wait()
}
