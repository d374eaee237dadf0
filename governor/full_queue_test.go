package governor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// filled is a governor whose queue is full of what tenant a has, which pauses for an hour.
func filled(t *testing.T, set func(*governor.PlainConfig), fn func(t *testing.T, g *governor.Plain)) {
	t.Helper()
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.MaxQueue, c.Workers, c.MaxWait = true, 4, 1, -1
		set(c)
	}, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		for range g.Stats().MaxQueue {
			governor.Submit(t.Context(), forTenant(g, "a"), "", sleep(0))
		}
		synctest.Wait()
		fn(t, g)
	})
}

// What a closure waits for may be what its submitter does next.
func TestSubmitToAFullQueueReturnsWhenItsRequestStarts(t *testing.T) {
	filled(t, func(*governor.PlainConfig) {}, func(t *testing.T, g *governor.Plain) {
		start, answers := time.Now(), make(chan int)
		r := governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) { return <-answers, nil }))
		answers <- 7
		if n, err := r.Result(t.Context()); n != 7 || err != nil {
			t.Error(n, err)
		}
		since(t, "it ended", start, time.Now(), 0)
	})
}

// As many have left Submit that came when the queue was full, and come back, as may: the
// next starts, and leaves it when one of those is done, or it is itself, or there is room.
func TestWhatComesBackToAFullQueueKeepsSubmittersThere(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) {}, func(t *testing.T, g *governor.Plain) { // four places
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		polls := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(30 * time.Minute) })
		poll := func(tenant string) chan *governor.Request[int] {
			left := make(chan *governor.Request[int], 1)
			go func() { left <- governor.Submit(ctx, forTenant(g, tenant), "", polls) }()
			synctest.Wait()
			return left
		}
		var have []*governor.Request[int]
		for _, tenant := range []string{"e", "f", "h", "i"} {
			have = append(have, <-poll(tenant))
		}
		stays := func(left chan *governor.Request[int], what string) {
			t.Helper()
			synctest.Wait()
			if len(left) > 0 {
				t.Errorf("%s has left Submit", what)
			}
		}
		k, l := poll("k"), poll("l")
		stays(k, "who finds no place")
		start := time.Now()
		if _, err := governor.Submit(t.Context(), forTenant(g, "m"), "", sleep(time.Second)).Result(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "what is done has left Submit", start, time.Now(), time.Second)
		have[0].Cancel()
		time.Sleep(30 * time.Minute) // while a pauses: k and l run once more, and the first of them finds the place
		synctest.Wait()
		if len(k)+len(l) != 1 {
			t.Errorf("%d have left Submit by one place", len(k)+len(l))
		}
		n := poll("n")
		stays(n, "who finds no place")
		g.SetMaxQueue(20)
		synctest.Wait()
		if len(k)+len(l)+len(n) != 3 {
			t.Errorf("%d of 3 have left Submit with room for all", len(k)+len(l)+len(n))
		}
	})
}

// Who runs without a place has left Submit when one comes back, as they do when all is closed.
func TestWhoRunsWithoutAPlaceLeavesSubmit(t *testing.T) {
	for _, closes := range []bool{false, true} {
		filled(t, func(c *governor.PlainConfig) { c.CloseGrace = time.Second }, func(t *testing.T, g *governor.Plain) { // four places
			polls := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(time.Hour) })
			var have []*governor.Request[int]
			for i := range 4 {
				have = append(have, governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "", polls))
				synctest.Wait()
			}
			start, end := time.Now(), make(chan struct{})
			time.AfterFunc(time.Minute, func() {
				if closes {
					g.Close()
				} else {
					have[0].Cancel()
				}
			})
			r := governor.Submit(t.Context(), forTenant(g, "k"), "", governor.Func(func(context.Context) (int, error) { <-end; return 1, nil }))
			since(t, "Submit returned", start, time.Now(), time.Minute)
			close(end)
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// One lane cannot have all places beyond MaxQueue, and no number of lanes the last one.
func TestPollsKeepNoOtherLaneOutOfAFullQueue(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.MaxQueue = 40 }, func(t *testing.T, g *governor.Plain) {
		polls := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(14 * time.Minute) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var left atomic.Int64
		for _, lane := range []string{"b", "c", "d"} { // take five places of ten, three, and one
			for range 20 {
				go func() { governor.Submit(ctx, forTenant(g, lane), "", polls); left.Add(1) }()
				synctest.Wait()
			}
		}
		if n := left.Load(); n != 9 {
			t.Errorf("%d have left Submit, want nine", n)
		}
		for lane := range 100 {
			start := time.Now()
			if _, err := governor.Submit(t.Context(), forTenant(g, fmt.Sprint(lane)), "", sleep(0)).Result(t.Context()); err != nil {
				t.Error(err)
			}
			since(t, "it was done", start, time.Now(), 0)
		}
	})
}

