package governor_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/flyball-go/flyball/governor"
)

// The urgent goes first. Of the others the tenant of weight 2 gets two starts for
// each of those of weight 1, whose requests cost the same.
func ExampleConfig_weight() {
	g, err := governor.New(governor.PlainConfig{
		Name:    "api",
		Workers: 1,
		Ageing:  time.Minute, // a request that waits so long counts as one priority higher
		Weight: func(tenant string) int {
			if tenant == "gold" {
				return 2
			}
			return 1
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	g.Pause() // so that all of them wait
	var started []string
	var requests []*governor.Request[string]
	submit := func(n int, ask governor.Ask) {
		for range n {
			r := governor.Submit(context.Background(), g.With(ask), "", governor.Func(func(context.Context) (string, error) {
				started = append(started, ask.Tenant)
				return ask.Tenant, nil
			}))
			requests = append(requests, r)
		}
	}
	submit(3, governor.Ask{Tenant: "iron"})
	submit(6, governor.Ask{Tenant: "gold"})
	submit(1, governor.Ask{Tenant: "lead", Priority: 1})
	g.Resume()
	for _, r := range requests {
		<-r.Done()
	}
	fmt.Println(strings.Join(started, " "))
	// Output: lead gold iron gold gold iron gold gold iron gold
}
