package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/registry"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/store"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Shared configurations, and instances with overrides, from a text that may be loaded
// again when it has changed.
func ExampleRegistry_Load() {
	guards := must(registry.New(registry.Config{}))
	err := guards.Load([]byte(`{
		"breakers": {
			"bases": {"default": {"Window": 50, "OpenFor": "exponential 30s x2 up to 10m"}},
			"instances": {"billing": {"config": {"FailureRate": 0.2}}}
		},
		"limiters": {
			"instances": {"search": {"config": {"Limits": [{"Bucket": {"Rate": 10, "Burst": 2}}]}}}
		}
	}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(must(guards.Breakers.Get("billing")))
	fmt.Println(must(guards.Breakers.Get("orders"))) // made of the default

	search, _ := guards.Limiters.Lookup("search")
	fmt.Println(search.Allow("", 1), search.Allow("", 1), search.Allow("", 1) != nil)
	// Output:
	// breaker billing(0.2 of 50 calls)
	// breaker orders(0.5 of 50 calls)
	// <nil> <nil> true
}

// Processes that follow one text in a store: what one of them puts there comes into
// force in all. A store of one process stands in for Redis or MariaDB.
func ExampleRegistry_Follow() {
	ctx := context.Background()
	shared := must(store.NewMemory(store.MemoryConfig{}))
	defer shared.Close()
	cfg := registry.FollowerConfig{Store: shared, Key: "config:shop"}

	here, there := must(registry.New(registry.Config{})), must(registry.New(registry.Config{}))
	f := must(here.Follow(cfg))
	defer f.Close()
	g := must(there.Follow(cfg))
	defer g.Close()

	_, err := f.Put(ctx, []byte(`{"retries": {"bases": {"default": {"Attempts": 5}}}}`), f.Version())
	if err != nil {
		panic(err)
	}
	if err := g.Refresh(ctx); err != nil { // it would follow by itself; so it has by now
		panic(err)
	}
	fmt.Println(must(there.Retries.Get("orders")))

	_, err = f.Put(ctx, []byte(`{"retries": {"bases": {"default": {"Attempts": "many"}}}}`), f.Version())
	fmt.Println(err)
	// Output:
	// retry orders(5 attempts, exponential 500ms x2 up to 1m0s)
	// registry: configuration config:shop: retries.bases."default": registry: Attempts is "many", want a whole number of 64 bits
}

// A dashboard, or an operator, finds a program's governors by their names.
func ExampleRegistry_Register() {
	guards := must(registry.New(registry.Config{}))
	for _, name := range []string{"googleads", "meta"} {
		g := must(governor.New(governor.PlainConfig{Name: name}))
		defer g.Close()
		if err := guards.Register(g); err != nil {
			panic(err)
		}
	}
	for name, g := range guards.Governors() {
		fmt.Println(name, g.Stats().InFlight)
	}
	// Output:
	// googleads 0
	// meta 0
}

// A Set of one's own: any type that is made of a configuration.
func ExampleNewSet() {
	loops := must(registry.NewSet(registry.SetConfig[retry.Config, *retry.Retry]{
		Kind: "loop",
		New:  func(_ string, cfg retry.Config) (*retry.Retry, error) { return retry.New(cfg) },
	}))
	heard := make(chan string)
	defer loops.Listen(func(e event.Event) { heard <- e.Source + " " + e.Name })()
	if err := loops.SetBase(registry.Default, retry.Config{Attempts: 5, Backoff: backoff.Constant(time.Second)}); err != nil {
		panic(err)
	}
	fmt.Println(must(loops.Get("orders")), "-", <-heard)
	if err := loops.Change("orders", registry.Override[retry.Config]([]byte(`{"Backoff": "linear 1s up to 10s"}`))); err != nil {
		panic(err)
	}
	fmt.Println(must(loops.Get("orders")), "-", <-heard)
	// Output:
	// retry(5 attempts, 1s) - added loop orders
	// retry(5 attempts, linear 1s +1s up to 10s) - replaced loop orders
}

// Every configuration decodes from JSON.
func ExampleDecode() {
	var cfg governor.PlainConfig
	err := registry.Decode([]byte(`{
		"Name": "acme",
		"Workers": 8,
		"Limits": [{"Per": "tenant", "Quota": {"Limit": 300, "Per": "1m"}}],
		"Retry": {"Attempts": 5, "Backoff": "full jitter(exponential 1s x2 up to 1m)"}
	}`), &cfg)
	fmt.Println(cfg.Name, cfg.Limits[0].Quota.Per, cfg.Retry.Backoff, err)

	err = registry.Decode([]byte(`{"Retry": {"MaxElapsed": 30}}`), &cfg)
	fmt.Println(err)
	// Output:
	// acme 1m0s full jitter(exponential 1s x2 up to 1m0s) <nil>
	// registry: Retry.MaxElapsed is 30, want a duration, such as "15s"
}

// Confined's keys and metadata.
func ExamplePermits() {
	ctx := context.Background()
	permits := must(registry.NewPermits(registry.PermitsConfig{}))
	defer permits.Close()

	const key = "tenant1-ratelimiter:servicea"
	metadata := json.RawMessage(`{"capacity": 2, "limitForPeriod": 1, "limitRefreshPeriodInMillis": 60000, "timeoutInMillis": 0}`)
	r := must(permits.Put(ctx, key, metadata, 0))
	for range 3 {
		_, err := permits.Acquire(ctx, key, 1)
		e, failed := errors.AsType[*registry.Error](err)
		if failed {
			fmt.Println(e.Code)
		} else {
			fmt.Println("acquired")
		}
	}
	fmt.Println("version", r.Version)
	// Output:
	// acquired
	// acquired
	// FailedToAcquirePermit
	// version 1
}

// A call in a bulkhead, which holds its permit until the call has ended.
func ExampleDo() {
	ctx := context.Background()
	permits := must(registry.NewPermits(registry.PermitsConfig{}))
	defer permits.Close()

	n, err := registry.Do(ctx, permits, "bulkhead:servicea", func(context.Context) (int, error) {
		return 42, nil
	})
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// The same by messages.
func ExamplePackets() {
	ctx := context.Background()
	permits := must(registry.NewPermits(registry.PermitsConfig{}))
	defer permits.Close()
	packets := must(registry.NewPackets(registry.PacketsConfig{Permits: permits}))
	defer packets.Close()

	for _, p := range []string{
		`{"operation": "metadata:put", "data": {"key": "bulkhead:servicea", "value": {"maxConcurrentCalls": 5}}}`,
		`{"operation": "metadata:get", "data": {"key": "bulkhead:servicea"}}`,
		`{"operation": "metadata:frobnicate", "data": {}}`,
	} {
		fmt.Println(string(packets.Handle(ctx, []byte(p))))
	}
	// Output:
	// {"operation":"metadata:put","data":{"key":"bulkhead:servicea","value":{"maxConcurrentCalls":5},"version":1},"status":"OK"}
	// {"operation":"metadata:get","data":{"key":"bulkhead:servicea","value":{"maxConcurrentCalls":5},"version":1},"status":"OK"}
	// {"operation":"metadata:frobnicate","status":"ERROR","errorDetail":{"code":"FailureWhileExecutingOperation","message":"registry: invalid: action of operation \"metadata:frobnicate\""}}
}

// The key of a host, which has dots.
func ExamplePermitType_For() {
	key := registry.RateLimiter.For("api.example.com")
	fmt.Println(key, len(key))
	// Output: ratelimiter:apiex-3av143457eol5w5ri9 36
}
