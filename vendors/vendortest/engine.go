package vendortest

import (
	"sync"
	"time"
)

// Engine is one limit: a bucket or a window, and the pauses of clients that
// overdraw it. The package documentation tells the model. All methods are safe for
// simultaneous use by multiple goroutines and start nothing. They take constant
// time; of a sliding window up to a thousand steps.
type Engine struct {
	q Quota // with defaults; never written after NewEngine

	// mu guards everything below. Nothing is called while it is held.
	mu       sync.Mutex
	last     time.Time // the latest moment seen; time never runs backwards
	meter    meter
	pause    pause
	delay    time.Duration // of the latest pause that is enforced,
	violated bool          // and whether it was ever restarted
	totals   Totals
}

// Verdict is what the vendor answers to one call.
type Verdict struct {
	Accepted  bool
	Delay     time.Duration // when refused: how long until the pause ends; 0 for what is TooLarge
	InPause   bool          // the call arrived while a pause was running
	Escalated bool          // and so late that it made the pause longer
	TooLarge  bool          // refused for good: it asks for more than the limit ever holds
}

// Totals counts what an Engine saw: the independent witness of how polite a
// client was.
type Totals struct {
	Calls        int64         `json:"calls"` // Accepted + Refused
	Accepted     int64         `json:"accepted"`
	Refused      int64         `json:"refused"`
	Used         int64         `json:"used"`          // units of the accepted calls, less refunds
	InPause      int64         `json:"in_pause"`      // calls that arrived during a pause
	Late         int64         `json:"late"`          // those of them that came after the grace: begun when the pause was known
	Escalations  int64         `json:"escalations"`   // those of them that made the pause longer
	LongestPause time.Duration `json:"longest_pause"` // the longest delay of any pause, 0 for none
}

// Usage is what is used of a limit at a moment.
type Usage struct {
	Limit int           // units that the bucket or a window holds
	Used  int           // units that count, a part of one as a whole; refused ones may make it more than Limit
	Full  time.Duration // until nothing is used, if nothing comes; 0 when nothing is
	Pause time.Duration // what is left of a pause; 0 when there is none
}

// NewEngine returns an engine with a full bucket and no pause. It returns an
// error for a quota that cannot be: a negative rate, a cap below the first pause.
func NewEngine(q Quota) (*Engine, error) {
	q = q.withDefaults()
	if err := q.validate(); err != nil {
		return nil, err
	}
	e := &Engine{q: q, delay: q.Pause}
	e.meter.q = &e.q
	return e, nil
}

// Admit judges one call of one unit that arrives at now. Calls are judged in the
// order in which Admit is called; a now before one seen earlier counts as that one.
func (e *Engine) Admit(now time.Time) Verdict { return e.AdmitN(now, 1) }

// AdmitN is Admit for a call that costs n units; less than 0 counts as 0. One of
// more units than the limit ever holds is refused and begins no pause.
func (e *Engine) AdmitN(now time.Time, n int) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	now = e.rollLocked(now)
	e.totals.Calls++
	v, late := e.arrivalLocked(now)
	cost := float64(max(0, n))
	switch {
	case v.InPause && !e.q.Lenient: // refused, whatever is there
	case n > e.q.Burst:
		v.TooLarge = true
		e.totals.Refused++
		return v
	case e.meter.fits(cost):
		e.meter.charge(now, cost)
		e.totals.Accepted++
		e.totals.Used += int64(cost)
		v.Accepted = true
		return v
	}
	if e.q.Counted {
		e.meter.charge(now, cost)
	}
	return e.refuseLocked(now, v, late, min(cost, float64(e.q.Burst)))
}

// Refuse refuses one call for a reason of the caller's own, as calls at the same
// time, and begins or disturbs a pause by it. Nothing is used.
func (e *Engine) Refuse(now time.Time) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	now = e.rollLocked(now)
	e.totals.Calls++
	v, late := e.arrivalLocked(now)
	return e.refuseLocked(now, v, late, 0)
}

// Refund takes n units off again that an accepted call turned out not to need.
// What has come back by itself meanwhile does not come back twice.
func (e *Engine) Refund(now time.Time, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rollLocked(now)
	e.meter.refund(float64(max(0, n)))
	e.totals.Used -= int64(max(0, n))
}

// Usage returns what is used at now.
func (e *Engine) Usage(now time.Time) Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	now = e.rollLocked(now)
	return Usage{
		Limit: e.q.Burst,
		Used:  int(e.meter.used + 1 - slack),
		Full:  e.meter.free(now, float64(e.q.Burst)),
		Pause: max(0, e.pause.until.Sub(now)),
	}
}

// free returns how long it is until n units fit, no more than the limit holds.
func (e *Engine) free(now time.Time, n int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.meter.free(e.rollLocked(now), float64(n))
}

// Totals returns the counts so far, all of one moment.
func (e *Engine) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.totals
}

// rollLocked brings the limit to now, and returns the moment that counts. The
// bucket is refilled during a pause as well.
func (e *Engine) rollLocked(now time.Time) time.Time {
	if now.Before(e.last) {
		now = e.last
	}
	e.last = now
	e.meter.roll(now)
	return now
}

// arrivalLocked looks whether a call arrives during a pause, and late.
func (e *Engine) arrivalLocked(now time.Time) (v Verdict, late bool) {
	if v.InPause = now.Before(e.pause.until); !v.InPause {
		return v, false
	}
	e.totals.InPause++
	if late = e.pause.late(now, e.q.Grace); late {
		e.totals.Late++
	}
	return v, late
}

// refuseLocked refuses a call of n units.
func (e *Engine) refuseLocked(now time.Time, v Verdict, late bool, n float64) Verdict {
	e.totals.Refused++
	switch {
	case e.q.Lenient:
		v.Delay = max(e.meter.free(now, n), e.q.Pause)
		if e.q.Window == 0 || e.q.Sliding {
			v.Delay = ceil(v.Delay, e.q.Round)
		}
		longer := e.pause.extend(now, now.Add(v.Delay), e.q.Grace)
		v.Escalated = late && longer && e.q.Counted
		e.totals.LongestPause = max(e.totals.LongestPause, v.Delay)
	case !v.InPause:
		// It starts over at the first length unless the one before was violated and
		// its quiet time is not over.
		if !e.violated || now.Sub(e.pause.until) >= e.q.Forgive {
			e.delay = e.q.Pause
		}
		e.violated = false
		e.pause.begin(now, now.Add(e.delay))
	case late:
		v.Escalated, e.violated = true, true
		e.delay = min(saturate(float64(e.delay)*e.q.Factor), e.q.MaxPause)
		e.pause.begin(now, now.Add(e.delay))
	}
	if v.Escalated {
		e.totals.Escalations++
	}
	if !e.q.Lenient {
		v.Delay = ceil(e.pause.until.Sub(now), e.q.Round)
		e.totals.LongestPause = max(e.totals.LongestPause, e.delay)
	}
	return v
}
