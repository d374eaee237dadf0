package governor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

var overflows = []governor.Overflow{governor.Block, governor.Reject, governor.DropOldest, governor.DropLower}

// goesAtOnce has a request of g done without having waited.
func goesAtOnce(t *testing.T, g *governor.Plain, sel string) {
	t.Helper()
	start := time.Now()
	if _, err := governor.Submit(t.Context(), g, sel, sleep(0)).Result(t.Context()); err != nil || time.Since(start) != 0 {
		t.Errorf("it was done after %v, %v, while all slots are idle and %d wait", time.Since(start), err, g.Stats().Queued)
	}
}

// However many lanes a scope has, its pause keeps nobody out who is not in it.
func TestAPausedScopeOfManyLanesKeepsNoOtherOut(t *testing.T) {
	for _, rule := range overflows {
		for _, level := range []throttle.Level{throttle.Selector, throttle.Tenant, throttle.Bucket} {
			t.Run(fmt.Sprint(rule, level), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, 100, 16, -1, rule
				}, func(t *testing.T, g *governor.Plain) {
					g.Learn(throttle.Signal{Scope: throttle.Scope{Level: level, Key: "x"}, Delay: time.Hour})
					for i := range 8 {
						ask, sel := governor.Ask{Tenant: fmt.Sprint("t", i), Bucket: fmt.Sprint("b", i)}, "s"
						switch level {
						case throttle.Selector:
							sel = "x"
						case throttle.Tenant:
							ask.Tenant = "x"
						case throttle.Bucket:
							ask.Bucket = "x"
						}
						for range 120 {
							go governor.Submit(t.Context(), g.With(ask), sel, sleep(0))
						}
						synctest.Wait()
					}
					start := time.Now()
					_, err := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "h", Bucket: "h"}), "h", sleep(0)).Result(t.Context())
					if d := time.Since(start); d != 0 || err != nil {
						t.Errorf("after %v, %v", d, err)
					}
				})
			})
		}
	}
}

func TestThousandsThatArePausedKeepNobodyOut(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "x"}, Delay: 10 * time.Minute})
		for i := range 13 {
			n := 1300
			if i == 0 {
				n = 12000
			}
			for range n {
				go governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("customer", i), Bucket: "x"}), "", sleep(0))
			}
			synctest.Wait()
		}
		goesAtOnce(t, g.With(governor.Ask{Tenant: "other", Bucket: "y"}), "")
	})
}

// Nor does it matter that a turn of the actor is too short to look at them all.
func TestThousandsThatArePausedKeepNobodyOutWhileNoSlotIsFree(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropOldest, governor.DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			const many = 3000
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, many, 1, -1, rule
			}, func(t *testing.T, g *governor.Plain) {
				g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "x"}, Delay: time.Hour})
				governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(time.Second))
				synctest.Wait()
				for i := range many {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i), Bucket: "x", Priority: 1}), "", sleep(0))
				}
				synctest.Wait()
				if _, err := governor.Submit(t.Context(), forTenant(g, "c"), "", sleep(0)).Result(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A tenant that is paused, and floods the queue, leaves all slots to others.
func TestAFullQueueOfPausedLanesLeavesNoSlotIdle(t *testing.T) {
	for _, lanes := range []int{1, 2, 3} { // of the paused tenant
		for _, workers := range []int{8, 16, 64} {
			for _, most := range []int{4, 32, 100, 1000} {
				t.Run(fmt.Sprintf("Workers %d, MaxQueue %d, %d paused lanes", workers, most, lanes), func(t *testing.T) {
					filled(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = workers, most }, func(t *testing.T, g *governor.Plain) {
						for p := range lanes {
							for range 300 {
								go governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Priority: p}), "", sleep(0))
							}
							synctest.Wait()
						}
						for range 300 {
							go governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(time.Second))
						}
						synctest.Wait()
						if n := g.Stats().InFlight; n != workers {
							t.Errorf("%d of %d slots are used", n, workers)
						}
					})
				})
			}
		}
	}
}

// Closures that need each other run beside it.
func TestClosuresThatNeedEachOtherRunBesideAPausedTenant(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 8 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		for range 20 {
			go governor.Submit(t.Context(), forTenant(g, "a"), "", sleep(0))
		}
		synctest.Wait()
		var running atomic.Int64
		all := make(chan struct{})
		var rs []*governor.Request[int]
		for range 8 {
			rs = append(rs, governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
				if running.Add(1) == 8 {
					close(all)
				}
				select {
				case <-all: // they need each other
				case <-ctx.Done():
				}
				return 0, nil
			})))
		}
		for _, r := range rs {
			<-r.Done()
		}
		since(t, "they were done", start, time.Now(), 0)
	})
}