// Who waits for a limit of its own fills the queue as what is paused does.
func TestAFullQueueTakesWhatWaitsForSlotsAlone(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			once := newBucket(t, 1.0/3600, 1)
			byKey, err := limiter.NewByKey(limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"b": once}})
			if err != nil {
				t.Fatal(err)
			}
			filled(t, func(c *governor.PlainConfig) {
				c.Overflow, c.Limits, c.Workers = rule, []governor.Limit{{Per: throttle.Tenant, Limiter: byKey}}, 2
			}, func(t *testing.T, g *governor.Plain) {
				before := g.Stats()
				var kept []*governor.Request[int]
				submit := func(tenant string, in bool) {
					t.Helper()
					r := governor.Submit(t.Context(), forTenant(g, tenant), "", sleep(time.Second))
					synctest.Wait()
					if in {
						kept = append(kept, r)
					} else if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrQueueFull) {
						t.Errorf("of %s got %v, want ErrQueueFull", tenant, err)
					}
				}
				start := time.Now()
				submit("b", true)  // starts
				submit("b", false) // its limit keeps it back
				submit("c", true)  // starts
				submit("c", true)  // both slots are taken
				submit("d", true)
				submit("e", false) // two wait for them already
				submit("a", false)
				s := g.Stats()
				refused, submitted := s.Refused-before.Refused, s.Submitted-before.Submitted
				if rule == governor.Reject && (refused != 3 || submitted != 4) {
					t.Errorf("%d refused, %d submitted; want 3 and 4", refused, submitted)
				}
				if s.Queued != 6 {
					t.Errorf("%d wait, want six", s.Queued)
				}
				for _, r := range kept {
					if _, err := r.Result(t.Context()); err != nil {
						t.Error(err)
					}
				}
				since(t, "they ended", start, time.Now(), 2*time.Second)
			})
		})
	}
}

// failsFor has the pool open no connection for a selector.
func failsFor(c *governor.Config[string, *conn], down string) {
	open := c.Pool.Open
	c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
		if sel == down {
			return nil, errors.New("connection refused")
		}
		return open(ctx, sel)
	}
}

// Whatever else keeps a request back keeps it out of a full queue.
func TestAFullQueueTakesNothingThatHasToWaitForMore(t *testing.T) {
	another := func(g *connected) { // tries to have one opened
		governor.Submit(context.Background(), g.With(governor.Ask{Tenant: "c"}), "down", use(0))
		synctest.Wait()
	}
	b, err := breaker.New(breaker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		set   func(*governor.Config[string, *conn])
		first func(*connected)
		fill  int // 0: 4
		is    error
	}{
		"nothing":             {is: nil},
		"the governor pauses": {first: (*connected).Pause, is: governor.ErrQueueFull},
		"the host pauses":     {first: func(g *connected) { g.Learn(throttle.Signal{Delay: time.Minute}) }, is: governor.ErrQueueFull},
		"its tenant pauses": {first: func(g *connected) {
			g.Learn(throttle.Signal{Scope: tenant("b"), Delay: time.Minute})
		}, is: governor.ErrQueueFull},
		"its tenant pauses, which is observed": {set: func(c *governor.Config[string, *conn]) { c.Observe = true }, first: func(g *connected) {
			g.Learn(throttle.Signal{Scope: tenant("b"), Delay: time.Minute})
		}},
		"the breaker is open": {set: func(c *governor.Config[string, *conn]) {
			c.Breaker, c.BreakerWait = b, true
		}, first: func(*connected) { b.Transition(breaker.ForcedOpen) }, is: governor.ErrQueueFull},
		"others need more of the host's limit": {set: func(c *governor.Config[string, *conn]) {
			c.Limits = []governor.Limit{{Limiter: newBucket(t, 1.0/3600, 10)}}
		}, first: func(g *connected) {
			governor.Submit(context.Background(), g.With(governor.Ask{Tenant: "c", Cost: 9}), "", use(0))
			synctest.Wait()
		}, fill: 3, is: governor.ErrQueueFull},
		"others need more of its tenant's limit": {set: func(c *governor.Config[string, *conn]) {
			c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: newBucket(t, 1.0/3600, 10)}}
		}, first: func(g *connected) {
			for range 2 {
				governor.Submit(context.Background(), g.With(governor.Ask{Tenant: "b", Cost: 6}), "", use(0))
				synctest.Wait()
			}
		}, fill: 3, is: governor.ErrQueueFull},
		"no connection could be opened": {set: func(c *governor.Config[string, *conn]) {
			c.OpenAttempts = 1
			failsFor(c, "down")
		}, first: another, is: governor.ErrQueueFull},
		"no connection can be opened": {set: func(c *governor.Config[string, *conn]) {
			failsFor(c, "down")
		}, first: another, is: governor.ErrQueueFull},
	} {
		t.Run(name, func(t *testing.T) {
			withPool(t, func(c *governor.Config[string, *conn]) {
				c.NoPace, c.MaxQueue, c.Workers, c.Overflow, c.MaxWait = true, 4, 4, governor.Reject, -1
				if tc.set != nil {
					tc.set(c)
				}
			}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
				for range cmp.Or(tc.fill, 4) {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", func(context.Context, *conn) (int, error) {
						return 0, governor.Again(time.Hour)
					})
				}
				synctest.Wait()
				if tc.first != nil {
					tc.first(g)
				}
				err := error(nil)
				if r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "down", use(time.Second)); r.State() == governor.Done {
					_, err = r.Result(t.Context())
				}
				if !errors.Is(err, tc.is) {
					t.Errorf("got %v, want %v", err, tc.is)
				}
			})
		})
	}
}

