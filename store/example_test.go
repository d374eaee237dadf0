package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// Two processes share a quota of five calls an hour. Here they are two governors,
// each with a Syncer of its own, as it would be on two machines; the engine is in
// memory.
func ExampleSyncer() {
	engine, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	var calls atomic.Int64
	made := make(chan bool, 20)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
		if err != nil {
			panic(err)
		}
		defer shared.Close()
		g, err := governor.New(governor.PlainConfig{
			Name:   "acme",
			Store:  shared, // and nothing else changes
			Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}}},
		})
		if err != nil {
			panic(err)
		}
		defer g.Close()
		for range 10 {
			governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) {
				n := calls.Add(1)
				made <- true
				return int(n), nil
			}))
		}
	}
	for range 5 {
		<-made
	}
	time.Sleep(100 * time.Millisecond) // the others wait for what is left in an hour
	fmt.Println(calls.Load(), "calls")
	// Output: 5 calls
}

// A vendor that counts calls from minute to minute, and second to second, and allows
// four at once.
func ExampleSyncer_Share() {
	engine, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		panic(err)
	}
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	rate, err := shared.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{
		{Kind: store.Window, Quota: 600, Per: time.Minute},
		{Kind: store.Bucket, Quota: 20, Per: time.Second, Burst: 5},
	}})
	if err != nil {
		panic(err)
	}
	defer rate.Close()
	slots, err := shared.Slots(store.SlotsConfig{Name: "acme", Max: 4})
	if err != nil {
		panic(err)
	}
	g, err := governor.New(governor.PlainConfig{Name: "acme", Store: shared, Limits: []governor.Limit{
		{Per: throttle.Tenant, Limiter: rate},
		{Limiter: slots},
	}})
	if err != nil {
		panic(err)
	}
	defer g.Close()
	v, err := governor.Do(context.Background(), g, "", governor.Func(func(context.Context) (string, error) { return "called", nil }))
	fmt.Println(v, err)
	// Output: called <nil>
}

// Metadata changes only by who knows what there is.
func ExampleMemory_Meta() {
	engine, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	put := store.MetaOp{Do: store.Put, Key: "ratelimiter:acme", Value: []byte(`{"capacity":10}`)}
	rs, err := engine.Meta(ctx, put)
	fmt.Println(string(rs[0].Value), err)
	_, err = engine.Meta(ctx, put) // as if there were none
	fmt.Println(err)
	put.Version = rs[0].Version
	_, err = engine.Meta(ctx, put)
	fmt.Println(err)
	// Output:
	// {"capacity":10} <nil>
	// store: another version: ratelimiter:acme has version 1, not 0
	// <nil>
}
