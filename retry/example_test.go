package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/policy"
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

func ExampleDoWith() {
	patient, err := retry.New(retry.Config{Attempts: 5, Backoff: backoff.Constant(time.Millisecond)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"a", "b"} {
		n := 0
		v, err := retry.DoWith(context.Background(), patient, func(ctx context.Context) (string, error) {
			if n++; n < 3 {
				return "", errBusy
			}
			return name, nil
		})
		fmt.Println(v, err, n)
	}
	// Output:
	// a <nil> 3
	// b <nil> 3
}

// As a layer it describes itself, for tests that pin down how a program is guarded.
func ExampleNew_described() {
	patient, err := retry.New(retry.Config{Name: "acme", Attempts: 5, Backoff: backoff.FullJitter{Of: backoff.Exponential{Max: time.Minute}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := policy.Stack(patient)
	fmt.Println(p)
	fmt.Println(policy.Run(context.Background(), p, func(context.Context) error { return retry.Permanent(errBusy) }))
	// Output:
	// retry acme(5 attempts, full jitter(exponential 500ms x2 up to 1m0s))
	// busy
}

// A call whose attempts were all refused within was never sent: it may be sent
// elsewhere. One that was sent, and may have had its effect, is another matter.
func ExampleExhaustedError_Refused() {
	for _, sent := range []bool{false, true} {
		n := 0
		_, err := retry.Do(context.Background(), retry.Config{Backoff: backoff.None}, func(context.Context) (int, error) {
			if n++; n == 1 && sent {
				return 0, errBusy
			}
			return 0, &breaker.OpenError{}
		})
		e, _ := errors.AsType[*retry.ExhaustedError](err)
		fmt.Println(e.Err, "- refused:", e.Refused())
	}
	// Output:
	// breaker: open - refused: true
	// breaker: open - refused: false
}

// A server may ask for more than anybody would wait.
func ExampleConfig_maxRetryAfter() {
	cfg := retry.Config{MaxRetryAfter: time.Hour}
	wait, again, _ := cfg.Next(backoff.Step{Attempt: 1, Err: retry.After(100*365*24*time.Hour, errBusy)})
	fmt.Println(wait, again)
	// Output: 1h0m0s true
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

// statusError is a client's own error. Its methods are all that this package
// wants to know, so the client need not import it.
type statusError struct {
	status int
	wait   time.Duration // of Retry-After; -1 when there was none
}

func (e *statusError) Error() string             { return http.StatusText(e.status) }
func (e *statusError) RetryAfter() time.Duration { return e.wait }
func (e *statusError) Permanent() bool {
	return e.status < 500 && e.status != http.StatusTooManyRequests
}

// A call that creates something is repeated only after failures that say that it
// was not executed.
func ExampleConfig_retryIf() {
	cfg := retry.Config{
		Attempts: 3,
		Backoff:  backoff.None,
		RetryIf: func(err error) bool {
			e, ok := errors.AsType[*statusError](err)
			return ok && e.status == http.StatusServiceUnavailable // it was not executed
		},
	}
	for _, failure := range []error{
		&statusError{http.StatusServiceUnavailable, -1},
		errors.New("connection reset"),        // it may have been
		&statusError{http.StatusNotFound, -1}, // Permanent: RetryIf is not asked
	} {
		n := 0
		_, err := retry.Do(context.Background(), cfg, func(context.Context) (int, error) {
			n++
			return 0, failure
		})
		fmt.Println(n, errors.Is(err, retry.ErrExhausted), errors.Is(err, failure))
	}
	// Output:
	// 3 true true
	// 1 false true
	// 1 false true
}

// What a server asks for is waited at least, whatever the backoff says.
func ExampleRetryAfter() {
	cfg := retry.Config{Backoff: backoff.Constant(time.Second)}
	for _, wait := range []time.Duration{20 * time.Second, 0, -1} {
		err := fmt.Errorf("list campaigns: %w", &statusError{http.StatusServiceUnavailable, wait})
		hint, ok := retry.RetryAfter(err)
		next, _, _ := cfg.Next(backoff.Step{Attempt: 1, Err: err})
		fmt.Println(hint, ok, "- waits", next)
	}
	// Output:
	// 20s true - waits 20s
	// 0s true - waits 1s
	// 0s false - waits 1s
}

func ExampleIsPermanent() {
	err := errors.Join(errors.New("cache: miss"), &statusError{http.StatusForbidden, -1})
	fmt.Println(retry.IsPermanent(err), retry.IsPermanent(&statusError{http.StatusBadGateway, -1}))
	// Output: true false
}

// A wait that would outlast the deadline is not begun: who called has the time
// that is left for something else.
func ExampleDo_deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := retry.Do(ctx, retry.Config{Backoff: backoff.Constant(time.Hour)},
		func(context.Context) (int, error) { return 0, errBusy })
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, errBusy), ctx.Err())
	// Output: true true <nil>
}

// Validate tells of a configuration read from a file what is wrong with it before
// the first failure does.
func ExampleConfig_Validate() {
	for _, c := range []retry.Config{
		{},
		{MaxElapsed: -time.Second},
		{Backoff: backoff.Exponential{Initial: -time.Second}},
	} {
		err := c.Validate()
		fmt.Println(errors.Is(err, retry.ErrInvalid), err)
	}
	// Output:
	// false <nil>
	// true retry: invalid: MaxElapsed is -1s, less than 0
	// true retry: invalid: Backoff: backoff: invalid schedule: Exponential.Initial is -1s, less than 0
}

// Of a call that failed nobody may know whether it was executed: its answer may
// be all that got lost. A repetition looks first.
func ExampleFromContext() {
	created := false // at the vendor
	create := func(ctx context.Context) (string, error) {
		// The first call of Do is told nothing, that of a governor a 1.
		if info, _ := retry.FromContext(ctx); info.Attempt > 1 {
			fmt.Println("attempt", info.Attempt, "after:", info.Last)
			if created {
				return "campaign was there", nil
			}
		}
		created = true
		return "", errors.New("connection reset")
	}
	fmt.Println(retry.Do(context.Background(), retry.Config{Backoff: backoff.None}, create))
	// Output:
	// attempt 2 after: connection reset
	// campaign was there <nil>
}
