package governor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// bubble runs fn in a synctest bubble with a governor that is closed at its end.
// Change cfg's defaults by set.
func bubble(t *testing.T, set func(*governor.PlainConfig), fn func(t *testing.T, g *governor.Plain)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := governor.PlainConfig{Name: "test", Vendor: governortest.Vendor{}, Workers: 8}
		if set != nil {
			set(&cfg)
		}
		g, err := governor.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fn(t, g)
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// sleep is a closure that takes d.
func sleep(d time.Duration) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(ctx context.Context) (int, error) {
		if d <= 0 { // under the race detector Go 1.26 crashes when a bubble has several timers of 0
			return 1, context.Cause(ctx)
		}
		select {
		case <-time.After(d):
			return 1, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// stamp is a closure that notes when it ran.
func stamp(at *time.Time) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(context.Context) (int, error) { *at = time.Now(); return 1, nil })
}

func tenant(key string) throttle.Scope { return throttle.Scope{Level: throttle.Tenant, Key: key} }

func since(t *testing.T, what string, start, at time.Time, want time.Duration) {
	t.Helper()
	if got := at.Sub(start); got != want {
		t.Errorf("%s after %v, want %v", what, got, want)
	}
}

func forTenant(g *governor.Plain, tenant string) *governor.Plain {
	return g.With(governor.Ask{Tenant: tenant})
}
