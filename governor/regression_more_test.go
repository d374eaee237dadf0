package governor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// What happened: Close ended contexts with an error that claims that nothing was sent, and
// closures that return what ended their context said so of calls that were.
func TestCloseMakesNoRefusalOfWhatRan(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		sent := false
		r := governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			sent = true
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}))
		synctest.Wait()
		g.Close()
		_, err := r.Result(t.Context())
		if sent && governor.IsRefused(err) {
			t.Errorf("IsRefused(%v), but the closure was called", err)
		}
	})
}

// What happened: The same, of a body that is read after its closure returned.
func TestCloseMakesNoRefusalOfABodysRead(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("half"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true})
	if err != nil {
		t.Fatal(err)
	}
	var release func(error)
	body, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (io.ReadCloser, error) {
		req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		release = governor.Hold(ctx)
		return resp.Body, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	go func() { time.Sleep(50 * time.Millisecond); g.Close() }()
	_, err = io.ReadAll(body)
	body.Close()
	release(err)
	if governor.IsRefused(err) {
		t.Errorf("IsRefused(%v) of the read of a response", err)
	}
}

// What happened: Lanes that waited for one limit were woken in the order of a heap, which let
// the same two go first again and again.
func TestLanesThatShareALimitAreServedInTurn(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBucket(t, 1, 1)
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Bucket, Limiter: b}}
			}, func(t *testing.T, g *governor.Plain) {
				served := make([]int, n)
				for i := range n {
					for range 200 {
						governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("t", i), Bucket: "b"}), "", governor.Func(func(context.Context) (int, error) {
							served[i]++
							return 0, nil
						}))
					}
				}
				time.Sleep(100*time.Second + time.Millisecond)
				g.Pause()
				var sum, sq float64
				for _, s := range served {
					sum += float64(s)
					sq += float64(s) * float64(s)
				}
				if jain := sum * sum / (float64(n) * sq); jain < 0.98 {
					t.Errorf("%d tenants in one bucket with a limit of 1/s were served %v in 100 s: Jain index %.2f", n, served, jain)
				}
			})
		})
	}
}

// What happened: A request of a higher cost starved behind cheap ones of another lane.
func TestCostlyRequestIsNotOvertakenForEver(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		t.Run(per.String(), func(t *testing.T) {
			b := newBucket(t, 1, 10)
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Limits = true, []governor.Limit{{Per: per, Limiter: b}}
			}, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				for range 1000 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "light", Bucket: "b"}), "", sleep(0))
				}
				var at time.Time
				r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "heavy", Bucket: "b", Cost: 10}), "", stamp(&at))
				<-r.Done()
				if d := at.Sub(start); d > time.Minute {
					t.Errorf("one request of cost 10 under a limit of 1/s, alone in its lane, started after %v", d)
				}
			})
		})
	}
}

// What happened: Scopes that nothing probed any more stayed as long as anything else waited.
func TestIdleScopesLeaveTheTableOfABusyGovernor(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxKeys, c.MaxWait = true, 10, -1 }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: tenant("long"), Delay: 24 * time.Hour})
		governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "long"}), "", sleep(0)) // something always waits
		for i := range 10 {
			g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Second})
			time.Sleep(time.Hour) // nobody asks for this tenant any more
		}
		if n := len(g.Stats().Cooldowns); n != 1 {
			t.Errorf("%d scopes are in the table, want 1: the others ended hours ago", n)
		}
		g.Learn(throttle.Signal{Scope: tenant("new"), Delay: time.Hour})
		start := time.Now()
		governor.Do(t.Context(), g.With(governor.Ask{Tenant: "innocent"}), "", sleep(0))
		since(t, "another tenant", start, time.Now(), 0)
	})
}

// What happened: The request went on, and was executed, after Result had called it refused.
func TestResultInAClosureMakesNoRefusalOfWhatGoesOn(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		ran := false
		var inner *governor.Request[int]
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			inner = governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { ran = true; return 1, nil }))
			return inner.Result(ctx)
		}))
		inner.Result(t.Context())
		if ran && governor.IsRefused(err) {
			t.Errorf("IsRefused(%v), but the request was executed", err)
		}
	})
}

type acquirer struct {
	n, fail atomic.Int64
}

func (b *acquirer) Ready(time.Time) error { return nil }
func (b *acquirer) Acquire(time.Time) (breaker.Permit, error) {
	if b.n.Add(1) == b.fail.Load() {
		return 0, &breaker.OpenError{}
	}
	return 1, nil
}
func (b *acquirer) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {}

