package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// An hour in which little was to do, and then more than the vendor takes: the rate
// learned is that of the last seconds, not that of the hour.
func TestAdaptiveGoesByTheBusyEndOfAnIdleSample(t *testing.T) {
	const burst = 100
	for name, call := range map[string]func(p *Adaptive, now time.Time){
		"asked": func(p *Adaptive, now time.Time) { p.Take(now, "", 1) },
		"told later": func(p *Adaptive, now time.Time) {
			if p.Lax() {
				p.Passed(now, "", 1)
			} else {
				p.Take(now, "", 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newAdaptive(t, AdaptiveConfig{})
			for i := range 60 {
				call(p, after(time.Duration(i)*time.Minute))
			}
			for i := range burst {
				call(p, after(time.Hour+time.Duration(i)*10*time.Millisecond))
			}
			cut := time.Hour + time.Second
			call(p, after(cut))
			p.Refused(after(cut), after(cut), "")
			p.Take(after(cut+2*time.Second), "", 1)
			// 100 in a second and a pause of 2 s make 33 per second. The oldest mark that
			// helps may be some of the burst late.
			if r := p.Rate(epoch, ""); r < 0.85*burst/3 || r > burst/3.0+1 {
				t.Errorf("Rate = %v, want nearly %v", r, burst/3.0)
			}
		})
	}
}

// When calls were that it is told of later it does not know, and what was before a
// refusal that told nothing of a rate is over.
func TestAdaptiveClaimsNoBusyEnd(t *testing.T) {
	p := newAdaptive(t, AdaptiveConfig{})
	p.Take(epoch, "", 1)
	p.Passed(after(time.Hour), "", 3600)
	p.Refused(after(time.Hour), after(time.Hour), "")
	p.Take(after(time.Hour+time.Second), "", 1)
	if r := p.Rate(epoch, ""); !near(r, 1, 0.01) {
		t.Errorf("Rate = %v, want 1: 3600 at some time of an hour", r)
	}

	p = newAdaptive(t, AdaptiveConfig{})
	p.Take(epoch, "", 1)
	for i := range 5 {
		p.Take(after(time.Duration(i)*time.Minute), "", 1)
	}
	p.Refused(after(time.Hour), after(time.Hour), "") // of a quota of hours
	for i := range 60 {
		p.Take(after(2*time.Hour+time.Duration(i)*time.Second), "", 1)
	}
	p.Take(after(2*time.Hour+time.Minute), "", 1)
	p.Refused(after(2*time.Hour+time.Minute), after(2*time.Hour+time.Minute), "")
	p.Take(after(2*time.Hour+time.Minute+time.Second), "", 1)
	if r := p.Rate(epoch, ""); r > 1 || r < 0.8 {
		t.Errorf("Rate = %v, want nearly 1", r)
	}
}

// Whatever came before, the first rate is below that of a vendor whose pause is long
// enough to fill its bucket.
func TestAdaptiveBeginsBelowTheVendorsRate(t *testing.T) {
	learned, seeds := 0, effort.Times(100)
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		q, size := 0.5+rng.Float64()*100, 1+rng.IntN(300)
		vendor, err := NewBucket(BucketConfig{Rate: q, Burst: size})
		if err != nil {
			t.Fatal(err)
		}
		pause := time.Duration(float64(size)/q*1e9) + time.Second
		p := newAdaptive(t, AdaptiveConfig{})
		now, ok := epoch, true
		gap := time.Hour
		for n := 0; n < 3000 && p.Rate(now, "") == 0; n++ {
			if rng.IntN(30) == 0 { // another busyness
				gap = time.Duration(float64(time.Millisecond) * float64(int(1)<<rng.IntN(20)))
			}
			now = now.Add(time.Duration(rng.Float64() * float64(gap)))
			if !ok {
				now = now.Add(pause)
			}
			if p.Lax() && rng.IntN(2) == 0 {
				p.Passed(now, "", 1)
			} else {
				p.Take(now, "", 1)
			}
			if ok = vendor.Wait(now, "", 1) == 0; ok {
				vendor.Take(now, "", 1)
				p.Accepted(now, now, "")
			} else {
				p.Refused(now, now, "")
			}
		}
		r := p.Rate(now, "")
		if r > q*(1+1e-9) && r > 1.0/60 {
			t.Fatalf("seed %d: %v per second, of a vendor of %v, %d", seed, r, q, size)
		}
		if r > 0 {
			learned++
		}
	}
	if learned < seeds/4 {
		t.Errorf("only %d of %d were refused", learned, seeds)
	}
}

// However long the sample, some mark is about as old as any time that is asked for.
func TestMarksAreSpreadOverAllAges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var m marks
	now, taken := 0.0, 0.0
	for now < 3600 {
		m.add(now, taken)
		now += 0.05 + rng.Float64()
		taken++
		if now < 100 {
			continue
		}
		for i := 1; i < m.n; i++ {
			old, young := now-m.at[i-1].time, now-m.at[i].time
			if young <= 0 || old <= young || m.at[i].taken <= m.at[i-1].taken || old+1 > 12*(young+1) {
				t.Fatalf("at %v: %v", now, m)
			}
		}
		if m.at[0].time != 0 || now-m.at[m.n-1].time > 2 {
			t.Fatalf("at %v: %v", now, m)
		}
	}
}
