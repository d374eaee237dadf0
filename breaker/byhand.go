package breaker

import "time"

// Transition puts the breaker into a state by hand, with the effect that it has
// when the breaker does so by itself: an Open one admits a trial call after what
// Config.OpenFor says, and counts as another opening, as does a ForcedOpen one;
// a Closed one begins the schedule anew, as do Disabled and MetricsOnly ones.
// Going to the same state again begins that anew. Calls that are under way do not
// count any more. What is no State is refused with an error that matches
// ErrInvalid.
func (b *Breaker) Transition(to State) error {
	if !to.valid() {
		return invalid("State %d", to)
	}
	now := time.Now()
	b.lock()
	defer b.unlock()
	b.core.transition(now, to, 0)
	return nil
}

// OpenUntil is Transition to Open until a time that somebody has said: an operator,
// or an answer that is no error. It is clamped to Config.MaxRetryAfter from now,
// and an event says so. When it has passed, or is zero, Config.OpenFor counts. The
// next opening goes by the schedule again, of which this was a step.
func (b *Breaker) OpenUntil(until time.Time) {
	now := time.Now()
	b.lock()
	defer b.unlock()
	b.core.transition(now, Open, until.Sub(now))
}

// Reset closes the breaker and forgets all it has counted and how often it
// opened.
func (b *Breaker) Reset() {
	now := time.Now()
	b.lock()
	defer b.unlock()
	b.core.reset(now)
}
