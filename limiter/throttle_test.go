package limiter

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func newThrottle(t testing.TB, cfg ThrottleConfig) *Throttle {
	t.Helper()
	h, err := NewThrottle(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestThrottleAgainstModel compares the share with the formula over a list of all
// that ever happened.
func TestThrottleAgainstModel(t *testing.T) {
	type seen struct {
		slice  int64
		accept bool
	}
	for seed := range uint64(effort.Times(2)) {
		rng := rand.New(rand.NewPCG(seed, 5))
		cfg := ThrottleConfig{Window: 64 * time.Second, K: 1 + 2*rng.Float64(), Most: 0.5 + rng.Float64()/2}
		h := newThrottle(t, cfg)
		h.Rejects(epoch) // its slices begin here
		var all []seen
		now := epoch
		for range 2000 {
			switch rng.IntN(5) {
			case 0:
				now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Second))))
			case 1:
				if rng.IntN(100) == 0 {
					now = now.Add(time.Duration(rng.Int64N(int64(5 * time.Minute))))
				}
			case 2:
				h.Accepted(now)
				all = append(all, seen{int64(now.Sub(epoch) / time.Second), true})
			default:
				h.Admit(now, rng.Float64())
				all = append(all, seen{int64(now.Sub(epoch) / time.Second), false})
			}
			for len(all) > 0 && all[0].slice <= int64(now.Sub(epoch)/time.Second)-64 {
				all = all[1:]
			}
			var requests, accepts float64
			for _, s := range all {
				if s.slice > int64(now.Sub(epoch)/time.Second)-64 {
					if s.accept {
						accepts++
					} else {
						requests++
					}
				}
			}
			want := min(max(0, (requests-cfg.K*accepts)/(requests+1)), cfg.Most)
			if got := h.Rejects(now); math.Abs(got-want) > 1e-12 {
				t.Fatalf("seed %d: Rejects = %v, want %v", seed, got, want)
			}
		}
	}
}

// overloaded offers 1000 calls a second to a server that accepts fewer, and returns how
// many it was sent for each that it accepted.
func overloaded(h *Throttle, seed uint64, from, seconds int, accepts int) float64 {
	rng := rand.New(rand.NewPCG(seed, 6))
	var sent, accepted int
	for s := from; s < from+seconds; s++ {
		left := accepts // a second
		for i := range 1000 {
			now := epoch.Add(time.Duration(s)*time.Second + time.Duration(i)*time.Millisecond)
			if !h.Admit(now, rng.Float64()) {
				continue
			}
			sent++
			if left > 0 && rng.IntN(1000-i) < 4*left {
				left--
				accepted++
				h.Accepted(now)
			}
		}
	}
	return float64(sent) / float64(accepted)
}

func TestThrottleSendsKTimesWhatIsAccepted(t *testing.T) {
	for seed := range uint64(effort.Times(1)) {
		for _, k := range []float64{1.5, 2, 3} {
			h := newThrottle(t, ThrottleConfig{Window: 20 * time.Second, K: k})
			overloaded(h, seed, 0, 40, 200)
			if got := overloaded(h, seed, 40, 60, 200); got < k*0.9 || got > k*1.1 {
				t.Errorf("K %v: %v calls sent for one accepted", k, got)
			}
			overloaded(h, seed, 100, 45, 1000)
			if got := h.Rejects(epoch.Add(145 * time.Second)); got != 0 {
				t.Errorf("K %v: %v rejected after a calm time", k, got)
			}
		}
	}
}

func TestThrottleLeavesAHealthyServerAlone(t *testing.T) {
	h := newThrottle(t, ThrottleConfig{})
	for i := range 10_000 {
		now := epoch.Add(time.Duration(i) * 10 * time.Millisecond)
		if !h.Admit(now, 0) && i > 0 { // even with the most unlucky number
			t.Fatalf("call %d was rejected", i)
		}
		if i%2 == 0 { // half of them fail
			h.Accepted(now)
		}
	}
}

func TestThrottleLetsATenthThrough(t *testing.T) {
	h := newThrottle(t, ThrottleConfig{})
	for range 10_000 {
		h.Admit(epoch, 0.5)
	}
	if got := h.Rejects(epoch); got != 0.9 {
		t.Errorf("Rejects = %v, want 0.9", got)
	}
	if h.Admit(epoch, 0.89) || !h.Admit(epoch, 0.9) {
		t.Error("want 0.89 rejected and 0.9 admitted")
	}
	h.Accepted(epoch.Add(-time.Hour)) // a clock that goes back
	if n := testing.AllocsPerRun(100, func() { h.Admit(epoch, 0.5); h.Accepted(epoch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestThrottleConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  ThrottleConfig
		want string
	}{
		{ThrottleConfig{Window: time.Microsecond}, "Window is 1µs"},
		{ThrottleConfig{Window: -1}, "Window is -1ns"},
		{ThrottleConfig{K: 0.5}, "K is 0.5"},
		{ThrottleConfig{K: math.NaN()}, "K is NaN"},
		{ThrottleConfig{Most: 1.1}, "Most is 1.1"},
		{ThrottleConfig{Most: -1}, "Most is -1"},
	} {
		if _, err := NewThrottle(c.cfg); err == nil || !strings.Contains(err.Error(), "ThrottleConfig."+c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
}
