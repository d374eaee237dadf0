package event_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/event"
)

func ExampleBus() {
	var bus event.Bus

	stop := bus.Listen(func(e event.Event) {
		fmt.Println(e.Name, e.Kind, e.Attempt)
	}, event.Retry, event.GaveUp)
	defer stop()

	bus.Emit(event.Event{Kind: event.Retry, Name: "acme", Attempt: 1})
	bus.Emit(event.Event{Kind: event.Idle, Name: "acme"}) // nobody listens to this one
	bus.Emit(event.Event{Kind: event.GaveUp, Name: "acme", Attempt: 2})

	bus.Close()  // what was emitted is still delivered
	<-bus.Done() // and now it has been
	// Output:
	// acme retry 1
	// acme gave up 2
}

func ExampleBus_Wants() {
	var bus event.Bus
	if bus.Wants(event.Started) { // one atomic load
		bus.Emit(event.Event{Kind: event.Started, Scope: strings.Repeat("costly to build ", 9)})
	}
	fmt.Println(bus.Wants(event.Started), bus.Active())
	// Output: false false
}

// Listeners hear everything that was emitted before Close, so a program that
// stops loses nothing when it waits for Done.
func ExampleBus_Close() {
	var bus event.Bus
	bus.Listen(func(e event.Event) {
		fmt.Println("heard", e.Kind)
		if e.Kind == event.Closed {
			bus.Close() // does not wait, so that a listener may call it
		}
	})
	for _, k := range []event.Kind{event.Closing, event.Idle, event.Closed} {
		bus.Emit(event.Event{Kind: k})
	}
	<-bus.Done()

	bus.Emit(event.Event{Kind: event.Submitted}) // goes nowhere
	fmt.Println("active:", bus.Active())
	// Output:
	// heard closing
	// heard idle
	// heard closed
	// active: false
}

// Neither a slow listener nor one that panics is noticed by who emits, so both
// are worth a look now and then.
func ExampleBus_Dropped() {
	bus := event.Bus{Depth: 2}
	entered, leave := make(chan struct{}), make(chan struct{})
	bus.Listen(func(e event.Event) { // slow
		if e.Attempt == 1 {
			close(entered)
			<-leave
		}
		fmt.Println("heard attempt", e.Attempt)
	}, event.Retry)
	bus.Listen(func(event.Event) { panic("bug") }, event.GaveUp)

	bus.Emit(event.Event{Kind: event.Retry, Attempt: 1})
	<-entered
	for n := 2; n <= 5; n++ {
		bus.Emit(event.Event{Kind: event.Retry, Attempt: n})
	}
	bus.Emit(event.Event{Kind: event.GaveUp, Attempt: 5})
	close(leave)

	bus.Close()
	<-bus.Done()
	fmt.Println("dropped:", bus.Dropped(), "panics:", bus.Panics())
	// Output:
	// heard attempt 1
	// heard attempt 4
	// heard attempt 5
	// dropped: 2 panics: 1
}

// Events are ready for a log or a live page: kinds are words, and fields that do
// not concern them are left out.
func ExampleEvent() {
	b, err := json.Marshal(event.Event{
		Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Kind: event.Cooling, Name: "acme", Scope: "tenant:ann", Delay: 15 * time.Second, Source: "Retry-After: 15s",
	})
	fmt.Println(string(b), err)
	// Output: {"time":"2026-11-21T10:00:00Z","kind":"cooling","name":"acme","scope":"tenant:ann","delay":15000000000,"source":"Retry-After: 15s"} <nil>
}

// A listener that has heard enough stops itself.
func ExampleBus_Listen() {
	var bus event.Bus
	cooled := make(chan struct{})
	var stop func()
	stop = bus.Listen(func(e event.Event) {
		fmt.Println(e.Scope, "is back")
		stop()
		close(cooled) // once: after stop nothing more is taken up
	}, event.Cooled)

	bus.Emit(event.Event{Kind: event.Cooled, Scope: "tenant:ann"})
	bus.Emit(event.Event{Kind: event.Cooled, Scope: "tenant:bob"})
	<-cooled
	// Output: tenant:ann is back
}
