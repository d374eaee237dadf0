package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/redisstore"
	"github.com/redis/go-redis/v9"
)

func init() {
	const what, peer = "a cooldown heard of by each of 7 other processes, through Redis", "a message of PUBLISH to 7"
	const words = 30
	add(
		row{id: "E3/p50", what: what + ", median", peer: peer, unit: "ns",
			target: []bound{{amount, 1e6}}, measure: propagation(0.5, words, inRedis)},
		row{id: "E3/p99", what: what + ", 99th percentile", peer: peer, unit: "ns",
			target: []bound{{amount, 10e6}}, measure: propagation(0.99, words, inRedis)},
	)
}

// inRedis is a meeting in a server of its own.
func inRedis(context.Context) (*meeting, error) {
	r, first, end, err := redisEngine()
	if err != nil {
		return nil, err
	}
	first.Close()
	return &meeting{
		open: func(context.Context) (store.Attentive, error) {
			return redisstore.New(redisstore.Config{Addrs: []string{r.Addr}})
		},
		peer:  func(ctx context.Context) (*circle, error) { return published(ctx, r.Addr) },
		close: end,
	}, nil
}

// published are a circle of clients that subscribe.
func published(ctx context.Context, addr string) (*circle, error) {
	const channel = "bench"
	client := redis.NewClient(&redis.Options{Addr: addr})
	ctx, cancel := context.WithCancel(ctx)
	var subs []*redis.PubSub
	var work sync.WaitGroup
	c := &circle{heard: make(chan time.Time, replicas)}
	c.say = func(n int) error { return client.Publish(ctx, channel, strconv.Itoa(n)).Err() }
	c.stop = func() {
		cancel()
		for _, sub := range subs {
			sub.Close() // ends what it waits for
		}
		work.Wait()
		client.Close()
	}
	for range replicas - 1 {
		sub := client.Subscribe(ctx, channel)
		subs = append(subs, sub)
		if _, err := sub.ReceiveTimeout(ctx, patience); err != nil {
			c.stop()
			return nil, err
		}
		work.Go(func() {
			for {
				if _, err := sub.ReceiveMessage(ctx); err != nil {
					return
				}
				select {
				case c.heard <- time.Now():
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return c, nil
}
