package vendortest

import (
	"sync"
	"time"
)

// Engine is one limit: a bucket, and the pauses of clients that overdraw it. The
// package documentation tells the model. All methods are safe for simultaneous
// use by multiple goroutines, take constant time and start nothing.
type Engine struct {
	q Quota // with defaults; never written after NewEngine

	// mu guards everything below. Nothing is called while it is held.
	mu       sync.Mutex
	last     time.Time // the latest moment seen; time never runs backwards
	tokens   float64   // calls the bucket holds at last
	began    time.Time // the latest pause: when it began or was last restarted,
	until    time.Time // its end; zero before the first,
	delay    time.Duration
	violated bool // and whether it was ever restarted
	totals   Totals
}

// Verdict is what the vendor answers to one call.
type Verdict struct {
	Accepted  bool
	Delay     time.Duration // when refused: how long until the pause ends
	InPause   bool          // the call arrived while a pause was running
	Escalated bool          // and so late that it restarted the pause, longer
}

// Totals counts what an Engine saw: the independent witness of how polite a
// client was.
type Totals struct {
	Calls        int64         `json:"calls"` // Accepted + Refused
	Accepted     int64         `json:"accepted"`
	Refused      int64         `json:"refused"`
	InPause      int64         `json:"in_pause"`      // refused calls that arrived during a pause
	Escalations  int64         `json:"escalations"`   // those of them that came after the grace
	LongestPause time.Duration `json:"longest_pause"` // the longest delay of any pause, 0 for none
}

// NewEngine returns an engine with a full bucket and no pause. It returns an
// error for a quota that cannot be: a negative rate, a cap below the first pause.
func NewEngine(q Quota) (*Engine, error) {
	q = q.withDefaults()
	if err := q.validate(); err != nil {
		return nil, err
	}
	return &Engine{q: q, tokens: float64(q.Burst), delay: q.Pause}, nil
}

// Admit judges one call that arrives at now. Calls are judged in the order in
// which Admit is called; a now before one seen earlier counts as that one.
func (e *Engine) Admit(now time.Time) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	now = e.refillLocked(now)

	e.totals.Calls++
	var v Verdict
	switch {
	case now.Before(e.until):
		v = e.disturbLocked(now)
	case e.tokens >= 1:
		e.tokens--
		e.totals.Accepted++
		return Verdict{Accepted: true}
	default:
		e.pauseLocked(now)
	}
	v.Delay = e.until.Sub(now)
	e.totals.Refused++
	e.totals.LongestPause = max(e.totals.LongestPause, e.delay)
	return v
}

// Totals returns the counts so far, all of one moment.
func (e *Engine) Totals() Totals {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.totals
}

// refillLocked brings the bucket to now, and returns the moment that counts.
// The bucket is refilled during a pause as well.
func (e *Engine) refillLocked(now time.Time) time.Time {
	if now.Before(e.last) {
		return e.last
	}
	if !e.last.IsZero() {
		e.tokens = min(float64(e.q.Burst), e.tokens+now.Sub(e.last).Seconds()*e.q.Rate)
	}
	e.last = now
	return now
}

// pauseLocked begins a new pause. It starts over at the first length unless the
// one before was violated and its quiet time is not over.
func (e *Engine) pauseLocked(now time.Time) {
	if !e.violated || now.Sub(e.until) >= e.q.Forgive {
		e.delay = e.q.Pause
	}
	e.violated = false
	e.began, e.until = now, now.Add(e.delay)
}

// disturbLocked judges a call during a pause.
func (e *Engine) disturbLocked(now time.Time) Verdict {
	e.totals.InPause++
	if now.Sub(e.began) <= e.q.Grace {
		return Verdict{InPause: true}
	}
	e.totals.Escalations++
	e.delay = min(saturate(float64(e.delay)*e.q.Factor), e.q.MaxPause)
	e.violated = true
	e.began, e.until = now, now.Add(e.delay)
	return Verdict{InPause: true, Escalated: true}
}
