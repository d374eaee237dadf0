package breaker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
)

func ExampleOpenError() {
	var err error = &breaker.OpenError{Until: time.Now().Add(time.Minute)}
	if open, ok := errors.AsType[*breaker.OpenError](err); ok && errors.Is(err, breaker.ErrOpen) {
		fmt.Println("again in", open.RetryAfter().Round(time.Second))
	}
	// Output: again in 1m0s
}

func TestOpenErrorSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			until time.Time
			want  time.Duration
		}{{time.Time{}, 0}, {time.Now().Add(-time.Hour), 0}, {time.Now().Add(time.Hour), time.Hour}} {
			e := &breaker.OpenError{Until: tt.until}
			if e.RetryAfter() != tt.want || !e.Refused() || !errors.Is(e, breaker.ErrOpen) || e.Error() == "" {
				t.Errorf("until %v: RetryAfter %v, %v", tt.until, e.RetryAfter(), e)
			}
		}
	})
}
