package governor_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// untaken hides that a limiter is a Bucket.
type untaken struct {
	limiter.Counter
	b *limiter.Bucket
}

func (u untaken) Quota(now time.Time, key string) (throttle.Quota, bool) { return u.b.Quota(now, key) }

// bothWays calls test with a Bucket as the only limit, and as one that is asked by the
// methods of any limiter, and compares what is left of it each time.
func bothWays(t *testing.T, seed uint64, burst int, test func(t *testing.T, g *governor.Plain, r *rand.Rand, look func())) {
	t.Helper()
	var left [2][]int64
	for i := range left {
		b := newBucket(t, 10, burst)
		var limit limiter.Limiter = b
		if i == 1 {
			limit = untaken{b, b}
		}
		bubble(t, func(c *governor.PlainConfig) {
			c.Workers = 64
			c.Limits = []governor.Limit{{Limiter: limit}}
		}, func(t *testing.T, g *governor.Plain) {
			test(t, g, rand.New(rand.NewPCG(seed, 3)), func() { left[i] = append(left[i], g.Stats().Limits[0].Quota.Remaining) })
		})
	}
	for k := range left[0] {
		if left[0][k] != left[1][k] {
			t.Fatalf("seed %d: after %d calls %d permits are left, want %d", seed, k+1, left[0][k], left[1][k])
		}
	}
}

// A Bucket that is the only limit is taken from in one step, and told of the same,
// however late: what calls give back, and which are refused, does not depend on it.
func TestABucketAloneIsToldTheSame(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		bothWays(t, seed, 8, func(t *testing.T, g *governor.Plain, r *rand.Rand, look func()) {
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
				look()
			}
		})
	}
}

// Nor does it when calls end while others run whose true cost is not known yet.
func TestABucketAloneGetsAllBackWhileOthersRun(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		bothWays(t, seed, 40, func(t *testing.T, g *governor.Plain, r *rand.Rand, look func()) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for k := range 100 {
				ask := governor.Ask{Cost: r.IntN(5)}
				used, does, remaining := r.IntN(7), r.IntN(5), int64(r.IntN(40))
				took := time.Duration(r.IntN(4)*r.IntN(900))*time.Millisecond + time.Duration(k) // no two end at once
				wg.Go(func() {
					_, err := governor.Do(t.Context(), g.With(ask), "", governor.Func(func(ctx context.Context) (int, error) {
						time.Sleep(took)
						switch does {
						case 0, 1:
							return 0, governor.Settle(ctx, used)
						case 2:
							return 0, governor.Report(ctx, throttle.Quota{Limit: 40, Remaining: remaining + 1})
						}
						return 0, nil
					}))
					if err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Duration(r.IntN(400))*time.Millisecond + time.Microsecond)
				look()
			}
		})
	}
}

// openingLater is a Bucket from which nothing can be taken before a time.
type openingLater struct {
	*limiter.Bucket
	at time.Time
}

func (l openingLater) Wait(now time.Time, key string, n int) time.Duration {
	return max(l.at.Sub(now), l.Bucket.Wait(now, key, n))
}

func TestALimitThatEmbedsABucketIsAskedItself(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: openingLater{newBucket(t, 10, 8), time.Now().Add(time.Minute)}}}
	}, func(t *testing.T, g *governor.Plain) {
		began := time.Now()
		if _, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != time.Minute {
			t.Errorf("a call after %v, want 1m: Wait was not asked", d)
		}
	})
}
