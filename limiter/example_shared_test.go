package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// The zero value is a server's: 1000 calls of a client in a minute, and no queue.
func ExampleShared() {
	s, err := limiter.NewShared(limiter.SharedConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Allow("alice", 1000))
	err = s.Allow("alice", 1)
	after, ok := retry.RetryAfter(err)
	fmt.Println(errors.Is(err, limiter.ErrLimited), governor.IsRefused(err), ok, after > 50*time.Second)
	fmt.Println(s.Allow("bob", 1))
	// Output:
	// <nil>
	// true true true true
	// <nil>
}

// Ten a second for each key and 100 for all together, waiting up to 2 s.
func ExampleShared_Wait() {
	each, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10})
	if err != nil {
		log.Fatal(err)
	}
	all, err := limiter.NewBucket(limiter.BucketConfig{Rate: 100})
	if err != nil {
		log.Fatal(err)
	}
	s, err := limiter.NewShared(limiter.SharedConfig{
		Limiters: []limiter.Limiter{each}, Whole: []limiter.Limiter{all},
		MaxQueue: 50, MaxWait: 2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	for range 12 {
		if err := s.Wait(context.Background(), "alice", 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(began) >= 200*time.Millisecond)

	s.Allow("alice", 1)
	if e, ok := errors.AsType[*limiter.LimitedError](s.Wait(context.Background(), "alice", 11)); ok {
		fmt.Println(e.Reason, e.Permanent())
	}
	// Output:
	// true
	// more permits than the limit ever holds true
}

// A call is made when its turn comes, and what the vendor answers empties the
// limit.
func ExampleDo() {
	quota := errors.New("quota exceeded")
	s, err := limiter.NewShared(limiter.SharedConfig{
		DrainOn: policy.OnError(func(err error) bool { return errors.Is(err, quota) }),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(limiter.Do(context.Background(), s, "acme", 1, func(context.Context) (int, error) { return 42, nil }))
	fmt.Println(limiter.Do(context.Background(), s, "acme", 1, func(context.Context) (int, error) { return 0, quota }))
	fmt.Println(errors.Is(s.Allow("acme", 1), limiter.ErrLimited)) // 998 are left, and gone
	// Output:
	// 42 <nil>
	// 0 quota exceeded
	// true
}

// A place in the queue, for code that waits for other things, too.
func ExampleShared_Reserve() {
	l, err := limiter.NewLeaky(limiter.LeakyConfig{Rate: 20})
	if err != nil {
		log.Fatal(err)
	}
	s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{l}, MaxQueue: 10})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Allow("", 1)
	r := s.Reserve("", 1)
	select {
	case <-r.Done():
		fmt.Println("admitted:", r.Err())
	case <-time.After(10 * time.Second):
		r.Cancel()
	}
	// Output: admitted: <nil>
}

// A limit changed at run time, under the lock of its owner.
func ExampleShared_Update() {
	c, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	s, err := limiter.NewShared(limiter.SharedConfig{Limiters: []limiter.Limiter{c}, MaxQueue: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Allow("", 1)
	waiting := s.Reserve("", 1)
	s.Update(func(now time.Time) { err = c.SetLimit(now, 2) })
	fmt.Println(err, waiting.Err())
	// Output: <nil> <nil>
}

// A Shared as a layer: each tenant has 1000 calls a minute, and a call that a layer
// further in does not make costs none of them.
func ExampleShared_Wrap() {
	type tenant struct{}
	limits, err := limiter.NewShared(limiter.SharedConfig{
		Key: func(ctx context.Context) string { name, _ := ctx.Value(tenant{}).(string); return name },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	chain := policy.Chain(limits)
	alice := context.WithValue(context.Background(), tenant{}, "alice")
	fmt.Println(policy.Do(alice, chain, func(context.Context) (string, error) { return "done", nil }))
	limits.Drain("alice")
	_, err = policy.Do(alice, chain, func(context.Context) (string, error) { return "done", nil })
	fmt.Println(errors.Is(err, limiter.ErrLimited))
	fmt.Println(policy.Describe(chain))
	// Output:
	// done <nil>
	// true
	// [limiter(1 limit)]
}

// A Rate as a layer, for whose permits a call waits up to a second.
func ExampleNewRateLayer() {
	rate, err := limiter.NewRate(limiter.RateConfig{Rate: 10, Burst: 2})
	if err != nil {
		log.Fatal(err)
	}
	layer, err := limiter.NewRateLayer(rate, limiter.RateLayerConfig{MaxWait: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	chain := policy.Chain(layer)
	begin := time.Now()
	for range 4 {
		if err := policy.Run(context.Background(), chain, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(chain, time.Since(begin) > 150*time.Millisecond)
	// Output: limiter(10/s, 2 at once, waits 1s) true
}
