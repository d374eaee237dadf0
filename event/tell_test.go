package event_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
)

func TestTellSetsTheTimeAndDropsPanics(t *testing.T) {
	event.Tell(nil, event.Event{Kind: event.Retry})
	at := time.Unix(1, 0)
	var heard []event.Event
	listen := func(e event.Event) { heard = append(heard, e); panic("a listener's") }
	event.Tell(listen, event.Event{Kind: event.Retry})
	event.Tell(listen, event.Event{Kind: event.GaveUp, Time: at})
	if len(heard) != 2 || heard[0].Time.IsZero() || !heard[1].Time.Equal(at) || heard[1].Kind != event.GaveUp {
		t.Errorf("heard %+v", heard)
	}
}