// What happened: An attempt that the breaker refused gave the kept session away.
func TestKeepConnThroughABreaker(t *testing.T) {
	b := &acquirer{}
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Breaker, c.BreakerWait = true, b, true
		c.Pool.Max = 1
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second)}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		b.fail.Store(2) // of the attempt after the backoff
		var got []string
		r := governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: true}), "a", func(ctx context.Context, c *conn) (int, error) {
			got = append(got, fmt.Sprint(c.sel, c.n))
			if len(got) == 1 {
				return 0, errors.New("500")
			}
			return 1, nil
		})
		synctest.Wait()
		governor.Submit(t.Context(), g, "b", use(time.Second)) // has to wait for a's connection
		r.Result(t.Context())
		if len(got) != 2 || got[0] != got[1] {
			t.Errorf("attempts under KeepConn ran on %v, want one connection", got)
		}
	})
}

// What happened: The last attempt returned a refusal of a call inside it; the first was sent.
func TestLastAttemptsRefusalHidesNoSentOne(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second), RetryIf: func(err error) bool { return err.Error() == "500" }}
	}, func(t *testing.T, g *governor.Plain) {
		other, _ := governor.New(governor.PlainConfig{Name: "auth", NoPace: true})
		n := 0
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			if n++; n == 1 {
				return 0, errors.New("500") // the vendor got it, and may have done it
			}
			other.Close()
			_, err := governor.Do(ctx, other, "", sleep(0)) // a token for the second try
			return 0, err
		}))
		if governor.IsRefused(err) {
			t.Errorf("IsRefused(%v), but the first attempt may have been executed", err)
		}
	})
}

type exiting struct{}

func (exiting) Ready(time.Time) error                     { return nil }
func (exiting) Acquire(time.Time) (breaker.Permit, error) { return 0, nil }
func (exiting) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	runtime.Goexit()
}

// What happened: A breaker whose Report ends the goroutine cost a connection.
func TestReportThatExitsTheGoroutineLosesNothing(t *testing.T) {
	for name, ask := range map[string]governor.Ask{"plain": {}, "KeepConn": {KeepConn: true}} {
		t.Run(name, func(t *testing.T) {
			g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, Breaker: exiting{}, CloseGrace: time.Minute,
				Retry: &retry.Config{Backoff: backoff.Constant(time.Millisecond)},
				Pool: &pool.Config[string, *conn]{
					Open: func(context.Context, string) (*conn, error) { return &conn{}, nil },
				}})
			if err != nil {
				t.Fatal(err)
			}
			r := governor.Submit(t.Context(), g.With(ask), "a", func(context.Context, *conn) (int, error) { return 0, errors.New("500") })
			select {
			case <-r.Done():
			case <-time.After(time.Minute):
				t.Errorf("not complete after a minute, state %v", r.State())
			}
			if err := g.Close(); err != nil {
				t.Errorf("Close: %v; %+v", err, g.Stats().Pool)
			}
		})
	}
}

type oneAtATime struct{ out int }

func (l *oneAtATime) Wait(time.Time, string, int) time.Duration {
	if l.out > 0 {
		return time.Hour
	}
	return 0
}
func (l *oneAtATime) Take(time.Time, string, int)        { l.out++ }
func (l *oneAtATime) Settle(time.Time, string, int, int) {}
func (l *oneAtATime) Accepted(_, _ time.Time, _ string)  { l.out-- }
func (l *oneAtATime) Refused(_, _ time.Time, _ string)   { l.out-- }

// What happened: Nobody asked a limit again that an accepted call had changed.
func TestWhatWasAcceptedMayLetTheNextGo(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Tenant} {
		t.Run(per.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Limits = true, []governor.Limit{{Per: per, Limiter: &oneAtATime{}}}
			}, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				governor.Submit(t.Context(), g, "", sleep(time.Second))
				var at time.Time
				r := governor.Submit(t.Context(), g, "", stamp(&at))
				<-r.Done()
				since(t, "the next", start, at, time.Second)
			})
		})
	}
}

type trial struct {
	mu    sync.Mutex
	out   bool
	asked int
}

func (b *trial) Ready(time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.out {
		return &breaker.OpenError{}
	}
	return nil
}
func (b *trial) Acquire(time.Time) (breaker.Permit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out {
		return 0, &breaker.OpenError{}
	}
	b.out = true
	return 0, nil
}
func (b *trial) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = false
}

// What happened: A breaker that did not say when to come back was asked every millisecond.
func TestWaitingForATrialDoesNotPoll(t *testing.T) {
	b := &trial{}
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Breaker, c.BreakerWait = true, b, true
	}, func(t *testing.T, g *governor.Plain) {
		var last *governor.Request[int]
		for range 20 {
			last = governor.Submit(t.Context(), g, "", sleep(10*time.Second))
		}
		<-last.Done()
		synctest.Wait()
		if b.asked > 1000 {
			t.Errorf("the breaker was asked %d times for 20 calls", b.asked)
		}
	})
}

// What happened: A caller that left in the first use of a connection made its selector back off.
func TestCallersCancellationIsNeutralForThePool(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Pool.IsBad = func(err error) bool { return true } // whatever is no answer of the API
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			governor.Do(ctx, g, "a", use(time.Second))
			cancel()
		}
		start := time.Now()
		var at time.Time
		governor.Do(t.Context(), g, "a", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		since(t, "the next", start, at, 0)
	})
}