func TestDosOfAPausedTenantHaveNoSubmitOfAClosureRefused(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		for range 4 {
			go governor.Do(t.Context(), forTenant(g, "a"), "", sleep(0))
		}
		synctest.Wait()
		var inner error
		_, err := governor.Do(t.Context(), forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
			_, inner = governor.Submit(ctx, forTenant(g, "c"), "", sleep(0)).Result(ctx)
			return 0, nil
		}))
		if err != nil || inner != nil {
			t.Error(err, inner)
		}
	})
}

// One lane's polls do not have all places.
func TestPollsOfOneLaneKeepNoOtherOutUnderEachRule(t *testing.T) {
	for _, rule := range overflows {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, 40, 1, -1, rule
			}, func(t *testing.T, g *governor.Plain) {
				polls := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(14 * time.Minute) })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 100 {
					go governor.Submit(ctx, forTenant(g, "b"), "", polls)
					synctest.Wait()
				}
				goesAtOnce(t, forTenant(g, "c"), "")
			})
		})
	}
}

// One tenant is paused and fills the queue, and another comes back for long, since it polls,
// or pauses, too.
func TestTwoTenantsThatWaitForLongKeepNoThirdOut(t *testing.T) {
	for what, err := range map[string]error{"polls": governor.Again(time.Hour), "pauses": governortest.Limited(50*time.Minute, tenant("b"))} {
		for _, rule := range overflows {
			t.Run(fmt.Sprint(what, " ", rule), func(t *testing.T) {
				filled(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue, c.Overflow = 8, 8, rule }, func(t *testing.T, g *governor.Plain) {
					for range 16 {
						go governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) {
							time.Sleep(time.Second)
							return 0, err
						}))
						synctest.Wait()
					}
					time.Sleep(10 * time.Second)
					synctest.Wait()
					goesAtOnce(t, forTenant(g, "c"), "")
				})
			})
		}
	}
}

// All that come at once start, as there are slots.
func TestABurstToIdleSlotsIsNotRejected(t *testing.T) {
	for _, most := range []int{1, 4, 8} {
		for _, fill := range []bool{false, true} {
			t.Run(fmt.Sprintf("MaxQueue %d, full %t", most, fill), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, most, 16, -1, governor.Reject
				}, func(t *testing.T, g *governor.Plain) {
					g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
					if fill {
						for range most {
							governor.Submit(t.Context(), forTenant(g, "a"), "", sleep(0))
						}
					}
					synctest.Wait()
					var refused atomic.Int64
					goNow := make(chan struct{})
					for range 16 {
						go func() {
							<-goNow
							if _, err := governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(time.Second)).Result(t.Context()); err != nil {
								refused.Add(1)
							}
						}()
					}
					synctest.Wait()
					close(goNow)
					time.Sleep(time.Minute)
					if n := refused.Load(); n != 0 {
						t.Errorf("%d of 16 are refused by 16 idle slots", n)
					}
				})
			})
		}
	}
}

func TestWhatIsHopelessIsRefusedByAFullQueueAtOnce(t *testing.T) {
	hourly, _ := limiter.NewBucket(limiter.BucketConfig{Rate: 1.0 / 3600, Burst: 1})
	byKey, err := limiter.NewByKey(limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"l": hourly}})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.MaxQueue, c.Workers = true, 4, 1
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: byKey}}
	}, func(t *testing.T, g *governor.Plain) {
		for range 8 {
			go governor.Submit(t.Context(), forTenant(g, "l"), "", sleep(0))
		}
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
		defer cancel()
		_, err := governor.Submit(ctx, g.With(governor.Ask{Tenant: "l", Cost: 5}), "", sleep(0)).Result(ctx)
		if d := time.Since(start); d != 0 || !errors.Is(err, governor.ErrNeverAdmissible) {
			t.Errorf("it ended after %v: %v", d, err)
		}
	})
}

