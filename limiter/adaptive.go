package limiter

import (
	"math"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// AdaptiveConfig says what is known of a vendor's quota beforehand. The zero value
// asks for nothing to be known.
type AdaptiveConfig struct {
	// Start is the rate to begin with, in permits per second. 0 means Max if
	// there is one, else 10 permits in a Window, else that everything passes
	// until the vendor refuses a call after it has accepted 10. A Start below the
	// vendor's rate grows until it is not; so the right order of magnitude is good
	// enough, and saves most of the refusals that the first contact would cost.
	Start float64

	// Min is the rate below which an Adaptive never goes. 0 means one a minute, or
	// a tenth of what it starts with if that is less. With a Window it never goes
	// below one permit in each, either.
	Min float64

	// Max is the rate above which an Adaptive never goes, 1e9 at most. 0 means
	// none. An Adaptive with a Window and a Start that is Max keeps to it, and
	// learns of a quota only when it is refused.
	Max float64

	// Window is the length of time over which the vendor counts calls, where it
	// tells how long that is but not how many calls: a minute, an hour; 1 µs up to
	// 31 days. 0 means that it is not known, or that the vendor has a token bucket.
	Window time.Duration
}

// Adaptive keeps calls to a vendor below a quota that nobody told it, and that may
// change, and learns it from what the vendor refuses.
//
// It is one limit for a whole host: keys are ignored. It cannot promise to stay
// within a quota that it does not know, and finds out by a refusal when there is
// more to do than the vendor takes. But refusals are rare, and in between it uses
// what the vendor has to give but for a few percent. A refusal counts once an
// episode: calls that were on their way when it came teach nothing new.
//
// Without a Window it takes the vendor for a token bucket and leaves 1/Rate
// between permits, but lets an owner that comes back late catch up on 3 ms. So in
// any time of length d in which the rate is at most r, no more than 1 + r*(d + 3
// ms) permits pass, or n + r*d if n is more than 1 + r*3 ms and a take of n is
// among them: that waits until so many have come back, instead of for ever. What
// it learned lies 30 to 50 pauses in the past when it asks for more.
//
// With a Window it lets through at most Rate*Window permits in any Window, not counting
// what was refused, or a take that is larger alone in one, and asks for more every 20 to
// 100 windows, with calls that it sends alone: it first lets the others be answered, going
// by how long accepted calls took lately, and lets nothing follow in the time that a
// refusal takes. It needs no help from its owner for that. One Window costs 8 KiB.
//
// What the vendor tells of its quota, Told takes; what was learned, Export and
// Import carry over a restart, and a Snapshot to another Adaptive of the process.
//
// It does not pause after a refusal: that is its owner's part. The owner should
// leave the vendor alone for as long as it asked for, then send one call and wait
// for the answer, then let traffic grow from a tenth of Rate to all of it, as a
// governor does. At the least it must pause, else what is refused goes on to be sent:
// a Shared does that. Accepted and Refused are to be called for each call that the
// vendor has answered, Refused only if the answer concerns the host.
//
// An Adaptive belongs to one owner and has no lock. Methods allocate nothing, but
// for the first Told of each window, Snapshot and Restore. They are O(1), with a Window at most some 500 additions.
type Adaptive struct {
	cfg AdaptiveConfig

	start time.Time // the first now; all times below are seconds since then
	begun bool
	last  float64 // the largest now

	model model
	told  *told // nil until the vendor has said something
	takes lately
	pause pause // by a Shared
}

// model is one of the ways to learn. Times are seconds, n is 1 or more.
type model interface {
	wait(t, n float64) float64 // seconds; 0 or less: none
	take(t, n float64)
	lax() bool
	passed(t, calls float64)        // of one permit each, while lax
	more(t, n float64)              // by which a take has cost more
	less(t, taken, n, used float64) // it has cost less
	accepted(t, sent float64)
	refused(t, sent float64)
	perSecond() float64    // 0: everything passes
	back(t float64) bool   // what was taken counts no more
	limit(t, rate float64) // by the vendor's word it is no more
	export(t float64) Learned
	restore(t float64, l Learned, sure float64)
	copy() model
}

// tick is what floating point leaves over of a nanosecond. What is over in less is over: the
// wait for it counts as none.
const tick = 1e-11

// NewAdaptive returns an Adaptive that has learned nothing. The error names the
// field that is out of range.
func NewAdaptive(cfg AdaptiveConfig) (*Adaptive, error) {
	for _, f := range []struct {
		name  string
		value float64
	}{{"Start", cfg.Start}, {"Min", cfg.Min}, {"Max", cfg.Max}} {
		if !(f.value >= 0 && f.value <= 1e9) { // nor NaN
			return nil, invalidf("AdaptiveConfig.%s is %v, want 0 up to 1e9 per second", f.name, f.value)
		}
		if f.value > 0 && f.value < 1/century.Seconds() {
			return nil, invalidf("AdaptiveConfig.%s is %v, want 0 or at least one per century", f.name, f.value)
		}
	}
	if w := cfg.Window; w != 0 && (w < time.Microsecond || w > 31*24*time.Hour) {
		return nil, invalidf("AdaptiveConfig.Window is %v, want 0 or 1µs up to 31 days", w)
	}
	if cfg.Start == 0 {
		cfg.Start = cfg.Max
	}
	if cfg.Max == 0 {
		cfg.Max = 1e9
	}
	if cfg.Min == 0 {
		cfg.Min = min(1.0/60, cfg.Max)
		if cfg.Start > 0 {
			cfg.Min = min(cfg.Min, cfg.Start/10) // else it could not back off
		}
	}
	if cfg.Min > cfg.Max {
		return nil, invalidf("AdaptiveConfig.Min is %v, want no more than Max, %v", cfg.Min, cfg.Max)
	}
	if cfg.Start > cfg.Max || cfg.Start > 0 && cfg.Start < cfg.Min {
		return nil, invalidf("AdaptiveConfig.Start is %v, want Min, %v, up to Max, %v", cfg.Start, cfg.Min, cfg.Max)
	}
	a := &Adaptive{cfg: cfg}
	if cfg.Window > 0 {
		a.model = newWindowed(cfg.Window.Seconds(), cfg.Start, cfg.Min, cfg.Max)
	} else {
		a.model = newBucketed(cfg.Start, cfg.Min, cfg.Max)
	}
	return a, nil
}

// seconds returns a time as seconds since the first now.
func (a *Adaptive) seconds(t time.Time) float64 { return t.Sub(a.start).Seconds() }

func (a *Adaptive) at(now time.Time) float64 {
	if !a.begun {
		a.begun, a.start = true, now
	}
	a.last = max(a.last, a.seconds(now))
	return a.last
}

// Wait returns how long it is until n permits may be taken. It is never Never.
// That it made somebody wait tells an Adaptive that there is more to do than it
// lets pass.
func (a *Adaptive) Wait(now time.Time, key string, n int) time.Duration {
	t := a.at(now)
	if n < 1 {
		return 0
	}
	d := a.told.wait(t, float64(n))
	if a.pause.until > t+tick {
		d = max(d, a.pause.until-t) // which is not the model's doing, and teaches it nothing
	} else {
		d = max(d, a.model.wait(t, float64(n)))
	}
	return time.Duration(max(0, math.Ceil(min(d*1e9, float64(Never/2))-tick*1e9)))
}

// Take takes n permits.
func (a *Adaptive) Take(now time.Time, key string, n int) {
	if t := a.at(now); n >= 1 {
		a.model.take(t, float64(n))
		a.told.take(t, float64(n))
		a.takes.note(t, float64(n))
	}
}

// Lax reports whether everything passes: without a Start or a Window, from the first
// call until the vendor refuses one.
func (a *Adaptive) Lax() bool { return a.told == nil && a.pause.until <= a.last && a.model.lax() }

// Passed tells of n calls that were made while everything passed.
func (a *Adaptive) Passed(now time.Time, key string, n int) {
	if t := a.at(now); n >= 1 {
		a.model.passed(t, float64(n))
		a.takes.note(t, float64(n))
	}
}

// Settle charges now what an earlier take has cost more than n. It gives nothing back:
// it is not told which take cost less, and has to suppose one of long ago. SettleAt is.
func (a *Adaptive) Settle(now time.Time, key string, n, used int) {
	if t := a.at(now); used > max(0, n) {
		a.model.more(t, float64(used)-float64(max(0, n)))
	}
}

// SettleAt is Settle for a take that was made at taken. With a Window, what it cost less
// is given back as long as it counts. Without one, only of the last take: after another
// one, what is left of an earlier one has come back already, but for 3 ms. What is given
// back shortens the wait of those who wait now.
func (a *Adaptive) SettleAt(now, taken time.Time, key string, n, used int) {
	if used >= n {
		a.Settle(now, key, n, used)
		return
	}
	a.model.less(a.at(now), a.seconds(taken), float64(n), float64(max(0, used)))
}

// Accepted is told that the vendor has accepted a call.
func (a *Adaptive) Accepted(now, sent time.Time, key string) {
	t := a.at(now)
	a.model.accepted(t, a.seconds(sent))
	a.pause.accepted(a.seconds(sent))
}

// Refused is told that the vendor has refused a call for the rate of calls to the
// host.
func (a *Adaptive) Refused(now, sent time.Time, key string) {
	t := a.at(now)
	a.model.refused(t, a.seconds(sent))
}

// Told takes what the vendor's answer to a call that was sent at sent, good or
// bad, said about its quota. Where it says how many permits are left until when, no
// more are taken until then: what was taken since sent, and what is taken from now
// on, is subtracted. What it gives as the limit of a window is believed to be the
// limit of the next one, too, and with a configured Window a quota above it is not
// sought. Of several windows that q's Name or Window tell apart, at most 8, all are
// kept; of those that nothing tells apart the one that ends last. It only ever makes
// an Adaptive more careful until the window's end.
//
// q's Scope is ignored: the owner tells what concerns this limit. Fields that are
// not said are left as they are.
func (a *Adaptive) Told(now, sent time.Time, q throttle.Quota) {
	t := a.at(now)
	if q.Limit > 0 && a.cfg.Window > 0 && (q.Window == 0 || q.Window == a.cfg.Window) {
		a.model.limit(t, float64(q.Limit)/a.cfg.Window.Seconds())
	}
	if !q.Reset.IsZero() {
		if a.told == nil {
			a.told = new(told)
			a.takes.room(stamps)
		}
		// By the wall clock of now, if Reset has no other: it may have been set.
		a.told.hear(t, a.takes.since(a.seconds(sent)), q, t+q.Reset.Sub(now).Seconds())
	}
}

// Forget drops what Told has taken, for it is known to be wrong: the vendor has
// given its quota back early. What was learned otherwise stays.
func (a *Adaptive) Forget(now time.Time, key string) {
	a.at(now)
	if a.told != nil {
		a.told.forget()
	}
}

// Full reports whether all permits are back: what was taken, or charged by Settle, keeps
// nobody waiting any more.
func (a *Adaptive) Full(now time.Time) bool { return a.model.back(a.at(now)) }

// Rate returns the rate that the Adaptive keeps at present, in permits per second;
// 0 while everything passes.
func (a *Adaptive) Rate(now time.Time, key string) float64 { return a.model.perSecond() }
