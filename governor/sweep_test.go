package governor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// perTenant is a vendor that refuses a tenant for a moment.
type perTenant struct{}

var errTenant = errors.New("tenant refused")

func (perTenant) DelayError(error) (time.Duration, bool) { return 0, false }

func (perTenant) Signals(err error, _ time.Time) []throttle.Signal {
	if err != errTenant {
		return nil
	}
	return []throttle.Signal{{Scope: throttle.Scope{Level: throttle.Tenant}, Delay: time.Millisecond}}
}

// refuseEach returns what a request costs when each of n tenants is refused once.
func refuseEach(t *testing.T, n int) time.Duration {
	g, err := governor.New(governor.PlainConfig{Name: "test", Vendor: perTenant{}, NoPace: true, MaxQueue: n, MinCooldown: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	reqs := make([]*governor.Request[int], n)
	for i := range reqs {
		err := errTenant
		reqs[i] = governor.Submit(ctx, g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", governor.Func(func(context.Context) (int, error) {
			defer func() { err = nil }()
			return 0, err
		}))
	}
	g.Stats() // all are in their lanes
	start := time.Now()
	g.Resume()
	for _, r := range reqs {
		if _, err := r.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(n)
}

// Each cooldown of a tenant had the actor look at the lanes of all others.
func TestCooldownsOfManyTenantsCostTheSameEach(t *testing.T) {
	few, many := time.Hour, time.Hour
	for range 3 { // the best of some: others work on this machine, too
		few, many = min(few, refuseEach(t, 1000)), min(many, refuseEach(t, 16_000))
		if many < 5*few {
			return
		}
	}
	t.Errorf("a request costs %v with 16,000 tenants, %v with 1,000", many, few)
}
