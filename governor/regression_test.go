// The tests in this file were written against a governor that failed them; what
// happened then is said above each.

package governor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

func noPace(c *governor.PlainConfig) { c.NoPace = true }

func newBucket(t *testing.T, rate float64, burst int) *limiter.Bucket {
	t.Helper()
	b, err := limiter.NewBucket(limiter.BucketConfig{Rate: rate, Burst: burst})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What happened: A scope that Clear removed is put back into gate.timers by commit, and its
// end later deletes the live cooldown of the same key.
func TestClearDuringAProbesDialLeavesLaterCooldownsAlone(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Workers, c.MaxWait = true, 2, -1
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(2 * time.Second)
			}
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		g.Learn(throttle.Signal{Scope: tenant("other"), Delay: 24 * time.Hour}) // keeps hold set
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Second})
		a := g.With(governor.Ask{Tenant: "a"})
		probe := governor.Submit(t.Context(), a, "slow", use(20*time.Second))
		time.Sleep(2 * time.Second) // at 1 s the probe was granted, it dials until 3 s
		g.Clear(tenant("a"))
		time.Sleep(2 * time.Second) // the probe runs since 3 s
		start := time.Now()
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		time.Sleep(10 * time.Second) // at 8 s the probe's patience ends
		_, err := governor.Do(t.Context(), a, "b", use(0))
		if d := time.Since(start); err != nil || d < time.Hour {
			t.Errorf("started %v after a cooldown of 1h was received: %v", d, err)
		}
		probe.Result(t.Context())
	})
}

// What happened: IsRefused says "never executed" of a request whose attempt may have been.
func TestIsRefusedIsFalseAfterAnAttemptThatWasSent(t *testing.T) {
	failed := errors.New("500")
	set := func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second)}
	}
	for name, learn := range map[string]time.Duration{"CooldownError": time.Hour, "LateError": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, set, func(t *testing.T, g *governor.Plain) {
				ask := governor.Ask{StartBy: time.Now().Add(time.Minute)}
				r := governor.Submit(t.Context(), g.With(ask), "", governortest.NewScript(failed).Call)
				synctest.Wait()
				g.Learn(throttle.Signal{Delay: learn})
				_, err := r.Result(t.Context())
				if governor.IsRefused(err) {
					t.Errorf("IsRefused(%v), but an attempt was made that ended in %q", err, failed)
				}
			})
		})
	}
	t.Run("OpenError", func(t *testing.T) {
		b := &switched{}
		bubble(t, func(c *governor.PlainConfig) { set(c); c.Breaker = b }, func(t *testing.T, g *governor.Plain) {
			r := governor.Submit(t.Context(), g, "", governortest.NewScript(failed).Call)
			synctest.Wait()
			b.open.Store(true)
			_, err := r.Result(t.Context())
			if governor.IsRefused(err) {
				t.Errorf("IsRefused(%v), but an attempt was made that ended in %q", err, failed)
			}
		})
	})
}

// switched counts permits and is opened and closed by hand.
type switched struct {
	open           atomic.Bool
	out            atomic.Int64
	ok, bad, other atomic.Int64
	until          time.Time
	tripOnFailure  bool
}

func (b *switched) Ready(time.Time) error {
	if b.open.Load() {
		return &breaker.OpenError{Until: b.until}
	}
	return nil
}

func (b *switched) Acquire(now time.Time) (breaker.Permit, error) {
	if err := b.Ready(now); err != nil {
		return 0, err
	}
	b.out.Add(1)
	return 1, nil
}

func (b *switched) Report(_ breaker.Permit, _ time.Time, o breaker.Outcome, _ time.Duration) {
	b.out.Add(-1)
	switch o {
	case breaker.Success:
		b.ok.Add(1)
	case breaker.Failure:
		b.bad.Add(1)
		if b.tripOnFailure {
			b.open.Store(true)
		}
	default:
		b.other.Add(1)
	}
}

