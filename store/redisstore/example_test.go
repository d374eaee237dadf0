package redisstore_test

import (
	"context"
	"crypto/tls"
	"os"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/redisstore"
)

// All processes that run this together make at most 600 calls in any minute, and all
// pause when one of them is told to. It needs a server, so it is compiled only.
func Example() {
	engine, err := redisstore.New(redisstore.Config{
		Addrs:    []string{"redis.internal:6380"},
		TLS:      &tls.Config{},
		Username: "flyball",
		Password: func(context.Context) (string, error) { // for each new connection
			password, err := os.ReadFile("/run/secrets/redis")
			return string(password), err
		},
	})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	g, err := governor.New(governor.PlainConfig{
		Name:   "acme",
		Store:  shared,
		Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 600, Per: time.Minute}}},
	})
	if err != nil {
		panic(err)
	}
	defer g.Close()
}

// The sentinels know where the primary is.
func ExampleConfig_sentinel() {
	engine, err := redisstore.New(redisstore.Config{
		Addrs:           []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Master:          "main",
		TLS:             &tls.Config{},
		SplitBrainBound: 10 * time.Second, // the primary's min-replicas-max-lag
	})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
}

func ExampleConfig_cluster() {
	engine, err := redisstore.New(redisstore.Config{
		Addrs:           []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"},
		Cluster:         true,
		TLS:             &tls.Config{},
		SplitBrainBound: 15 * time.Second, // its cluster-node-timeout
	})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
}
