package dashboard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/dashboard"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/retry"
)

// nilError is an error that is a nil pointer: its text cannot be had.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorWithoutATextIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{Retry: &retry.Config{Attempts: 2, Backoff: backoff.Constant(time.Millisecond)}})
		fails := func() {
			_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, (*nilError)(nil) }))
			if _, ok := errors.AsType[*nilError](err); !ok {
				t.Errorf("%T", err)
			}
		}
		fails()
		var listed atomic.Bool
		d := newDashboard(t, dashboard.Config{Governors: func() []governor.Handle {
			if listed.Load() {
				return []governor.Handle{g}
			}
			return nil
		}})
		listed.Store(true)
		time.Sleep(2 * time.Second)
		fails()
		time.Sleep(2 * time.Second)
		n := 0
		for _, e := range get[dashboard.Detail](t, d, "/state.json?governor=acme").Events {
			if e.Kind == "retry" {
				n += e.Count
			}
		}
		if n != 2 {
			t.Errorf("%d retries are told, want 2", n)
		}
	})
}

func TestAListThatPanicsStaysAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		g := newGovernor(t, governor.PlainConfig{})
		d := newDashboard(t, dashboard.Config{Governors: func() []governor.Handle {
			if broken.Load() {
				panic("oh")
			}
			return []governor.Handle{g}
		}})
		for _, want := range []int{0, 1, 1} {
			time.Sleep(2 * time.Second)
			if o := get[dashboard.Overview](t, d, "/state.json"); len(o.Governors) != want {
				t.Errorf("%d governors, want %d", len(o.Governors), want)
			}
			broken.Store(!broken.Load())
		}
	})
}

// unready is a breaker that cannot be asked.
type unready struct{ breaker.Circuit }

func (unready) Ready(time.Time) error { panic("oh") }

func TestAGovernorThatCannotBeAskedHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(
			newGovernor(t, governor.PlainConfig{Breaker: unready{b}}), newGovernor(t, governor.PlainConfig{}),
		)})
		time.Sleep(2 * time.Second)
		if o := get[dashboard.Overview](t, d, "/state.json"); len(o.Governors) != 2 {
			t.Errorf("%+v", o.Governors)
		}
	})
}

// refuser is an adapter of one method: it does not say where a signal is from.
type refuser struct{}

func (refuser) DelayError(error) (time.Duration, bool) { return time.Hour, true }

func TestACooldownWithoutASourceIsExplainedByItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGovernor(t, governor.PlainConfig{Vendor: refuser{}, MaxWait: -1})
		d := newDashboard(t, dashboard.Config{Governors: dashboard.Of(g)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, errors.New("slow down, token=abcdefgh") }))
		time.Sleep(2 * time.Second)
		told := get[dashboard.Detail](t, d, "/state.json?governor=acme")
		if len(told.Cooldowns) != 1 || told.Cooldowns[0].Source != "slow down, token=…" {
			t.Errorf("%+v", told.Cooldowns)
		}
	})
}
