package governor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
)

// poison is a closure that the vendor always refuses, asking for a second.
func poison() *governortest.Script {
	return governortest.NewScript(slices.Repeat([]error{governortest.Limited(time.Second)}, 1000)...)
}

// What a vendor always refuses is the probe after each cooldown. It must not be
// the only one that is.
func TestWhatIsAlwaysRefusedStarvesNobody(t *testing.T) {
	for _, tc := range []struct {
		name      string
		workers   int
		bad, good governor.Ask
		within    time.Duration
	}{
		{"another tenant", 8, governor.Ask{Tenant: "a"}, governor.Ask{Tenant: "b"}, 2 * time.Second},
		{"another tenant, under KeepConn", 8, governor.Ask{Tenant: "a", KeepConn: true}, governor.Ask{Tenant: "b"}, 2 * time.Second},
		{"another tenant, when KeepConn keeps the only slot", 1, governor.Ask{Tenant: "a", KeepConn: true}, governor.Ask{Tenant: "b"}, 6 * time.Second},
		{"its own lane", 8, governor.Ask{}, governor.Ask{}, 6 * time.Second},
		{"its own lane, under KeepConn", 8, governor.Ask{KeepConn: true}, governor.Ask{KeepConn: true}, 6 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, tc.workers }, func(t *testing.T, g *governor.Plain) {
				bad := governor.Submit(t.Context(), g.With(tc.bad), "", poison().Call)
				synctest.Wait()
				start := time.Now()
				var at time.Time
				<-governor.Submit(t.Context(), g.With(tc.good), "", stamp(&at)).Done()
				if d := at.Sub(start); d > tc.within {
					t.Errorf("it started after %v, want %v at most", d, tc.within)
				}
				bad.Cancel()
				<-bad.Done()
			})
		})
	}
}

// As soon as others get through, it is no probe any more, and its refusals count.
func TestWhatAloneIsRefusedGivesUpWhenOthersAreNot(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		bad := governor.Submit(t.Context(), g, "", poison().Call)
		start := time.Now()
		for bad.State() != governor.Done && time.Since(start) < time.Hour {
			governor.Submit(t.Context(), g, "", sleep(0))
			time.Sleep(100 * time.Millisecond)
		}
		_, err := bad.Result(t.Context())
		e, ok := errors.AsType[*governor.GaveUpError](err)
		if !ok || e.Attempts > 5*6 {
			t.Errorf("after %v its error is %v, want that it gave up after five refusals with up to five probes between", time.Since(start), err)
		}
	})
}

// What steps aside comes back behind those that were submitted before, and before
// those that were submitted after.
func TestWhatStepsAsideKeepsItsPlaceAmongLaterOnes(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		var order []string
		submit := func(name string, script *governortest.Script) {
			governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				n, err := script.Call(ctx, struct{}{})
				if err == nil {
					order = append(order, name)
				}
				return n, err
			}))
		}
		// Refused when it starts, and five times as the probe.
		submit("first", governortest.NewScript(slices.Repeat([]error{governortest.Limited(time.Second)}, 6)...))
		synctest.Wait()
		submit("second", governortest.NewScript())
		submit("third", governortest.NewScript())
		time.Sleep(5*time.Second + time.Millisecond) // the fifth probe was just refused
		submit("fourth", governortest.NewScript())
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"second", "third", "first", "fourth"}; !slices.Equal(order, want) {
			t.Errorf("they ended in the order %v, want %v", order, want)
		}
	})
}

func TestFloodOfOneTenantKeepsNoOtherOutOfAFullQueue(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.MaxQueue = true, 1, 10 }, func(t *testing.T, g *governor.Plain) {
		for range 1000 {
			go governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "flood"}), "", sleep(10*time.Millisecond))
		}
		synctest.Wait()
		start := time.Now()
		var at time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "calm"}), "", stamp(&at)).Done()
		if d := at.Sub(start); d > 50*time.Millisecond {
			t.Errorf("the calm tenant's only request started after %v", d)
		}
		time.Sleep(time.Minute)
	})
}
