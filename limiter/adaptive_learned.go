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

	// Growing says that the vendor has not refused Rate yet: it is what has been
	// reached, and grows on.
	Growing bool `json:"growing,omitempty"`

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
// old to be of no use. mostBurst is the most of a Learned.Burst.
const (
	trust     = time.Hour
	forgotten = 30 * 24 * time.Hour
	mostBurst = 1e9
)

// Export returns what has been learned so far.
func (a *Adaptive) Export(now time.Time) Learned {
	a.at(now)
	l := a.model.export()
	l.Burst, l.Pause = min(l.Burst, mostBurst), min(l.Pause, forgotten) // as Import takes them
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
// Start if that is more. A time in the future counts as now. A Learned without a Rate
// changes nothing. The error names the field that is out of range, and nothing is
// imported then.
func (a *Adaptive) Import(now time.Time, l Learned) error {
	bad := func(field string, value any) error {
		return invalidf("Learned.%s is %v, want 0 up to 1e9", field, value)
	}
	switch {
	case !(l.Rate >= 0 && l.Rate <= 1e9): // nor NaN
		return bad("Rate", l.Rate)
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

func (p *bucketed) export() Learned {
	l := Learned{Rate: p.learn.curve.plateau, Burst: p.learn.burst, Pause: duration(p.learn.pause)}
	if p.learn.first {
		l.Rate, l.Growing = p.rate, p.rate > 0
	}
	return l
}

// restore goes on below a rate that was learned; sure says how much of it to
// believe, 0 that it is only a start.
func (p *bucketed) restore(t float64, l Learned, sure float64) {
	switch {
	case l.Growing && sure > 0:
		if p.rate > 0 { // the Start: else everything passes, as long as nothing is refused
			p.rate, p.full = min(max(p.rate, l.Rate*sure), p.max), t
			p.learn.init(true)
		}
		return
	case sure == 0 || l.Pause == 0:
		p.rate, p.full = max(p.min, min(l.Rate, p.max)/2), t
		p.learn.init(true)
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

func (w *windowed) export() Learned {
	return Learned{Rate: max(w.quota, w.fallen) / w.window, Growing: w.growth > 0 && w.fallen == 0, Pause: duration(w.pause)}
}

// restore goes on with a quota that was learned, as with one that fell by what is
// not sure; 0 means that it is only a start.
func (w *windowed) restore(t float64, l Learned, sure float64) {
	was := min(max(l.Rate*w.window, w.least), w.most)
	w.pause = l.Pause.Seconds()
	start := w.quota
	switch w.quota = max(was*sure, w.least); {
	case sure == 0: // as a Start, even if there was none to grow from
		w.quota = max(was/2, w.least)
		if w.ceiling = w.quota; w.quota < w.most {
			w.search.at = 0
			w.startGrowth(t, growing)
		}
	case l.Growing:
		w.quota = max(start, w.quota)
		w.ceiling = w.quota
		if w.startGrowth(t, growing); l.Pause > 0 { // it has been refused, at less
			w.growth = growingOn
		}
	case sure == 1:
		w.ceiling = was / (1 - margin)
		w.stand(t)
	default:
		w.fallen, w.search.stood = was, rest
		w.startGrowth(t, growingOn)
	}
}