// What happened: MaxKeys selectors once used are never forgotten: names.get sweeps only at
// n.sweep, which may be above n.most.
func TestIdleSelectorsMakeRoomAtMaxKeys(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxKeys = true, 10 }, func(t *testing.T, g *governor.Plain) {
		for i := range 100 {
			if _, err := governor.Do(t.Context(), g, fmt.Sprint(i), sleep(time.Millisecond)); err != nil {
				t.Errorf("selector %d, with none in use: %v", i, err)
				return
			}
			synctest.Wait()
		}
	})
}

// What happened: The caller that cancels its context as soon as Do has returned: a healthy
// connection is discarded, because release looks at the context after finish.
func TestCancelAfterDoDiscardsNoConnection(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var opened atomic.Int64
	g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, Breaker: yielding{}, Pool: &pool.Config[string, *conn]{
		Max: 1, Open: func(context.Context, string) (*conn, error) { opened.Add(1); return &conn{}, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		governor.Do(ctx, g, "", func(context.Context, *conn) (int, error) { return 1, nil })
		cancel()
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections were opened for 100 calls in turn, want 1", n)
	}
}

// yielding is a breaker that is always closed. It makes the race of
// TestCancelAfterDo likely: without it a few calls in 100,000 lose it.
type yielding struct{}

func (yielding) Ready(time.Time) error                     { return nil }
func (yielding) Acquire(time.Time) (breaker.Permit, error) { return 0, nil }
func (yielding) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	runtime.Gosched()
}

// What happened: The same for the breaker: a failure becomes neutral.
func TestCancelAfterDoHidesNoFailureFromTheBreaker(t *testing.T) {
	b := &switched{}
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Breaker: b})
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		ctx, cancel := context.WithCancel(context.Background())
		governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 1, errors.New("500") }))
		cancel()
	}
	g.Close()
	if n := b.bad.Load(); n != 5000 {
		t.Errorf("the breaker heard of %d failures and %d neutral outcomes, want 5000 failures", n, b.other.Load())
	}
}

// What happened: Calls in turn inside a closure, with a slot spare: the request completes
// before its slot is back, so the next is refused with ErrReentrant.
func TestNestedCallsInTurnFindTheSpareSlot(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
		for i := range 5000 {
			if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err != nil {
				return 0, fmt.Errorf("nested call %d: %w", i, err)
			}
		}
		return 1, nil
	}))
	if err != nil {
		t.Error(err)
	}
}

// What happened: Nested calls during a ramp wait for each other: allowed 2, two outer ones.
func TestNestedCallsInARampGoOn(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Second})
		governor.Do(t.Context(), g, "", sleep(time.Second)) // the probe
		start := time.Now()
		outer := governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, g, "", sleep(time.Second))
		})
		a, b := governor.Submit(t.Context(), g, "", outer), governor.Submit(t.Context(), g, "", outer)
		<-a.Done()
		<-b.Done()
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("two calls of 1s, each with one inside, took %v", d)
		}
	})
}

// What happened: The head of a lane that waits for a limit leaves: the next is not asked.
func TestCancelledHeadDoesNotDelayTheNext(t *testing.T) {
	b := newBucket(t, 1, 100)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g.With(governor.Ask{Cost: 100}), "", sleep(0))
		start := time.Now()
		heavy := governor.Submit(t.Context(), g.With(governor.Ask{Cost: 100}), "", sleep(0))
		var at time.Time
		light := governor.Submit(t.Context(), g, "", stamp(&at))
		time.Sleep(time.Second)
		heavy.Cancel()
		<-light.Done()
		since(t, "the next", start, at, time.Second)
	})
}

// What happened: Cancel in the moment in which an attempt's fate is decided is lost until
// the backoff is over.
func TestCancelWhileAnAttemptIsSettledIsNotLost(t *testing.T) {
	var req atomic.Pointer[governor.Request[int]]
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Hour), RetryIf: func(error) bool {
			req.Load().Cancel()
			return true
		}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		s := governortest.NewScript(errors.New("500"))
		s.Latency = time.Second
		req.Store(governor.Submit(t.Context(), g, "", s.Call))
		_, err := req.Load().Result(t.Context())
		since(t, fmt.Sprintf("completion (%v)", err), start, time.Now(), time.Second)
	})
}

