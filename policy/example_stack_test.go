package policy_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/chaos"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// All layers, given in any order, in their usual one.
func Example() {
	guarded := policy.Stack(
		must(chaos.Fault(chaos.Config{}, func(context.Context) error { return errDown })),
		must(policy.NewTimeout(policy.TimeoutConfig{After: 2 * time.Second})),
		must(policy.NewBulkhead(policy.BulkheadConfig{Max: 50, MaxWait: time.Second})),
		must(breaker.New(breaker.Config{WindowTime: 10 * time.Second, MinCalls: 20})),
		must(retry.New(retry.Config{Backoff: backoff.Constant(100 * time.Millisecond)})),
		must(policy.NewFallback(policy.FallbackConfig{With: policy.Value("nobody")})),
		must(policy.NewCache(policy.CacheConfig[int, string]{})),
	)
	fmt.Println(strings.Join(policy.Describe(guarded), "\n"))

	name := policy.Wrap1(guarded, func(ctx context.Context, id int) (string, error) { return fmt.Sprint("user ", id), nil })
	fmt.Println(name(policy.WithKey(context.Background(), 7), 7))
	// Output:
	// cache(1m0s)
	// fallback(10 at once)
	// retry(3 attempts, 100ms)
	// breaker(0.5 of calls in 10s)
	// bulkhead(50 at once, waits 1s)
	// timeout(2s)
	// chaos(fault, 0.001)
	// user 7 <nil>
}
