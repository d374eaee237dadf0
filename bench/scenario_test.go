package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
)

func TestVendorEscalates(t *testing.T) {
	const ms = time.Millisecond
	v := newVendor(1)
	v.quota, v.concurrent = 2, 10
	for i, c := range []struct {
		at, wait time.Duration
	}{
		{0, 0}, {10 * ms, 0}, // the quota
		{20 * ms, 15 * ms}, {21 * ms, 30 * ms}, {50 * ms, 60 * ms}, // each during the wait before
		{115 * ms, 0}, // sat out
		{116 * ms, 0},
		{117 * ms, 15 * ms}, // from the base again
	} {
		wait, ok := v.arrive(c.at)
		if wait != c.wait || ok != (c.wait == 0) {
			t.Errorf("call %d at %v: told to wait %v, %v; want %v", i, c.at, wait, ok, c.wait)
		}
	}
	if v.refused != 4 || v.longest != 60*ms {
		t.Errorf("%d refused, longest wait %v; want 4 and 60ms", v.refused, v.longest)
	}
	v = newVendor(1)
	v.concurrent = 3
	for range 3 {
		v.arrive(0)
	}
	if _, ok := v.arrive(0); ok {
		t.Error("four calls at once were served, want three")
	}
}

// TestScenarios pins down what a stranger to these rows must know: that the oracle
// reaches the quota, and that without a limit hardly anything is left of it.
func TestScenarios(t *testing.T) {
	o, err := oracle(newVendor(1))
	if err != nil || o.refused != 0 || o.elapsed < 3970*time.Millisecond || o.elapsed > 4*time.Second {
		t.Errorf("oracle: %+v, %v; want 20,000 calls in 3.98 s", o, err)
	}
	bare, err := drive(newVendor(1), noLimit{})
	if err != nil || bare.longest != 900*time.Millisecond || bare.elapsed < 5*o.elapsed {
		t.Errorf("without a limit: %+v, %v; want waits at their longest", bare, err)
	}
	limit, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: 60 * time.Millisecond, Start: 1000})
	if err != nil {
		t.Fatal(err)
	}
	first, err := drive(newVendor(7), limit)
	if err != nil {
		t.Fatal(err)
	}
	limit, _ = limiter.NewAdaptive(limiter.AdaptiveConfig{Window: 60 * time.Millisecond, Start: 1000})
	if again, err := drive(newVendor(7), limit); err != nil || again != first {
		t.Errorf("%+v, then %+v, %v; want the same with the same seed", first, again, err)
	}
}

// tooMany is the vendor's answer to a client of its.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string { return "wait " + e.wait.String() }

type waits struct{}

func (waits) DelayError(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*tooMany](err); ok {
		return e.wait, true
	}
	return 0, false
}

// TestGovernorReachesWhatTheGateReaches makes the calls of F2 through a governor, so
// that the rows are not about the scenarios' own gate.
func TestGovernorReachesWhatTheGateReaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, start := newVendor(1), time.Now()
		var mu sync.Mutex // guards v
		call := func(context.Context) (int, error) {
			mu.Lock()
			up, service, down := v.about(v.up), v.about(v.service), v.about(v.down)
			mu.Unlock()
			time.Sleep(up)
			mu.Lock()
			wait, ok := v.arrive(time.Since(start))
			mu.Unlock()
			if !ok {
				time.Sleep(down)
				return 0, &tooMany{wait}
			}
			time.Sleep(service)
			mu.Lock()
			v.serving--
			mu.Unlock()
			time.Sleep(down)
			return 0, nil
		}
		limit, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: v.window, Start: 1000})
		if err != nil {
			t.Fatal(err)
		}
		g, err := governor.New(governor.PlainConfig{
			Name: "vendor", Vendor: waits{}, Workers: v.concurrent, MaxQueue: scenarioCalls,
			MinCooldown: time.Millisecond, LimitedAttempts: -1, Limits: []governor.Limit{{Limiter: limit}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		all := make([]*governor.Request[int], scenarioCalls)
		for i := range all {
			all[i] = governor.Submit(t.Context(), g, "", governor.Func(call))
		}
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		took := time.Since(start)
		t.Logf("%v, %d refused, longest wait %v", took, v.refused, v.longest)
		if took > 4400*time.Millisecond || v.refused > 8 {
			t.Errorf("%v and %d refused, want 4.4s and 8 at most", took, v.refused)
		}
	})
}