// What happened: Cancel during a dial does nothing until the dial is over; and the state is
// "queued" all the while.
func TestCancelDuringADialEndsTheRequest(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(20 * time.Second)
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		r := governor.Submit(t.Context(), g, "a", use(0))
		time.Sleep(time.Second)
		if s := r.State(); s != governor.Running {
			t.Errorf("state is %v while the connection is being opened, want running", s)
		}
		r.Cancel()
		<-r.Done()
		since(t, "completion", start, time.Now(), time.Second)
	})
}

// What happened: A closure starts after its latest start when its connection took long.
func TestNothingStartsAfterItsLatestStartForASlowDial(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(20 * time.Second)
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		_, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: start.Add(5 * time.Second)}), "a",
			func(context.Context, *conn) (int, error) {
				t.Errorf("started after %v, latest start 5s", time.Since(start))
				return 0, nil
			})
		if !errors.Is(err, governor.ErrLate) {
			t.Errorf("got %v, want a *LateError", err)
		}
	})
}

// What happened: A lane parked because of what is being opened is not woken when that is
// given up: a lost wake-up.
func TestOpeningThatIsGivenUpWakesTheNext(t *testing.T) {
	for name, prior := range map[string]int{"never": 0, "timed": 1} {
		t.Run(name, func(t *testing.T) {
			l := newBucket(t, 1.0/3600, 1+prior)
			withPool(t, func(c *governor.Config[string, *conn]) {
				c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: l}}
				c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
					if sel == "slow" {
						time.Sleep(20 * time.Second)
					}
					return &conn{sel, 0}, nil
				}
				c.Pool.Close = nil
			}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
				for range prior {
					governor.Do(t.Context(), g, "other", use(0))
				}
				start := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				governor.Submit(ctx, g, "slow", use(0))
				var at time.Time
				r := governor.Submit(t.Context(), g, "fast", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
				time.Sleep(time.Second)
				cancel()
				<-r.Done()
				since(t, "the next", start, at, time.Second)
			})
		})
	}
}

// What happened: One tenant's slow dial counts against another tenant's limit.
func TestOpeningForOneTenantHoldsUpNoOther(t *testing.T) {
	l := newBucket(t, 1, 1)
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: l}}
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(20 * time.Second)
			}
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "slow", use(0))
		var at time.Time
		r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "fast", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		<-r.Done()
		since(t, "tenant b, whose limit is untouched,", start, at, 0)
	})
}

// What happened: KeepConn repeats an attempt on a connection that is known to be broken.
func TestKeepConnKeepsNoBrokenConnection(t *testing.T) {
	reset := errors.New("connection reset")
	t.Run("IsBad", func(t *testing.T) {
		withPool(t, func(c *governor.Config[string, *conn]) {
			c.NoPace = true
			c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second)}
			c.Pool.IsBad = func(err error) bool { return errors.Is(err, reset) }
		}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
			got, err := governor.Do(t.Context(), g.With(governor.Ask{KeepConn: true}), "a", use(0, reset))
			if got != "a2" || err != nil {
				t.Errorf("second attempt ran on %q (%v), want a new connection, a2", got, err)
			}
		})
	})
	t.Run("timeout", func(t *testing.T) {
		withPool(t, func(c *governor.Config[string, *conn]) {
			c.NoPace, c.AttemptTimeout = true, time.Second
			c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second), RetryIf: func(error) bool { return true }}
		}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
			n := 0
			got, err := governor.Do(t.Context(), g.With(governor.Ask{KeepConn: true}), "a", func(ctx context.Context, c *conn) (int64, error) {
				if n++; n == 1 {
					<-ctx.Done() // in the middle of an answer
					return 0, context.Cause(ctx)
				}
				return c.n, nil
			})
			if got != 2 || err != nil {
				t.Errorf("second attempt ran on connection %d (%v), want a new one, 2", got, err)
			}
		})
	})
}

