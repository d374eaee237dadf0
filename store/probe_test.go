package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// opens is a limit of one's own that lets nothing pass before at.
type opens struct{ at atomic.Int64 }

func (o *opens) Wait(now time.Time, _ string, _ int) time.Duration {
	return max(0, time.Unix(0, o.at.Load()).Sub(now))
}
func (o *opens) Take(time.Time, string, int)            {}
func (o *opens) Settle(time.Time, string, int, int)     {}
func (o *opens) Accepted(now, sent time.Time, _ string) {}
func (o *opens) Refused(now, sent time.Time, _ string)  {}

// Two governors of one Name in one process: when the probe is over, both go on.
func TestBothGovernorsOfAProcessGoOnAfterTheProbe(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, hold := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 6 * time.Second} {
			t.Run(fmt.Sprint(hold, fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return 2 * time.Millisecond }}})
					defer s.Close()
					var made [2]atomic.Int64
					var all []*governor.Plain
					for range made {
						g, err := governor.New(governor.PlainConfig{Name: "acme", NoPace: true, Store: s})
						if err != nil {
							t.Fatal(err)
						}
						defer g.Close()
						all = append(all, g)
					}
					time.Sleep(3 * time.Second)
					all[0].Learn(throttle.Signal{Delay: time.Second})
					time.Sleep(500 * time.Millisecond)
					for i, g := range all {
						for range 3 {
							governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
								time.Sleep(hold)
								made[i].Add(1)
								if fails {
									return 0, errors.New("another")
								}
								return 0, nil
							}))
						}
					}
					time.Sleep(time.Minute)
					for i := range made {
						if n := made[i].Load(); n != 3 {
							t.Errorf("calls of %v, which fail: %v: governor %d has made %d of 3 calls in a minute after the pause: %v", hold, fails, i, n, all[i].Stats())
						}
					}
				})
			})
		}
	}
}

// The probe is given up by its caller: the other governor of the process makes it.
func TestTheOtherGovernorProbesWhenOneGivesUp(t *testing.T) {
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprint(limited), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := syncer(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return 2 * time.Millisecond }}})
				defer s.Close()
				var all []*governor.Plain
				for range 2 {
					cfg := governor.PlainConfig{Name: "acme", NoPace: true, Store: s}
					if limited {
						cfg.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 100, Per: time.Hour}}}
					}
					g, err := governor.New(cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer g.Close()
					all = append(all, g)
				}
				time.Sleep(3 * time.Second)
				all[0].Learn(throttle.Signal{Delay: time.Second})
				time.Sleep(500 * time.Millisecond)
				start := time.Now().Add(500 * time.Millisecond)
				var probed atomic.Int32
				var ends atomic.Int64
				for _, g := range all {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					governor.Submit(ctx, g, "", governor.Func(func(ctx context.Context) (int, error) {
						if probed.Add(1) == 1 {
							time.Sleep(100 * time.Millisecond)
							cancel()
							return 0, ctx.Err()
						}
						ends.Store(int64(time.Since(start)))
						return 0, nil
					}))
				}
				time.Sleep(time.Minute)
				if d := time.Duration(ends.Load()); d == 0 || d > time.Second {
					t.Errorf("the other began %v after the pause", d)
				}
			})
		})
	}
}

// A process that was given the probe of all cannot begin it at once, as another limit of
// its own keeps it back for a while. The probe that it begins then is the only one.
func TestAProbeThatIsKeptBackIsTheOnlyOne(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 4 * time.Second, 6 * time.Second, 9900 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const cools = 10 * time.Second
				own := &opens{}
				n := 0
				all, _ := processes(t, 2, func(cfg *governor.PlainConfig, sc *store.SyncerConfig) {
					if n++; n == 1 {
						cfg.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: own}}
					}
				})
				defer end(t, all)
				time.Sleep(time.Second)
				start := time.Now()
				all[0].Learn(throttle.Signal{Delay: cools})
				own.at.Store(start.Add(cools + late).UnixNano())
				var probing, began atomic.Int64
				call := func(i int) {
					governor.Submit(t.Context(), all[i].Plain, "", governor.Func(func(context.Context) (int, error) {
						began.Add(1)
						if n := probing.Add(1); n > 1 {
							t.Errorf("%d calls at once, before the probe has ended or run for 5 s", n)
						}
						time.Sleep(4500 * time.Millisecond)
						probing.Add(-1)
						return 0, nil
					}))
				}
				call(0)
				time.Sleep(cools + 500*time.Millisecond)
				call(1)
				time.Sleep(30 * time.Second)
				if n := began.Load(); n != 2 {
					t.Errorf("%d of 2 calls were made", n)
				}
			})
		})
	}
}

// An answer that was under way when the vendor refused says nothing of the pause.
func TestAnAnswerOfBeforeEndsNoPause(t *testing.T) {
	for _, underWay := range []bool{false, true} {
		t.Run(fmt.Sprint(underWay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var delay atomic.Int64
				n := 0
				all, _ := processes(t, 2, func(cfg *governor.PlainConfig, sc *store.SyncerConfig) {
					if n++; n == 1 {
						sc.Store.(*faulty).delay = func() time.Duration { return time.Duration(delay.Load()) }
					}
				})
				defer end(t, all)
				time.Sleep(3 * time.Second)
				delay.Store(int64(300 * time.Millisecond))
				if underWay {
					all[0].Learn(throttle.Signal{Scope: tenant("t"), Delay: time.Hour})
					time.Sleep(100 * time.Millisecond)
				}
				if !underWay {
					delay.Store(int64(1800 * time.Millisecond)) // less than Timeout
				}
				all[0].Learn(throttle.Signal{Delay: 1500 * time.Millisecond})
				time.Sleep(100 * time.Millisecond)
				delay.Store(int64(1800 * time.Millisecond))
				time.Sleep(1300 * time.Millisecond)
				var probing atomic.Int64
				for _, p := range all {
					governor.Submit(t.Context(), p.Plain, "", governor.Func(func(context.Context) (int, error) {
						if n := probing.Add(1); n > 1 {
							t.Errorf("%d calls at once, before the probe has ended or run for 5 s", n)
						}
						time.Sleep(4500 * time.Millisecond)
						probing.Add(-1)
						return 0, nil
					}))
				}
				time.Sleep(30 * time.Second)
			})
		})
	}
}
