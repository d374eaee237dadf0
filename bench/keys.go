package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// E5 and E6: the memory that a Redis has for keys, in use and gone. Both are measured
// once, as they hardly vary: each exchange of so many costs the server some 50 µs.
func init() {
	add(
		row{id: "E5", what: "a key in Redis that was used once, of 100,000", peer: "a hash of one field", unit: "B",
			target: []bound{{amount, 1024}}, measure: once(idleKeys(store.Window), 100_000)},
		row{id: "E5sliding", what: "the same, of a limit over a sliding window", peer: "a hash of one field", unit: "B",
			target: []bound{{amount, 1024}}, measure: once(idleKeys(store.Sliding), 100_000)},
		row{id: "E6", what: "memory of a Redis in which a million keys came and went, 100,000 at a time", peer: "after the first 100,000", unit: "B",
			target: []bound{{ratio, 1.1}}, measure: once(churned, 100_000)},
	)
}

// once measures n keys, and has every pass be the same.
func once(measure func(ctx context.Context, n int) (sample, error), n int) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
		defer cancel()
		s, err := measure(ctx, n)
		if err != nil {
			return nil, err
		}
		return slices.Repeat([]sample{s}, passes), nil
	}
}

// idleKeys measures keys of a limit of that kind.
func idleKeys(kind store.Kind) func(ctx context.Context, n int) (sample, error) {
	return func(ctx context.Context, n int) (sample, error) {
		r, engine, end, err := redisEngine()
		if err != nil {
			return sample{}, err
		}
		defer end()
		client := redis.NewClient(&redis.Options{Addr: r.Addr})
		defer client.Close()
		before, err := infoMemory(r, "used_memory")
		if err != nil {
			return sample{}, err
		}
		if err := askKeys(ctx, engine, kind, 0, n); err != nil {
			return sample{}, err
		}
		between, err := infoMemory(r, "used_memory")
		if err != nil {
			return sample{}, err
		}
		for begin := 0; begin < n; begin += lot {
			p := client.Pipeline()
			for i := range lot {
				p.HSet(ctx, "peer:"+strconv.Itoa(begin+i), "f", 1)
			}
			if _, err := p.Exec(ctx); err != nil {
				return sample{}, err
			}
		}
		after, err := infoMemory(r, "used_memory")
		return sample{ours: (between - before) / float64(n), peer: (after - between) / float64(n)}, err
	}
}

// churned has n keys come ten times, and go as they do after a day.
func churned(ctx context.Context, n int) (sample, error) {
	r, engine, end, err := redisEngine()
	if err != nil {
		return sample{}, err
	}
	defer end()
	client := redis.NewClient(&redis.Options{Addr: r.Addr})
	defer client.Close()
	var s sample
	var rss []float64
	for round := range 10 {
		if err := askKeys(ctx, engine, store.Window, round*n, n); err != nil {
			return s, err
		}
		if err := expireKeys(ctx, client, round*n, n); err != nil {
			return s, err
		}
		// What the allocator has not given back yet would be most of it.
		if _, err := r.Do("MEMORY", "PURGE"); err != nil {
			return s, err
		}
		time.Sleep(500 * time.Millisecond) // the server looks at it ten times a second
		now, err := infoMemory(r, "used_memory_rss")
		if err != nil {
			return s, err
		}
		rss = append(rss, now)
	}
	s.peer, s.ours = rss[0], median(rss[5:])
	return s, nil
}

// lot is how many keys are asked for at once. It divides all numbers of them.
const lot = 200

// askKeys has a node take a permit of each of n keys, from the number from on.
func askKeys(ctx context.Context, engine store.Store, kind store.Kind, from, n int) error {
	node := store.NewNode()
	limits := []store.Limit{{Kind: kind, Quota: quota, Per: period}}
	items := make([]store.Item, lot)
	for begin := from; begin < from+n; begin += lot {
		for i := range items {
			items[i] = store.Item{Key: "k" + strconv.Itoa(begin+i), Seq: 1, Limits: limits, Version: 1, Want: 1}
		}
		answers, err := engine.Exchange(ctx, node, items)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil || a.Granted != 1 {
				return fmt.Errorf("not granted: %+v", a)
			}
		}
	}
	return nil
}

// expireKeys ends those of askKeys, and waits until they are gone.
func expireKeys(ctx context.Context, client *redis.Client, from, n int) error {
	for begin := from; begin < from+n; begin += lot {
		p := client.Pipeline()
		var all []*redis.BoolCmd
		for i := range lot {
			all = append(all, p.PExpire(ctx, "gov:{k"+strconv.Itoa(begin+i)+"}", time.Millisecond))
		}
		if _, err := p.Exec(ctx); err != nil {
			return err
		}
		for _, was := range all {
			if !was.Val() {
				return errors.New("a key is not there")
			}
		}
	}
	return until(ctx, func() error { // the server looks for what has expired now and then
		left, err := client.DBSize(ctx).Result()
		if err == nil && left > 1 { // the witness stays
			err = fmt.Errorf("%d keys are left", left)
		}
		return err
	})
}

// infoMemory is a number of the server's INFO memory.
func infoMemory(r *servers.RedisServer, name string) (float64, error) {
	text, err := r.Do("INFO", "memory")
	if err != nil {
		return 0, err
	}
	_, text, found := strings.Cut(text, "\n"+name+":")
	if !found {
		return 0, errors.New("INFO memory has no " + name)
	}
	text, _, _ = strings.Cut(text, "\r")
	return strconv.ParseFloat(text, 64)
}
