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

func TestOpenErrorNamesItsBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for state, want := range map[breaker.State]string{
			breaker.ForcedOpen: "breaker: acme: open",
			breaker.Open:       "breaker: acme: open until 2000-01-01T00:01:00Z",
			breaker.HalfOpen:   "breaker: acme: open",
		} {
			b := newBreaker(t, breaker.Config{Name: "acme", Initial: state, HalfOpenCalls: 1})
			if state == breaker.HalfOpen {
				admitted(b, 1)
			}
			_, err := breaker.Do(t.Context(), b, returns(nil))
			if e, ok := errors.AsType[*breaker.OpenError](err); !ok || e.Name != "acme" || err.Error() != want {
				t.Errorf("%v: %v", state, err)
			}
		}
	})
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