// What happened: Pauses below MinCooldown: probes do not count, so nothing ends this.
func TestTinyDelaysDoNotSpin(t *testing.T) {
	for name, tc := range map[string]struct {
		delay time.Duration
		guess backoff.Schedule
	}{"stated": {time.Nanosecond, nil}, "guessed": {throttle.Unknown, backoff.Constant(0)}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Guess = true, tc.guess }, func(t *testing.T, g *governor.Plain) {
				start, n := time.Now(), 0
				governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					if n++; n > 1000 {
						return 0, nil
					}
					return 0, governortest.Limited(tc.delay)
				}))
				if d := time.Since(start); d < time.Second {
					t.Errorf("%d calls in %v to a vendor that refuses each; MinCooldown is 100ms", n, d)
				}
			})
		})
	}
}

// What happened: MaxWait does not apply to a pause of the request alone.
func TestMaxWaitBoundsAPauseOfTheRequestAlone(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		own := throttle.Scope{Level: throttle.Request}
		_, err := governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(23*time.Hour, own)).Call)
		if d := time.Since(start); d > 0 || !errors.Is(err, governor.ErrCooling) {
			t.Errorf("got %v after %v, want a *CooldownError at once: MaxWait is 15m", err, d)
		}
	})
}

// What happened: ShutdownDrop lets what comes back from an attempt wait.
func TestShutdownDropDropsWhatComesBack(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.ShutdownDrop = true, true }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		s := governortest.NewScript(governortest.Limited(10 * time.Minute))
		s.Latency = time.Second
		governor.Submit(t.Context(), g, "", s.Call)
		synctest.Wait()
		g.Shutdown(t.Context())
		since(t, "Shutdown", start, time.Now(), time.Second)
	})
}

// What happened: An open breaker does not fail what is queued in a parked lane.
func TestOpenBreakerFailsWhatIsParked(t *testing.T) {
	b := &switched{tripOnFailure: true}
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Breaker = true, b }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 10 * time.Minute})
		r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", sleep(0))
		governor.Do(t.Context(), g, "", governortest.NewScript(errors.New("500")).Call) // opens it
		_, err := r.Result(t.Context())
		if d := time.Since(start); d > time.Second {
			t.Errorf("queued request failed %v after the breaker opened: %v", d, err)
		}
	})
}

// What happened: IsBad that ends the goroutine loses slot and connection for ever.
func TestIsBadThatExitsTheGoroutineLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, CloseGrace: 100 * time.Millisecond, Pool: &pool.Config[string, *conn]{
			Open:  func(context.Context, string) (*conn, error) { return &conn{}, nil },
			IsBad: func(error) bool { runtime.Goexit(); return true },
		}})
		if err != nil {
			t.Fatal(err)
		}
		governor.Do(t.Context(), g, "a", func(context.Context, *conn) (int, error) { return 0, errors.New("500") })
		synctest.Wait()
		if st := g.Stats(); st.InFlight != 0 || st.Pool.Discarded != 1 {
			t.Errorf("%d slots are taken with nothing running, %d connections discarded, want the one that nobody vouches for", st.InFlight, st.Pool.Discarded)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What happened: Close of an idle governor with a negative CloseGrace.
func TestCloseWithoutGraceOfAnIdleGovernorIsClean(t *testing.T) {
	bad := 0
	for range 200 {
		g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, CloseGrace: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			bad++
		}
	}
	if bad > 0 {
		t.Errorf("Close of an idle governor failed %d of 200 times", bad)
	}
}

// What happened: A closure that waits for its own request.
func TestWaitingForOneselfIsRefused(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		self := make(chan *governor.Request[int], 1)
		r := governor.Submit(ctx, g, "", governor.Func(func(ctx context.Context) (int, error) { return (<-self).Result(ctx) }))
		self <- r
		_, err := r.Result(t.Context())
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("got %v after %v, want ErrReentrant", err, time.Since(start))
		}
	})
}

