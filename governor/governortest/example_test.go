package governortest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// A closure that is refused once, then fails, then succeeds.
func ExampleScript() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	s := governortest.NewScript(governortest.Limited(time.Millisecond), errors.New("broken"))
	for range 2 {
		fmt.Println(governor.Do(context.Background(), g, "", s.Call))
	}
	// Output:
	// 2 broken
	// 3 <nil>
}

func ExampleLimited() {
	fmt.Println(governortest.Limited(15 * time.Second))
	fmt.Println(governortest.Limited(throttle.Unknown, throttle.Scope{Level: throttle.Tenant, Key: "ann"}))
	// Output:
	// governortest: refused, host for 15s
	// governortest: refused, tenant:ann for an unknown time
}

func ExampleRecord() {
	g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	events := governortest.Record(g, event.Cooling)
	defer events.Stop()
	g.Learn(throttle.Signal{Delay: time.Minute})
	for events.Count(event.Cooling) == 0 { // in a bubble: synctest.Wait()
		time.Sleep(time.Millisecond)
	}
	fmt.Println(events.Kinds())
	// Output: [cooling]
}
