package governor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// poison is a closure that the vendor always refuses, asking for a second.
func poison() *governortest.Script {
	return governortest.NewScript(slices.Repeat([]error{governortest.Limited(time.Second)}, 1000)...)
}

// What a vendor always refuses is the probe after each cooldown. It must not be
// the only one that is.
func TestWhatIsAlwaysRefusedStarvesNobody(t *testing.T) {
	for _, tc := range []struct {
		name      string
		workers   int
		bad, good governor.Ask
		within    time.Duration
	}{
		{"another tenant", 8, governor.Ask{Tenant: "a"}, governor.Ask{Tenant: "b"}, 2 * time.Second},
		{"another tenant, under KeepConn", 8, governor.Ask{Tenant: "a", KeepConn: true}, governor.Ask{Tenant: "b"}, 2 * time.Second},
		{"another tenant, when KeepConn keeps the only slot", 1, governor.Ask{Tenant: "a", KeepConn: true}, governor.Ask{Tenant: "b"}, 6 * time.Second},
		{"its own lane", 8, governor.Ask{}, governor.Ask{}, 6 * time.Second},
		{"its own lane, under KeepConn", 8, governor.Ask{KeepConn: true}, governor.Ask{KeepConn: true}, 6 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, tc.workers }, func(t *testing.T, g *governor.Plain) {
				bad := governor.Submit(t.Context(), g.With(tc.bad), "", poison().Call)
				synctest.Wait()
				start := time.Now()
				var at time.Time
				<-governor.Submit(t.Context(), g.With(tc.good), "", stamp(&at)).Done()
				if d := at.Sub(start); d > tc.within {
					t.Errorf("it started after %v, want %v at most", d, tc.within)
				}
				bad.Cancel()
				<-bad.Done()
			})
		})
	}
}

// As soon as others get through, it is no probe any more, and its refusals count.
func TestWhatAloneIsRefusedGivesUpWhenOthersAreNot(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		bad := governor.Submit(t.Context(), g, "", poison().Call)
		start := time.Now()
		for bad.State() != governor.Done && time.Since(start) < time.Hour {
			governor.Submit(t.Context(), g, "", sleep(0))
			time.Sleep(100 * time.Millisecond)
		}
		_, err := bad.Result(t.Context())
		e, ok := errors.AsType[*governor.GaveUpError](err)
		if !ok || e.Attempts > 5*6 {
			t.Errorf("after %v its error is %v, want that it gave up after five refusals with up to five probes between", time.Since(start), err)
		}
	})
}

// What steps aside comes back behind those that were submitted before, and before
// those that were submitted after.
func TestWhatStepsAsideKeepsItsPlaceAmongLaterOnes(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		var order []string
		submit := func(name string, script *governortest.Script) {
			governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				n, err := script.Call(ctx, struct{}{})
				if err == nil {
					order = append(order, name)
				}
				return n, err
			}))
		}
		// Refused when it starts, and five times as the probe.
		submit("first", governortest.NewScript(slices.Repeat([]error{governortest.Limited(time.Second)}, 6)...))
		synctest.Wait()
		submit("second", governortest.NewScript())
		submit("third", governortest.NewScript())
		time.Sleep(5*time.Second + time.Millisecond) // the fifth probe was just refused
		submit("fourth", governortest.NewScript())
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"second", "third", "first", "fourth"}; !slices.Equal(order, want) {
			t.Errorf("they ended in the order %v, want %v", order, want)
		}
	})
}

func TestFloodOfOneTenantKeepsNoOtherOutOfAFullQueue(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.MaxQueue = true, 1, 10 }, func(t *testing.T, g *governor.Plain) {
		for range 1000 {
			go governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "flood"}), "", sleep(10*time.Millisecond))
		}
		synctest.Wait()
		start := time.Now()
		var at time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "calm"}), "", stamp(&at)).Done()
		if d := at.Sub(start); d > 50*time.Millisecond {
			t.Errorf("the calm tenant's only request started after %v", d)
		}
		time.Sleep(time.Minute)
	})
}

