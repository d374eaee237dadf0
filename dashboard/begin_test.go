package dashboard_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
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
		if told.Breaker != "open" || !told.BreakerRefuses || told.BreakerWhy != "opened by hand" || told.BreakerLeft != 39_000 {
			t.Errorf("breaker %s, %v ms left, want 39 s", told.Breaker, told.BreakerLeft)
		}
		b.Reset()
		time.Sleep(time.Second)
		synctest.Wait()
		if told = get[dashboard.Detail](t, d, "/state.json?governor=acme"); told.Breaker != "closed" || told.BreakerRefuses || told.BreakerLeft != 0 {
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

// An operator sees why a breaker is open, and until when, on the overview too, and
// what narrower limits leave to those who wait.
func TestAnOpenBreakerSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Failures: 2, OpenFor: backoff.Constant(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		each, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 3, Period: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		g := newGovernor(t, governor.PlainConfig{Breaker: b, BreakerWait: true, Limits: []governor.Limit{{Per: throttle.Tenant, Limiter: each}}})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
		for range 2 {
			call(t, g, "one", errors.New("connection reset by peer"))
		}
		submit(t, g, "one")
		time.Sleep(time.Second)
		synctest.Wait()
		s := get[dashboard.Overview](t, d, "/state.json").Governors[0]
		if s.State != "breaker" || s.Breaker != "open" || !s.BreakerRefuses || s.BreakerWhy != "failures: 2: connection reset by peer" || s.BreakerLeft != 59_000 || s.BreakerLength != 60_000 {
			t.Errorf("%+v", s)
		}
		told := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		want := dashboard.Limit{Per: "tenant", Key: "one", Rate: .05, Limit: 3, Remaining: 1, Window: 60_000, Left: 58_980}
		if l := told.Limits[0]; l != want {
			t.Errorf("limits %+v, want %+v", l, want)
		}
		if b := told.Stats.Breaker; b == nil || b.Failed != 2 || b.Cause != "connection reset by peer" {
			t.Errorf("breaker %+v", told.Stats.Breaker)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s = get[dashboard.Overview](t, d, "/state.json").Governors[0]; s.BreakerRefuses || s.BreakerWhy != "" || s.BreakerLeft != 0 {
			t.Errorf("when its time has come: %+v", s)
		}
	})
}