// What fills the queue may go at this very moment.
func TestAFullQueueIsLookedAtBeforeItRefuses(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Overflow, c.Workers = governor.Reject, 4 }, func(t *testing.T, g *governor.Plain) {
		time.Sleep(time.Hour)
		for range 20 {
			if _, err := governor.Submit(t.Context(), forTenant(g, "a"), "", sleep(0)).Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSubmitFromWithinAClosureToAFullQueue(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) {}, func(t *testing.T, g *governor.Plain) {
		var inner []*governor.Request[int]
		_, err := governor.Do(t.Context(), forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
			ctx = context.WithoutCancel(ctx) // it is a closure's all the same
			inner = append(inner, governor.Submit(ctx, forTenant(g, "c"), "", sleep(0)), governor.Submit(ctx, forTenant(g, "a"), "", sleep(0)))
			return 0, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		_, ok := inner[0].Result(t.Context())
		if _, err := inner[1].Result(t.Context()); ok != nil || !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("what waits for a slot: %v; what is paused: %v; want ErrReentrant", ok, err)
		}
	})
}

// Nobody is refused for want of a lane who would have had one when there is room.
func TestWhoWaitsForRoomHasALane(t *testing.T) {
	for most, refused := range map[int]int{1: 20, 4: 0} {
		t.Run(fmt.Sprintf("MaxKeys %d", most), func(t *testing.T) {
			filled(t, func(c *governor.PlainConfig) { c.MaxKeys = most }, func(t *testing.T, g *governor.Plain) {
				g.Pause()
				errs := make(chan error, 20)
				for i := range cap(errs) {
					go func() {
						_, err := governor.Do(t.Context(), forTenant(g, fmt.Sprint(i)), "", sleep(0))
						errs <- err
					}()
				}
				synctest.Wait()
				if len(errs) != refused {
					t.Errorf("%d are refused, want %d", len(errs), refused)
				}
				g.Resume()
				for range cap(errs) {
					if err := <-errs; err != nil && !(refused > 0 && errors.Is(err, governor.ErrTooManyKeys)) {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Those who wait for room at one host take none of what all hosts have.
func TestWhoWaitsForRoomAtOneHostKeepsNobodyOutOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gr, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
			Config: func(host string) (governor.PlainConfig, error) {
				return governor.PlainConfig{Name: host, MaxQueue: 2, Workers: 1, NoPace: true}, nil
			},
			MaxQueue: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer gr.Close()
		at := func(host string) *governor.Plain {
			g, err := gr.Get(host)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		at("a").Pause()
		at("b").Pause()
		results := make(chan *governor.Request[int], 10)
		for range cap(results) {
			go func() { results <- governor.Submit(t.Context(), at("a"), "", sleep(0)) }()
		}
		synctest.Wait()
		if len(results) != 2 {
			t.Fatalf("%d were submitted, want two", len(results))
		}
		b := governor.Submit(t.Context(), at("b"), "", sleep(0))
		if s := b.State(); s != governor.Queued {
			t.Errorf("the other host's is %v", s)
		}
		full := governor.Submit(t.Context(), at("b"), "", sleep(0))
		if _, err := full.Result(t.Context()); !errors.Is(err, governor.ErrQueueFull) {
			t.Errorf("a fourth got %v, want ErrQueueFull", err)
		}
		at("a").Resume()
		for range cap(results) {
			if _, err := (<-results).Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		at("b").Resume()
		if _, err := b.Result(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Each that waits for room could start, come back, and have left Submit.
func TestWhatStartsFromAFullQueueAndComesBackIsBounded(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.MaxQueue, c.MaxKeys, c.Workers = true, 4, 4, 1
	}, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var left atomic.Int64
		for i := range 1000 {
			go func() {
				governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "", governor.Func(func(context.Context) (int, error) {
					return 0, governor.Again(10 * time.Minute)
				}))
				left.Add(1)
			}()
		}
		synctest.Wait()
		g.Resume()
		time.Sleep(time.Second)
		if n := left.Load(); n < 8 || n > 16 { // one may start before the last one is back, and then another
			t.Errorf("%d have left Submit, want four, four more, and a few that ran", n)
		}
	})
}

// While all slots are taken nobody looks at what comes next.
func TestAFullQueueTakesWhatWaitsForASlotWhileNoneIsFree(t *testing.T) {
	whileNoneIsFree := func(t *testing.T, rule governor.Overflow, limited bool) {
		t.Run(fmt.Sprintf("%v limited %t", rule, limited), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, 4, 1, -1, rule
				if limited {
					c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: newBucket(t, 1./3600, 1)}}
				}
			}, func(t *testing.T, g *governor.Plain) {
				if call(t, forTenant(g, "a"), sleep(0)); !limited { // else nothing is left of a's limit for an hour
					g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
				}
				governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(time.Second))
				synctest.Wait()
				for range 4 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Priority: 1}), "", sleep(0))
				}
				synctest.Wait()
				if _, err := governor.Submit(t.Context(), forTenant(g, "c"), "", sleep(0)).Result(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropOldest, governor.DropLower} {
		whileNoneIsFree(t, rule, false)
		whileNoneIsFree(t, rule, true)
	}
}

// Nor does it matter what could go before it.
func TestAFullQueueOfWhatCannotGoBehindWhatCouldKeepsNobodyOut(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropOldest, governor.DropLower} {
		for _, limited := range []bool{false, true} {
			for first := range 3 { // its priority; that of the others is 1
				t.Run(fmt.Sprintf("%v limited %t after %d", rule, limited, first), func(t *testing.T) {
					bubble(t, func(c *governor.PlainConfig) {
						c.NoPace, c.MaxQueue, c.Workers, c.MaxWait, c.Overflow = true, 4, 2, -1, rule
						if limited {
							c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: newBucket(t, 1./3600, 1)}}
						}
					}, func(t *testing.T, g *governor.Plain) {
						if call(t, forTenant(g, "a"), sleep(0)); !limited {
							g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
						}
						governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(time.Second))
						governor.Submit(t.Context(), forTenant(g, "b2"), "", sleep(time.Second))
						synctest.Wait()
						governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "first", Priority: first}), "", sleep(0))
						synctest.Wait()
						for range 3 {
							governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Priority: 1}), "", sleep(0))
						}
						synctest.Wait()
						if _, err := governor.Submit(t.Context(), forTenant(g, "c"), "", sleep(0)).Result(t.Context()); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

