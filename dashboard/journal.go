package dashboard

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
)

// ring keeps the last few of what is pushed. Its memory grows with what is in it.
type ring[T any] struct {
	most  int
	slots []T
	first int // where the oldest is, once the ring is full
}

func (r *ring[T]) push(v T) {
	if len(r.slots) < r.most {
		r.slots = append(r.slots, v)
		return
	}
	r.slots[r.first] = v
	r.first = (r.first + 1) % r.most
}

func (r *ring[T]) len() int { return len(r.slots) }

// at is the i-th, from the oldest on.
func (r *ring[T]) at(i int) *T { return &r.slots[(r.first+i)%len(r.slots)] }

const (
	maxEvents = 256
	lookBack  = 8 // how many of the latest may take in one more of their sort
	sameTime  = 10 * time.Second
)

// alone reports whether each event of a kind matters.
func alone(k event.Kind) bool {
	switch k {
	case event.Cooling, event.Cleared, event.Cooled, event.Resumed, event.BreakerState, event.BreakerSet, event.BreakerReset,
		event.Paused, event.Unpaused, event.Closing, event.Closed:
		return true
	}
	return false
}

// journal keeps the last events. Others of the same sort are counted with the first of
// them, so that a thousand refusals do not push out what caused them.
type journal struct {
	events  ring[noted]
	written uint64
}

type noted struct {
	Event
	changed uint64 // the sample with which it is told
}

func (j *journal) add(e Event, k event.Kind, tick uint64) {
	j.events.most = maxEvents
	if !alone(k) {
		for i := j.events.len() - 1; i >= max(0, j.events.len()-lookBack); i-- {
			have := j.events.at(i)
			if have.Kind == e.Kind && have.Scope == e.Scope && have.Source == e.Source && (have.Error == e.Error || k == event.Refused) && e.Time.Sub(have.Time) < sameTime {
				have.Count++
				have.Delay, have.Until, have.Request, have.Attempt, have.Error = e.Delay, e.Until, e.Request, e.Attempt, e.Error
				have.changed = tick
				return
			}
		}
	}
	j.written++
	e.ID = j.written
	j.events.push(noted{e, tick})
}

// said is the error that a vendor's last signal for a scope came with, "" if none is known.
func (j *journal) said(scope string) string {
	for i := j.events.len() - 1; i >= 0; i-- {
		if e := j.events.at(i); e.Kind == event.Learned.String() && e.Scope == scope && e.Error != "" {
			return e.Error
		}
	}
	return ""
}

// since are the events that changed after a sample, the oldest first.
func (j *journal) since(tick uint64) (all []Event) {
	for i := range j.events.len() {
		if e := j.events.at(i); e.changed > tick {
			all = append(all, e.Event)
		}
	}
	return slices.Clip(all)
}
