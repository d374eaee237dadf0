package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/redisstore"
	"github.com/flyball-go/flyball/throttle"
)

// E8: how long it is from when a replica has become the primary, in place of one that was
// killed, to the first permit of a process that was there all the time. What the old one
// granted last the replica may not have heard of, and so nothing is granted for as long
// as such grants can be in use, which is the bound.
func init() {
	const what, peer = "the first permit after a failover", "from the end of the old primary to the next"
	target := []bound{{amount, float64(splitBrain + time.Second)}}
	add(
		row{id: "E8/sentinel", what: what + " by sentinels", peer: peer, unit: "ns", target: target, measure: once(bySentinels, 1)},
		row{id: "E8/cluster", what: what + " of a Redis Cluster", peer: peer, unit: "ns", target: target, measure: once(inCluster, 1)},
	)
}

// splitBrain is how long an old primary may go on that is not dead, and missed how long it
// is not heard before it is replaced.
const (
	splitBrain = 500 * time.Millisecond
	missed     = time.Second
)

func bySentinels(ctx context.Context, _ int) (sample, error) {
	var primary, replica *servers.RedisServer
	var sentinels []*servers.RedisServer
	return failover(ctx, func(h *servers.Host) (cfg redisstore.Config) {
		primary = servers.Redis(h)
		replica = servers.Replica(h, primary)
		sentinels = servers.Sentinels(h, "bench", primary, 1, missed)
		for _, s := range sentinels {
			cfg.Addrs = append(cfg.Addrs, s.Addr)
		}
		cfg.Master = "bench"
		return cfg
	}, func(string) (*servers.RedisServer, func() error) {
		return primary, says(sentinels[0], strconv.Itoa(replica.Port), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "bench")
	})
}

func inCluster(ctx context.Context, _ int) (sample, error) {
	var nodes []*servers.RedisServer
	return failover(ctx, func(h *servers.Host) (cfg redisstore.Config) {
		nodes = servers.Cluster(h, missed)
		for _, n := range nodes {
			cfg.Addrs = append(cfg.Addrs, n.Addr)
		}
		cfg.Cluster = true
		return cfg
	}, func(hash string) (*servers.RedisServer, func() error) {
		for i, n := range nodes[:3] {
			if there, err := n.Do("EXISTS", hash); err == nil && there == "1" { // else the slot is another's
				return n, says(nodes[i+3], "master", "ROLE")
			}
		}
		return nil, nil
	})
}

// says asks r, until it answers with text in it.
func says(r *servers.RedisServer, text string, command ...string) func() error {
	return func() error {
		switch got, err := r.Do(command...); {
		case err != nil:
			return err
		case !strings.Contains(got, text):
			return fmt.Errorf("%v says %q, want %q", command, got, text)
		}
		return nil
	}
}

// failover kills the primary that has what is shared. start starts the servers, and of says
// which primary has a hash, and how to find out that there is another.
func failover(ctx context.Context, start func(*servers.Host) redisstore.Config, of func(hash string) (primary *servers.RedisServer, replaced func() error)) (s sample, err error) {
	h := &servers.Host{}
	defer h.Close()
	var cfg redisstore.Config
	if err := h.Try(func() { cfg = start(h) }); err != nil {
		return s, err
	}
	cfg.SplitBrainBound, cfg.Logger = splitBrain, slog.New(slog.DiscardHandler) // it warns of an old primary that lives on
	engine, err := redisstore.New(cfg)
	if err != nil {
		return s, err
	}
	defer engine.Close()
	if err := engine.AssumeUnused(ctx); err != nil {
		return s, err
	}
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		return s, err
	}
	defer shared.Close()
	sh, err := shared.Share(store.ShareConfig{Name: "bench", Limits: []store.Limit{{Quota: 100, Per: 100 * time.Millisecond}}})
	if err != nil {
		return s, err
	}
	permit := func() error { return take(sh, time.Now()) }
	if err := until(ctx, permit); err != nil {
		return s, err
	}
	primary, replaced := of("gov:{" + store.KeyFor("bench", throttle.Scope{}.String()) + "}")
	if primary == nil {
		return s, errors.New("no primary has what is shared")
	}
	primary.Kill()
	died := time.Now()
	time.Sleep(200 * time.Millisecond) // what was fetched before has ended
	if err := until(ctx, replaced); err != nil {
		return s, err
	}
	next := time.Now()
	s.peer = float64(next.Sub(died))
	err = until(ctx, permit)
	s.ours = float64(time.Since(next))
	return s, err
}
