package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// A governor asks for cooldowns as soon as it is there. What it submits while that is under
// way is limited, though the answer knows of no limit yet.
func TestCallsBeforeTheFirstAnswerAreLimited(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 99 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			all, _ := processes(t, 2, func(c *governor.PlainConfig, s *store.SyncerConfig) {
				s.Store.(*faulty).delay = func() time.Duration { return 100 * time.Millisecond }
				c.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Minute}}}
			})
			defer end(t, all)
			time.Sleep(after)
			var calls atomic.Int64
			for range 2 { // before the answer, and after it
				for _, p := range all {
					for range 50 {
						governor.Submit(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) { return int(calls.Add(1)), nil }))
					}
				}
				time.Sleep(60 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			if n := calls.Load(); n != 5 {
				t.Errorf("submitted after %v: %d calls, want 5", after, n)
			}
		})
	}
}
