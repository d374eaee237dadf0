package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/store/storetest"
)

// Calls that cost much have their part beside those of other processes that cost 1, and
// take as much of the quota as there is.
func TestCostlyCallsOfABucketDoNotStarve(t *testing.T) {
	for _, tt := range []struct {
		limit  store.Limit
		cost   int
		delay  time.Duration
		calls  int64 // in 20 s; at its fair part, a quarter, it would make
		fair   int64
		waits  time.Duration
		unused float64 // of what the kind lets pass
	}{
		{store.Limit{Quota: 100}, 2, 0, 150, 250, time.Second, 0.15},
		{store.Limit{Quota: 1000}, 10, 0, 150, 500, time.Second, 0.35}, // of Burst: it has to be full
		{store.Limit{Quota: 1000, Burst: 100}, 10, time.Millisecond, 250, 500, time.Second, 0.05},
		{store.Limit{Quota: 100, Burst: 50}, 20, time.Millisecond, 8, 25, 3 * time.Second, 0.05},
		{store.Limit{Quota: 1000, Burst: 100, Lease: 200 * time.Millisecond}, 50, 20 * time.Millisecond, 25, 100, 2 * time.Second, 0.1},
	} {
		t.Run(fmt.Sprintf("%d of %d, at most %d", tt.cost, tt.limit.Quota, tt.limit.Burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := tt.limit
				l.Kind, l.Per = store.Bucket, time.Second
				m := memory(t)
				var h storetest.History
				start := time.Now()
				until := start.Add(20 * time.Second)
				over := make(chan int64)
				at := func() *store.Share {
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return tt.delay }}})
					t.Cleanup(func() { s.Close() })
					return share(t, s, l)
				}
				for range 3 {
					u := &user{limit: at()}
					go func() { u.run(&h, until); over <- u.made }()
				}
				sh := at()
				wake := make(chan struct{}, 1)
				sh.OnChange(func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})
				calls, last, longest := int64(0), start, time.Duration(0)
				for now := start; now.Before(until); now = time.Now() {
					wait := sh.Wait(now, "", tt.cost)
					longest = max(longest, now.Sub(last))
					if wait == 0 {
						sh.Take(now, "", tt.cost)
						h.Use(now, int64(tt.cost))
						sh.Settle(now, "", tt.cost, tt.cost)
						calls++
						last = now
						continue
					}
					select {
					case <-wake:
					case <-time.After(min(wait, time.Second)):
					}
				}
				others := <-over + <-over + <-over
				if calls < tt.calls || calls > 2*tt.fair || longest > tt.waits {
					t.Errorf("%d calls of %d, beside %d of 1, and %v without one; want %d to %d, and %v", calls, tt.cost, others, longest, tt.calls, 2*tt.fair, tt.waits)
				}
				f := l.Fill()
				passes := float64(20*time.Second) / float64(l.Fill().Charge(1))
				if used := float64(calls*int64(tt.cost) + others); used < (1-tt.unused)*passes {
					t.Errorf("%.0f permits used of %.0f that %v lets pass", used, passes, f)
				}
				if err := h.Check(l); err != nil {
					t.Error(err)
				}
				t.Logf("%d calls of %d, %d of 1; of %.0f", calls, tt.cost, others, passes)
			})
		})
	}
}
