package main

import (
	"fmt"
	"runtime"
	"slices"
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
	v.concurrent, v.gentle = 0, true
	for i, c := range []struct{ at, wait time.Duration }{
		{0, 15 * ms}, {5 * ms, 25 * ms}, {6 * ms, 54 * ms}, // 15, 30 and 60 ms from 0 on
		{59 * ms, 61 * ms}, // 120 ms
		{120 * ms, 15 * ms},
	} {
		if wait, ok := v.arrive(c.at); ok || wait != c.wait {
			t.Errorf("gentle, call %d at %v: told to wait %v, %v; want %v", i, c.at, wait, ok, c.wait)
		}
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
	if err != nil || o.Refused != 0 || o.Elapsed < 3970*time.Millisecond || o.Elapsed > 4*time.Second {
		t.Errorf("oracle: %+v, %v; want 20,000 calls in 3.98 s", o, err)
	}
	bare, err := drive(newVendor(1), noLimit{})
	if err != nil || bare.Longest != 900*time.Millisecond || bare.Elapsed < 5*o.Elapsed {
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

// TestGovernorInTheScenario makes the calls of the rows F1gov to F3govquota, by both
// readings of the vendor's rule, and holds each seed to the rows' targets. Where the
// quota falls, one of five may miss them: how many calls are on their way in that
// moment is a matter of luck. Of rows without a target all calls are to be made, in a
// time that does without one.
func TestGovernorInTheScenario(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as the rows do
	for _, s := range governings {
		if s.slower == 0 {
			s.slower, s.refused, s.wait = 5, 60, 900*time.Millisecond
		}
		lenient, strays := s, 0
		if s.fall > 0 && s.slower < 1.15 {
			lenient.slower, lenient.refused, lenient.wait, strays = 1.15, 14, 240*time.Millisecond, 1
		}
		for _, name := range []string{s.id, s.id + "/gentle"} {
			t.Run(name, func(t *testing.T) {
				all, err := runSeeds(t, name, 5)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				missed := 0
				for i, o := range all {
					ideal, err := oracle(s.vendor(i + 1))
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%-15s seed %d: %5.1f%% of the quota, %.3f of the oracle's time, %2d refused, longest wait %5v, p50 %v, p99 %v", name, i+1,
						100*scenarioCalls/5000/o.Elapsed.Seconds(), float64(o.Elapsed)/float64(ideal.Elapsed), o.Refused, o.Longest, o.P50, o.P99)
					if !s.holds(o, ideal) {
						missed++
					}
					if missed > strays || !lenient.holds(o, ideal) {
						t.Errorf("%s, seed %d: %v, the oracle %v, %d refused, longest wait %v; want %v of its time, %v and %v at most",
							name, i+1, o.Elapsed, ideal.Elapsed, o.Refused, o.Longest, s.slower, s.refused, s.wait)
					}
					if s.slower == 1.015 && float64(o.P99) > 1.1*float64(o.P50) {
						t.Errorf("%s, seed %d: 99 %% of the calls took up to %v, the median is %v; want 1.1 of it at most", name, i+1, o.P99, o.P50)
					}
				}
			})
		}
	}
}

// TestGovernorWaitsTheLongestWaitOnce calls a vendor that has just asked others for
// its longest wait, by which the calls of a governor that does not know of it prolong
// it: those that go at once, and none after their answers.
func TestGovernorWaitsTheLongestWaitOnce(t *testing.T) {
	v := newVendor(1)
	slowest := (v.up + v.service + v.down) * 14 / 10
	for _, n := range []int{1, 64, 1000} {
		all, err := runSeeds(t, fmt.Sprintf("F4/%d", n), 5)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range all {
			if o.First < v.most || o.First > v.most*105/100+slowest {
				t.Errorf("%d submitters, seed %d: first success after %v, want %v and a call at most", n, i+1, o.First, v.most*105/100)
			}
			if n <= v.quota && o.Refused > v.concurrent { // with more the quota is found, too
				t.Errorf("%d submitters, seed %d: %d refused, want those that went at once", n, i+1, o.Refused)
			}
		}
	}
}

// TestGovernorAtFullScale makes the scenario's calls at a thousandth of its speed: 300
// a minute, 2 s for a call, pauses of 15 s to 15 min. The governor has its defaults:
// nothing in it is made for the scale of the rows, and no request is given up.
func TestGovernorAtFullScale(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		name       string
		limits     func() ([]governor.Limit, error)
		fall, back time.Duration
		share      float64 // of the quota
		refused    int
		wait       time.Duration
	}{
		{"known", func() ([]governor.Limit, error) {
			return []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 300, Per: time.Minute}}}, nil
		}, 0, 0, 0.99, 0, 0},
		{"unknown", func() ([]governor.Limit, error) {
			l, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: time.Minute, Start: 1})
			return []governor.Limit{{Limiter: l}}, err
		}, 0, 0, 0.94, 6, time.Minute},
		{"nothing told", untold, 0, 0, 0.15, 20, 15 * time.Minute},
		{"halved", func() ([]governor.Limit, error) {
			l, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: time.Minute, Start: 1})
			return []governor.Limit{{Limiter: l}}, err
		}, 1000 * time.Second, 3000 * time.Second, 0.73, 10, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVendor(1)
				for _, d := range []*time.Duration{&v.window, &v.base, &v.most, &v.up, &v.service, &v.down} {
					*d *= 1000
				}
				v.halved, v.whole = c.fall, c.back
				limits, err := c.limits()
				if err != nil {
					t.Fatal(err)
				}
				o, err := through(governor.PlainConfig{Name: "vendor", Vendor: waits{}, Workers: v.concurrent, Limits: limits}, v, scenarioCalls, submitters)
				share := scenarioCalls / o.Elapsed.Seconds() / 5
				t.Logf("%s: %.1f%% of the quota, %d refused, longest wait %v, %v", c.name, 100*share, o.Refused, o.Longest, err)
				if err != nil || share < c.share || o.Refused > c.refused || o.Longest > c.wait {
					t.Errorf("%s: %.3f of the quota, %d refused, longest wait %v, %v; want %v, %d and %v",
						c.name, share, o.Refused, o.Longest, err, c.share, c.refused, c.wait)
				}
			})
		})
	}
}

// TestVirtual runs bubbles as rows do, in a process that is no test.
func TestVirtual(t *testing.T) {
	here, err := runSeeds(t, "F4/1", 2)
	if err != nil {
		t.Fatal(err)
	}
	there, err := virtual("F4/1", 2)
	if err != nil || !slices.Equal(here, there) {
		t.Errorf("virtual F4/1: %+v, %v; want %+v", there, err, here)
	}
	if _, err := virtual("Z9", 1); err == nil || err.Error() != `there is no bubble "Z9"` {
		t.Errorf("virtual Z9: %v; want that there is none", err)
	}
}