func TestAQueueThatWasMadeShorterKeepsNobodyOutWhoCouldStart(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.MaxQueue = 10 }, func(t *testing.T, g *governor.Plain) {
		if err := g.SetMaxQueue(5); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		governor.Submit(t.Context(), forTenant(g, "b"), "", sleep(0))
		since(t, "Submit returned", start, time.Now(), 0)
	})
}

func TestWhatCouldStartHasALane(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Block, governor.Reject, governor.DropOldest, governor.DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.MaxQueue, c.MaxKeys, c.Workers, c.MaxWait, c.Overflow = true, 4, 4, 1, -1, rule
			}, func(t *testing.T, g *governor.Plain) {
				g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Bucket, Key: "x"}, Delay: time.Hour})
				for i := range 4 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i), Bucket: "x"}), "", sleep(0))
				}
				synctest.Wait()
				if _, err := governor.Submit(t.Context(), forTenant(g, "c"), "", sleep(0)).Result(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A closure waits for no room, but for what its own call waits for anyway.
func TestDoFromWithinAClosureWaitsOutAPauseInAFullQueue(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		g.Learn(throttle.Signal{Scope: tenant("c"), Delay: time.Second})
		_, err := governor.Do(t.Context(), forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, forTenant(g, "c"), "", sleep(0))
		}))
		if err != nil {
			t.Error(err)
		}
		since(t, "it ended", start, time.Now(), time.Second)
	})
}

