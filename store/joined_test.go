package store_test

import (
	"context"
	"sync"
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

// A process that starts while its vendor has all others wait hears of that first, also
// beside a neighbour that is slow to hear it. Where the store does not answer it begins
// without.
func TestWhoStartsInACooldownCallsNobody(t *testing.T) {
	for _, sc := range scopesThatCool {
		for _, limits := range [][]governor.Limit{nil, {{Quota: limiter.QuotaConfig{Limit: 1000, Per: time.Hour}}}} {
			for _, slow := range []bool{false, true} {
				for _, down := range []bool{false, true} {
					if limits != nil && down {
						continue // it waits for the store
					}
					twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
						a.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
						time.Sleep(time.Second)
						s := syncer(t, store.SyncerConfig{Store: &faulty{
							Store: m, delay: func() time.Duration { return 5 * time.Millisecond },
							fate: func() fate { return map[bool]fate{true: lost}[down] },
						}})
						defer s.Close()
						if slow {
							free := make(chan struct{})
							time.AfterFunc(500*time.Millisecond, func() { close(free) })
							defer s.Join(&slowListener{free: free})()
						}
						g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true, Limits: limits, Workers: 64})
						if err != nil {
							t.Fatal(err)
						}
						defer g.Close()
						var calls atomic.Int64
						call := func() {
							for range 64 {
								governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) {
									return int(calls.Add(1)), nil
								}))
							}
						}
						call()
						_, err = governor.Do(t.Context(), g.With(governor.Ask{Tenant: "other"}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
						if (err == nil) != (down || sc.Level != throttle.Host) {
							t.Errorf("%v, store down %v: one of another tenant ends with %v", sc, down, err)
						}
						time.Sleep(time.Minute)
						call()
						time.Sleep(time.Minute)
						if n, want := calls.Load(), map[bool]int64{true: 128}[down]; n != want {
							t.Errorf("%v, limits %v, store down %v, slow neighbour %v: %d calls start in the cooldown, want %d", sc, limits, down, slow, n, want)
						}
					})
				}
			}
		}
	}
}

// A neighbour that does not hear at all what cools keeps nobody from starting for long, nor
// busy.
func TestWhoStartsDoesNotWaitForADeafNeighbour(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
		time.Sleep(time.Second)
		var count counting
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, count: &count.n, delay: func() time.Duration { return time.Millisecond }}})
		defer s.Close()
		free := make(chan struct{})
		defer close(free)
		defer s.Join(&slowListener{free: free})()
		g := join(t, s)
		defer g.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
		if n := count.n.Load(); n > 10 {
			t.Errorf("%d round trips", n)
		}
	})
}

func TestWhoStartsWaitsForNoSyncerThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return time.Second }}})
		g := join(t, s)
		defer g.Close()
		var closed sync.WaitGroup
		defer closed.Wait()
		closed.Go(func() {
			time.Sleep(10 * time.Millisecond)
			s.Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
	})
}

// Who has left is still being told something, while another joins that has heard nothing.
func TestWhoJoinsAfterAllHaveLeftHearsFirst(t *testing.T) {
	twoFarProcesses(t, func(t *testing.T, m *store.Memory, a, _ *farProcess) {
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Minute})
		time.Sleep(time.Second)
		var way atomic.Int64
		s := syncer(t, store.SyncerConfig{Store: &faulty{Store: m, delay: func() time.Duration { return time.Duration(way.Load()) }}})
		defer s.Close()
		free := make(chan struct{})
		leave := s.Join(&slowListener{free: free})
		time.Sleep(100 * time.Millisecond)
		leave()
		time.Sleep(10 * time.Millisecond)
		a.Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
		way.Store(int64(500 * time.Millisecond))
		g := join(t, s)
		defer g.Close()
		var calls atomic.Int64
		governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "t"}), "", governor.Func(func(context.Context) (int, error) { return int(calls.Add(1)), nil }))
		time.Sleep(10 * time.Millisecond)
		close(free)
		time.Sleep(10 * time.Second)
		if n := calls.Load(); n > 0 {
			t.Errorf("%d calls start in a cooldown", n)
		}
	})
}
