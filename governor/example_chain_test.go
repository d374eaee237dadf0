package governor_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/policy"
)

// Policies go around a governor as around any other function. The governor does
// what concerns all calls to a host: it waits out the first call's refusal. What
// concerns one caller is outside: a stored report needs neither slot nor permit, a
// substitute takes the place of what fails for good, and the timeout counts the
// time in the queue, too. That of one attempt is Config.AttemptTimeout.
func ExampleDo_chain() {
	g := newAcme()
	defer g.Close()
	cache, err := policy.NewCache(policy.CacheConfig[string, string]{If: func(report string) bool { return report != "" }})
	if err != nil {
		log.Fatal(err)
	}
	fallback, err := policy.NewFallback(policy.FallbackConfig{With: policy.Value("")})
	if err != nil {
		log.Fatal(err)
	}
	timeout, err := policy.NewTimeout(policy.TimeoutConfig{After: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	acme := &client{refusals: 1}
	report := policy.Wrap1(policy.Stack(cache, fallback, timeout), func(ctx context.Context, customer string) (string, error) {
		return governor.Do(ctx, g, "", governor.Func(func(ctx context.Context) (string, error) {
			fmt.Println("call, refusals to come:", acme.refusals)
			return acme.report(ctx, customer)
		}))
	})
	for range 2 {
		fmt.Println(report(policy.WithKey(context.Background(), "ann"), "ann"))
	}
	// Output:
	// call, refusals to come: 1
	// call, refusals to come: 0
	// report of ann <nil>
	// report of ann <nil>
}
