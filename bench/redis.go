package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/redisstore"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// E: permits of a quota in Redis, of a private server that the row starts, and which
// has to share the processors with it. L6: how long that server is at one exchange, by
// its own count, beside redis_rate's script.
func init() {
	redis.SetLogger(silent{}) // servers are to end in some rows
	add(
		row{id: "E1", what: "a permit through Redis, of leases of 100", peer: "redis_rate Allow", unit: "ns",
			target: []bound{{ratio, 0.04}}, measure: timed(1, redisLeased, redisRate)},
		row{id: "E2/1", what: "a permit by an exchange of its own", peer: "redis_rate Allow", unit: "ns",
			target: []bound{{ratio, 1.05}, {allocs, 12}}, measure: timed(1, redisUnleased, redisRate)},
		row{id: "E2/16", what: "a permit by an exchange of its own", peer: "redis_rate Allow", unit: "ns",
			target: []bound{{ratio, 1.05}, {allocs, 12}}, measure: timed(16, redisUnleased, redisRate)},
		row{id: "L6/8", what: "an exchange in the server, 8 nodes", peer: "redis_rate's script", unit: "ns",
			target: []bound{{amount, 100_000}}, measure: serviceTime(8)},
		row{id: "L6/256", what: "an exchange in the server, 256 nodes", peer: "redis_rate's script", unit: "ns",
			target: []bound{{amount, 300_000}}, measure: serviceTime(256)},
	)
}

// silent logs nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// startRedis starts a server that ends with stop.
func startRedis() (r *servers.RedisServer, stop func(), err error) {
	h := &servers.Host{}
	if err = h.Try(func() { r = servers.Redis(h) }); err != nil {
		h.Close()
		return nil, nil, err
	}
	return r, h.Close, nil
}

// redisEngine is an engine of a server of its own.
func redisEngine() (r *servers.RedisServer, s *redisstore.Store, stop func(), err error) {
	r, end, err := startRedis()
	if err != nil {
		return nil, nil, nil, err
	}
	s, err = redisstore.New(redisstore.Config{Addrs: []string{r.Addr}})
	if err == nil {
		err = s.AssumeUnused(context.Background())
	}
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return r, s, func() { s.Close(); end() }, nil
}

func redisLeased() (func(int) error, func(), error) {
	_, engine, end, err := redisEngine()
	if err != nil {
		return nil, nil, err
	}
	s, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		end()
		return nil, nil, err
	}
	// A bucket of 100 is what a lease can be at most.
	sh, err := s.Share(store.ShareConfig{Name: "bench", Limits: []store.Limit{{Kind: store.Bucket, Quota: 1e9, Per: time.Second, Burst: 100}}})
	if err != nil {
		end()
		return nil, nil, err
	}
	came := make(chan struct{}, 1)
	sh.OnChange(func() {
		select {
		case came <- struct{}{}:
		default:
		}
	})
	return each(func() error {
		now := time.Now()
		for sh.Wait(now, "", 1) != 0 {
			select {
			case <-came:
			case <-time.After(10 * time.Second):
				return errors.New("no permit for ten seconds")
			}
			now = time.Now()
		}
		sh.Take(now, "", 1)
		return nil
	}), func() { s.Close(); end() }, nil
}

// What the permits that are fetched one by one are of.
const (
	quota  = 1e9
	period = 24 * time.Hour
)

// asker is a node that asks for one permit at a time.
type asker struct {
	s     store.Store
	node  store.Node
	items [1]store.Item
}

func newAsker(s store.Store) *asker {
	limits := []store.Limit{{Kind: store.Window, Quota: quota, Per: period}}
	return &asker{s: s, node: store.NewNode(), items: [1]store.Item{{Key: "bench", Limits: limits, Version: 1, Want: 1}}}
}

func (a *asker) ask() error {
	a.items[0].Seq++
	answers, err := a.s.Exchange(context.Background(), a.node, a.items[:])
	if err != nil {
		return err
	}
	if answers[0].Granted != 1 {
		return fmt.Errorf("not granted: %+v", answers[0])
	}
	a.items[0].Epoch, a.items[0].Seen = answers[0].Epoch, answers[0].Gen
	return nil
}

func redisUnleased() (func(int) error, func(), error) {
	_, engine, end, err := redisEngine()
	if err != nil {
		return nil, nil, err
	}
	var nodes sync.Pool // each goroutine is a node
	nodes.New = func() any { return newAsker(engine) }
	return func(n int) error {
		a := nodes.Get().(*asker)
		defer nodes.Put(a)
		for range n {
			if err := a.ask(); err != nil {
				return err
			}
		}
		return nil
	}, end, nil
}

func redisRate() (func(int) error, func(), error) {
	r, end, err := startRedis()
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	allow := askRate(client)
	return func(n int) error {
		for range n {
			if err := allow(); err != nil {
				return err
			}
		}
		return nil
	}, func() { client.Close(); end() }, nil
}

func askRate(client *redis.Client) func() error {
	l := redis_rate.NewLimiter(client)
	// The quota is ours. Of one per second a permit would be less than what its
	// numbers can hold: it would write nothing, and limit nothing.
	limit := redis_rate.Limit{Rate: quota, Burst: quota, Period: period}
	return func() error {
		res, err := l.Allow(context.Background(), "bench", limit)
		if err == nil && res.Allowed != 1 {
			err = errors.New("not allowed")
		}
		return err
	}
}

// serviceTime has the server say how long it was at a call of the script, when so many
// nodes take turns.
func serviceTime(nodes int) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		r, engine, end, err := redisEngine()
		if err != nil {
			return nil, err
		}
		defer end()
		var all []*asker
		for range nodes {
			all = append(all, newAsker(engine))
		}
		client := redis.NewClient(&redis.Options{Addr: r.Addr})
		defer client.Close()
		allow := askRate(client)
		samples := make([]sample, passes)
		for i := range samples {
			if samples[i].ours, err = perCall(r, func(i int) error { return all[i%nodes].alive() }); err != nil {
				return nil, err
			}
			if samples[i].peer, err = perCall(r, func(int) error { return allow() }); err != nil {
				return nil, err
			}
		}
		return samples, nil
	}
}

// alive asks, and does not mind that it is another's turn.
func (a *asker) alive() error {
	a.items[0].Seq++
	answers, err := a.s.Exchange(context.Background(), a.node, a.items[:])
	if err != nil {
		return err
	}
	a.items[0].Epoch, a.items[0].Seen = answers[0].Epoch, answers[0].Gen
	return nil
}

// perCall is how many nanoseconds the server was at each EVALSHA.
func perCall(r *servers.RedisServer, call func(i int) error) (float64, error) {
	for i := range 2000 {
		if i == 1000 {
			r.Do("CONFIG", "RESETSTAT")
		}
		if err := call(i); err != nil {
			return 0, err
		}
	}
	text, err := r.Do("INFO", "commandstats")
	if err != nil {
		return 0, err
	}
	_, text, _ = strings.Cut(text, "cmdstat_evalsha:")
	_, text, _ = strings.Cut(text, "usec_per_call=")
	text, _, _ = strings.Cut(text, ",")
	us, err := strconv.ParseFloat(text, 64)
	return us * 1000, err
}
