package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// 3 permits at once, and then one every 100 ms.
func ExampleRate() {
	r, err := limiter.NewRate(limiter.RateConfig{Rate: 10, Burst: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	for range 5 {
		fmt.Print(r.AllowAt(now, 1), " ")
	}
	fmt.Println(r.Try(now, 1))
	fmt.Println(r.AllowAt(now.Add(100*time.Millisecond), 1))
	// Output:
	// true true true false false 100ms
	// true
}

func ExampleRate_Wait() {
	r, _ := limiter.NewRate(limiter.RateConfig{Rate: 100, Burst: 1})
	begin := time.Now()
	for range 4 {
		if err := r.Wait(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("30 ms for three more than the burst:", time.Since(begin) >= 30*time.Millisecond)
	// Output: 30 ms for three more than the burst: true
}

// A call that could not be made before its deadline is turned away at once.
func ExampleRate_WaitN() {
	r, _ := limiter.NewRate(limiter.RateConfig{Rate: 1, Burst: 60})
	r.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := r.WaitN(ctx, 60)
	if limited, ok := errors.AsType[*limiter.LimitedError](err); ok {
		fmt.Println(errors.Is(err, limiter.ErrLimited), limited.RetryAfter().Round(time.Minute))
	}
	err = r.WaitN(ctx, 61)
	fmt.Println(err)
	// Output:
	// true 1m0s
	// limiter: more permits than the limit ever holds
}

// Permits of the future are there for who knows how to wait.
func ExampleRate_Reserve() {
	r, _ := limiter.NewRate(limiter.RateConfig{Rate: 1, Burst: 1})
	now := time.Now()
	first, second, third := r.ReserveAt(now, 1), r.ReserveAt(now, 1), r.ReserveAt(now, 1)
	fmt.Println(first.Delay(), second.Delay(), third.Delay())

	second.Cancel() // the third keeps its time
	next := r.ReserveAt(now, 1)
	fmt.Println(next.OK(), next.Delay())
	// Output:
	// 0s 1s 2s
	// true 1s
}

// What a vendor says is left counts if it is less than what the Rate has.
func ExampleRate_SetRemaining() {
	r, _ := limiter.NewRate(limiter.RateConfig{Rate: 1.0 / 60, Burst: 100})
	for _, left := range []int{40, 38, 39} { // X-RateLimit-Remaining of three answers
		r.SetRemaining(left)
	}
	fmt.Printf("%.0f permits\n", r.Tokens())
	// Output: 38 permits
}

func ExampleRate_SetRate() {
	r, _ := limiter.NewRate(limiter.RateConfig{Rate: 10, Burst: 5})
	if err := r.SetRate(-1); err != nil {
		fmt.Println(err)
	}
	if err := errors.Join(r.SetRate(20), r.SetBurst(8)); err != nil {
		fmt.Println(err)
	}
	rate, burst := r.Limits()
	fmt.Printf("%v per second, %d at once; %.0f there are now\n", rate, burst, r.Tokens())
	// Output:
	// limiter: RateConfig.Rate is -1, want one per century up to 1e9 per second
	// 20 per second, 8 at once; 5 there are now
}

// 5 calls per minute for each tenant, 2 of them at once.
func ExampleKeyed() {
	k, err := limiter.NewKeyed(limiter.KeyedConfig{Rate: 5.0 / 60, Burst: 2, MaxKeys: 1_000_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	for _, tenant := range []string{"alice", "alice", "alice", "bob"} {
		fmt.Println(tenant, k.AllowAt(now, tenant, 1))
	}
	fmt.Println(k.Try(now, "alice", 1).Round(time.Second))
	// Output:
	// alice true
	// alice true
	// alice false
	// bob true
	// 12s
}

func ExampleLimitedError() {
	k, _ := limiter.NewKeyed(limiter.KeyedConfig{Rate: 1.0 / 60, Burst: 1})
	for range 2 {
		if limited, ok := errors.AsType[*limiter.LimitedError](k.Take("alice", 1)); ok {
			fmt.Printf("HTTP 429, Retry-After: %.0f, for %s\n", limited.RetryAfter().Round(time.Minute).Seconds(), limited.Key)
		}
	}
	// Output: HTTP 429, Retry-After: 60, for alice
}
