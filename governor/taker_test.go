package governor_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
)

// untaken hides that a limiter is a Taker.
type untaken struct{ limiter.Counter }

// A limit that takes in one step is told of the same, however late: what calls give
// back, and which are refused, does not depend on it.
func TestATakerIsTheLimitThatItIs(t *testing.T) {
	for seed := range uint64(20) {
		var left [2][]int
		for i := range left {
			b := newBucket(t, 10, 8)
			var limit limiter.Limiter = b
			if i == 1 {
				limit = untaken{b}
			}
			bubble(t, func(c *governor.PlainConfig) {
				c.Limits = []governor.Limit{{Limiter: limit}}
			}, func(t *testing.T, g *governor.Plain) {
				r := rand.New(rand.NewPCG(seed, 3))
				for range 100 {
					ask := governor.Ask{Cost: r.IntN(5)}
					used, settles := r.IntN(7), r.IntN(3) == 0
					fn := governor.Func(func(ctx context.Context) (int, error) {
						if settles {
							return 0, governor.Settle(ctx, used)
						}
						return 0, nil
					})
					var err error
					if r.IntN(3) > 0 {
						_, err = governor.Do(t.Context(), g.With(ask), "", fn)
					} else {
						_, err = governor.Submit(t.Context(), g.With(ask), "", fn).Result(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
					left[i] = append(left[i], b.Available(time.Now(), ""))
				}
			})
		}
		for k := range left[0] {
			if left[0][k] != left[1][k] {
				t.Fatalf("seed %d: after %d calls %d permits are left, want %d", seed, k+1, left[0][k], left[1][k])
			}
		}
	}
}
