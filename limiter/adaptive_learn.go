package limiter

import "math"

// How an Adaptive learns when it knows no window.
//
// Take the vendor for a token bucket of an unknown rate q and an unknown size b.
// At a refusal it is empty. Of the time between the last refusal and this one,
// the sample, this is known:
//
//   - q is no less than lo = accepted/time. Of the tokens that came in that time
//     some were lost, when the bucket was full during the pause and while the
//     pace was below q; but none was taken that had not come, for the bucket was
//     empty at the start. In the first sample it was full: there the time has
//     the pause added that follows, as a vendor's pause is long enough to fill
//     its bucket. So it is from any moment of it on, and the best of them counts:
//     see marks.
//   - q is no more than up, the pace at the refusal: a bucket that gets more
//     than is taken from it does not become empty.
//   - From when the pace passed q until the refusal, the bucket, full until
//     then, has lost b. Each q makes another b, the area between the curve of
//     the pace and q, and two refusals on curves of different slope agree about
//     one pair of q and b only.
//
// So the first refusal gives a line, b = taken - q*time, and leaves q open
// between lo and up; the pace starts in the middle and rises until the second,
// which gives the point. From then on b is known, and each refusal says what q
// is, most often to a percent.
//
// When one does not fit, because the pace was above q from the start of
// its curve, or too short a time above any q for b permits, then the quota has
// gone down, or the vendor is no token bucket. What remains is lo and up. The
// pace starts between them, lower the further apart they are, and the next
// refusals, which follow soon if it is too high, have short samples and lo close
// to q.
//
// The unit of time for all this is the pause. To find the limit costs a pause, so
// it may be done every 30 of them, but not every 3, and that is right for a
// vendor that asks for 15 s and for one that asks for 15 ms. The figures below
// are the best of those tried on such vendors; none is critical, twice or half
// of each costs a few percent of throughput.
const (
	doublingIn = 6.0  // pauses, after the first refusal
	atMost     = 120  // seconds for it: nobody may have been there to end the pause
	riseIn     = 20.0 // pauses from the start of a later curve to its plateau
	startBelow = 0.02 // the plateau, which is q: with more q is used less, with less it is passed sooner
	mayStart   = 0.9  // of a curve's start: a q below it does not fit

	// Without a fit: the share of up/lo-1 by which the curve starts below its
	// plateau, and the least and most of it.
	depthShare, minDepth, maxDepth = 0.1, 0.03, 0.4

	enough      = 10.0 // accepted calls that make a sample
	longest     = 1000 // seconds of a pause for a rate
	minDoubling = 0.1  // seconds that a round of slow start takes at least
)

// learned is what a bucketed knows and is finding out.
type learned struct {
	// The sample: what has been taken since from, of calls calls, of which bad
	// were refused.
	first   bool // it is the first one
	from    float64
	permits float64
	calls   float64
	bad     float64

	cut    float64 // when the last refusal that counted was received
	paused bool    // nothing has been taken since

	// Slow start, until the first refusal: the rate doubles with each round of
	// calls. rounds are the present one and the one before it.
	doubling bool
	rounds   [2]round
	marks    marks // while everything passes

	curve curve
	burst float64 // b; 0: not known
	pause float64 // the last one
	floor float64 // the least that refused probes may lead to
}

// round is a part of the first sample. Until the sample ends, they hold when it
// began and what had been taken until then; after that, how long it took until
// the refusal and what was taken in it.
type round struct{ time, taken float64 }

func (l *learned) init(doubling bool) {
	l.first, l.doubling = true, doubling
	l.cut = math.Inf(-1)
}

func (l *learned) count(t, n float64) {
	if l.first && l.calls == 0 {
		l.from = t
		l.rounds = [2]round{{time: t}, {time: t}}
	}
	if l.first && !l.doubling {
		l.marks.add(t, l.permits)
	}
	l.calls++
	l.permits += n
}

// accepted: before the first refusal an accepted call that was sent at the present
// rate shows that a round has passed, and the rate doubles: at most every 100 ms,
// and only if the pace is what keeps calls back. Later it changes nothing.
func (p *bucketed) accepted(t, sent float64) {
	l := &p.learn
	if !l.doubling || l.paused || l.calls == 0 || !p.limits.often() || p.rate >= p.max {
		return
	}
	if began := l.rounds[0].time; sent >= began && t-began >= minDoubling {
		l.rounds[1] = l.rounds[0]
		l.rounds[0] = round{t, l.permits}
		p.set(t, 2*p.rate)
	}
}

