package limiter

import (
	"time"

	"github.com/flyball-go/flyball/event"
)

// Drain takes all permits that there are now for key, out of all limits that know
// how much they have, as if they had been used. Those of a Concurrency stay.
func (s *Shared) Drain(key string) {
	s.each(key, func(l Limiter, now time.Time, key string) {
		if d, ok := l.(interface{ Drain(time.Time, string) }); ok {
			d.Drain(now, key)
		} else if _, ok := l.(Releaser); !ok {
			drain(l, now, key)
		}
	})
	s.bus.Emit(event.Event{Time: time.Now(), Kind: event.Depleted, Name: s.name, Source: key})
}

// drain takes as many permits as l admits at once, if it is a limiter that does not
// know them itself. One that admits a billion has no limit now.
func drain(l Limiter, now time.Time, key string) {
	n, most := 0, 1<<30
	if l.Wait(now, key, most) <= 0 {
		return
	}
	for most-n > 1 { // n are there, most are not
		if k := n + (most-n)/2; l.Wait(now, key, k) <= 0 {
			n = k
		} else {
			most = k
		}
	}
	if n > 0 {
		l.Take(now, key, n)
	}
}
