package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/throttle"
)

// What comes with a request has not been looked at, and does not stand in its way.
func TestOfThoseThatComeAtOnceTheFirstIsLetIntoAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "x", Workers: 1, MaxQueue: 4, Overflow: DropLower, NoPace: true, MaxWait: -1})
		require.NoError(t, err)
		defer g.Close()
		submit := func(tenant string, takes time.Duration) *Request[int] {
			return Submit(t.Context(), g.With(Ask{Tenant: tenant}), "", Func(func(context.Context) (int, error) {
				time.Sleep(takes)
				return 0, nil
			}))
		}
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: "a"}, Delay: time.Hour})
		for range 4 {
			submit("a", 0)
		}
		submit("b", time.Second)
		synctest.Wait()
		block := make(chan struct{})
		g.post(func() { <-block })
		synctest.Wait()
		var rs []*Request[int]
		for range 4 {
			rs = append(rs, submit("c", 0))
		}
		close(block)
		synctest.Wait()
		require.Equal(t, Queued, rs[0].State())
		for _, r := range rs[1:] {
			require.Equal(t, Done, r.State())
			require.ErrorIs(t, r.failure(), ErrQueueFull)
		}
	})
}

// Its latest start is none that anybody has to look for.
func TestWhatIsRefusedWhenItComesIsNotMinded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "x"})
		require.NoError(t, err)
		defer g.Close()
		g.Learn(throttle.Signal{Delay: time.Minute})
		by := func(d time.Duration) *Request[int] {
			return Submit(t.Context(), g.With(Ask{StartBy: time.Now().Add(d)}), "", Func(func(context.Context) (int, error) { return 0, nil }))
		}
		by(time.Hour)
		late := by(time.Second)
		<-late.Done()
		g.core.ask(func() {
			require.Equal(t, 1, g.minding)
			require.Greater(t, g.earliest, int64(time.Minute))
		})
	})
}
