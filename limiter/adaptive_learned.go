package limiter

import (
	"math"
	"time"
)

// Learned is what an Adaptive found out: a value to keep over a restart, as JSON or
// otherwise. The zero Learned is nothing.
type Learned struct {
	// Rate is the quota in permits per second; 0: nothing is known.
	Rate float64 `json:"rate"`

	// Growing says that Rate is not the quota, but what has been reached, and grows on.
	Growing bool `json:"growing,omitempty"`

	// Stood is the quota that there was before it fell to Rate, which is looked for
	// again, in permits per second; 0: it has not fallen.
	Stood float64 `json:"stood,omitempty"`

	// Burst is how many permits the vendor's token bucket holds; 0: it is not
	// known, or the vendor counts in windows.
	Burst float64 `json:"burst,omitempty"`

	// Window is AdaptiveConfig.Window, in nanoseconds.
	Window time.Duration `json:"window,omitempty"`

	// Pause is how long the vendor's last pause was, in nanoseconds. It is the
	// unit of time in which more is asked for.
	Pause time.Duration `json:"pause,omitempty"`

	// When is the time of the export.
	When time.Time `json:"when,omitzero"`
}

// trust is how old what was learned may be to be used as it is, and forgotten how
// old to be of no use. mostRate is the most of a rate, mostBurst of a Learned.Burst.
const (
	trust     = time.Hour
	forgotten = 30 * 24 * time.Hour
	mostRate  = 1e9
	mostBurst = 1e9
)

// Export returns what has been learned so far.
func (a *Adaptive) Export(now time.Time) Learned {
	l := a.model.export(a.at(now))
	l.Rate, l.Stood = min(l.Rate, mostRate), min(l.Stood, mostRate) // as Import takes them
	l.Burst, l.Pause = min(l.Burst, mostBurst), min(l.Pause, forgotten)
	l.Window, l.When = a.cfg.Window, now
	return l
}

// Import makes a new Adaptive go on with what another one learned about the same
// vendor. It is to be called before the first Take.
//
// The rate is cut to Min and Max. What is older than an hour is used with caution:
// the older it is the lower it begins, with a half of the rate after two hours and a
// tenth after ten, and grows back. What is older than 30 days, or was learned with
// another Window, is only a Start. One that was Growing grows on from that, or from
// Start if that is more and the vendor has refused nothing. A time in the future counts as
// now. A Learned without a Rate changes nothing. The error names the field that is out of
// range, and nothing is imported then.
func (a *Adaptive) Import(now time.Time, l Learned) error {
	bad := func(field string, value any) error {
		return invalidf("Learned.%s is %v, want 0 up to 1e9", field, value)
	}
	switch {
	case !(l.Rate >= 0 && l.Rate <= mostRate): // nor NaN
		return bad("Rate", l.Rate)
	case !(l.Stood >= 0 && l.Stood <= mostRate):
		return bad("Stood", l.Stood)
	case !(l.Burst >= 0 && l.Burst <= mostBurst):
		return bad("Burst", l.Burst)
	case l.Pause < 0 || l.Pause > forgotten:
		return invalidf("Learned.Pause is %v, want 0 up to 30 days", l.Pause)
	case l.Window < 0:
		return invalidf("Learned.Window is %v, want 0 or more", l.Window)
	case l.Rate == 0:
		return nil
	}
	t, age := a.at(now), now.Sub(l.When)
	l.Rate = min(max(l.Rate, a.cfg.Min), a.cfg.Max)
	l.Stood = min(l.Stood, a.cfg.Max)
	sure := 1.0
	if age > trust {
		sure = float64(trust) / float64(age)
	}
	if age > forgotten || l.Window != a.cfg.Window {
		sure = 0
	}
	a.model.restore(t, l, sure)
	return nil
}

func (p *bucketed) export(t float64) Learned {
	l := Learned{Rate: p.learn.curve.plateau, Burst: p.learn.burst, Pause: duration(p.learn.pause)}
	if !p.learn.first {
		return l
	}
	l.Rate = p.rate
	if p.learn.paused { // by how much that was too much depends on how long the pause will be
		l.Rate = min(p.rate, p.start)
		l.Pause = max(l.Pause, duration(min(max(t-p.learn.cut, 1e-3), longest)))
	}
	l.Growing = l.Rate > 0
	return l
}

// restore goes on below a rate that was learned; sure says how much of it to
// believe, 0 that it is only a start.
func (p *bucketed) restore(t float64, l Learned, sure float64) {
	if sure == 0 || l.Growing || l.Pause == 0 {
		start, refused := l.Rate*sure, !l.Growing || l.Pause > 0
		if sure == 0 || !l.Growing {
			start = l.Rate / 2
		}
		switch {
		case refused:
		case p.rate == 0:
			return // everything passes, as long as nothing is refused
		default:
			start = max(start, p.rate) // the Start
		}
		p.rate, p.full = max(p.min, min(start, p.max)), t
		if p.start == 0 {
			p.start = p.rate // everything does not pass any more
		}
		p.learn.init(true)
		p.learn.pause = l.Pause.Seconds()
		return
	}
	pause := l.Pause.Seconds()
	p.learn = learned{from: t, cut: math.Inf(-1), burst: l.Burst, pause: pause}
	p.learn.curve = curve{plateau: l.Rate, depth: startBelow, rise: riseIn * pause}
	if sure < 1 {
		p.learn.curve = doubling(max(p.min, l.Rate*sure), pause)
	}
	p.full = t
	p.set(t, p.learn.curve.rate())
	p.learn.floor = p.rate / 8
}

// duration returns seconds as a Duration.
func duration(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

func (w *windowed) export(t float64) Learned {
	pause := w.pause
	if w.paused {
		pause = max(pause, w.since(t))
	}
	return Learned{
		Rate: w.quota / w.window, Stood: w.fallen / w.window,
		Growing: w.growth > 0 && w.fallen == 0, Pause: duration(pause),
	}
}

// restore goes on with a quota that was learned, as with one that fell by what is
// not sure; 0 means that it is only a start.
func (w *windowed) restore(t float64, l Learned, sure float64) {
	bounded := func(quota float64) float64 { return min(max(quota, w.least), w.most) }
	start, was, stood := w.quota, bounded(l.Rate*w.window), min(l.Stood*w.window, w.most)
	w.pause = l.Pause.Seconds()
	w.quota = bounded(was * sure)
	if sure == 0 {
		w.quota = bounded(was / 2)
	}
	switch {
	case l.Growing && l.Pause == 0:
		w.quota = max(start, w.quota)
		w.ceiling = w.quota
		w.startGrowth(t, growing)
	case l.Growing: // it was refused, at less
		w.ceiling = w.quota
		w.startGrowth(t, growingOn)
	case sure == 0: // as a Start, even if there was none to grow from
		if w.ceiling = w.quota; w.quota < w.most {
			w.search.at = 0
			w.startGrowth(t, growing)
		}
	case sure == 1 && stood <= was:
		w.ceiling = was / (1 - margin)
		w.stand(t)
	case sure == 1:
		w.ceiling, w.fallen = stood, stood
		w.search.stood, w.search.rest = rest, restFallen
		w.stand(t)
	default:
		w.fallen, w.search.stood = max(was, stood), rest
		w.startGrowth(t, growingOn)
	}
}
