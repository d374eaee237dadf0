package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/retry"
)

var errBusy = errors.New("busy")

func ExampleDo() {
	n := 0
	v, err := retry.Do(context.Background(), retry.Config{Backoff: backoff.Constant(time.Millisecond)},
		func(ctx context.Context) (string, error) {
			if n++; n < 3 {
				return "", errBusy
			}
			return "done", nil
		})
	fmt.Println(v, err, n)
	// Output: done <nil> 3
}

func ExampleConfig_Next() {
	c := retry.Config{Attempts: 4, Backoff: backoff.Linear{Initial: time.Second}, MaxElapsed: 10 * time.Second}
	fmt.Println(c.Next(backoff.Step{Attempt: 1, Err: errBusy}))
	fmt.Println(c.Next(backoff.Step{Attempt: 2, Elapsed: 3 * time.Second, Err: retry.After(5*time.Second, errBusy)}))
	fmt.Println(c.Next(backoff.Step{Attempt: 3, Elapsed: 9 * time.Second, Err: errBusy}))
	fmt.Println(c.Next(backoff.Step{Attempt: 4, Err: errBusy}))
	fmt.Println(c.Next(backoff.Step{Attempt: 1, Err: context.Canceled}))
	// Output:
	// 1s true again
	// 5s true again
	// 0s false out of time
	// 0s false out of attempts
	// 0s false ignored
}

func ExamplePermanent() {
	n := 0
	_, err := retry.Do(context.Background(), retry.Config{}, func(ctx context.Context) (int, error) {
		n++
		return 0, retry.Permanent(errors.New("no such account"))
	})
	fmt.Println(n, err, retry.IsPermanent(err))
	// Output: 1 no such account true
}

func ExampleAfter() {
	err := fmt.Errorf("list: %w", retry.After(15*time.Second, errBusy))
	fmt.Println(err)
	fmt.Println(retry.RetryAfter(err))
	// Output:
	// list: busy
	// 15s true
}

func ExampleExhaustedError() {
	_, err := retry.Do(context.Background(), retry.Config{Attempts: 2, Backoff: backoff.None},
		func(ctx context.Context) (int, error) { return 0, errBusy })
	if e, ok := errors.AsType[*retry.ExhaustedError](err); ok {
		fmt.Println(e.Attempts, e.Reason, e.Err)
	}
	fmt.Println(errors.Is(err, retry.ErrExhausted), errors.Is(err, errBusy))
	// Output:
	// 2 out of attempts busy
	// true true
}