// Who comes by Do needs no place, and has no more of the room for that.
func TestDosHaveNotAllTheRoomOfAFullQueue(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		for i := range 8 { // have the eight places
			governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "", governor.Func(func(context.Context) (int, error) {
				return 0, governor.Again(14 * time.Minute)
			}))
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go func() {
				for ctx.Err() == nil {
					governor.Do(ctx, forTenant(g, "h"), "", sleep(100*time.Millisecond))
				}
			}()
		}
		time.AfterFunc(time.Second, func() { g.SetMaxQueue(14) })
		start := time.Now()
		short, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if _, err := governor.Submit(short, forTenant(g, "s"), "", sleep(0)).Result(t.Context()); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("it was done after %v, %v", time.Since(start), err)
		}
		cancel()
		synctest.Wait()
	})
}

func pollsFor(d time.Duration) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(context.Context) (int, error) { return 0, governor.Again(d) })
}

// A closure's own Submit is let in with the last place, behind one of its lane that finds none.
func TestWhatAClosureSubmitsIsNotKeptBackByWhoFindsNoPlace(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 3 }, func(t *testing.T, g *governor.Plain) { // twelve places
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 11 {
			governor.Submit(ctx, forTenant(g, fmt.Sprint("p", i)), "", pollsFor(2*time.Hour))
			synctest.Wait()
		}
		for range 2 {
			go governor.Do(ctx, forTenant(g, "d"), "", sleep(time.Second))
		}
		synctest.Wait()
		start := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			governor.Submit(ctx, forTenant(g, "c"), "", sleep(0)) // waits for a slot
		}()
		var inner error
		dur := time.Duration(-1)
		go governor.Do(ctx, forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
			time.Sleep(10 * time.Millisecond)
			r := governor.Submit(ctx, forTenant(g, "c"), "", sleep(0))
			time.Sleep(2 * time.Second) // two slots are idle from now on
			_, inner = r.Result(ctx)
			dur = time.Since(start)
			return 0, nil
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		s := g.Stats()
		if dur < 0 {
			t.Errorf("after a minute the closure still waits for what it has submitted; %d of 3 slots are used, %d wait", s.InFlight, s.Queued)
		}
		if inner != nil {
			t.Error(inner)
		}
	})
}

// One scope of many lanes, that is refused again and again, leaves others alone.
func TestProbesOfOnePausedScopeKeepNoOtherOut(t *testing.T) {
	for _, rule := range overflows {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprint(rule, workers), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) {
					c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, 4, workers, -1, rule
				}, func(t *testing.T, g *governor.Plain) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					x := throttle.Scope{Level: throttle.Bucket, Key: "x"}
					for i := range 40 {
						go governor.Submit(ctx, g.With(governor.Ask{Tenant: fmt.Sprint("t", i), Bucket: "x"}), "", governor.Func(func(context.Context) (int, error) {
							return 0, governortest.Limited(time.Minute, x)
						}))
						time.Sleep(30 * time.Second)
					}
					time.Sleep(30 * time.Minute)
					synctest.Wait()
					before := time.Now()
					short, end := context.WithTimeout(t.Context(), time.Hour)
					defer end()
					if _, err := governor.Submit(short, g.With(governor.Ask{Tenant: "h", Bucket: "y"}), "", sleep(0)).Result(t.Context()); err != nil || time.Since(before) > time.Second {
						s := g.Stats()
						t.Errorf("bucket y, which nobody pauses: after %v, %v; %d of %d slots are used, %d wait", time.Since(before), err, s.InFlight, workers, s.Queued)
					}
				})
			})
		}
	}
}

// In Observe, too, what has started and comes back is bounded.
func TestObserveBoundsWhatComesBackToAFullQueue(t *testing.T) {
	for _, rule := range overflows[:2] {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Observe, c.Overflow = true, 4, 1, -1, true, rule
			}, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { // one goroutine
					for range 5000 {
						governor.Submit(ctx, forTenant(g, "b"), "", pollsFor(time.Hour))
					}
				}()
				time.Sleep(time.Second)
				synctest.Wait()
				if n := g.Stats().Queued; n > 4+4+4+1 { // see Config.MaxQueue; and whose Submit waits
					t.Errorf("%d wait, MaxQueue 4, four places", n)
				}
			})
		})
	}
}

// Several tenants pause, each by its own scope, with what ran of each. (The rules that refuse
// or drop have places for two.)
func TestTenPausedTenantsKeepNoOtherOut(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 8, 8 }, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 10 {
			name := fmt.Sprint("b", i)
			for range 16 {
				go governor.Submit(ctx, forTenant(g, name), "", governor.Func(func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, governortest.Limited(50*time.Minute, tenant(name))
				}))
				synctest.Wait()
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		goesAtOnce(t, forTenant(g, "healthy"), "")
	})
}
