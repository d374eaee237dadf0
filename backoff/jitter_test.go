package backoff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Each jitter over a delay of 100 s (decorrelated: after a delay of 100 s, from
// 1 s): its bounds, and its mean over many draws from a fixed source.
func TestJitterBoundsAndMean(t *testing.T) {
	const d = 100 * sec
	source := rand.New(rand.NewPCG(1, 2)).Float64
	tests := []struct {
		name            string
		make            func(func() float64) Schedule
		low, high, mean time.Duration
	}{
		{"full", func(r func() float64) Schedule { return FullJitter{Of: Constant(d), Rand: r} }, 0, d, d / 2},
		{"equal", func(r func() float64) Schedule { return EqualJitter{Of: Constant(d), Rand: r} }, d / 2, d, d * 3 / 4},
		{"factor default", func(r func() float64) Schedule { return FactorJitter{Of: Constant(d), Rand: r} }, d / 2, d * 3 / 2, d},
		{"factor .2", func(r func() float64) Schedule { return FactorJitter{Of: Constant(d), Factor: .2, Rand: r} }, d * 8 / 10, d * 12 / 10, d},
		{"factor 1", func(r func() float64) Schedule { return FactorJitter{Of: Constant(d), Factor: 1, Rand: r} }, 0, 2 * d, d},
		{"upward", func(r func() float64) Schedule {
			return FactorJitter{Of: Constant(d), Factor: .2, Upward: true, Rand: r}
		}, d, d * 12 / 10, d * 11 / 10},
		{"decorrelated", func(r func() float64) Schedule { return Decorrelated{Initial: sec, Rand: r} }, sec, 3 * d, (sec + 3*d) / 2},
	}
	for _, tt := range tests {
		step := Step{Attempt: 2, Prev: d}
		for _, end := range []struct {
			x    float64
			want time.Duration
		}{{0, tt.low}, {1, tt.high}, {-3, tt.low}, {7, tt.high}, {math.NaN(), tt.low}, {math.Inf(1), tt.high}, {math.Inf(-1), tt.low}} {
			if got, again := tt.make(func() float64 { return end.x }).Next(step); got != end.want || !again {
				t.Errorf("%s: draw %v gives %v %v, want %v", tt.name, end.x, got, again, end.want)
			}
		}
		const n = 20000
		sum, s := time.Duration(0), tt.make(source)
		for range n {
			got, _ := s.Next(step)
			if got < tt.low || got > tt.high {
				t.Fatalf("%s: %v is not within %v..%v", tt.name, got, tt.low, tt.high)
			}
			sum += got
		}
		if mean := sum / n; (mean - tt.mean).Abs() > (tt.high-tt.low)/100 {
			t.Errorf("%s: mean %v, want %v", tt.name, mean, tt.mean)
		}
	}
}

func TestJitterWithoutSourceIsRandom(t *testing.T) {
	for _, s := range []Schedule{FullJitter{Of: Constant(sec)}, EqualJitter{Of: Constant(sec)}, FactorJitter{Of: Constant(sec)}, Decorrelated{}} {
		seen := map[time.Duration]bool{}
		for range 20 {
			d, _ := s.Next(Step{})
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Errorf("%#v gave one delay 20 times: %v", s, seen)
		}
	}
}

func TestJitterStopsWithItsSchedule(t *testing.T) {
	for _, s := range []Schedule{FullJitter{Of: Times(1)}, EqualJitter{Of: Times(1)}, FactorJitter{Of: Times(1)}} {
		if got := delays(s, 5); len(got) != 1 {
			t.Errorf("%#v: %v", s, got)
		}
	}
}

func TestDecorrelated(t *testing.T) {
	top := func() float64 { return 1 }
	for _, tt := range []struct {
		s    Schedule
		want string
	}{
		{Decorrelated{Initial: sec, Rand: top}, "[3s 9s 27s 1m21s]"},
		{Decorrelated{Initial: sec, Max: 10 * sec, Rand: top}, "[3s 9s 10s 10s]"},
		{Decorrelated{Initial: sec, Multiplier: 2, Rand: top}, "[2s 4s 8s 16s]"},
		{Decorrelated{Initial: sec, Rand: func() float64 { return 0 }}, "[1s 1s 1s 1s]"},
		{Decorrelated{Rand: top}, "[1.5s 4.5s 13.5s 40.5s]"},
		// Prev is what the sequence was given: a cap outside holds it down.
		{MaxDelay(Decorrelated{Initial: sec, Rand: top}, 4*sec), "[3s 4s 4s 4s]"},
		// After Then, decorrelated starts afresh.
		{Then(And(Times(2), Constant(time.Hour)), Decorrelated{Initial: sec, Rand: top}), "[1h0m0s 1h0m0s 3s 9s]"},
	} {
		if got := fmt.Sprint(delays(tt.s, 4)); got != tt.want {
			t.Errorf("%#v: %v, want %v", tt.s, got, tt.want)
		}
	}
	if d, _ := (Decorrelated{Initial: sec, Rand: top}).Next(Step{Prev: -sec}); d != 3*sec {
		t.Errorf("after a negative Prev: %v", d)
	}
}

func TestJitterOfTheLongestDelayNeverOverflows(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4)).Float64
	draws := []float64{0, math.SmallestNonzeroFloat64, .5, math.Nextafter(1, 0), 1}
	i := 0
	r := func() float64 {
		if i++; i <= len(draws) {
			return draws[i-1]
		}
		return source()
	}
	for _, s := range []Schedule{
		FullJitter{Of: Constant(longest), Rand: r}, EqualJitter{Of: Constant(longest), Rand: r}, FactorJitter{Of: Constant(longest), Rand: r},
		FactorJitter{Of: Constant(longest), Factor: 1, Upward: true, Rand: r}, Decorrelated{Initial: 1, Rand: r}, Decorrelated{Initial: longest, Rand: r},
	} {
		i = 0
		for range 1000 {
			if d, again := s.Next(Step{Prev: longest}); d < 0 || !again {
				t.Fatalf("%#v: %v %v", s, d, again)
			}
		}
	}
}

// However long the delay and however near to 1 the draw, rounding stays within.
func TestJitterNeverRoundsPastItsEnd(t *testing.T) {
	almost := func() float64 { return math.Nextafter(1, 0) }
	for bit := range 63 {
		for off := time.Duration(-3); off <= 3; off++ {
			d := max(1<<bit+off, 0)
			if got, _ := (FullJitter{Of: Constant(d), Rand: almost}).Next(Step{}); got > d || got < 0 {
				t.Errorf("%d of %d", got, d)
			}
		}
	}
}
