package limiter

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func newQuota(t testing.TB, cfg QuotaConfig) Counter {
	t.Helper()
	l, err := NewQuota(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// steadyVendor sends calls to a vendor that takes 300 in any 60 ms and 20 at once.
// A call is 0.25 ms on its way, each way, and takes 1.5 ms, all of it up to 40 %
// more or less. It returns how much of the quota was used, and how many calls
// came when there were 300 already.
func steadyVendor(l Limiter, seed uint64) (goodput float64, refused int) {
	const calls, limit, per, slots = 20_000, 300, 60 * time.Millisecond, 20
	r := rand.New(rand.NewPCG(seed, 40))
	jitter := func(d time.Duration) time.Duration { return time.Duration((0.6 + 0.8*r.Float64()) * float64(d)) }
	var now, last time.Duration
	free := make([]time.Duration, slots)
	var arrivals []time.Duration
	for range calls {
		slot := slices.Index(free, slices.Min(free))
		now = max(now, free[slot])
		for d := l.Wait(epoch.Add(now), "", 1); d > 0; d = l.Wait(epoch.Add(now), "", 1) {
			now += d
		}
		l.Take(epoch.Add(now), "", 1)
		arrival := now + jitter(250*time.Microsecond)
		arrivals = append(arrivals, arrival)
		free[slot] = arrival + jitter(1500*time.Microsecond) + jitter(250*time.Microsecond)
		last = max(last, free[slot])
	}
	slices.Sort(arrivals)
	for i := limit; i < calls; i++ {
		if arrivals[i]-arrivals[i-limit] < per {
			refused++
		}
	}
	return calls / (last.Seconds() * limit / per.Seconds()), refused
}

// TestQuotaUsesASteadyVendor is a documented quota and a way to the vendor that is
// longer for some calls than for others: at least 99 % of it, and no refusal.
func TestQuotaUsesASteadyVendor(t *testing.T) {
	for seed := range uint64(effort.Times(1)) {
		for _, margin := range []time.Duration{0, 250 * time.Microsecond} { // 0: 0.5 % are 300 us
			l := newQuota(t, QuotaConfig{Limit: 300, Per: 60 * time.Millisecond, Margin: margin})
			goodput, refused := steadyVendor(l, seed)
			if goodput < 0.99 || refused > 0 {
				t.Errorf("seed %d, margin %v: %.4f of the quota, %d refused", seed, margin, goodput, refused)
			}
		}
		l := newQuota(t, QuotaConfig{Limit: 300, Per: 60 * time.Millisecond, Margin: -1})
		if goodput, refused := steadyVendor(l, seed); refused == 0 || goodput < 0.99 {
			t.Errorf("seed %d: without a margin %.4f of the quota and %d refused, so that the test tests nothing", seed, goodput, refused)
		}
	}
}

// TestQuotaUtilisation is an owner that always has something to do.
func TestQuotaUtilisation(t *testing.T) {
	for limit, n := range map[int]int{1: 1, 300: 3, 4096: 32, 4097: 17, 1_000_000: 10_000} {
		for _, per := range []time.Duration{time.Second, time.Minute, 24 * time.Hour} {
			l := newQuota(t, QuotaConfig{Limit: limit, Per: per})
			now, took := epoch, 0
			for took < 120*limit {
				now = now.Add(l.Wait(now, "", n))
				l.Take(now, "", n)
				took += n
			}
			share := float64(took) / (float64(limit) * (now.Sub(epoch).Seconds()/per.Seconds() + 1))
			if share < 0.99 || share > 1 {
				t.Errorf("%d per %v: %.4f of it used", limit, per, share)
			}
		}
	}
}

// TestQuotaMargin checks when a permit comes back, to the nanosecond for a log.
func TestQuotaMargin(t *testing.T) {
	for _, c := range []struct {
		limit       int
		per, margin time.Duration
		least, most time.Duration
	}{
		{10, time.Second, 0, time.Second + 5*time.Millisecond, 0},
		{10, 50 * time.Second, 0, 50*time.Second + 250*time.Millisecond, 0},
		{10, 24 * time.Hour, 0, 24*time.Hour + 250*time.Millisecond, 0},
		{4096, time.Second, -1, time.Second, 0},
		{10, time.Second, 3 * time.Second, 4 * time.Second, 0},
		{10, 199, 0, 199, 0},
		{4097, time.Second, -1, time.Second, time.Second + 2*time.Millisecond},
		{4097, time.Minute, 0, time.Minute + 250*time.Millisecond, time.Minute + 370500*time.Microsecond},
	} {
		l := newQuota(t, QuotaConfig{Limit: c.limit, Per: c.per, Margin: c.margin})
		l.Take(epoch, "", c.limit)
		if got := l.Wait(epoch, "", 1); got < c.least || got > max(c.least, c.most) {
			t.Errorf("%+v: a permit comes back after %v", c, got)
		}
		if got := l.Available(epoch, "other"); got != c.limit {
			t.Errorf("%+v: %d available", c, got)
		}
	}
}

// TestQuotaMemory counts what a key with the largest log needs.
func TestQuotaMemory(t *testing.T) {
	l := newQuota(t, QuotaConfig{Limit: 4096, Per: time.Hour}).(*SlidingLog)
	for i := range 4096 {
		l.Take(epoch.Add(time.Duration(i)), "", 1)
	}
	if n := 16 * cap(l.keys.index[""].state.buf); n > 64<<10 {
		t.Errorf("%d bytes", n)
	}
	c, ok := newQuota(t, QuotaConfig{Limit: 4097, Per: time.Hour, MaxKeys: 1}).(*SlidingCounter)
	if !ok {
		t.Fatal("no SlidingCounter for more than 4096")
	}
	c.Take(epoch, "", 1)
	if n := 8 * len(c.keys.index[""].state.counts); n > 4<<10+8 {
		t.Errorf("%d bytes", n)
	}
	if d := c.Wait(epoch, "other", 1); d == 0 {
		t.Error("MaxKeys is not heeded")
	}
}

// TestQuotaSuitsOtherCounting lets fixed windows and a bucket of the same numbers
// judge what a quota lets pass.
func TestQuotaSuitsOtherCounting(t *testing.T) {
	for seed := range uint64(effort.Times(8)) {
		r := rand.New(rand.NewPCG(seed, 41))
		limit := 1 + r.IntN(20)
		l := newQuota(t, QuotaConfig{Limit: limit, Per: 1000, Margin: -1})
		bucket := newBucket(t, BucketConfig{Rate: float64(limit) * 1e6, Burst: limit})
		window := newFixedWindow(t, FixedWindowConfig{Limit: limit, Period: 1000})
		window.Wait(epoch.Add(-time.Duration(r.IntN(1000))), "", 1)
		now := epoch
		for range 500 {
			n := 1 + r.IntN(limit)
			now = now.Add(l.Wait(now, "", n))
			for _, other := range []Limiter{bucket, window} {
				if d := other.Wait(now, "", n); d > 1 { // the interval of a bucket is rounded up
					t.Fatalf("seed %d: %d of %d at %v: %T wants to wait %v", seed, n, limit, now.Sub(epoch), other, d)
				}
				other.Take(now, "", n)
			}
			l.Take(now, "", n)
			now = now.Add(time.Duration(r.IntN(1 + r.IntN(1000))))
		}
	}
	if r := newQuota(t, QuotaConfig{Limit: 60, Per: time.Minute, Margin: -1}).(Rater).Rate(epoch, ""); math.Abs(r-1) > 1e-9 {
		t.Errorf("Rate = %v", r)
	}
}
