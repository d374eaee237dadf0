package event_test

import (
	"testing"
	"time"

	"github.com/flyball-go/flyball/event"
)

func TestTellSetsTheTimeAndDropsPanics(t *testing.T) {
	if event.Tell(nil, event.Event{Kind: event.Retry}) || event.Tell(func(event.Event) {}, event.Event{Kind: event.Retry}) {
		t.Error("a panic of nobody's")
	}
	at := time.Unix(1, 0)
	var heard []event.Event
	listen := func(e event.Event) { heard = append(heard, e); panic("a listener's") }
	if !event.Tell(listen, event.Event{Kind: event.Retry}) || !event.Tell(listen, event.Event{Kind: event.GaveUp, Time: at}) {
		t.Error("no panic is reported")
	}
	if len(heard) != 2 || heard[0].Time.IsZero() || !heard[1].Time.Equal(at) || heard[1].Kind != event.GaveUp {
		t.Errorf("heard %+v", heard)
	}
}