// What happened: Latest start at the very end of a cooldown: admitted as possible, then
// neither started nor refused early; later refused at once, as one that could start then.
func TestLatestStartAtTheEndOfACooldownIsStillInTime(t *testing.T) {
	for name, pause := range map[string]func(*governor.Plain) error{
		"cooldown": func(g *governor.Plain) error { g.Learn(throttle.Signal{Delay: time.Minute}); return nil },
		"its own": func(*governor.Plain) error {
			return governortest.Limited(time.Minute, throttle.Scope{Level: throttle.Request})
		},
		"again": func(*governor.Plain) error { return governor.Again(time.Minute) },
	} {
		bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			s := governortest.NewScript(pause(g))
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: start.Add(time.Minute)}), "", s.Call); err != nil || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %v, want a start at that moment", name, err, time.Since(start))
			}
		})
		bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			s := governortest.NewScript(pause(g))
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(time.Minute)) // ends then, as the start would be
			defer cancel()
			if _, err := governor.Do(ctx, g, "", s.Call); !errors.Is(err, governor.ErrLate) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v, want ErrLate at once", name, err, time.Since(start))
			}
		})
	}
}

// What happened: A small MaxQueue refuses a burst that the free slots would take.
func TestBurstThatFreeSlotsTakeIsNoOverflow(t *testing.T) {
	for name, rule := range map[string]governor.Overflow{"Reject": governor.Reject, "DropOldest": governor.DropOldest, "DropLower": governor.DropLower} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxQueue, c.Overflow = true, 1, rule }, func(t *testing.T, g *governor.Plain) {
				var rs []*governor.Request[int]
				for range 8 { // Workers is 8
					rs = append(rs, governor.Submit(t.Context(), g, "", sleep(time.Second)))
				}
				refused := 0
				for _, r := range rs {
					if _, err := r.Result(t.Context()); err != nil {
						refused++
					}
				}
				if refused > 0 {
					t.Errorf("%d of 8 requests were refused by an idle governor with 8 slots", refused)
				}
			})
		})
	}
}

// What happened: A hanging dial of the probe holds up other selectors beyond ProbePatience.
func TestPatienceWithAProbeIncludesItsDial(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		g.Learn(throttle.Signal{Delay: time.Second})
		start := time.Now()
		slow := governor.Submit(t.Context(), g, "slow", use(0))
		_, err := governor.Do(t.Context(), g, "fast", use(0))
		if d := time.Since(start); d > 7*time.Second {
			t.Errorf("another selector waited %v for a probe that dials (%v); ProbePatience is 5s", d, err)
		}
		slow.Cancel()
		<-slow.Done()
	})
}

// What happened: Probes that fail for 15 minutes, and then everybody at once.
func TestFailedProbesNeverEndInAHerd(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 50 }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Second})
		var running, most atomic.Int64
		down := governor.Func(func(context.Context) (int, error) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			return 0, errors.New("503")
		})
		var all []*governor.Request[int]
		for range 1000 {
			all = append(all, governor.Submit(t.Context(), g, "", down))
		}
		for _, r := range all {
			<-r.Done()
		}
		if n := most.Load(); n > 1 {
			t.Errorf("%d at once although no probe has ever succeeded", n)
		}
	})
}

