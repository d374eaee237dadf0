package limiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func newLeaky(t testing.TB, cfg LeakyConfig) *Leaky {
	t.Helper()
	l, err := NewLeaky(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The example of Guava's own test: 2 a second, 4 s to warm up, 3 times slower.
func TestLeakyWarmsUpAsGuavas(t *testing.T) {
	l := newLeaky(t, LeakyConfig{Rate: 2, WarmUp: 4 * time.Second})
	now := epoch
	run := func(n int) (waits []int) {
		for range n {
			d := l.Wait(now, "", 1)
			waits = append(waits, int(math.Round(d.Seconds()*1000)))
			now = now.Add(d)
			l.Take(now, "", 1)
		}
		return waits
	}
	for i, c := range []struct {
		rest time.Duration // beyond that of the last take
		want []int         // ms
	}{
		{0, []int{0, 1375, 1125, 875, 625, 500, 500, 500}},
		{4 * time.Second, []int{0, 1375, 1125, 875, 625, 500, 500, 500}},
		{2 * time.Second, []int{0, 500, 500, 500, 500, 500, 500, 500}}, // four permits in store, none of them slow
		{3 * time.Second, []int{0, 875, 625, 500, 500, 500, 500, 500}},
		{time.Hour, []int{0, 1375, 1125, 875}},
		{0, []int{0, 500, 500}}, // goes on where it was
	} {
		if i > 0 {
			now = now.Add(l.Wait(now, "", 1) + c.rest)
		}
		if got := run(len(c.want)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%d: waits of %v ms, want %v", i, got, c.want)
		}
	}
}

// slowWarmUp takes permits out of its store in a thousand parts each.
type slowWarmUp struct {
	rate, over, cold float64
	stored, free     float64
}

func (m *slowWarmUp) sizes() (threshold, most float64) {
	threshold = m.over * m.rate / 2
	return threshold, threshold + 2*m.over*m.rate/(1+m.cold)
}

func (m *slowWarmUp) take(now float64, n int) {
	threshold, most := m.sizes()
	if now > m.free {
		m.stored = min(most, m.stored+(now-m.free)*most/m.over)
		m.free = now
	}
	const parts = 1000
	for range n * parts {
		interval := 1 / m.rate
		if m.stored > threshold {
			interval += (m.stored - threshold) / (most - threshold) * (m.cold - 1) / m.rate
		}
		m.stored = max(0, m.stored-1./parts)
		m.free += interval / parts
	}
}

func TestLeakyWarmsUpAlongTheLine(t *testing.T) {
	slow, seeds := 0, effort.Times(3)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 20))
		cfg := LeakyConfig{Rate: 1 + 20*r.Float64(), WarmUp: time.Duration(1+r.IntN(20)) * time.Second, Cold: 1.5 + 4*r.Float64()}
		l, plain := newLeaky(t, cfg), newLeaky(t, LeakyConfig{Rate: cfg.Rate})
		m := slowWarmUp{rate: cfg.Rate, over: cfg.WarmUp.Seconds(), cold: cfg.Cold}
		_, m.stored = m.sizes()
		now := epoch
		for step := range 200 {
			n := 1 + r.IntN(3)
			now = now.Add(l.Wait(now, "", n))
			l.Take(now, "", n)
			plain.Take(now, "", n)
			m.take(now.Sub(epoch).Seconds(), n)
			got := l.Wait(now, "", 1)
			if want := m.free - now.Sub(epoch).Seconds(); math.Abs(got.Seconds()-want) > 2e-3*float64(n) {
				t.Fatalf("seed %d step %d: next after %v, want %.4f s", seed, step, got, want)
			}
			switch least := plain.Wait(now, "", 1); {
			case got < least:
				t.Fatalf("seed %d step %d: next after %v, at the rate after %v", seed, step, got, least)
			case got > least:
				slow++
			}
			if r.IntN(10) == 0 {
				now = now.Add(time.Duration(r.Float64() * 2 * float64(cfg.WarmUp)))
			}
		}
	}
	if slow < 17*seeds {
		t.Errorf("%d slow permits: the test tests little", slow)
	}
}

// A key that is warm is not one never seen: it keeps its place until it is cold.
func TestLeakyKeepsAWarmKey(t *testing.T) {
	l := newLeaky(t, LeakyConfig{Rate: 1, WarmUp: 4 * time.Second, MaxKeys: 1})
	now := epoch
	for range 8 {
		now = now.Add(l.Wait(now, "a", 1))
		l.Take(now, "a", 1)
	}
	now = now.Add(time.Second) // all has flowed out, and it is hot
	if d := l.Wait(now, "b", 1); d != 4*time.Second {
		t.Errorf("a second key waits for %v, want 4s", d)
	}
	if l.Idle(now) || l.Idle(now.Add(4*time.Second-1)) || !l.Idle(now.Add(4*time.Second)) {
		t.Error("idle at the wrong time")
	}
}

func TestLeakyStaysWarmWhenItsRateChanges(t *testing.T) {
	l := newLeaky(t, LeakyConfig{Rate: 2, WarmUp: 4 * time.Second})
	now := epoch
	next := func() time.Duration {
		d := l.Wait(now, "", 1)
		now = now.Add(d)
		l.Take(now, "", 1)
		return d
	}
	for range 9 {
		next()
	}
	if err := l.SetRate(now, 10); err != nil {
		t.Fatal(err)
	}
	next()
	if d := next(); d != 100*time.Millisecond {
		t.Errorf("at 10 a second, warm, the next after %v", d)
	}
}

func TestLeakyConfigOfTheWarmUp(t *testing.T) {
	for want, cfg := range map[string]LeakyConfig{
		"LeakyConfig.WarmUp is -1ns,":            {Rate: 1, WarmUp: -1},
		"LeakyConfig.Cold is 1, want":            {Rate: 1, WarmUp: 1, Cold: 1},
		"LeakyConfig.Cold is -3, want":           {Rate: 1, WarmUp: 1, Cold: -3},
		"LeakyConfig.Cold is NaN, want":          {Rate: 1, WarmUp: 1, Cold: math.NaN()},
		"LeakyConfig.Cold is 1001, want":         {Rate: 1, WarmUp: 1, Cold: 1001},
		"LeakyConfig.Cold is 3 without a WarmUp": {Rate: 1, Cold: 3},
	} {
		if l, err := NewLeaky(cfg); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, cfg := range []LeakyConfig{
		{Rate: 1e9, WarmUp: century, Cold: 1000}, {Rate: 1 / century.Seconds(), WarmUp: century}, {Rate: 1e9, WarmUp: 1, Cold: 1.0001},
	} {
		l := newLeaky(t, cfg)
		now := epoch
		for _, n := range []int{1, 5, math.MaxInt} {
			l.Take(now, "", n)
			d := l.Wait(now, "", 1)
			if d <= 0 {
				t.Errorf("%+v: next after %v", cfg, d)
			}
			l.Idle(now)
		}
	}
}
