package limiter

import "math"

// bucketed is what an Adaptive does when it knows no window: it spaces calls, and
// takes the vendor for a token bucket. adaptive_learn.go says how it learns.
type bucketed struct {
	start    float64 // 0: everything passes until a refusal
	min, max float64

	rate   float64 // permits per second; 0: everything passes
	full   float64 // when the catching up would be complete
	latest latest

	limits limited
	learn  learned
}

// latest is the last take: of n permits, when so many were missing.
type latest struct{ at, n, missing float64 }

// catchUp is how late, in seconds, an owner may come without losing permits.
// Timers are 1 to 2 ms late. More would let more calls through at once when the
// owner comes back from elsewhere, and a vendor's burst may be small.
const catchUp = 0.003

func newBucketed(start, least, most float64) *bucketed {
	p := &bucketed{start: start, min: least, max: most, rate: start}
	p.limits.share = 0.5
	p.learn.init(start > 0)
	return p
}

func (p *bucketed) wait(t, n float64) float64 {
	if p.rate == 0 {
		return 0
	}
	d := p.full - p.ahead() + n/p.rate - t
	p.limits.waited = p.limits.waited || d > tick
	return d
}

// lax: the first call of a sample begins it, so that must be told in time.
func (p *bucketed) lax() bool {
	return p.rate == 0 && !p.learn.paused && p.learn.calls > 0
}

func (p *bucketed) passed(t, calls float64) {
	p.learn.calls += calls
	p.learn.permits += calls
	if p.lax() {
		p.learn.marks.add(t, p.learn.permits) // when exactly they were is not known
	}
	p.limits.share *= math.Pow(7.0/8, calls) // none of them had to wait
}

func (p *bucketed) back(t float64) bool { return p.rate == 0 || p.full <= t }

// ahead is the time for which permits may be saved up.
func (p *bucketed) ahead() float64 { return 1/p.rate + catchUp }

func (p *bucketed) take(t, n float64) {
	p.resume(t) // if it is the first take after a refusal
	p.learn.count(t, n)
	busy := p.limits.took()
	if p.rate == 0 {
		return
	}
	p.latest = latest{at: t, n: n, missing: (p.full - t) * p.rate}
	p.full = t + p.missing(p.latest.missing, n)/p.rate
	if busy {
		p.grow(t, n/p.rate)
	}
}

// missing returns how many permits there are less than can be saved up, after a take of n
// before which there were m less; m below 0 is time in which nothing was taken. Of more
// than can be saved up the rest has been waited for beforehand, so that it is not owed.
func (p *bucketed) missing(m, n float64) float64 { return max(m+n, min(n, p.ahead()*p.rate)) }

func (p *bucketed) more(t, n float64) {
	p.learn.permits += n
	if p.rate > 0 {
		p.full = max(p.full, t) + n/p.rate
	}
}

// less: of a take before the last, what the takes after it did not themselves make up is at
// most what an owner that is late may catch up on.
func (p *bucketed) less(t, taken, n, used float64) {
	if taken >= p.learn.from {
		p.learn.permits = max(0, p.learn.permits-(n-used))
	}
	if l := &p.latest; p.rate > 0 && taken == l.at && n == l.n {
		p.full -= (p.missing(l.missing, n) - p.missing(l.missing, used)) / p.rate
		l.n = used
	}
}

// set changes the rate. What was to be waited for at the old rate is waited for
// at the new one.
func (p *bucketed) set(t, rate float64) {
	rate = min(max(rate, p.min), p.max)
	if p.full > t && p.rate > 0 {
		p.full = t + (p.full-t)*(p.rate/rate)
	}
	p.rate = rate
}

// limited tells whether the limiter is what keeps calls back: whether more than
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

func (p *bucketed) perSecond() float64 { return p.rate }

// limit changes nothing: a bucketed knows of no window for it to be the limit of.
func (p *bucketed) limit(t, rate float64) {}