// What happened: A nil selector of an interface type kills the process: in the actor.
func TestNilIsASelectorOfAnInterfaceType(t *testing.T) {
	g, err := governor.New(governor.Config[any, *conn]{Name: "x", NoPace: true, Pool: &pool.Config[any, *conn]{
		Open: func(context.Context, any) (*conn, error) { return &conn{}, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err = governor.Do(t.Context(), g, nil, func(context.Context, *conn) (int, error) { return 1, nil }); err != nil {
		t.Errorf("nil, which is a value of the interface: %v", err)
	}
}

// What happened: Stats of a closed governor: each call leaves a message behind.
func TestStatsAfterCloseLeavesNothingBehind(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true})
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 10_000 {
		g.Stats()
	}
	if grown := int64(heap()) - int64(before); grown > 200<<10 {
		t.Errorf("10,000 Stats of a closed governor leave %d KiB behind", grown>>10)
	}
	runtime.KeepAlive(g)
}

// What happened: Clear of a scope that ramps by a rate.
func TestClearDuringARatedRampIsAtOnce(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Tenant, Limiter: newBucket(t, 0.01, 100)}}
	}, func(t *testing.T, g *governor.Plain) {
		a := g.With(governor.Ask{Tenant: "a"})
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Minute})
		governor.Do(t.Context(), a, "", sleep(0)) // the probe
		governor.Do(t.Context(), a, "", sleep(0)) // the first of the ramp
		start := time.Now()
		r := governor.Submit(t.Context(), a, "", sleep(0))
		synctest.Wait()
		g.Clear(tenant("a"))
		<-r.Done()
		since(t, "what waited", start, time.Now(), 0)
	})
}

// What happened: Hold of nothing.
func TestHoldOfANilContextDoesNothing(t *testing.T) {
	var none context.Context
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("Hold(nil) panics: %v", v)
		}
	}()
	governor.Hold(none)(nil)
}

// A call with the context of what is held, which would wait for what that holds, is one
// inside its closure.
func TestWaitingForWhatOnesOwnHoldHasIsRefused(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		var kept context.Context
		var release func(error)
		if _, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			kept, release = ctx, governor.Hold(ctx)
			return 1, nil
		})); err != nil {
			t.Fatal(err)
		}
		var call error
		go func() { _, call = governor.Do(kept, g, "", sleep(0)) }()
		synctest.Wait()
		if !errors.Is(call, governor.ErrReentrant) {
			t.Errorf("while it is held: %v", call)
		}
		release(nil)
		synctest.Wait()
		if _, err := governor.Do(kept, g, "", sleep(0)); errors.Is(err, governor.ErrReentrant) {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestCancelOfWhatWasTurnedAwayCountsOnce(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxKeys, c.MaxQueue = true, 1, 2 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		governor.Submit(t.Context(), g, "", sleep(0)) // takes the only lane
		synctest.Wait()
		for range 2000 {
			r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "", sleep(0))
			r.Cancel()
			<-r.Done()
		}
		synctest.Wait()
		if n := g.Stats().Queued; n != 1 {
			t.Errorf("queued %d, want 1", n)
		}
		g.Resume()
	})
}

func TestCancelledHeadThatWaitsForAnOpeningDoesNotDelayTheNext(t *testing.T) {
	l := newBucket(t, 1.0/3600, 3)
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Host, Limiter: l}}
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(20 * time.Second)
			}
			return &conn{sel, 0}, nil
		}
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		governor.Submit(t.Context(), g.With(governor.Ask{Cost: 2}), "slow", use(0))
		heavy := governor.Submit(t.Context(), g.With(governor.Ask{Cost: 2}), "fast", use(0))
		var at time.Time
		light := governor.Submit(t.Context(), g, "fast", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		time.Sleep(time.Second)
		heavy.Cancel()
		<-light.Done()
		since(t, "the next", start, at, time.Second)
	})
}

func TestNestedCallsAfterAnIdleRampGoOn(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Second})
		governor.Do(t.Context(), g, "", sleep(time.Second)) // the probe
		time.Sleep(10 * time.Second)                        // idle for longer than ProbePatience
		start := time.Now()
		outer := governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, g, "", sleep(time.Second))
		})
		a, b := governor.Submit(t.Context(), g, "", outer), governor.Submit(t.Context(), g, "", outer)
		<-a.Done()
		<-b.Done()
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("two calls of 1s, each with one inside, took %v", d)
		}
	})
}

