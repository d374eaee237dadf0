package dashboard_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// Who opens the page after the fact still learns why.
func TestWhatHappenedBeforeThePageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		g := newGovernor(t, governor.PlainConfig{Breaker: b})
		g.Learn(throttle.Signal{Delay: time.Hour, Source: "slow down"})
		g.Pause()
		b.OpenUntil(time.Now().Add(time.Minute))
		time.Sleep(20 * time.Second)
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
		g.Resume()
		time.Sleep(time.Second)
		synctest.Wait()
		told := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		n := map[string]int{}
		for _, e := range told.Events {
			n[e.Kind] += e.Count
		}
		for _, kind := range []string{"learned", "cooling", "paused", "breaker set", "unpaused"} {
			if n[kind] != 1 {
				t.Errorf("%s: told %d times, of %+v", kind, n[kind], told.Events)
			}
		}
		if told.Breaker != "open" || told.BreakerLeft != 39_000 {
			t.Errorf("breaker %s, %v ms left, want 39 s", told.Breaker, told.BreakerLeft)
		}
		b.Reset()
		time.Sleep(time.Second)
		synctest.Wait()
		if told = get[dashboard.Detail](t, d, "/state.json?governor=acme"); told.Breaker != "closed" || told.BreakerLeft != 0 {
			t.Errorf("breaker %s, %v ms left, after a reset", told.Breaker, told.BreakerLeft)
		}
	})
}

// late is a governor that decides something after the page began to listen and before it
// asks for what was decided already.
type late struct{ governor.Handle }

func (l late) Recent() []event.Event {
	l.Pause()
	return l.Handle.Recent()
}

// However the beginning of the page and what happens meet, each event is told once:
// here some of the same sort and moment too.
func TestWhatHappensWhileThePageBeginsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(late{g})})
		g.Resume()
		g.Pause()
		time.Sleep(time.Second)
		g.Resume()
		time.Sleep(time.Second)
		synctest.Wait()
		var kinds []string
		for _, e := range get[dashboard.Detail](t, d, "/state.json?governor=acme").Events {
			kinds = append(kinds, e.Kind)
		}
		if want := []string{"paused", "unpaused", "paused", "unpaused"}; !slices.Equal(kinds, want) {
			t.Errorf("%v, want %v", kinds, want)
		}
	})
}
