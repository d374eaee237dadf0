package clustertest

import (
	"testing"
	"time"
)

func TestUsageGrows(t *testing.T) {
	first := usage{Goroutines: 30, FDs: 20, RSS: 1, Heap: 1}
	for _, tc := range []struct {
		name  string
		now   usage
		grown bool
	}{
		{"the same", first, false},
		{"less", usage{Goroutines: 1, FDs: 1}, false},
		{"some connections more", usage{Goroutines: 30 + slack, FDs: 20 + slack}, false},
		{"goroutines", usage{Goroutines: 31 + slack, FDs: 20}, true},
		{"descriptors", usage{Goroutines: 30, FDs: 21 + slack}, true},
	} {
		if err := first.grows(tc.now); (err != nil) != tc.grown {
			t.Errorf("%s: %v, want grown %v", tc.name, err, tc.grown)
		}
	}
}

// What this process holds is counted, and what it gave back is not.
func TestUsageIsMeasured(t *testing.T) {
	before := measure()
	const n = 100
	held, stop := make([]byte, 64<<20), make(chan struct{})
	for i := range held {
		held[i] = 1 // else it is no memory yet
	}
	for range n {
		go func() { <-stop }()
	}
	if now := measure(); now.Goroutines < before.Goroutines+n/2 || now.Heap < before.Heap+int64(len(held))/2 || before.RSS > 0 && now.RSS < before.RSS+int64(len(held))/2 {
		t.Errorf("%+v, and before there were %d goroutines and %d bytes: %+v", now, n, len(held), before)
	}
	held[0] = 0 // until here
	held = nil
	close(stop)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		now := measure()
		if before.grows(now) == nil && now.Heap < before.Heap+32<<20 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, and before %+v", now, before)
		}
	}
}

func TestSlope(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name    string
		samples []sample
		want    float64
	}{
		{"nothing is known", nil, 0},
		{"nor of one", []sample{{1, 5 * mib, 0}}, 0},
		{"two", []sample{{1, 5 * mib, 0}, {1.5, 6 * mib, 0}}, 2},
		{"up and down", []sample{{0, mib, 0}, {1, 2 * mib, 0}, {2, mib, 0}}, 0},
		{"of many the nearest", []sample{{0, 0, 0}, {1, 3 * mib, 0}, {2, 3 * mib, 0}, {3, 6 * mib, 0}}, 1.8},
	} {
		if got := slope(tc.samples); got < tc.want-1e-9 || got > tc.want+1e-9 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestGrowth(t *testing.T) {
	const mib = 1 << 20
	grows := func(by float64) []sample {
		return []sample{{0, 0, 0}, {0.1, 9 * mib, 0}, {0.5, (9 + by/2) * mib, 0}, {1, (9 + by) * mib, 0}} // that at first does not count
	}
	for _, tc := range []struct {
		name    string
		samples []sample
		length  time.Duration
		good    bool
	}{
		{"by little", grows(0.8), time.Hour, true},
		{"by much", grows(1.2), time.Hour, false},
		{"by much in a short soak", grows(1.2), time.Hour - 1, true},
	} {
		if by, err := growth(tc.samples, tc.length); (err == nil) != tc.good {
			t.Errorf("%s: %v, %v, want good %v", tc.name, by, err, tc.good)
		}
	}
}
