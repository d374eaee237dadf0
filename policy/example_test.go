package policy_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

var errDown = errors.New("down")

// must is for configurations that are part of the program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleChain() {
	guarded := policy.Chain( // once, outermost first
		must(policy.NewFallback(policy.FallbackConfig{With: policy.Value("nobody")})),
		must(policy.NewBulkhead(policy.BulkheadConfig{Max: 10})),
		must(policy.NewTimeout(policy.TimeoutConfig{After: 5 * time.Second})),
	)

	name, err := policy.Do(context.Background(), guarded, func(ctx context.Context) (string, error) {
		return "", errDown
	})
	fmt.Println(name, err)
	// Output: nobody <nil>
}

func ExampleStack() {
	guarded := policy.Stack( // into the usual order
		must(policy.NewTimeout(policy.TimeoutConfig{})),
		must(policy.NewBulkhead(policy.BulkheadConfig{Name: "reports"})),
		must(policy.NewFallback(policy.FallbackConfig{With: policy.Value(0)})),
	)
	for _, layer := range policy.Describe(guarded) {
		fmt.Println(layer)
	}
	// Output:
	// fallback(10 at once)
	// bulkhead reports(25 at once)
	// timeout(1s)
}

func ExampleWrap1() {
	guarded := policy.Chain(must(policy.NewTimeout(policy.TimeoutConfig{})))
	square := policy.Wrap1(guarded, func(ctx context.Context, n int) (int, error) { return n * n, nil })

	fmt.Println(square(context.Background(), 7)) // a function as before
	// Output: 49 <nil>
}

