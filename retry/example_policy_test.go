package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// A Retry is a layer: what is further in is repeated with all its layers.
func ExampleNew() {
	retries, err := retry.New(retry.Config{
		Attempts: 4,
		Backoff:  backoff.FullJitter{Of: backoff.Exponential{Initial: time.Millisecond, Max: time.Second}},
		RetryIf:  func(err error) bool { return errors.Is(err, errBusy) || errors.Is(err, policy.ErrTimeout) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	timeout, err := policy.NewTimeout(policy.TimeoutConfig{After: time.Second}) // of each attempt
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := policy.Chain(retries, timeout)

	n := 0
	v, err := policy.Do(context.Background(), chain, func(ctx context.Context) (string, error) {
		if n++; n < 3 {
			return "", errBusy
		}
		return "done", nil
	})
	fmt.Println(v, err, n)
	// Output: done <nil> 3
}

// A job is asked for until it is no longer pending. When it still is in the end,
// that is a failure; without FailOnResult it would be the result.
func ExampleConfig_retryOnResult() {
	cfg := retry.Config{
		Attempts:      3,
		Backoff:       backoff.None,
		RetryOnResult: policy.OnResult(func(state string) bool { return state == "pending" }),
		FailOnResult:  true,
	}
	for _, done := range []int{2, 9} {
		n := 0
		state, err := retry.Do(context.Background(), cfg, func(context.Context) (string, error) {
			if n++; n < done {
				return "pending", nil
			}
			return "done", nil
		})
		fmt.Println(state, errors.Is(err, retry.ErrResult))
	}
	// Output:
	// done false
	// pending true
}

// When everything fails, all callers together repeat no more than the budget has.
func ExampleConfig_budget() {
	budget, err := policy.NewBudget(policy.BudgetConfig{Ratio: -1, Min: 1}) // one at a time
	if err != nil {
		fmt.Println(err)
		return
	}
	budget.Take() // by another call
	_, err = retry.Do(context.Background(), retry.Config{Backoff: backoff.None, Budget: budget},
		func(context.Context) (int, error) { return 0, errBusy })
	if e, ok := errors.AsType[*retry.ExhaustedError](err); ok {
		fmt.Println(e.Attempts, e.Reason)
	}
	// Output: 1 out of budget
}

// page is a result that holds something until it is closed.
type page struct{ open *int }

func (p *page) Close() { *p.open-- }

// A result that is to be replaced is closed first.
func ExampleConfig_beforeRetry() {
	cfg := retry.Config{
		Backoff:       backoff.None,
		RetryOnResult: policy.OnResult(func(p *page) bool { return p != nil }),
		BeforeRetry: func(c *policy.Call) {
			if p, ok := policy.Result[*page](c); ok && p != nil {
				p.Close()
			}
		},
	}
	open := 0
	_, err := retry.Do(context.Background(), cfg, func(context.Context) (*page, error) {
		open++
		return &page{&open}, nil
	})
	fmt.Println(open, err) // of three, the last
	// Output: 1 <nil>
}

// Time may pass in another way: here it does not.
func ExampleConfig_wait() {
	var waited time.Duration
	cfg := retry.Config{
		Attempts: 4,
		Wait:     func(ctx context.Context, d time.Duration) error { waited += d; return ctx.Err() },
	}
	_, err := retry.Do(context.Background(), cfg, func(context.Context) (int, error) { return 0, errBusy })
	fmt.Println(waited, errors.Is(err, errBusy))
	// Output: 3.5s true
}

// What leaves the retry may be told in the program's own words.
func ExampleConfig_onError() {
	errTryLater := errors.New("the shop is closed, try later")
	cfg := retry.Config{
		Backoff: backoff.None,
		OnError: func(err error) error {
			if errors.Is(err, retry.ErrExhausted) {
				return errTryLater
			}
			return err
		},
	}
	retries, err := retry.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(policy.Run(context.Background(), policy.Chain(retries), func(context.Context) error { return errBusy }))
	// Output: the shop is closed, try later
}

func ExampleConfig_onEvent() {
	cfg := retry.Config{
		Name:    "list",
		Backoff: backoff.Constant(time.Millisecond),
		OnEvent: func(e event.Event) { fmt.Println(e.Name, e.Kind, e.Attempt, e.Err) },
	}
	n := 0
	_, _ = retry.Do(context.Background(), cfg, func(context.Context) (int, error) {
		if n++; n < 3 {
			return 0, errBusy
		}
		return n, nil
	})
	// Output:
	// list retry 1 busy
	// list retry 2 busy
	// list recovered 3 <nil>
}

// A heartbeat: the first one, and two more.
func ExampleRepeat() {
	n := 0
	last, err := retry.Repeat(context.Background(), backoff.And(backoff.Times(2), backoff.Constant(time.Millisecond)),
		func(context.Context) (int, error) { n++; return n, nil })
	fmt.Println(last, err)
	// Output: 3 <nil>
}
