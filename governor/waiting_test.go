package governor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// Hundreds wait for everything that one can wait for, in between they try again, and
// more come: whenever they wait, all slots and connections are there for others, who
// get them at once.
func TestCrowdThatWaitsHoldsNothing(t *testing.T) {
	const workers = 4
	once, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 1, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Workers, c.Pool.Max, c.MaxWait, c.LimitedAttempts = true, workers, workers, -1, -1
		c.Retry = &retry.Config{Attempts: 1000, Backoff: backoff.Constant(7 * time.Minute)}
		c.Limits = []governor.Limit{{Per: throttle.Bucket, Limiter: once}}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		fails := func(err error) func(context.Context, *conn) (string, error) {
			return func(context.Context, *conn) (string, error) { return "", err }
		}
		ways := []func(context.Context, *conn) (string, error){
			fails(errors.New("503")), // waits to be tried again
			fails(governor.Again(11 * time.Minute)),
			fails(governortest.Limited(13*time.Minute, throttle.Scope{Level: throttle.Request})),
			fails(governortest.Limited(17*time.Minute, throttle.Scope{Level: throttle.Tenant})),
			fails(governortest.Limited(throttle.Unknown, throttle.Scope{Level: throttle.Selector})),
			fails(nil), // of a bucket that has let one pass, and no more for a day
		}
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "paused"}, Delay: 23 * time.Hour})
		var crowd []*governor.Request[string]
		for round := range 12 {
			for i := range 60 {
				way := i % len(ways)
				ask := governor.Ask{Tenant: fmt.Sprint("t", i), Bucket: fmt.Sprint("own", round, i), Priority: i % 3}
				sel := fmt.Sprint("s", i%7)
				switch {
				case way == len(ways)-1:
					ask.Bucket = "spent"
				case i%11 == 0:
					ask.Bucket = "paused"
				}
				crowd = append(crowd, governor.Submit(t.Context(), g.With(ask), sel, ways[way]))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			s := g.Stats()
			if s.InFlight != 0 || s.Pool.InUse != 0 || s.Queued < 60*(round+1)-1 {
				t.Fatalf("round %d: %d of them wait, %d in flight, %d connections in use; want none", round, s.Queued, s.InFlight, s.Pool.InUse)
			}
			start := time.Now()
			at := make([]time.Time, workers)
			var light []*governor.Request[int]
			for i := range at {
				light = append(light, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "light", Bucket: fmt.Sprint("light", round, i)}), "light", func(context.Context, *conn) (int, error) {
					at[i] = time.Now()
					time.Sleep(time.Millisecond)
					return 0, nil
				}))
			}
			for i, r := range light {
				if _, err := r.Result(t.Context()); err != nil {
					t.Error(err)
				}
				since(t, fmt.Sprintf("round %d: another's call", round), start, at[i], 0)
			}
		}
		for _, r := range crowd {
			r.Cancel()
		}
		for _, r := range crowd {
			<-r.Done()
		}
	})
}
