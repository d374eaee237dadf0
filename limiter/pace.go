package limiter

import (
	"fmt"
	"math"
	"time"
)

// PaceConfig bounds what a Pace may find. The zero value asks for nothing to be
// known beforehand.
type PaceConfig struct {
	// Start is the rate to begin with, in permits per second. 0 means Max if
	// there is one, else that everything passes until the vendor refuses a call
	// after it has accepted 10.
	// A Start below the vendor's rate is doubled until it is not; so the right
	// order of magnitude is good enough, and saves most of the refusals that
	// the first contact would cost.
	Start float64

	// Min is the rate below which a Pace never goes. 0 means one a minute, or a
	// tenth of Start or Max, whichever is the least.
	Min float64

	// Max is the rate above which a Pace never goes, 1e9 at most. 0 means none.
	Max float64
}

// Pace spaces calls to a vendor whose quota nobody knows, and learns the rate
// that the vendor accepts from what it refuses.
//
// It is one rate for a whole host: keys are ignored. It cannot promise to stay
// within a limit that it does not know, and finds out by a refusal when there is
// more to do than the vendor takes. But refusals are rare, some 30 to 50 times
// as far apart as the pauses that the vendor asks for are long, and in between
// it uses what the vendor has to give but for a few percent.
//
// It does not pause after a refusal: that is its owner's part. The owner should
// leave the vendor alone for as long as it asked for, then send one call and wait
// for the answer, then let traffic grow from a tenth of Rate to all of it.
// Accepted and Refused are to be called for each call that the vendor has
// answered, Refused only if the answer concerns the host.
//
// Between permits a Pace leaves 1/Rate, and lets an owner that comes back late
// catch up on 3 ms. So in any window of length d in which the rate is at most r,
// no more than 1 + r*(d + 3 ms) permits pass, or n + r*d if n is more than
// 1 + r*3 ms and a take of n is among them: that waits until so many have come
// back, instead of for ever.
//
// A Pace belongs to one owner and has no lock. All methods are O(1) and allocate
// nothing; so is the state.
type Pace struct {
	min, max float64

	start time.Time // the first now; all times below are seconds since then
	begun bool
	last  float64 // the largest now

	rate float64 // permits per second; 0: everything passes
	full float64 // when the catching up would be complete

	limits limited
	learn  learned
}

// catchUp is how late, in seconds, an owner may come without losing permits.
// Timers are 1 to 2 ms late. More would let more calls through at once when the
// owner comes back from elsewhere, and a vendor's burst may be small.
const catchUp = 0.003

// NewPace returns a Pace that has learned nothing. The error names the field
// that is out of range.
func NewPace(cfg PaceConfig) (*Pace, error) {
	p := &Pace{min: cfg.Min, max: cfg.Max, rate: cfg.Start}
	for _, f := range []struct {
		name  string
		value float64
	}{{"Start", cfg.Start}, {"Min", cfg.Min}, {"Max", cfg.Max}} {
		if !(f.value >= 0 && f.value <= 1e9) { // nor NaN
			return nil, fmt.Errorf("limiter: PaceConfig.%s is %v, want 0 up to 1e9 per second", f.name, f.value)
		}
		if f.value > 0 && f.value < 1/century.Seconds() {
			return nil, fmt.Errorf("limiter: PaceConfig.%s is %v, want 0 or at least one per century", f.name, f.value)
		}
	}
	if p.max == 0 {
		p.max = 1e9
	} else if p.rate == 0 {
		p.rate = p.max
	}
	if p.min == 0 {
		p.min = min(1.0/60, p.max/10)
		if p.rate > 0 {
			p.min = min(p.min, p.rate/10) // else it could not back off
		}
	}
	if p.min > p.max {
		return nil, fmt.Errorf("limiter: PaceConfig.Min is %v, want no more than Max, %v", cfg.Min, cfg.Max)
	}
	if cfg.Start > p.max || cfg.Start > 0 && cfg.Start < p.min {
		return nil, fmt.Errorf("limiter: PaceConfig.Start is %v, want Min, %v, up to Max, %v", cfg.Start, p.min, p.max)
	}
	p.limits.share = 0.5
	p.learn.init(p.rate > 0)
	return p, nil
}

// seconds returns a time as seconds since the first now.
func (p *Pace) seconds(t time.Time) float64 { return t.Sub(p.start).Seconds() }

func (p *Pace) at(now time.Time) float64 {
	if !p.begun {
		p.begun, p.start = true, now
	}
	p.last = max(p.last, p.seconds(now))
	return p.last
}

// Wait returns how long it is until n permits may be taken. It is never Never.
// That it made somebody wait tells a Pace that there is more to do than it lets
// pass.
func (p *Pace) Wait(now time.Time, key string, n int) time.Duration {
	t := p.at(now)
	if p.rate == 0 || n < 1 {
		return 0
	}
	d := p.full - p.ahead() + float64(n)/p.rate - t
	ns := math.Ceil(min(d*1e9, float64(Never/2)) - 0.01) // floating point leaves something over
	if ns <= 0 {
		return 0
	}
	p.limits.waited = true
	return time.Duration(ns)
}

// ahead is the time for which permits may be saved up.
func (p *Pace) ahead() float64 { return 1/p.rate + catchUp }

// Take takes n permits.
func (p *Pace) Take(now time.Time, key string, n int) {
	t := p.at(now)
	if n < 1 {
		return
	}
	p.resume(t) // if it is the first take after a refusal
	p.learn.count(t, n)
	busy := p.limits.took()
	if p.rate == 0 {
		return
	}
	cost := float64(n) / p.rate
	// Of more than can be saved up the rest has been waited for beforehand, so
	// that it is not owed now.
	p.full = max(p.full, t-max(0, cost-p.ahead())) + cost
	if busy {
		p.grow(t, cost)
	}
}

// Settle corrects the cost of permits taken before. What it gives back shortens
// the wait of those who wait now; what has passed is past.
func (p *Pace) Settle(now time.Time, key string, n, used int) {
	t := p.at(now)
	more := float64(max(0, used)) - float64(max(0, n))
	p.learn.permits = max(0, p.learn.permits+more)
	if p.rate == 0 {
		return
	}
	if more > 0 {
		p.full = max(p.full, t) + more/p.rate
	} else if p.full > t {
		p.full = max(t, p.full+more/p.rate)
	}
}

// Rate returns the rate that the Pace keeps at present, in permits per second; 0
// while everything passes.
func (p *Pace) Rate(now time.Time, key string) float64 { return p.rate }

// set changes the rate. What was to be waited for at the old rate is waited for
// at the new one.
func (p *Pace) set(t, rate float64) {
	rate = min(max(rate, p.min), p.max)
	if p.full > t && p.rate > 0 {
		p.full = t + (p.full-t)*(p.rate/rate)
	}
	p.rate = rate
}

// limited tells whether the pace is what keeps calls back: whether more than
// half of the last takes, the latest counting most, had to wait. When it is not,
// the rate is higher than the traffic, a refusal does not come, and a rise would
// prove nothing.
type limited struct {
	waited bool    // somebody, since the last take
	share  float64 // of takes; it begins at a half, so that a slow start is not slower still
}

func (l *limited) took() bool {
	now := 0.0
	if l.waited {
		now = 1
	}
	l.waited = false
	l.share += (now - l.share) / 8
	return l.often()
}

func (l *limited) often() bool { return l.share > 0.5 }