// What fills the queue cannot start for ten minutes, whatever it is that pauses.
func TestWhatIsPausedKeepsNobodyOutOfAFullQueue(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Block, governor.Reject, governor.DropOldest, governor.DropLower} {
		for level := throttle.Selector; level <= throttle.Bucket; level++ {
			t.Run(fmt.Sprint(rule, " ", level), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.Workers, c.MaxQueue, c.Overflow = true, 2, 100, rule
				}, func(t *testing.T, g *governor.Plain) {
					submit := func(key string, d time.Duration) *governor.Request[int] {
						asks := map[throttle.Level]governor.Ask{throttle.Tenant: {Tenant: key}, throttle.Bucket: {Bucket: key}}
						sel := map[throttle.Level]string{throttle.Selector: key}
						return governor.Submit(t.Context(), g.With(asks[level]), sel[level], sleep(d))
					}
					g.Learn(throttle.Signal{Scope: throttle.Scope{Level: level, Key: "paused"}, Delay: 10 * time.Minute})
					for range 100 {
						submit("paused", 0)
					}
					start := time.Now()
					rs := []*governor.Request[int]{submit("b", time.Second), submit("c", time.Second), submit("b", time.Second), submit("c", time.Second)}
					if rule != governor.Block { // which keeps the submitters of the last two until there is a slot
						since(t, "they were submitted", start, time.Now(), 0)
					}
					for _, r := range rs {
						if _, err := r.Result(t.Context()); err != nil {
							t.Error(err)
						}
					}
					since(t, "they ended", start, time.Now(), 2*time.Second)
				})
			})
		}
	}
}

func TestSlowTenantThatFillsTheQueueStarvesNoOther(t *testing.T) {
	a := newBucket(t, 1.0/60, 1)
	byKey, err := limiter.NewByKey(limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"a": a}})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.MaxQueue, c.Limits = true, 1, 100, []governor.Limit{{Per: throttle.Tenant, Limiter: byKey}}
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
		defer cancel()
		for range 200 {
			go governor.Submit(ctx, g.With(governor.Ask{Tenant: "a"}), "", sleep(0))
		}
		synctest.Wait()
		var calls [2]int
		for i, who := range []string{"b", "c"} {
			go func() {
				for ctx.Err() == nil {
					if _, err := governor.Do(ctx, g.With(governor.Ask{Tenant: who}), "", sleep(10*time.Millisecond)); err == nil {
						calls[i]++
					}
				}
			}()
		}
		<-ctx.Done()
		synctest.Wait()
		for i, n := range calls {
			if n < 2990 {
				t.Errorf("tenant %d made %d calls of 10 ms in a minute, want half of 6,000", i, n)
			}
		}
	})
}

// Each starts at once, comes back, and would make room for the next: the queue would be
// without bound.
func TestWhatComesBackDoesNotFillTheQueueWithoutBound(t *testing.T) {
	const most, workers = 20, 4
	again := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(time.Minute) })
	for _, rule := range []governor.Overflow{governor.Block, governor.Reject, governor.DropOldest, governor.DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Workers, c.MaxQueue, c.Overflow = true, workers, most, rule
			}, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithCancel(t.Context())
				in := 0
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range 10 * most {
						governor.Submit(ctx, g, "", again)
						in++
						time.Sleep(time.Millisecond)
					}
				}()
				time.Sleep(30 * time.Second)
				limit := most + most/4 + workers
				n := g.Stats().Queued
				if least := most + most/8; n < least || n > limit+1 {
					t.Errorf("%d wait, want %d to %d, and whose submitter waits", n, least, limit)
				}
				if rule == governor.Block && in > limit {
					t.Errorf("%d were submitted while all of them wait", in)
				}
				cancel()
				<-done
			})
		})
	}
}

// A submitter that is kept waits for nothing that its request could not wait for.
func TestWhoWaitsForRoomFacesPausesAsEverybodyElse(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 1, 1 }, func(t *testing.T, g *governor.Plain) {
		b := g.With(governor.Ask{Tenant: "b"})
		governor.Submit(t.Context(), b, "", sleep(time.Hour))
		governor.Submit(t.Context(), b, "", sleep(time.Hour))
		start := time.Now()
		pause := func(who string) { g.Learn(throttle.Signal{Scope: tenant(who), Delay: 5 * time.Hour}) }
		cools := func(r *governor.Request[int]) {
			t.Helper()
			if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrCooling) || !governor.IsRefused(err) {
				t.Errorf("got %v, want a *CooldownError", err)
			}
		}
		pause("a")
		cools(governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", sleep(0)))
		since(t, "refused", start, time.Now(), 0)
		time.AfterFunc(time.Second, func() { pause("c") })
		cools(governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "c"}), "", sleep(0)))
		since(t, "refused", start, time.Now(), time.Second)
	})
}