// What was refused as the probe again and again is set aside, behind all others of its lane.
func TestAFullQueueGetsOverAnOutage(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxQueue, c.Workers = 32, 8 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		fn := governor.Func(func(context.Context) (int, error) {
			time.Sleep(100 * time.Millisecond)
			if time.Since(start) < 30*time.Minute {
				return 0, governortest.Limited(time.Second)
			}
			return 1, nil
		})
		var done atomic.Int64
		for range 200 {
			go func() { governor.Submit(t.Context(), g, "", fn).Result(t.Context()); done.Add(1) }()
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if s := g.Stats(); done.Load() != 200 {
			t.Errorf("%d of 200 are done, %d wait, %d in flight", done.Load(), s.Queued, s.InFlight)
		}
	})
}

// Whoever finds no place, a call from within a closure does not wait for it.
func TestWhoFindsNoPlaceHoldsNoClosureUp(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 2 }, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		polls := governor.Func(func(context.Context) (int, error) { return 0, governor.Again(14 * time.Minute) })
		for i := range 12 { // eight have all places
			go governor.Submit(ctx, forTenant(g, fmt.Sprint(i)), "", polls)
			synctest.Wait()
		}
		go governor.Submit(ctx, forTenant(g, "c"), "", polls)
		synctest.Wait()
		for _, submits := range []bool{false, true} {
			start := time.Now()
			v, err := governor.Do(t.Context(), forTenant(g, "b"), "", governor.Func(func(ctx context.Context) (int, error) {
				if submits {
					_, err := governor.Submit(ctx, forTenant(g, "c"), "", sleep(0)).Result(ctx)
					if !errors.Is(err, governor.ErrReentrant) { // there is no place for it
						t.Error(err)
					}
					return 1, nil
				}
				return governor.Do(ctx, forTenant(g, "c"), "", sleep(0))
			}))
			if v != 1 || err != nil {
				t.Error(v, err)
			}
			since(t, "it was done", start, time.Now(), 0)
		}
	})
}

// An inner governor's error is no end of the closure's own.
func TestAPlaceBeyondAFullQueueComesBackWithWhateverError(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) {}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		for _, err := range []error{governor.ErrAbandoned, governor.ErrClosed, errors.New("503")} {
			governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) { return 0, err })).Result(t.Context())
		}
		since(t, "they were done", start, time.Now(), 0)
	})
}

// Who looks at a full queue leaves it as it is.
func TestWhatIsRefusedLeavesTheOrderOfThoseThatPause(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Workers, c.MaxQueue, c.MaxWait, c.Overflow = true, 1, 6, -1, governor.Reject
	}, func(t *testing.T, g *governor.Plain) {
		governor.Submit(t.Context(), forTenant(g, "z"), "", sleep(10*time.Second))
		synctest.Wait()
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Selector, Key: "s"}, Delay: 20 * time.Second})
		order := ""
		for i := range 6 {
			governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "s", governor.Func(func(context.Context) (int, error) {
				order += fmt.Sprint(i)
				time.Sleep(time.Second)
				return 0, nil
			}))
			synctest.Wait()
		}
		governor.Submit(t.Context(), forTenant(g, "q"), "s", sleep(0))
		time.Sleep(time.Hour)
		synctest.Wait()
		if order != "012345" {
			t.Errorf("order %s", order)
		}
	})
}

// Half of the places are enough for all slots.
func TestAFullQueueLeavesNoSlotIdle(t *testing.T) {
	filled(t, func(c *governor.PlainConfig) { c.Workers = 8 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var running atomic.Int64
		all := make(chan struct{})
		var rs []*governor.Request[int]
		for range 8 {
			rs = append(rs, governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) {
				if running.Add(1) == 8 {
					close(all)
				}
				<-all // they need each other
				return 0, nil
			})))
		}
		for _, r := range rs {
			<-r.Done()
		}
		since(t, "they were done", start, time.Now(), 0)
	})
}

