package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/policy"
)

// What leaves the layer may be told in the program's own words.
func ExampleConfig_onError() {
	errClosed := errors.New("the shop is closed")
	b, _ := breaker.New(breaker.Config{
		Initial: breaker.ForcedOpen,
		OnError: func(err error) error {
			if errors.Is(err, breaker.ErrOpen) {
				return errClosed
			}
			return err
		},
	})
	fmt.Println(policy.Run(context.Background(), policy.Chain(b), func(context.Context) error { return nil }))
	// Output: the shop is closed
}

// Ten failures in five seconds, however many calls there are.
func ExampleConfig_failures() {
	b, _ := breaker.New(breaker.Config{Failures: 10, WindowTime: 5 * time.Second})
	for i := range 1000 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) {
			if i%50 == 0 {
				return 0, errors.New("down")
			}
			return i, nil
		})
	}
	s := b.Stats()
	fmt.Println(s.State, s.Failed, "of", s.Calls)
	// Output: open 10 of 451
}

// An answer that is no error says until when the shop is closed.
func ExampleBreaker_OpenUntil() {
	b, _ := breaker.New(breaker.Config{})
	open := time.Now().Add(20 * time.Minute)
	_, _ = breaker.Do(context.Background(), b, func(context.Context) (string, error) {
		b.OpenUntil(open) // as the page says that was answered
		return "closed for maintenance", nil
	})
	fmt.Println(b.State(), b.Stats().Until.Equal(open))
	// Output: open true
}
