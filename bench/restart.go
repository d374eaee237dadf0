package main

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// E4: how long it is until a process that was there all the time gets its first permit
// of a server that was killed, and of which what came before counts as taken: of a Window
// what is left of it, of a Bucket what it holds at most.
func init() {
	const what, peer = "the first permit after a restart of Redis, of ", "a client's first PING"
	add(
		row{id: "E4", what: what + "windows of 100 ms", peer: peer, unit: "ns",
			target: []bound{{amount, 400e6}}, measure: restarted(store.Window)},
		row{id: "E4bucket", what: what + "a bucket of 1,000 a second", peer: peer, unit: "ns",
			target: []bound{{amount, 301e6}}, measure: restarted(store.Bucket)},
	)
}

func restarted(kind store.Kind) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		return restarts(store.Limit{Kind: kind, Quota: 100, Per: 100 * time.Millisecond}, passes)
	}
}

func restarts(l store.Limit, passes int) (samples []sample, err error) {
	r, engine, end, err := redisEngine()
	if err != nil {
		return nil, err
	}
	defer end()
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	sh, err := shared.Share(store.ShareConfig{Name: "bench", Limits: []store.Limit{l}})
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer client.Close()
	for range passes {
		s, err := restartOnce(r, client, sh)
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// restartOnce measures from when the server answers.
func restartOnce(r *servers.RedisServer, client *redis.Client, sh *store.Share) (s sample, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	permit := func() error { return take(sh, time.Now()) }
	ping := func() error { return client.Ping(ctx).Err() }
	for _, there := range []func() error{permit, ping} {
		if err := until(ctx, there); err != nil {
			return s, err
		}
	}
	r.Kill()
	time.Sleep(200 * time.Millisecond) // what was fetched before has ended
	if err := new(servers.Host).Try(func() { r.Restart(); r.Ready() }); err != nil {
		return s, err
	}
	start := time.Now()
	if err := until(ctx, ping); err != nil {
		return s, err
	}
	s.peer = float64(time.Since(start))
	err = until(ctx, permit)
	s.ours = float64(time.Since(start))
	return s, err
}