// owes fills the queue of a governor with one slot with four requests of a tenant that
// pauses, and has another lane's polls take all places that it may have: who starts next
// of that lane has none.
func owes(t *testing.T, fn func(t *testing.T, g *governor.Plain, waiting []*governor.Request[int])) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxQueue, c.Workers, c.MaxWait = true, 4, 1, -1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		var waiting []*governor.Request[int]
		for range 4 {
			waiting = append(waiting, governor.Submit(t.Context(), forTenant(g, "a"), "", sleep(0)))
		}
		synctest.Wait()
		g.Resume()
		for range 2 {
			governor.Submit(t.Context(), forTenant(g, "b"), "", pollsFor(2*time.Hour))
			synctest.Wait()
		}
		fn(t, g, waiting)
	})
}

func TestRoomLetsTheSubmitterGoWhoseRequestRunsWithoutAPlace(t *testing.T) {
	owes(t, func(t *testing.T, g *governor.Plain, waiting []*governor.Request[int]) {
		left, answer := false, make(chan int)
		go func() {
			governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) {
				return <-answer, nil
			}))
			left = true
			answer <- 1 // what the closure waits for
		}()
		synctest.Wait()
		if left {
			t.Fatal("there is a place")
		}
		for _, r := range waiting {
			r.Cancel()
		}
		synctest.Wait()
		if !left {
			t.Error("Submit is kept though there is room")
			answer <- 1
		}
	})
}

func TestWhatComesBackWithoutAPlaceFindsRoom(t *testing.T) {
	owes(t, func(t *testing.T, g *governor.Plain, waiting []*governor.Request[int]) {
		left := false
		go func() {
			governor.Submit(t.Context(), forTenant(g, "b"), "", governor.Func(func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 0, governor.Again(30 * time.Minute)
			}))
			left = true
		}()
		synctest.Wait()
		if left {
			t.Fatal("there is a place")
		}
		for _, r := range waiting[1:] {
			r.Cancel()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !left {
			t.Error("Submit is kept though there is room")
		}
		if n := g.Stats().Queued; n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
	})
}

// Whoever comes to a full queue hears that it is, however many could go before him.
func TestAFullQueueOfManyLanesRefuses(t *testing.T) {
	const n = 1500 // more than a turn of the actor looks at
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropLower} {
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Workers, c.MaxQueue, c.MaxWait, c.Overflow = true, n, n, -1, rule
		}, func(t *testing.T, g *governor.Plain) {
			for range n {
				governor.Submit(t.Context(), g, "", sleep(time.Hour))
			}
			synctest.Wait()
			g.Learn(throttle.Signal{Scope: tenant("paused"), Delay: time.Hour})
			for i := range n {
				governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "", sleep(0))
			}
			synctest.Wait()
			start := time.Now()
			_, err := governor.Submit(t.Context(), forTenant(g, "last"), "", sleep(0)).Result(t.Context())
			if !errors.Is(err, governor.ErrQueueFull) || time.Since(start) > 0 {
				t.Errorf("%v: %v after %v", rule, err, time.Since(start))
			}
			if n := g.Stats().Queued; n != 1500 {
				t.Errorf("%v: %d wait", rule, n)
			}
		})
	}
}

// However many slots there are, what is paused fills the queue for none who needs but one.
func TestAFullQueueOfPausedLanesLetsInWhatWaitsForASlot(t *testing.T) {
	for _, n := range []int{600, 1500} { // fewer, and more, than a turn of the actor looks at by itself
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Workers, c.MaxQueue, c.MaxWait, c.Overflow = true, n, n, -1, governor.Reject
		}, func(t *testing.T, g *governor.Plain) {
			for range n {
				governor.Submit(t.Context(), g, "", sleep(time.Hour))
			}
			synctest.Wait()
			could := n * 3 / 4
			for i := range could {
				governor.Submit(t.Context(), forTenant(g, fmt.Sprint(i)), "", sleep(0))
			}
			for range n - could {
				governor.Submit(t.Context(), forTenant(g, "paused"), "", sleep(0))
			}
			synctest.Wait()
			g.Learn(throttle.Signal{Scope: tenant("paused"), Delay: 3 * time.Hour})
			synctest.Wait()
			if _, err := governor.Submit(t.Context(), forTenant(g, "last"), "", sleep(0)).Result(t.Context()); err != nil {
				t.Errorf("%d slots, and %d that could go: %v", n, could, err)
			}
		})
	}
}
