package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/retry"
)

func TestFromContextTellsWhichAttemptRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		broken := errors.New("broken")
		type key struct{}
		outer := context.WithValue(t.Context(), key{}, "kept")
		var seen []retry.Info
		_, err := retry.Do(outer, retry.Config{Attempts: 3, Backoff: backoff.Constant(time.Second)}, func(ctx context.Context) (int, error) {
			info, ok := retry.FromContext(ctx)
			if ok != (len(seen) > 0) {
				t.Errorf("attempt %d: %v", len(seen)+1, ok)
			}
			if ctx.Value(key{}) != "kept" {
				t.Error("the caller's values are lost")
			}
			seen = append(seen, info)
			return 0, broken
		})
		if !errors.Is(err, broken) || len(seen) != 3 {
			t.Fatal(err, seen)
		}
		for i, want := range []retry.Info{
			{},
			{Attempt: 2, Last: broken, Started: begin.Add(time.Second)},
			{Attempt: 3, Last: broken, Started: begin.Add(2 * time.Second)},
		} {
			if seen[i] != want {
				t.Errorf("attempt %d: %+v, want %+v", i+1, seen[i], want)
			}
		}
		if info, ok := retry.FromContext(t.Context()); ok {
			t.Errorf("%+v outside of any attempt", info)
		}
	})
}
