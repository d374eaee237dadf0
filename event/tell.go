package event

import "time"

// Tell hands e to fn, with the time if it has none, and drops a panic in it: the
// way of policies that have an OnEvent. With a nil fn it does nothing. fn should
// be called under no lock.
func Tell(fn func(Event), e Event) {
	if fn == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	defer func() { _ = recover() }()
	fn(e)
}
