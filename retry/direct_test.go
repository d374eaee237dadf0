package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/policy"
)

// The time of the first attempt counts too, wherever nothing else reads the clock.
func TestTheFirstAttemptIsPartOfTheTimeElapsed(t *testing.T) {
	for _, tt := range []struct {
		cfg   Config
		calls int
	}{
		{Config{MaxElapsed: time.Second}, 1},
		{Config{MaxElapsed: 3 * time.Second, Attempts: 2}, 2},
		{Config{Backoff: backoff.MaxElapsed(backoff.Constant(ms), time.Second)}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, calls := chain(t, tt.cfg), 0
			time.Sleep(time.Minute)
			_, err := policy.Do(t.Context(), p, func(context.Context) (int, error) {
				if calls++; calls == 1 {
					time.Sleep(2 * time.Second)
				}
				return 0, errBoom
			})
			e, ok := errors.AsType[*ExhaustedError](err)
			if !ok || calls != tt.calls || e.Elapsed < 2*time.Second {
				t.Errorf("%v: %d calls, want %d; %v after %v", tt.cfg, calls, tt.calls, err, e.Elapsed)
			}
		})
	}
}
