package event_test

import (
	"fmt"
	"strings"

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
