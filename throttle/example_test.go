package throttle_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// "Retry in 30 s, you alone": what an adapter makes of an account's limit.
func ExampleSignal() {
	s := throttle.Signal{
		Kind:   throttle.KindBurst,
		Scope:  throttle.Scope{Level: throttle.Tenant}, // the refused request's own
		Delay:  30 * time.Second,
		Source: "Requests per account",
	}
	j, _ := json.Marshal(s)
	fmt.Println(string(j))
	// Output: {"kind":"burst","scope":{"level":"tenant"},"delay":30000000000,"source":"Requests per account"}
}

func ExampleScope() {
	fmt.Println(throttle.Scope{})
	fmt.Println(throttle.Scope{Level: throttle.Tenant, Key: "123"})
	// Output:
	// host
	// tenant:123
}
