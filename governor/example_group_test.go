package governor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
)

// A governor for each host, made when the first call goes there.
func ExampleGroup() {
	group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
		Config: func(host string) (governor.PlainConfig, error) {
			cfg := governor.PlainConfig{Vendor: acme{}} // what all hosts have in common
			if host == "slow.example" {
				cfg.Workers = 1
			}
			return cfg, nil
		},
		MaxQueue: 100_000, // of all hosts together
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	for _, host := range []string{"fast.example", "slow.example", "fast.example"} {
		g, err := group.Get(host)
		if err != nil {
			log.Fatal(err)
		}
		governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
	}
	for _, s := range group.Stats() {
		fmt.Println(s.Name, s.Workers, s.Succeeded)
	}
	// Output:
	// fast.example 16 2
	// slow.example 1 1
}

func ExampleGroup_Listen() {
	group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
		Config: func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	done := make(chan string)
	stop := group.Listen(func(e event.Event) { done <- e.Name }, event.Completed)
	defer stop()
	for _, host := range []string{"a.example", "b.example"} {
		g, _ := group.Get(host)
		governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
		fmt.Println(<-done)
	}
	// Output:
	// a.example
	// b.example
}

// A report for each customer, a few at a time, in the order of the customers.
func ExampleMap() {
	g := newAcme()
	defer g.Close()
	customers := slices.Values([]string{"ann", "bob", "cat"})
	report := func(ctx context.Context, _ struct{}, customer string) (int, error) {
		if customer == "bob" {
			return 0, errors.New("no such account")
		}
		return len(customer), nil
	}
	for m, err := range governor.Map(context.Background(), g, "", customers, report, nil) {
		fmt.Println(m.In, m.Out, err)
	}
	// Output:
	// ann 3 <nil>
	// bob 0 no such account
	// cat 3 <nil>
}

// With a config: two at a time, as they come, and each customer is a tenant.
func ExampleMapConfig() {
	g := newAcme()
	defer g.Close()
	sum := 0
	for m, err := range governor.Map(context.Background(), g, "", slices.Values([]int{1, 2, 3, 4}),
		func(_ context.Context, _ struct{}, customer int) (int, error) { return customer * customer, nil },
		&governor.MapConfig[string, int]{
			Window: 2, Unordered: true, StopOnError: true,
			Ask: func(customer int) governor.Ask { return governor.Ask{Tenant: fmt.Sprint(customer)} },
		}) {
		if err != nil {
			log.Fatal(err)
		}
		sum += m.Out
	}
	fmt.Println(sum)
	// Output: 30
}

// A report that the vendor makes in its own time: one call begins the job, others
// ask for it. Meanwhile the request holds nothing.
func ExampleAgain() {
	g := newAcme()
	defer g.Close()
	job, polls := "", 0
	report, err := governor.Do(context.Background(), g.With(governor.Ask{StartBy: time.Now().Add(time.Hour)}), "",
		governor.Func(func(context.Context) (string, error) {
			if job == "" {
				job = "job 7" // begun
				return "", governor.Again(2 * time.Millisecond)
			}
			if polls++; polls < 3 {
				return "", fmt.Errorf("%s is at work: %w", job, governor.Again(2*time.Millisecond)) // rather seconds
			}
			return "report of " + job, nil
		}))
	fmt.Println(report, err, polls)
	// Output: report of job 7 <nil> 3
}
