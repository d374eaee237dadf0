package governor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// Who keeps his slot while he waits needs none, and so could always be the first to ask.
func TestWhoKeepsHisSlotGetsNoMoreThanHisShare(t *testing.T) {
	for _, tt := range []struct {
		name     string
		per      throttle.Level
		workers  int
		buckets  int // in which the tenant polls
		rate     float64
		at, most float64 // of all starts
	}{
		{"a limit of the host, in one bucket", throttle.Host, 64, 1, 10, .49, .51},
		{"a limit of the host, in nine buckets", throttle.Host, 64, 9, 10, .49, .51},
		{"a limit of the host, few slots", throttle.Host, 10, 9, 10, .45, .55},
		{"a limit of the bucket", throttle.Bucket, 64, 1, 1, .49, .51},
		{"a limit of the bucket, one slot for the others", throttle.Bucket, 2, 1, 1, .49, .51},
		{"a limit of the tenant", throttle.Tenant, 64, 9, 1, .49, .51},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %t", tt.name, keep), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.Workers, c.NoPace = tt.workers, true
					c.Limits = []governor.Limit{{Per: tt.per, Limiter: newBucket(t, tt.rate, 1)}}
				}, func(t *testing.T, g *governor.Plain) {
					ctx, cancel := context.WithCancel(t.Context())
					var polls, others atomic.Int64
					for i := range tt.buckets {
						governor.Submit(ctx, g.With(governor.Ask{Tenant: "a", Bucket: fmt.Sprint(i), KeepConn: keep}), "", governor.Func(func(context.Context) (int, error) {
							polls.Add(1)
							return 0, governor.Again(100 * time.Millisecond)
						}))
					}
					time.Sleep(time.Millisecond)
					for range 2000 {
						governor.Submit(ctx, g.With(governor.Ask{Tenant: "b", Bucket: "0"}), "", governor.Func(func(context.Context) (int, error) {
							others.Add(1)
							return 0, nil
						}))
					}
					time.Sleep(100 * time.Second)
					all := polls.Load() + others.Load()
					if part := float64(others.Load()) / float64(all); part < tt.at || part > tt.most {
						t.Errorf("of %d starts %d were of the others, want %v to %v of all", all, others.Load(), tt.at, tt.most)
					}
					cancel()
					time.Sleep(time.Second)
				})
			})
		}
	}
}

func TestWhatKeepsItsSlotGoesByPriority(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		var mu sync.Mutex
		var order []int
		var all []*governor.Request[int]
		for _, priority := range []int{1, 2} {
			began := false
			ask := governor.Ask{Priority: priority, KeepConn: true}
			all = append(all, governor.Submit(t.Context(), g.With(ask), "", governor.Func(func(context.Context) (int, error) {
				if !began {
					began = true
					time.Sleep(time.Second)
					return 0, governortest.Limited(10 * time.Second)
				}
				mu.Lock()
				order = append(order, priority)
				mu.Unlock()
				time.Sleep(time.Second) // longer than a probe that is alone
				return 0, nil
			})))
			time.Sleep(time.Millisecond)
		}
		for _, r := range all {
			<-r.Done()
		}
		if !slices.Equal(order, []int{2, 1}) {
			t.Errorf("after the cooldown they started in the order %v of their priorities", order)
		}
	})
}
