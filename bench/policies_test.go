package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
)

func TestPolicyRowsAreThere(t *testing.T) {
	names := []string{"C1"}
	for _, id := range []string{
		"A1", "A2", "A2now", "A2count", "A2slow", "A3allow", "A3wait", "A3reserve", "A4allow", "A4try",
		"A5", "A5do", "A5av", "A5avdo", "A6floor", "A6fs", "A6hm", "A6t", "C2uniform", "C2hot",
	} {
		names = append(names, id+"/serial", id+"/par")
	}
	some, err := pick(catalogue(), names)
	if err != nil || len(some) != len(names) {
		t.Errorf("%d rows of %d: %v", len(some), len(names), err)
	}
	for _, r := range some {
		if n := len(r.target); n == 0 || r.target[n-1].of != allocs {
			t.Errorf("%s has the target %v, want one for allocations, too", r.id, r.target)
		}
	}
}

// script is a job that fails so many times before it succeeds.
func script(failures int, calls *int) job {
	run := func() (int, error) {
		if *calls++; *calls <= failures {
			return 0, errors.New("no")
		}
		return 1, nil
	}
	return job{func(context.Context) (int, error) { return run() }, run}
}

var (
	alones = map[string]func(job) side{
		"breaker":          func(j job) side { return breakerDo(j, breaker.Config{}) },
		"breaker, seconds": func(j job) side { return breakerDo(j, breaker.Config{WindowTime: time.Second}) },
		"breaker, given":   func(j job) side { return breakerPermit(j, breaker.Config{}) },
		"gobreaker":        func(j job) side { return gobreakerExecute(j, false) },
		"gobreaker, 10 s":  func(j job) side { return gobreakerExecute(j, true) },
		"retry, made once": retryWith,
		"retry, by Config": retryDo,
		"backoff":          backoffRetry,
		"avast":            avastDo,
	}
	composed = map[string]func(job) side{
		"chain":                func(j job) side { return chain(j, false) },
		"chain, timeout":       func(j job) side { return chain(j, true) },
		"failsafe-go":          func(j job) side { return failsafeGet(j, false) },
		"failsafe-go, timeout": func(j job) side { return failsafeGet(j, true) },
		"made by hand":         handMade,
		"written out by hand":  floor,
	}
)

// runs makes a side and does n operations with it.
func runs(t *testing.T, s side, n int) error {
	op, stop, err := s()
	if err != nil {
		t.Fatal(err)
	}
	if stop != nil {
		defer stop()
	}
	return op(n)
}

func TestBothSidesMakeTheCalls(t *testing.T) {
	for _, sides := range []map[string]func(job) side{alones, composed} {
		for name, s := range sides {
			calls := 0
			if err := runs(t, s(script(0, &calls)), 7); err != nil || calls != 7 {
				t.Errorf("%s: %d calls, %v", name, calls, err)
			}
			lazy := job{func(context.Context) (int, error) { return 0, nil }, func() (int, error) { return 0, nil }}
			if err := runs(t, s(lazy), 1); err != errNotCalled {
				t.Errorf("%s: a call that was not made: %v", name, err)
			}
		}
	}
}

// The composed sides retry as often, and their breakers open, too.
func TestComposedSidesHaveTheSamePolicies(t *testing.T) {
	for name, s := range composed {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			if err := runs(t, s(script(2, &calls)), 1); err != nil || calls != 3 {
				t.Errorf("%s: %d calls, the third a good one: %v", name, calls, err)
			}
			calls = 0
			op, stop, err := s(script(1000, &calls))()
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if err := op(1); err == nil || calls != 3 {
				t.Errorf("%s: %d calls, all bad: %v", name, calls, err)
			}
			_ = op(1)
			for range 10 { // ours waits out the minute, and makes a trial call
				before := calls
				if err := op(1); err == nil || calls > before+1 {
					t.Errorf("%s: %d calls, and %d more when it was open: %v", name, before, calls-before, err)
				}
			}
		})
	}
}

func TestBothSidesTakePermits(t *testing.T) {
	for name, use := range map[string]func(*limiter.Rate) (func(int) error, func()){
		"Allow": rateAllow, "Wait": rateWait, "Reserve": rateReserve, "AllowAt": rateAllowAt, "Try": rateTry,
	} {
		var rate *limiter.Rate
		s := rateSide(10, func(r *limiter.Rate) (func(int) error, func()) { rate = r; return use(r) })
		if err := runs(t, s, 8); err != nil || int(rate.Tokens()) != 2 {
			t.Errorf("%s: %v of 10 left after 8: %v", name, rate.Tokens(), err)
		}
		if name == "Wait" {
			continue // it would
		}
		if err := runs(t, s, 11); err != errRefused {
			t.Errorf("%s: 11 of 10: %v", name, err)
		}
	}
	if err := runs(t, xtimeAllow(10), 10); err != nil {
		t.Error("x/time:", err)
	}
	if err := runs(t, xtimeAllow(10), 11); err != errRefused {
		t.Error("x/time: 11 of 10:", err)
	}
}

func TestBothStoresHaveABucketPerKey(t *testing.T) {
	for name, make := range map[string]newStore{"Keyed": newKeyed, "map": newLimiterMap} {
		store, err := make(100, 3)
		if err != nil {
			t.Fatal(err)
		}
		names := keyNames(100)
		for range 3 {
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			if err := use(store, names); err != nil {
				t.Error(name, err)
			}
		}
		for _, key := range names {
			if store.Allow(key) {
				t.Errorf("%s: a fourth permit for %s", name, key)
			}
		}

		// Each key has one of its two permits left when the measurement begins.
		if err := runs(t, anyKey(100, 2, make), 100); err != nil {
			t.Errorf("%s: not every key is visited once: %v", name, err)
		}
		if err := runs(t, anyKey(100, 2, make), 101); err != errRefused {
			t.Errorf("%s: 101 of 100: %v", name, err)
		}
		if err := runs(t, hotKey(100, 5, make), 4); err != nil {
			t.Error(name, err)
		}
		if err := runs(t, hotKey(100, 5, make), 5); err != errRefused {
			t.Errorf("%s: 6 of 5: %v", name, err)
		}
	}
}

// A healthy call through any of the policies alone allocates nothing, but for the
// context of a timeout.
func TestPoliciesAloneDoNotAllocate(t *testing.T) {
	all, err := layers()
	if err != nil {
		t.Fatal(err)
	}
	fallback, err := policy.NewFallback(policy.FallbackConfig{With: policy.Value(2)})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := policy.NewCache(policy.CacheConfig[string, int]{Key: func(context.Context) (string, bool) { return "key", true }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, p := range append(all, fallback, cache) {
		want := 0.0
		if p.Layer() == policy.TimeoutLayer {
			want = 1
		}
		chain := policy.Chain(p)
		if n := testing.AllocsPerRun(1000, func() { _, _ = policy.Do(ctx, chain, nothing) }); n != want {
			t.Errorf("%v: %v allocations, want %v", p, n, want)
		}
	}
	for name, s := range alones {
		if name == "backoff" {
			continue // a peer that does
		}
		op, stop, err := s(empty)()
		if err != nil {
			t.Fatal(err)
		}
		if stop != nil {
			defer stop()
		}
		if n := testing.AllocsPerRun(1000, func() { _ = op(1) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