func TestOpeningThatFailsAlwaysWakesTheNext(t *testing.T) {
	for i := range effort.Times(100) {
		l := newBucket(t, 1.0/3600, 1)
		fail := make(chan struct{})
		g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, Workers: 4, OpenAttempts: 1,
			Limits: []governor.Limit{{Per: throttle.Tenant, Limiter: l}},
			Pool: &pool.Config[string, *conn]{Max: 4, Open: func(ctx context.Context, sel string) (*conn, error) {
				if sel == "slow" {
					<-fail
					return nil, errors.New("no")
				}
				return &conn{sel, 0}, nil
			}}})
		if err != nil {
			t.Fatal(err)
		}
		governor.Submit(t.Context(), g, "slow", use(0))
		r := governor.Submit(t.Context(), g, "fast", use(0))
		g.Stats()
		close(fail)
		select {
		case <-r.Done():
		case <-time.After(time.Minute):
			t.Fatalf("lost wake-up at iteration %d: %v", i, r.State())
		}
		g.Close()
	}
}

func TestShutdownOfADrainedGovernorIsNil(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		g.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		for range 100 {
			if g.Shutdown(ctx) != nil {
				n++
			}
		}
		if n > 0 {
			t.Errorf("%d of 100 Shutdowns of a drained governor failed", n)
		}
	})
}

func TestFailuresInARampDoNotOutlastPatience(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true; c.Workers = 32 }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Second})
		governor.Do(t.Context(), g, "", sleep(time.Second)) // the probe
		start := time.Now()
		var last *governor.Request[int]
		for range 640 {
			last = governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				time.Sleep(time.Second)
				return 0, errors.New("404")
			}))
		}
		<-last.Done()
		if d := time.Since(start); d != 36*time.Second { // of which 20 are rounds of 2, 4, 8 and 16
			t.Errorf("640 failing calls of 1 s on 32 slots took %v, want 36 s", d)
		}
	})
}

func TestPauseDoesNotEndProbingInAHerd(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Second})
		g.Pause()
		for range 8 {
			governor.Submit(t.Context(), g, "", sleep(time.Second))
		}
		time.Sleep(20 * time.Minute)
		g.Resume()
		time.Sleep(time.Millisecond)
		if n := g.Stats().InFlight; n > 1 {
			t.Errorf("%d started at once after a cooldown that nothing has probed", n)
		}
		time.Sleep(time.Hour)
	})
}

func TestIsRefusedIsFalseOfAPanic(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			panic(governor.ErrQueueFull) // after the vendor was called
		}))
		if governor.IsRefused(err) {
			t.Errorf("IsRefused of %v", err)
		}
	})
}

func TestOpeningUnderAHostLimitHoldsUpNoIdleConnection(t *testing.T) {
	l := newBucket(t, 1.0/60, 2)
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Host, Limiter: l}}
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(20 * time.Minute)
			}
			return &conn{sel, 0}, nil
		}
		c.Pool.OpenTimeout = time.Hour
		c.Pool.Close = nil
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		governor.Do(t.Context(), g, "idle", use(0)) // 1 permit left
		slow := governor.Submit(t.Context(), g, "slow", use(0))
		synctest.Wait()
		governor.Submit(t.Context(), g, "new", use(0)) // would open, too
		start := time.Now()
		var at time.Time
		r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "idle", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		<-r.Done()
		since(t, "one with an idle connection and a permit", start, at, 0)
		slow.Cancel()
		time.Sleep(time.Hour)
	})
}

func TestHoldReleasedAtOnceWithCloseCompletes(t *testing.T) {
	for range effort.Times(50) {
		synctest.Test(t, func(t *testing.T) {
			g, _ := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Workers: 2})
			r := governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				rel := governor.Hold(ctx)
				go rel(nil)
				return 1, nil
			}))
			go g.Close()
			if _, err := r.Result(t.Context()); err != nil && !governor.IsRefused(err) {
				t.Error(err)
			}
			g.Close()
			if r.State() != governor.Done || g.Stats().InFlight != 0 {
				t.Error(r.State(), g.Stats().InFlight)
			}
		})
	}
}
