package vendortest

import (
	"fmt"
	"math"
	"time"
)

// Quota describes one limit of a vendor. The zero Quota is a usable one; each
// field says what its zero means.
type Quota struct {
	Rate     float64       // calls per second that the bucket regains; 0: 10
	Burst    int           // calls the full bucket holds; 0: one second's worth, at least 1
	Pause    time.Duration // the first pause after a refusal; 0: 15 s
	MaxPause time.Duration // the longest pause; 0: 15 min, or Pause when that is longer
	Factor   float64       // what a violation multiplies the pause by, at least 1; 0: 2

	// Grace is how long after the beginning of a pause a call may still arrive
	// unpunished: it was on its way. 0: 1 s. It must be small against the latency
	// of a call, or impolite clients look polite. Negative: none.
	Grace time.Duration

	// Forgive is the quiet time, without any refused call after the end of a
	// violated pause, that brings the next pause back to Pause. 0: 2*MaxPause.
	Forgive time.Duration
}

// Scale returns the quota at another speed: with f = 0.01 everything happens a
// hundred times faster. Pause, MaxPause, Grace and Forgive are multiplied by f
// and Rate is divided by it, after zero fields got their defaults; Burst and
// Factor are counts and stay. What a run looks like, how many calls are refused
// and which pauses escalate, is the same at every scale, as long as the client's
// and the server's latencies are scaled with it.
//
// f must be positive and finite; NewEngine refuses what another f leaves.
func (q Quota) Scale(f float64) Quota {
	q = q.withDefaults()
	q.Rate /= f
	q.Pause = scale(q.Pause, f)
	q.MaxPause = scale(q.MaxPause, f)
	q.Grace = scale(q.Grace, f)
	q.Forgive = scale(q.Forgive, f)
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
	if q.Rate == 0 {
		q.Rate = 10
	}
	if q.Burst == 0 {
		q.Burst = int(min(max(math.Ceil(q.Rate), 1), math.MaxInt32))
	}
	if q.Pause == 0 {
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
	case q.Pause < 0:
		return fmt.Errorf("vendortest: negative Pause %v", q.Pause)
	case q.MaxPause < q.Pause:
		return fmt.Errorf("vendortest: MaxPause %v is shorter than Pause %v", q.MaxPause, q.Pause)
	case !(q.Factor >= 1) || math.IsInf(q.Factor, 0):
		return fmt.Errorf("vendortest: Factor %v is below 1 or not a number", q.Factor)
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
