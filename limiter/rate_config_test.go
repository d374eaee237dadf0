package limiter

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestRateLimitedError(t *testing.T) {
	r := newRate(t, 1.0/3600, 1)
	if err := r.Take(1); err != nil {
		t.Fatal(err)
	}
	err := r.Take(1)
	var limited *LimitedError
	if !errors.As(err, &limited) || !errors.Is(err, ErrLimited) || !limited.Refused() {
		t.Fatalf("Take = %#v", err)
	}
	if d := limited.RetryAfter(); d <= 59*time.Minute || d > time.Hour || d != limited.After {
		t.Errorf("retry after %v", d)
	}
	for e, want := range map[LimitedError]string{
		{After: time.Second}:           "limiter: no permits, retry after 1s",
		{After: time.Second, Key: "a"}: `limiter: no permits for "a", retry after 1s`,
		*refuse(NoPermits, Never, "a"): `limiter: more permits than the limit ever holds for "a"`,
		{Reason: QueueFull}:            "limiter: queue full",
		{Reason: TooLate, After: 1}:    "limiter: too late, retry after 1ns",
		{Reason: Displaced, Key: "b"}:  `limiter: displaced by a newer call for "b"`,
	} {
		if got := e.Error(); got != want {
			t.Errorf("%+v says %q, want %q", e, got, want)
		}
	}
	if errors.Is(err, errors.New("limiter: limited")) {
		t.Error("matches anything")
	}
}

// TestRateFarTimes uses the clock's and the configuration's ends together.
func TestRateFarTimes(t *testing.T) {
	for _, cfg := range []RateConfig{{1e9, int(century) - 1}, {1 / century.Seconds(), 1}, {1e9, 1}} {
		for _, at := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Unix(1<<40, 0), time.Unix(1<<62, 0)} {
			r := newRate(t, cfg.Rate, cfg.Burst)
			if !r.AllowAt(at, cfg.Burst) {
				t.Errorf("%+v: not full at %v", cfg, at)
			}
			if r.AllowAt(at, 1) {
				t.Errorf("%+v: more than full at %v", cfg, at)
			}
			ok := 0
			for range 20 {
				if v := r.ReserveAt(at, max(1, cfg.Burst/20)); v.OK() {
					ok++
				} else if v.Delay() <= 10*365*24*time.Hour {
					t.Errorf("%+v at %v: %v is not too long", cfg, at, v.Delay())
				}
			}
			if most := 20; cfg.Burst > 1 && ok != 2 || cfg.Rate < 1 && ok != 0 || cfg == (RateConfig{1e9, 1}) && ok != most {
				t.Errorf("%+v: %d reserved at %v", cfg, ok, at)
			}
		}
	}
	r := newRate(t, 1, 1)
	if at := time.Unix(0, 0); !r.AllowAt(at, 1) || r.AllowAt(at.Add(time.Second-1), 1) || !r.AllowAt(at.Add(time.Second), 1) {
		t.Error("time stands still in 1970")
	}
}

func TestRateAllocates(t *testing.T) {
	r, ctx := newRate(t, 1e9, 1<<30), t.Context()
	now := time.Now()
	for name, f := range map[string]func(){
		"Allow":       func() { r.Allow() },
		"AllowAt":     func() { r.AllowAt(now, 1) },
		"Take":        func() { _ = r.Take(1) },
		"Try refused": func() { r.Try(now, 1<<31) },
		"Reserve":     func() { r.Reserve(1).Delay() },
		"Wait":        func() { _ = r.Wait(ctx) },
		"Tokens":      func() { r.Tokens() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	if n := unsafe.Sizeof(rateState{}); n != 64 {
		t.Errorf("a rateState takes %d bytes, not a cache line", n)
	}
}

func TestRateConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  RateConfig
		want string // "" for none
	}{
		{RateConfig{Rate: 0}, "RateConfig.Rate is 0"},
		{RateConfig{Rate: -1}, "RateConfig.Rate is -1"},
		{RateConfig{Rate: math.NaN()}, "RateConfig.Rate is NaN"},
		{RateConfig{Rate: math.Inf(1)}, "RateConfig.Rate is +Inf"},
		{RateConfig{Rate: math.Inf(-1)}, "RateConfig.Rate is -Inf"},
		{RateConfig{Rate: 1.0001e9}, "RateConfig.Rate is 1.0001e+09"},
		{RateConfig{Rate: 3e-10}, "RateConfig.Rate is 3e-10"},
		{RateConfig{Rate: math.SmallestNonzeroFloat64}, "RateConfig.Rate is 5e-324"},
		{RateConfig{Rate: 1, Burst: -1}, "RateConfig.Burst is -1"},
		{RateConfig{Rate: 1, Burst: math.MinInt}, "RateConfig.Burst is -9223372036854775808"},
		{RateConfig{Rate: 1, Burst: 1 << 40}, "RateConfig.Burst is 1099511627776"},
		{RateConfig{Rate: 6e8, Burst: 18e17}, "RateConfig.Burst is 1800000000000000000"}, // 95 years at 6e8, 114 at 5e8
		{RateConfig{Rate: 1e9, Burst: math.MaxInt}, "RateConfig.Burst is 9223372036854775807"},
		{RateConfig{Rate: 1 / century.Seconds()}, ""},
		{RateConfig{Rate: 1e9, Burst: 1 << 61}, ""},
	} {
		r, err := NewRate(c.cfg)
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.cfg, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("%+v: %v, %v, want %q", c.cfg, r, err, c.want)
		}
	}
	for rate, want := range map[float64]int{0.1: 1, 1: 1, 1.5: 2, 100: 100} {
		if got, burst := newRate(t, rate, 0).Limits(); got != rate || burst != want {
			t.Errorf("rate %v: Limits are %v, %d", rate, got, burst)
		}
	}
}

// FuzzRate looks for limits and times with which a Rate panics, or lets pass more
// than it should at one instant or with time.
func FuzzRate(f *testing.F) {
	f.Add(1.0, 1, int64(0), int64(1), 1)
	f.Add(1e9, math.MaxInt, int64(-1), int64(math.MaxInt64), math.MaxInt)
	f.Add(3.3e-10, 1, int64(math.MinInt64), int64(1)<<60, -1)
	f.Fuzz(func(t *testing.T, rate float64, burst int, from, d int64, n int) {
		r, err := NewRate(RateConfig{Rate: rate, Burst: burst})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "limiter: RateConfig.") {
				t.Fatal(err)
			}
			return
		}
		g := r.cur.Load().gcra
		d &= math.MaxInt64
		start, end := time.Unix(0, from), time.Unix(0, from).Add(time.Duration(d))
		length := float64(r.time.at(end) - r.time.at(start))
		taken := 0.0
		for range 20 {
			for _, at := range []time.Time{start, end} {
				if r.AllowAt(at, n) && n > 0 {
					taken += float64(n)
				}
				v := r.ReserveAt(at, n)
				v.Cancel()
				_ = r.SetBurst(int(g.burst))
			}
		}
		if most := float64(g.burst) + length/float64(g.interval); taken > most*(1+1e-9) {
			t.Fatalf("%v taken in %v ns, the most is %v", taken, length, most)
		}
		if tokens := r.Tokens(); !(tokens <= float64(g.burst)) {
			t.Fatalf("%v of %d permits", tokens, g.burst)
		}
	})
}
