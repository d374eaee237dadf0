package event

import "time"

// Tell hands e to fn, with the time if it has none, and drops a panic in it: the
// way of policies that have an OnEvent. It reports whether there was a panic, for
// those that count them. With a nil fn it does nothing. fn should be called under
// no lock.
func Tell(fn func(Event), e Event) (panicked bool) {
	if fn == nil {
		return false
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	defer func() { panicked = recover() != nil }()
	fn(e)
	return false
}
