package limiter

import (
	"time"
)

// ThrottleConfig says when a Throttle rejects.
type ThrottleConfig struct {
	// Window is how long a call counts. 0 means 2 minutes; at least 1 ms.
	Window time.Duration

	// K is how many calls may be made for each that is accepted before some are
	// rejected: 1 up to 1000. 0 means 2: rejection begins when half of the calls
	// fail. Less sheds sooner, more lets more waste through.
	K float64

	// Most is the largest share of calls that is rejected: more than 0, up to 1.
	// 0 means 0.9, so that a tenth finds out when the server is well again.
	Most float64
}

// Throttle rejects calls to a server that rejects them itself, before they are
// made: even a rejection costs the server something. The share that is rejected is
//
//	max(0, (requests - K*accepts) / (requests + 1))
//
// of the requests in the last Window, those rejected here included, and of those
// the server accepted. It is the adaptive throttling of "Site Reliability
// Engineering" (Beyer et al., 2016, chapter 21, "Handling Overload",
// https://sre.google/sre-book/handling-overload/).
//
// It is for overload, where any client's call may be rejected. For a quota it is
// the wrong tool: it lets K times too many through. It is off unless you use it.
//
// Throttle is a pure core: it takes the time and the random numbers, and has no
// lock; a ThrottlePolicy is one for goroutines. now must not go back; a smaller now
// is treated as the largest seen. Methods are O(1), at most 64 steps after a time
// without calls, and allocate nothing.
type Throttle struct {
	k, most float64
	slice   time.Duration
	start   time.Time
	begun   bool
	last    int64 // slice
	ring    [throttleSlices]counted
	sum     counted
}

// throttleSlices is in how many parts a Window is forgotten.
const throttleSlices = 64

type counted struct{ requests, accepts float64 }

// NewThrottle returns a Throttle that has seen nothing. The error names the field
// that is out of range.
func NewThrottle(cfg ThrottleConfig) (*Throttle, error) {
	if cfg.Window == 0 {
		cfg.Window = 2 * time.Minute
	}
	if cfg.K == 0 {
		cfg.K = 2
	}
	if cfg.Most == 0 {
		cfg.Most = 0.9
	}
	switch {
	case cfg.Window < time.Millisecond:
		return nil, invalidf("ThrottleConfig.Window is %v, want 0 or at least 1ms", cfg.Window)
	case !(cfg.K >= 1 && cfg.K <= 1000): // nor NaN
		return nil, invalidf("ThrottleConfig.K is %v, want 0, or 1 up to 1000", cfg.K)
	case !(cfg.Most > 0 && cfg.Most <= 1):
		return nil, invalidf("ThrottleConfig.Most is %v, want 0 up to 1", cfg.Most)
	}
	return &Throttle{k: cfg.K, most: cfg.Most, slice: cfg.Window / throttleSlices}, nil
}

// at forgets what is too old and returns the present slice.
func (h *Throttle) at(now time.Time) *counted {
	if !h.begun {
		h.begun, h.start = true, now
	}
	to := int64(now.Sub(h.start) / h.slice)
	if to-h.last >= throttleSlices {
		h.ring, h.sum, h.last = [throttleSlices]counted{}, counted{}, to
	}
	for h.last < to {
		h.last++
		old := &h.ring[h.last%throttleSlices]
		h.sum.requests -= old.requests
		h.sum.accepts -= old.accepts
		*old = counted{}
	}
	return &h.ring[h.last%throttleSlices]
}

// Rejects returns the share of calls that is rejected at present.
func (h *Throttle) Rejects(now time.Time) float64 {
	h.at(now)
	return min(max(0, (h.sum.requests-h.k*h.sum.accepts)/(h.sum.requests+1)), h.most)
}

// Admit counts a call and reports whether it may be made. random is a random
// number, at least 0 and less than 1.
func (h *Throttle) Admit(now time.Time, random float64) bool {
	ok := random >= h.Rejects(now)
	h.at(now).requests++
	h.sum.requests++
	return ok
}

// Accepted is told that the server has accepted a call that was admitted, whatever
// came of it then. Of a call that it rejected nothing is told.
func (h *Throttle) Accepted(now time.Time) {
	h.at(now).accepts++
	h.sum.accepts++
}

// Forget is told that a call that was admitted at sent says nothing about the server,
// because it was given up or not made: it counts no more.
func (h *Throttle) Forget(now, sent time.Time) {
	h.at(now)
	at := int64(sent.Sub(h.start) / h.slice)
	if at < 0 || at > h.last || h.last-at >= throttleSlices {
		return
	}
	if s := &h.ring[at%throttleSlices]; s.requests > 0 {
		s.requests--
		h.sum.requests--
	}
}
