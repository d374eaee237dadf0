package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
)

var errNotFound = errors.New("not found")

func Example() {
	b, err := breaker.New(breaker.Config{Window: 10, MinCalls: 4})
	if err != nil {
		panic(err)
	}
	fetch := func(context.Context) (string, error) { return "", errors.New("connection refused") }
	for range 6 {
		_, err := breaker.Do(context.Background(), b, fetch)
		if errors.Is(err, breaker.ErrOpen) {
			fmt.Println("not called")
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// connection refused
	// connection refused
	// connection refused
	// connection refused
	// not called
	// not called
}

// Calls of the last ten seconds, of which a fifth has failed or half have taken
// more than two seconds.
func ExampleNew() {
	b, err := breaker.New(breaker.Config{
		WindowTime:  10 * time.Second,
		MinCalls:    20,
		FailureRate: 0.2,
		SlowRate:    0.5,
		SlowCall:    2 * time.Second,
	})
	fmt.Println(b.State(), err)

	_, err = breaker.New(breaker.Config{FailureRate: 20})
	fmt.Println(err)
	// Output:
	// closed <nil>
	// breaker: invalid: Config.FailureRate is 20, want more than 0 up to 1, or 0 for the default
}

// Five failures in a row, each outage that goes on being waited out for longer.
func ExampleConfig_consecutive() {
	b, _ := breaker.New(breaker.Config{
		Consecutive:   5,
		HalfOpenCalls: 1,
		OpenFor:       backoff.Exponential{Initial: time.Minute, Max: time.Hour},
	})
	for range 5 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	}
	fmt.Println(b.State(), time.Until(b.Stats().Until).Round(time.Minute))
	// Output: open 1m0s
}

// The more has failed, the longer it is left alone.
func ExampleConfig_openDelay() {
	b, _ := breaker.New(breaker.Config{
		Window: 10, MinCalls: 4,
		OpenDelay: func(s breaker.Stats, _ backoff.Step) time.Duration {
			return time.Duration(s.FailureRate * float64(time.Minute))
		},
	})
	for i := range 4 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) {
			if i == 0 {
				return 1, nil
			}
			return 0, errors.New("down")
		})
	}
	fmt.Println(b.State(), time.Until(b.Stats().Until).Round(15*time.Second))
	// Output: open 45s
}

// A missing record is the caller's problem. A maintenance page closes the shop
// at once, for as long as it says.
func ExampleConfig_errors() {
	b, _ := breaker.New(breaker.Config{
		Ignore: func(err error) bool { return errors.Is(err, errNotFound) },
		OpenOn: func(err error) bool { _, ok := errors.AsType[*maintenance](err); return ok },
	})
	for _, err := range []error{errNotFound, &maintenance{20 * time.Minute}} {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, err })
		s := b.Stats()
		fmt.Println(s.State, s.Calls)
	}
	_, err := breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, nil })
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		fmt.Println("again in", open.RetryAfter().Round(time.Minute))
	}
	// Output:
	// closed 0
	// open 1
	// again in 20m0s
}

type maintenance struct{ left time.Duration }

func (m *maintenance) Error() string             { return "down for maintenance" }
func (m *maintenance) RetryAfter() time.Duration { return m.left }

func ExampleConfig_onEvent() {
	b, _ := breaker.New(breaker.Config{
		Name:        "acme",
		Consecutive: 1,
		OnEvent: func(e event.Event) {
			switch e.Kind {
			case event.BreakerState:
				fmt.Println(e.Name, "is", e.Source, "because of:", e.Err)
			case event.BreakerSet:
				fmt.Println(e.Name, "was set to", e.Source)
			}
		},
	})
	_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("no route to host") })
	b.Reset()
	// Output:
	// acme is open because of: no route to host
	// acme was set to closed
}

func ExampleDo() {
	b, _ := breaker.New(breaker.Config{})
	n, err := breaker.Do(context.Background(), b, func(ctx context.Context) (int, error) {
		// A call that hangs should fail by a timeout of its own: if ctx ends,
		// that is the caller's affair and says nothing about the service.
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return len("answer"), ctx.Err()
	})
	fmt.Println(n, err)
	// Output: 6 <nil>
}

// A call that returned no error can have failed nevertheless.
func ExampleDoJudged() {
	b, _ := breaker.New(breaker.Config{})
	get := func(context.Context) (*http.Response, error) { return &http.Response{StatusCode: 503}, nil }
	_, _ = breaker.DoJudged(context.Background(), b, get, func(r *http.Response, err error) breaker.Outcome {
		if err == nil && r.StatusCode >= 500 {
			return breaker.Failure
		}
		return b.Judge(err)
	})
	fmt.Println(b.Stats().Failed)
	// Output: 1
}

func ExampleBreaker_Allow() {
	b, _ := breaker.New(breaker.Config{})
	done, err := b.Allow()
	if err != nil {
		return // open
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.New("stream broken") }()
	done(<-ended)
	fmt.Println(b.Stats().Failed)
	// Output: 1
}

func ExampleBreaker_Acquire() {
	b, _ := breaker.New(breaker.Config{})
	began := time.Now()
	permit, err := b.Acquire(began)
	if err != nil {
		return // open
	}
	// ... the call ...
	now := time.Now()
	b.Report(permit, now, breaker.Success, now.Sub(began))
	fmt.Println(b.Stats().Calls)
	// Output: 1
}

func ExampleBreaker_Judge() {
	b, _ := breaker.New(breaker.Config{Failure: func(err error) bool { return !errors.Is(err, errNotFound) }})
	fmt.Println(b.Judge(errNotFound) == breaker.Success, b.Judge(errors.New("down")) == breaker.Failure)
	// Output: true true
}

// Somebody pulls the plug for an hour of maintenance.
func ExampleBreaker_Transition() {
	b, _ := breaker.New(breaker.Config{})
	_ = b.Transition(breaker.ForcedOpen)
	fmt.Println(b.State(), b.Ready(time.Now()))
	_ = b.Transition(breaker.HalfOpen) // and lets it find out by itself
	fmt.Println(b.State(), b.Ready(time.Now()))
	// Output:
	// forced-open breaker: open
	// half-open <nil>
}

func ExampleBreaker_Reset() {
	b, _ := breaker.New(breaker.Config{Initial: breaker.Open})
	b.Reset()
	fmt.Println(b.State())
	// Output: closed
}

// MetricsOnly shows what a breaker would do before it is let loose.
func ExampleBreaker_Stats() {
	b, _ := breaker.New(breaker.Config{MinCalls: 2, Initial: breaker.MetricsOnly})
	for _, err := range []error{nil, errors.New("down"), errors.New("down"), nil} {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, err })
	}
	s := b.Stats()
	fmt.Println(s.State, s.Calls, s.Failed, s.FailureRate)
	// Output: metrics-only 4 2 0.5
}