// What happened: What was opening its connection started after Pause had returned.
func TestNothingStartsAfterPauseReturned(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(10 * time.Second)
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		r := governor.Submit(t.Context(), g, "a", func(context.Context, *conn) (int, error) {
			t.Errorf("started %v after Pause", time.Since(start)-time.Second)
			return 0, nil
		})
		time.Sleep(time.Second)
		g.Pause()
		time.Sleep(time.Minute)
		r.Cancel()
		<-r.Done()
	})
}

// What happened: A refusal that paused a scope which is not the request's own was repeated at
// once.
func TestRefusalForAnotherScopeIsNotRepeatedAtOnce(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.LimitedAttempts = true, -1 }, func(t *testing.T, g *governor.Plain) {
		n, start := 0, time.Now()
		governor.Do(t.Context(), g.With(governor.Ask{Tenant: "123-456"}), "", governor.Func(func(context.Context) (int, error) {
			if n++; n > 1000 {
				return 0, nil
			}
			return 0, governortest.Limited(time.Minute, tenant("123456"))
		}))
		if d := time.Since(start); d < time.Minute {
			t.Errorf("%d calls in %v to a vendor that asked for a minute each time", n, d)
		}
	})
}

type choosy struct{ asked atomic.Int64 }

func (b *choosy) Ready(time.Time) error { return nil }
func (b *choosy) Acquire(time.Time) (breaker.Permit, error) {
	b.asked.Add(1)
	return 0, &breaker.OpenError{Until: time.Now().Add(time.Second)}
}
func (b *choosy) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {}

// What happened: A breaker that could admit a call, but not this one, was asked in a loop.
func TestBreakerThatRefusesIsNotAskedInALoop(t *testing.T) {
	b, l := &choosy{}, &counted{}
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Breaker: b, BreakerWait: true, Limits: []governor.Limit{{Limiter: l}}})
	if err != nil {
		t.Fatal(err)
	}
	governor.Submit(t.Context(), g, "", sleep(0))
	time.Sleep(500 * time.Millisecond)
	g.Close()
	if n := b.asked.Load(); n > 1000 {
		t.Errorf("asked %d times in 500ms, %d permits taken, although it said to come back in 1s", n, l.takes)
	}
}

// What happened: The closure had done something before a call inside it was refused.
func TestRefusalInsideAClosureIsNoRefusalOfIt(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		paid := 0
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			paid++
			_, err := governor.Do(ctx, g, "", sleep(0)) // ErrReentrant
			return 0, err
		}))
		if paid > 0 && governor.IsRefused(err) {
			t.Errorf("IsRefused(%v), but the closure ran", err)
		}
	})
}

// What happened: A request whose limit admits it at its latest start was refused then.
func TestLatestStartAtWhichALimitJustAdmits(t *testing.T) {
	b := newBucket(t, 1, 1)
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Per: throttle.Host, Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Do(t.Context(), g, "", sleep(0))
		_, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: start.Add(time.Second)}), "", sleep(0))
		if err != nil && time.Since(start) > 0 {
			t.Errorf("refused only after %v: %v", time.Since(start), err)
		}
	})
}

// What happened: Under KeepConn requests kept their slots that had never run.
func TestWhatHasNotBegunKeepsNoSlot(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace, c.Workers, c.Pool.Max, c.MaxWait = true, 2, 2, -1
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(2 * time.Second)
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		for range 2 {
			governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: true, Tenant: "a"}), "s", use(0))
		}
		time.Sleep(time.Second)
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Hour})
		time.Sleep(2 * time.Second)
		start := time.Now()
		governor.Do(t.Context(), g.With(governor.Ask{Tenant: "b"}), "s", use(0))
		if d := time.Since(start); d > time.Minute {
			t.Errorf("another tenant waited %v for slots kept by requests that have never run", d)
		}
		time.Sleep(2 * time.Hour)
	})
}

// What happened: Refusals that took longer than ProbePatience began the guesses anew.
func TestSlowRefusalsEscalateTheGuess(t *testing.T) {
	for _, tc := range []struct {
		workers int
		takes   time.Duration
	}{{1, 4 * time.Second}, {1, 6 * time.Second}, {2, 6 * time.Second}, {16, 4 * time.Second}, {16, 25 * time.Second}} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers, c.LimitedAttempts = true, tc.workers, -1 }, func(t *testing.T, g *governor.Plain) {
				var pauses []time.Duration
				var end time.Time
				r := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					if !end.IsZero() {
						pauses = append(pauses, time.Since(end))
					}
					time.Sleep(tc.takes)
					end = time.Now()
					if len(pauses) == 4 {
						return 1, nil
					}
					return 0, governortest.Limited(throttle.Unknown)
				}))
				<-r.Done()
				if want := "[15s 30s 1m0s 2m0s]"; fmt.Sprint(pauses) != want {
					t.Errorf("pauses %v, want %v", pauses, want)
				}
			})
		})
	}
}