// refused: there is one lesson in a pause. Calls that were sent before it began
// were on their way, and say again what is known; until it ends they are counted as
// not accepted, and that is all.
func (p *bucketed) refused(t, sent float64) {
	l := &p.learn
	if !l.paused {
		if l.calls == 0 || sent <= l.cut {
			return
		}
		l.cut, l.paused = t, true
	}
	l.bad++
}

// resume draws the conclusions from a refusal at the first take after it, when
// the length of the pause is known and the calls that were on their way have
// been answered.
func (p *bucketed) resume(t float64) {
	l := &p.learn
	if !l.paused {
		return
	}
	l.paused = false
	pause := max(t-l.cut, 1e-3)
	l.pause = min(pause, longest)
	accepted := max(0, l.calls-l.bad)
	taken := l.permits * accepted / l.calls

	switch {
	case pause > longest:
		// Such is asked for when a day's quota is used up, or there was nothing
		// to do any more. Neither tells about a rate.
		l.restart()
		return
	case l.first && p.rate == 0 && accepted < enough:
		// Everything passes, and a few calls are no measure of a rate: a pace
		// made of them would hold back for minutes what the vendor would take at
		// once. The sample goes on, and with it the time of the pauses.
		return
	case l.first && accepted < 1:
		// The quota was used up before. A sample begins that is again the first.
		l.restart()
		if p.rate > 0 {
			p.set(t, p.rate/2)
		}
		return
	case !l.first && accepted < enough:
		// As when a probe is refused: the pause was too short, or others use the
		// quota too. The sample goes on, so that its time counts. The rate halves,
		// three times at most, because how often a vendor has said no does not
		// tell how much it will take.
		p.set(t, max(p.rate/2, l.floor))
		l.curve = doubling(p.rate, pause)
		return
	}

	span := l.cut - l.from
	if l.first {
		span += pause
	}
	lo := taken / max(span, 1e-3)
	if p.rate == 0 {
		lo = l.marks.bound(l.cut, l.pause, l.permits, l.permits-taken, lo)
	}
	lo = min(max(lo, p.min), p.max)
	up := p.rate
	if up == 0 {
		up = lo // everything passed: there was no pace, and there is no bound
	}
	lo = min(lo, up)

	if l.first {
		if l.rounds[0].time > l.rounds[1].time {
			up = max(lo, up/2) // that lasted for a round
		}
		for i, r := range l.rounds {
			l.rounds[i] = round{l.cut - r.time, taken - r.taken}
		}
		l.curve = doubling(math.Sqrt(lo*up), pause)
	} else {
		l.curve = l.next(&l.curve, lo, up, pause)
		l.curve.rise = max(l.curve.rise, 2*enough/l.curve.plateau) // at least a sample
	}
	p.set(t, l.curve.rate())
	l.floor = p.rate / 8
	l.first, l.doubling = false, false
	l.restart()
}

// restart begins a sample with the last refusal.
func (l *learned) restart() {
	l.from, l.permits, l.calls, l.bad = l.cut, 0, 0, 0
	l.marks.n = 0
}

func doubling(rate, pause float64) curve {
	return curve{plateau: rate, rise: min(doublingIn*pause, atMost)}
}

// next returns the curve that follows one on which a refusal came after a sample
// that tells that q is between lo and up.
func (l *learned) next(was *curve, lo, up, pause float64) curve {
	least := min(max(lo, mayStart*was.plateau*(1-was.depth)), up)
	if was.above(least) > l.drained(least) {
		q := was.solve(least, up, l.drained)
		l.burst = l.drained(q)
		return curve{plateau: q, depth: startBelow, rise: riseIn * pause}
	}
	return curve{
		plateau: math.Sqrt(lo * up), // the middle on a logarithmic scale
		depth:   min(max(depthShare*(up/lo-1), minDepth), maxDepth),
		rise:    riseIn * pause * lo / up, // the less is known, the sooner to know more
	}
}

// drained returns the size of the vendor's bucket: what is known, or what the
// first sample makes it if the rate is q. Of the two last rounds, the later one
// alone was above q, or both.
func (l *learned) drained(q float64) float64 {
	if l.burst > 0 {
		return l.burst
	}
	b := 1.0
	for _, r := range l.rounds {
		b = max(b, r.taken-q*r.time)
	}
	return b
}

// grow raises the rate after a take that was worth cost seconds of it and that
// the pace had kept back.
func (p *bucketed) grow(t, cost float64) {
	if l := &p.learn; !l.first && p.rate < p.max {
		l.curve.grown += cost
		p.set(t, l.curve.rate())
	}
}
