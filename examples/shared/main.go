// Command shared has two replicas of a program keep to one quota, and share their
// pauses, through Redis. Each has an http.Client of its own, as if it ran on a machine of
// its own; what makes them share is in client.
//
//	go run ./examples/shared -redis 127.0.0.1:6379
//
// Without -redis it starts a private redis-server. The API that they call is in this
// process: it lets 50 calls through in any second, and counts who comes too early.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/httpx"
	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/redisstore"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// quota is what the API documents.
var quota = limiter.QuotaConfig{Limit: 50, Per: time.Second}

// client returns an http.Client that shares quota, and what any replica is told to wait
// for, with all that use the same Redis. Close what it returns when no call is left.
func client(redis string) (*http.Client, io.Closer, error) {
	engine, err := redisstore.New(redisstore.Config{Addrs: []string{redis}})
	if err != nil {
		return nil, nil, err
	}
	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
	if err != nil {
		return nil, nil, errors.Join(err, engine.Close())
	}
	transport, err := httpx.New(httpx.Config{
		Host: func(host string) (governor.PlainConfig, error) {
			return governor.PlainConfig{
				Name:    "acme", // they share by it: "" would be the host
				Workers: 64,
				Store:   shared,
				Limits:  []governor.Limit{{Quota: quota}},
			}, nil
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, shared.Close(), engine.Close())
	}
	return &http.Client{Transport: transport}, closers{transport, shared, engine}, nil
}

// closers are closed in their order: who uses something before what it uses.
type closers []io.Closer

func (all closers) Close() (err error) {
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

func main() {
	redis := flag.String("redis", "", "address of a Redis; empty: a private one")
	calls := flag.Int("calls", 200, "calls of each replica")
	flag.Parse()
	h := &servers.Host{}
	var saw vendortest.Totals
	err := h.Try(func() {
		if *redis == "" {
			*redis = servers.Redis(h).Addr
		}
	})
	if err == nil {
		saw, err = run(*redis, 2, *calls)
	}
	h.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("the API let %d calls in and refused %d, %d of them begun in a pause\n", saw.Accepted, saw.Refused, saw.Late)
}

// run has each of so many replicas make so many calls, and returns what the API saw.
func run(redis string, replicas, calls int) (vendortest.Totals, error) {
	api, err := vendortest.NewServer(vendortest.ServerConfig{Quota: vendortest.Quota{Burst: quota.Limit, Window: quota.Per, Sliding: true}})
	if err != nil {
		return vendortest.Totals{}, err
	}
	server := httptest.NewServer(api)
	defer server.Close()

	errs := make([]error, replicas)
	var all sync.WaitGroup
	for i := range replicas {
		all.Go(func() { errs[i] = replica(redis, server.URL, fmt.Sprint("replica ", i+1), calls) })
	}
	all.Wait()
	return api.Totals(), errors.Join(errs...)
}

// replica is what one process does.
func replica(redis, url, name string, calls int) error {
	c, end, err := client(redis)
	if err != nil {
		return err
	}
	defer end.Close()
	begin := time.Now()
	errs := make([]error, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			answer, err := c.Get(url)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	fmt.Printf("%s: %d calls in %v\n", name, calls, time.Since(begin).Round(100*time.Millisecond))
	return errors.Join(errs...)
}