func ExampleTimeout() {
	timeout := must(policy.NewTimeout(policy.TimeoutConfig{Name: "search", After: 10 * time.Millisecond}))

	err := policy.Run(context.Background(), policy.Chain(timeout), func(ctx context.Context) error {
		<-ctx.Done() // heeds its context
		return ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, policy.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// policy: search: timeout after 10ms: context deadline exceeded
	// true true
}

// A function that does not heed its context is left behind.
func ExampleTimeoutConfig_abandon() {
	timeout := must(policy.NewTimeout(policy.TimeoutConfig{After: 10 * time.Millisecond, Abandon: true}))
	release := make(chan struct{})

	err := policy.Run(context.Background(), policy.Chain(timeout), func(context.Context) error {
		<-release
		return nil
	})
	if late, ok := errors.AsType[*policy.TimeoutError](err); ok {
		fmt.Println(late.Ignored, timeout.Abandoned())
	}
	close(release)
	// Output: true 1
}

// A time limit that depends on the call.
func ExampleTimeoutConfig_afterFor() {
	type limitKey struct{}
	timeout := must(policy.NewTimeout(policy.TimeoutConfig{AfterFor: func(ctx context.Context) time.Duration {
		d, _ := ctx.Value(limitKey{}).(time.Duration)
		return d // 0: the default
	}}))

	ctx := context.WithValue(context.Background(), limitKey{}, time.Minute)
	_ = policy.Run(ctx, policy.Chain(timeout), func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		fmt.Println(time.Until(deadline).Round(time.Minute))
		return nil
	})
	// Output: 1m0s
}

func ExampleBulkhead() {
	bulkhead := must(policy.NewBulkhead(policy.BulkheadConfig{Name: "reports", Max: 1}))
	guarded := policy.Chain(bulkhead)
	nothing := func(context.Context) error { return nil }

	_ = policy.Run(context.Background(), guarded, func(ctx context.Context) error {
		fmt.Println(bulkhead.InUse())
		err := policy.Run(ctx, guarded, nothing) // a second call
		fmt.Println(err, errors.Is(err, policy.ErrFull))
		return nil
	})
	fmt.Println(bulkhead.SetMax(2), bulkhead)
	// Output:
	// 1
	// policy: reports: full (1 at once) true
	// <nil> bulkhead reports(2 at once)
}

// Calls that find no room wait for it, in turn.
func ExampleBulkheadConfig_maxWait() {
	bulkhead := must(policy.NewBulkhead(policy.BulkheadConfig{Max: 1, MaxWait: 10 * time.Millisecond, MaxQueue: 100}))

	ctx := context.Background()
	if err := bulkhead.Acquire(ctx); err == nil { // without a chain
		defer bulkhead.Release()
	}
	fmt.Println(bulkhead.Acquire(ctx))
	// Output: policy: full (1 at once) after waiting 10ms
}

func ExampleFallback() {
	yesterday := policy.Func(func(ctx context.Context, err error) (string, error) {
		return "yesterday's report, since " + err.Error(), nil
	})
	fallback := must(policy.NewFallback(policy.FallbackConfig{
		With: yesterday,
		If:   policy.OnError(func(err error) bool { return errors.Is(err, errDown) }),
	}))

	report, err := policy.Do(context.Background(), policy.Chain(fallback), func(context.Context) (string, error) { return "", errDown })
	fmt.Println(report, err)
	// Output: yesterday's report, since down <nil>
}

// A result may be what calls for a substitute.
func ExampleOnResult() {
	fallback := must(policy.NewFallback(policy.FallbackConfig{
		With: policy.Value([]string{"nothing yet"}),
		If:   policy.OnResult(func(rows []string) bool { return len(rows) == 0 }),
	}))

	rows, err := policy.Do(context.Background(), policy.Chain(fallback), func(context.Context) ([]string, error) { return nil, nil })
	fmt.Println(rows, err)
	// Output: [nothing yet] <nil>
}

func ExampleHedge() {
	hedge := must(policy.NewHedge(policy.HedgeConfig{Delay: 10 * time.Millisecond}))

	replica, err := policy.Do(context.Background(), policy.Chain(hedge), func(ctx context.Context) (int, error) {
		n := policy.HedgeAttempt(ctx)
		if n == 1 {
			<-ctx.Done() // slow, until it has lost
		}
		return n, ctx.Err()
	})
	fmt.Println(replica, err)
	// Output: 2 <nil>
}

// Further attempts begin after what most calls take, and only as many as the
// budget allows.
func ExampleHedgeConfig_quantile() {
	budget := must(policy.NewBudget(policy.BudgetConfig{}))
	hedge := must(policy.NewHedge(policy.HedgeConfig{Quantile: 0.95, Delay: time.Second, Budget: budget}))
	fmt.Println(hedge)
	// Output: hedge(1 more after the 0.95 quantile, 20% of calls, at least 3)
}

// With a Delay below 0, the next attempt begins when the one before has failed.
func ExampleHedgeConfig_afterFailure() {
	hedge := must(policy.NewHedge(policy.HedgeConfig{Delay: -1, Max: 2}))

	host, err := policy.Do(context.Background(), policy.Chain(hedge), func(ctx context.Context) (string, error) {
		host := []string{"primary", "secondary", "tertiary"}[policy.HedgeAttempt(ctx)-1]
		if host != "tertiary" {
			return "", errDown
		}
		return host, nil
	})
	fmt.Println(host, err)
	// Output: tertiary <nil>
}

// With Parallel, all attempts begin at once, and the first good one wins.
func ExampleHedgeConfig_parallel() {
	hedge := must(policy.NewHedge(policy.HedgeConfig{Parallel: true, Max: 2, Good: policy.OnResult(func(rows int) bool { return rows > 0 })}))

	rows, err := policy.Do(context.Background(), policy.Chain(hedge), func(ctx context.Context) (int, error) {
		return policy.HedgeAttempt(ctx) / 3, nil // only the third has any
	})
	fmt.Println(rows, err)
	// Output: 1 <nil>
}

func ExampleBudget() {
	budget := must(policy.NewBudget(policy.BudgetConfig{Ratio: 0.5, Min: 1}))
	for range 4 {
		budget.Begin() // four calls in flight
	}
	fmt.Println(budget.Take(), budget.Take(), budget.Take()) // two may be repeated
	fmt.Printf("%+v\n", budget.State())
	budget.GiveBack() // one repetition has ended
	fmt.Println(budget.Take())
	// Output:
	// true true false
	// {Calls:4 Repetitions:2 Most:2}
	// true
}

func ExampleCache() {
	calls := 0
	user := policy.Wrap1(
		policy.Chain(must(policy.NewCache(policy.CacheConfig[int, string]{TTL: time.Minute, StaleIfError: time.Hour}))),
		func(ctx context.Context, id int) (string, error) { calls++; return fmt.Sprint("user ", id), nil },
	)

	for _, id := range []int{7, 7, 8, 7} {
		name, err := user(policy.WithKey(context.Background(), id), id)
		fmt.Println(name, err)
	}
	fmt.Println(calls, "calls")
	// Output:
	// user 7 <nil>
	// user 7 <nil>
	// user 8 <nil>
	// user 7 <nil>
	// 2 calls
}

// A cache needs no chain. Its key may be found by a function, and what it keeps may
// be bounded, chosen and forgotten.
func ExampleCache_Do() {
	cache := must(policy.NewCache(policy.CacheConfig[string, int]{
		If:         func(n int) bool { return n > 0 },
		MaxEntries: 100,
	}))
	n := 0
	count := func(context.Context) (int, error) { n++; return n, nil }

	ctx := context.Background()
	fmt.Println(cache.Do(ctx, "a", count))
	fmt.Println(cache.Do(ctx, "a", count))
	cache.Invalidate("a")
	fmt.Println(cache.Do(ctx, "a", count))
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 2 <nil>
}

// The Storage of a Cache is an interface of three methods; LRU is one.
func ExampleLRU() {
	lru := must(policy.NewLRU[string, int](2))
	for i, key := range []string{"a", "b", "c"} {
		lru.Set(key, policy.Entry[int]{Value: i})
	}
	_, known := lru.Get("a")
	fmt.Println(lru.Len(), known)

	cache := must(policy.NewCache(policy.CacheConfig[string, int]{Storage: lru}))
	fmt.Println(cache)
	// Output:
	// 2 false
	// cache(1m0s)
}

func ExampleCollapse() {
	users := must(policy.NewCollapse(policy.CollapseConfig[int, string]{
		MaxBatch: 2, // the most that the API takes at once
		Window:   time.Minute,
		Batch: func(ctx context.Context, ids []int) (map[int]string, error) {
			names := map[int]string{}
			for _, id := range ids {
				names[id] = fmt.Sprint("user ", id)
			}
			fmt.Println(len(ids), "in one call")
			return names, nil
		},
	}))
	defer users.Close()

	done := make(chan string)
	for _, id := range []int{7, 8} {
		go func() {
			name, err := users.Do(context.Background(), id)
			done <- fmt.Sprint(name, " ", err)
		}()
	}
	a, b := <-done, <-done
	fmt.Println(min(a, b))
	fmt.Println(max(a, b))
	// Output:
	// 2 in one call
	// user 7 <nil>
	// user 8 <nil>
}

// Layers go around each call for a key, and around the one call for many.
func ExampleCollapse_layers() {
	many := policy.Chain(must(policy.NewTimeout(policy.TimeoutConfig{})))
	users := must(policy.NewCollapse(policy.CollapseConfig[int, string]{
		Batch: policy.Wrap1(many, func(ctx context.Context, ids []int) (map[int]string, error) {
			return map[int]string{7: "seven"}, policy.KeyErrors[int]{8: errDown}
		}),
	}))
	each := policy.Chain(must(policy.NewFallback(policy.FallbackConfig{With: policy.Value("unknown")})))
	user := policy.Wrap1(each, users.Do)

	fmt.Println(user(context.Background(), 7))
	fmt.Println(user(context.Background(), 8))
	// Output:
	// seven <nil>
	// unknown <nil>
}

func ExampleSaga() {
	saga := must(policy.NewSaga(policy.SagaConfig{UndoTimeout: time.Minute}))

	err := saga.Run(context.Background(), func(ctx context.Context, steps *policy.Steps) error {
		id, err := policy.Step(ctx, steps,
			func(ctx context.Context) (int, error) { fmt.Println("create campaign"); return 7, nil },
			func(ctx context.Context, id int) error { fmt.Println("delete campaign", id); return nil })
		if err != nil {
			return err
		}
		_, err = policy.Step(ctx, steps,
			func(ctx context.Context) (int, error) { fmt.Println("add budget to", id); return 0, errDown },
			func(ctx context.Context, id int) error { fmt.Println("not done, not undone"); return nil })
		return err
	})
	fmt.Println(err)
	// Output:
	// create campaign
	// add budget to 7
	// delete campaign 7
	// down
}

// Every policy maps its errors and reports what it decides.
func Example_hooks() {
	var bus event.Bus
	heard := make(chan string)
	bus.Listen(func(e event.Event) { heard <- fmt.Sprintf("%s: %v", e.Name, e.Kind) }, event.BulkheadFull)
	defer bus.Close()

	errBusy := errors.New("busy, try later")
	bulkhead := must(policy.NewBulkhead(policy.BulkheadConfig{
		Name: "reports", Max: 1,
		OnEvent: bus.Emit,
		OnError: func(err error) error {
			if errors.Is(err, policy.ErrFull) {
				return errBusy
			}
			return err
		},
	}))
	bulkhead.TryAcquire()
	fmt.Println(bulkhead.Acquire(context.Background()))
	fmt.Println(<-heard)
	// Output:
	// busy, try later
	// reports: bulkhead full
}

// A layer of one's own is three methods.
type audit struct{}

func (audit) Layer() policy.Layer { return policy.BreakerLayer }
func (audit) String() string      { return "audit" }

func (audit) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		defer fmt.Println("audit: over") // also after a panic
		err := next(c)
		rows, ok := policy.Result[int](c)
		fmt.Println("audit:", rows, ok, err)
		return err
	}
}

func ExamplePolicy() {
	rows, err := policy.Do(context.Background(), policy.Chain(audit{}), func(context.Context) (int, error) { return 3, nil })
	fmt.Println(rows, err)
	// Output:
	// audit: 3 true <nil>
	// audit: over
	// 3 <nil>
}
