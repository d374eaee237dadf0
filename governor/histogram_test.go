package governor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantilesAreAtMostAnEighthAboveTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h histogram
		var ds []time.Duration
		for range 1 + r.IntN(2000) {
			d := time.Duration(float64(time.Microsecond) * float64(uint64(1)<<r.IntN(32)) * (1 + r.Float64()))
			ds = append(ds, d)
			h.add(int64(d))
		}
		slices.Sort(ds)
		counts := h.read()
		got := counts.summary()
		for name, q := range map[string]struct {
			share float64
			got   time.Duration
		}{"p50": {.5, got.P50}, "p90": {.9, got.P90}, "p99": {.99, got.P99}, "max": {1, got.Max}} {
			want := ds[int(q.share*float64(len(ds)-1))]
			if q.got < want || q.got > want+want/8+unit {
				t.Errorf("%s of %d is %v, truth %v", name, len(ds), q.got, want)
			}
		}
		if got.Count != uint64(len(ds)) {
			t.Errorf("count %d, want %d", got.Count, len(ds))
		}
	}
}

func TestHistogramTakesAnything(t *testing.T) {
	var h histogram
	for _, d := range []int64{-1 << 63, -1, 0, 1<<63 - 1} {
		h.add(d)
	}
	counts := h.read()
	if s := counts.summary(); s.Count != 4 || s.Max < 2*time.Hour {
		t.Errorf("%+v", s)
	}
	for i := 1; i < buckets; i++ {
		if b := bucket(int64(top(i - 1))); b != i {
			t.Errorf("the end of bucket %d lies in bucket %d, want the next", i-1, b)
		}
	}
}
