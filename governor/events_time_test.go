package governor_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// An event has the time of what it tells of, not of when it was told: in no bubble, where
// those are the same.
func TestEventsOfACooldownHaveItsTime(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Learn(throttle.Signal{Delay: time.Minute})
	g.Learn(throttle.Signal{Delay: time.Hour})
	var learned event.Event
	n := 0
	for _, e := range g.Recent() {
		switch e.Kind {
		case event.Learned:
			learned = e
		case event.Cooling, event.Extended:
			n++
			if !e.Time.Equal(learned.Time) || !e.Time.Add(e.Delay).Equal(e.Until) || e.Delay != learned.Delay {
				t.Errorf("%v at %v, for %v until %v, of a word at %v for %v", e.Kind, e.Time, e.Delay, e.Until, learned.Time, learned.Delay)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
