package vendortest

import (
	"fmt"
	"math"
	"time"
)

// Quota describes one limit of a vendor. The zero Quota is a usable one; each
// field says what its zero means.
type Quota struct {
	Rate  float64 // units per second that the bucket regains; 0: 10, or Burst per Window
	Burst int     // units a full bucket, or a Window, holds; 0: one second's worth, or a Window's, at least 1

	// Window makes the limit Burst units per Window instead of a bucket. The window
	// begins with the first call after the last one was over, at a whole Round, or,
	// if it is Sliding, is the last Window before each call, counted to a
	// thousandth. 0: a bucket.
	Window  time.Duration
	Sliding bool

	// Counted counts refused calls, too: who goes on calling stays refused. Of a
	// bucket and of a window as much again as Burst can be owed.
	Counted bool

	// Lenient is a vendor that says how long to wait, and neither enforces the
	// pause nor punishes calls in it: it judges them as any others. Such a pause
	// lasts until what was refused would be let in, and no less than Pause, whose
	// zero is none here. MaxPause, Factor and Forgive mean nothing then.
	Lenient bool

	Pause    time.Duration // the first pause after a refusal; 0: 15 s
	MaxPause time.Duration // the longest pause; 0: 15 min, or Pause when that is longer
	Factor   float64       // what a violation multiplies the pause by, at least 1; 0: 2

	// Round is the unit in which the vendor tells pauses: they are rounded up to
	// it. Those that end with a window that is not Sliding are not. 0: none.
	Round time.Duration

	// Grace is how long after the beginning of a pause a call may still arrive
	// unpunished: it was on its way. 0: 1 s. It must be small against the latency
	// of a call, or impolite clients look polite. Negative: none.
	Grace time.Duration

	// Forgive is the quiet time, without any refused call after the end of a
	// violated pause, that brings the next pause back to Pause. 0: 2*MaxPause.
	Forgive time.Duration
}

// Scale returns the quota at another speed: with f = 0.01 everything happens a
// hundred times faster. Window, Pause, MaxPause, Round, Grace and Forgive are
// multiplied by f and Rate is divided by it, after zero fields got their defaults;
// Burst and Factor are counts and stay. What a run looks like, how many calls are
// refused and which pauses escalate, is the same at every scale, as long as the
// client's and the server's latencies are scaled with it.
//
// f must be positive and finite; NewEngine refuses what another f leaves.
func (q Quota) Scale(f float64) Quota {
	q = q.withDefaults()
	q.Rate /= f
	for _, d := range []*time.Duration{&q.Window, &q.Pause, &q.MaxPause, &q.Round, &q.Grace, &q.Forgive} {
		if bad := !(f > 0) || math.IsInf(f, 0); *d != 0 || bad {
			*d = scale(*d, f)
		}
	}
	return q
}

// scale multiplies a duration, saturating. A positive one stays at least 1 ns,
// since 0 would mean the default; what f cannot scale becomes the smallest
// Duration, which no Quota may have.
func scale(d time.Duration, f float64) time.Duration {
	switch x := float64(d) * f; {
	case !(f > 0) || math.IsInf(f, 0):
		return math.MinInt64
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x > -1 && x < 0:
		return -1
	case x > 0 && x < 1:
		return 1
	default:
		return time.Duration(x)
	}
}

func (q Quota) withDefaults() Quota {
	if q.Rate == 0 && q.Window > 0 && q.Burst > 0 {
		q.Rate = float64(q.Burst) / q.Window.Seconds()
	}
	if q.Rate == 0 {
		q.Rate = 10
	}
	if q.Burst == 0 {
		full := q.Rate
		if q.Window > 0 {
			full *= q.Window.Seconds()
		}
		q.Burst = int(min(max(math.Ceil(full-slack), 1), math.MaxInt32))
	}
	if q.Pause == 0 && !q.Lenient {
		q.Pause = 15 * time.Second
	}
	if q.MaxPause == 0 {
		q.MaxPause = max(15*time.Minute, q.Pause)
	}
	if q.Factor == 0 {
		q.Factor = 2
	}
	if q.Grace == 0 {
		q.Grace = time.Second
	}
	if q.Forgive == 0 {
		q.Forgive = saturate(2 * float64(q.MaxPause))
	}
	return q
}

func (q Quota) validate() error {
	switch {
	case !(q.Rate > 0) || math.IsInf(q.Rate, 0):
		return fmt.Errorf("vendortest: Rate %v is not a positive number", q.Rate)
	case q.Burst < 1:
		return fmt.Errorf("vendortest: Burst %d is below 1", q.Burst)
	case q.Window < 0:
		return fmt.Errorf("vendortest: negative Window %v", q.Window)
	case q.Sliding && q.Window == 0:
		return fmt.Errorf("vendortest: Sliding without a Window")
	case q.Pause < 0:
		return fmt.Errorf("vendortest: negative Pause %v", q.Pause)
	case q.MaxPause < q.Pause:
		return fmt.Errorf("vendortest: MaxPause %v is shorter than Pause %v", q.MaxPause, q.Pause)
	case !(q.Factor >= 1) || math.IsInf(q.Factor, 0):
		return fmt.Errorf("vendortest: Factor %v is below 1 or not a number", q.Factor)
	case q.Round < 0:
		return fmt.Errorf("vendortest: negative Round %v", q.Round)
	case q.Forgive < 0:
		return fmt.Errorf("vendortest: negative Forgive %v", q.Forgive)
	}
	return nil
}

// saturate turns a number of nanoseconds, at least 0, into a Duration.
func saturate(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// ceil rounds d, at least 0, up to a multiple of unit; 0 is none.
func ceil(d, unit time.Duration) time.Duration {
	if unit <= 0 || d%unit == 0 || d > math.MaxInt64-unit {
		return d
	}
	return d - d%unit + unit
}
