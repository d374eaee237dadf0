package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/store"
)

// Processes that could each use all of a small quota have the same part of it, though one
// may have to wait for longer than the store remembers who says nothing, and their round
// trips take some time, and some more.
func TestNoProcessIsStarvedOfPermits(t *testing.T) {
	for _, tt := range []struct {
		kind   store.Kind
		quota  int64
		least  float64 // of what all make on average
		unused float64
	}{
		{store.Bucket, 1, 0.9, 0.04},
		{store.Bucket, 3, 0.9, 0.04},
		{store.Bucket, 50, 0.9, 0.05},
		{store.Sliding, 3, 0.1, 0.04},
		{store.Sliding, 50, 0.5, 0.04},
		{store.Window, 3, 0.1, 0.01},
		{store.Window, 50, 0.5, 0.01},
	} {
		for _, processes := range []int{2, 12, 30} {
			t.Run(fmt.Sprint(tt.kind, " of ", tt.quota, " for ", processes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := memory(t)
					ctx, cancel := context.WithCancel(t.Context())
					made := make([]int, processes)
					for i := range made {
						s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration {
							return time.Duration(500+rand.IntN(1000)) * time.Microsecond
						}}})
						sh := share(t, s, store.Limit{Kind: tt.kind, Quota: tt.quota, Per: time.Second})
						g, err := governor.New(governor.PlainConfig{Name: "acme", NoPace: true, Limits: []governor.Limit{{Limiter: sh}}})
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { g.Close(); s.Close() })
						go func() {
							for ctx.Err() == nil {
								if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err == nil {
									made[i]++
								}
							}
						}()
					}
					const seconds = 200
					time.Sleep(seconds * time.Second)
					cancel()
					synctest.Wait()
					sum := 0
					for _, n := range made {
						sum += n
					}
					if n := slices.Min(made); float64(n) < tt.least*float64(sum/processes)-1 {
						t.Errorf("one has made %d calls, and all together %d: %v", n, sum, made)
					}
					if all := float64(seconds * tt.quota); float64(sum) < (1-tt.unused)*all {
						t.Errorf("%d calls were made of %.0f", sum, all)
					}
				})
			})
		}
	}
}

func TestABucketOfAllOfItsQuotaIsAskedForSeldom(t *testing.T) {
	for _, l := range []store.Limit{
		{Kind: store.Bucket, Quota: 1e9, Burst: 1e9, Per: time.Minute},
		{Kind: store.Bucket, Quota: 1e6, Burst: 1e6 - 100, Per: 744 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var trips counting
			s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), count: &trips.n, delay: func() time.Duration { return time.Millisecond }}})
			defer s.Close()
			sh := share(t, s, l)
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if n := int(l.Burst / 7); sh.Wait(time.Now(), "", n) == 0 {
					sh.Take(time.Now(), "", n)
				}
			}
			if n := trips.n.Load(); n > 100 {
				t.Errorf("%+v: %d exchanges in 10 s", l, n)
			}
		})
	}
}
