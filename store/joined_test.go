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
	"github.com/flyball-go/flyball/throttle"
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

// A process that starts while its vendor has all others wait hears of that first. Where the
// store does not answer it begins without.
func TestWhoStartsInACooldownCallsNobody(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, down := range []bool{false, true} {
			twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, b *farProcess) {
				a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				b.Close()
				b.syncer.Close()
				time.Sleep(time.Second)
				b.Plain, b.syncer = nil, syncer(t, store.SyncerConfig{Store: &faulty{
					Store: m, delay: func() time.Duration { return 5 * time.Millisecond },
					fate: func() fate { return map[bool]fate{true: lost}[down] },
				}})
				b.Plain = join(t, b.syncer)
				var calls atomic.Int64
				call := func() {
					for range 64 {
						governor.Submit(t.Context(), b.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) {
							return int(calls.Add(1)), nil
						}))
					}
				}
				call()
				if _, err := governor.Do(t.Context(), b.With(governor.Ask{Tenant: "b"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil })); (err == nil) != (down || sc.Level != throttle.Host) {
					t.Errorf("%v, store down %v: one of another tenant ends with %v", sc, down, err)
				}
				time.Sleep(time.Minute)
				call()
				time.Sleep(time.Minute)
				if n, want := calls.Load(), map[bool]int64{true: 128}[down]; n != want {
					t.Errorf("%v, store down %v: %d calls start in the cooldown, want %d", sc, down, n, want)
				}
			})
		}
	}
}
