package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

func TestLanesAreServedInTurnAndInOrderWithin(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var order []string
		var reqs []*governor.Request[int]
		for _, who := range []string{"a", "b", "c"} {
			for i := range 3 {
				reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: who}), "", governor.Func(func(context.Context) (int, error) {
					order = append(order, fmt.Sprint(who, i))
					return 0, nil
				})))
			}
		}
		g.Resume()
		for _, r := range reqs {
			<-r.Done()
		}
		if got := fmt.Sprint(order); got != "[a0 b0 c0 a1 b1 c1 a2 b2 c2]" {
			t.Errorf("order %s, want the lanes in turn", got)
		}
	})
}

func TestNeverMoreThanWorkersRun(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 3 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var reqs []*governor.Request[int]
		for range 10 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", sleep(time.Second)))
		}
		synctest.Wait()
		if s := g.Stats(); s.InFlight != 3 || s.Queued != 7 {
			t.Errorf("%d in flight, %d queued; want 3 and 7", s.InFlight, s.Queued)
		}
		for _, r := range reqs {
			<-r.Done()
		}
		since(t, "ten requests of a second, three at a time", start, time.Now(), 4*time.Second)
	})
}

func TestBadInputIsRefusedAtTheDoor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		ok := sleep(0)
		var none context.Context
		for _, tt := range []struct {
			name string
			req  *governor.Request[int]
			want error
		}{
			{"nil function", governor.Submit[string, struct{}, int](t.Context(), g, "", nil), governor.ErrNilFunc},
			{"Func of nil", governor.Submit(t.Context(), g, "", governor.Func[int](nil)), governor.ErrNilFunc},
			{"nil context", governor.Submit(none, g, "", ok), governor.ErrNilContext},
			{"negative cost", governor.Submit(t.Context(), g.With(governor.Ask{Cost: -1}), "", ok), governor.ErrAsk},
			{"huge cost", governor.Submit(t.Context(), g.With(governor.Ask{Cost: math.MaxInt}), "", ok), governor.ErrAsk},
			{"huge priority", governor.Submit(t.Context(), g.With(governor.Ask{Priority: math.MaxInt}), "", ok), governor.ErrAsk},
		} {
			select {
			case <-tt.req.Done():
			default:
				t.Errorf("%s: Submit returned a request that is not done", tt.name)
			}
			if _, err := tt.req.Result(t.Context()); !errors.Is(err, tt.want) || !governor.IsRefused(err) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		if _, err := governor.Submit(t.Context(), g, "", ok).Result(none); !errors.Is(err, governor.ErrNilContext) {
			t.Errorf("Result(nil): %v", err)
		}
		if s := g.Stats(); s.Refused != 6 || s.Submitted != 1 {
			t.Errorf("%d refused, %d submitted; want 6 and 1", s.Refused, s.Submitted)
		}
	})
}

func TestSelectorsThatCannotBeComparedAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config[any, struct{}]{Name: "any"})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for _, sel := range []any{math.NaN(), []int{1}, map[string]int{}, struct{ f func() }{}} {
			if _, err := governor.Do(t.Context(), g, sel, sleep(0)); !errors.Is(err, governor.ErrSelector) {
				t.Errorf("%T: %v, want ErrSelector", sel, err)
			}
		}
		for _, sel := range []any{nil, 1, "one", [2]int{1, 2}} {
			if _, err := governor.Do(t.Context(), g, sel, sleep(0)); err != nil {
				t.Errorf("%T: %v", sel, err)
			}
		}
	})
}

func TestContextDoneBeforeSubmitNeverRuns(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("not today")
		cancel(cause)
		s := governortest.NewScript()
		_, err := governor.Do(ctx, g, "", s.Call)
		if !errors.Is(err, cause) || !governor.IsRefused(err) || len(s.Starts()) != 0 {
			t.Errorf("%v after %d starts, want the cause after none", err, len(s.Starts()))
		}
	})
}

func TestCancelledWhileWaitingLeavesAtOnceAndNeverRuns(t *testing.T) {
	for name, waitFor := range map[string]func(t *testing.T, g *governor.Plain){
		"a slot": func(t *testing.T, g *governor.Plain) {
			for range 8 {
				governor.Submit(t.Context(), g, "", sleep(time.Minute))
			}
		},
		"a cooldown": func(t *testing.T, g *governor.Plain) { g.Learn(throttle.Signal{Delay: time.Minute}) },
		"a tenant's cooldown": func(t *testing.T, g *governor.Plain) {
			g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Minute})
		},
		"resumption": func(t *testing.T, g *governor.Plain) { g.Pause(); t.Cleanup(func() {}) },
	} {
		for _, how := range []string{"context", "Cancel"} {
			t.Run(name+" by "+how, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, g *governor.Plain) {
					waitFor(t, g)
					synctest.Wait()
					start := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					s := governortest.NewScript()
					r := governor.Submit(ctx, g.With(governor.Ask{Tenant: "a"}), "", s.Call)
					behind := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", sleep(0))
					time.Sleep(time.Second)
					if how == "Cancel" {
						r.Cancel()
						r.Cancel()
					} else {
						cancel()
					}
					_, err := r.Result(t.Context())
					since(t, "end", start, time.Now(), time.Second)
					if !errors.Is(err, context.Canceled) || !governor.IsRefused(err) {
						t.Errorf("got %v, want a refusal that matches context.Canceled", err)
					}
					cancel()
					g.Resume()
					<-behind.Done()
					if n := len(s.Starts()); n != 0 {
						t.Errorf("it ran %d times", n)
					}
				})
			})
		}
	}
}

func TestCancelledWaitersDoNotDelayTheNext(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 10, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: bucket}} }, func(t *testing.T, g *governor.Plain) {
		<-governor.Submit(t.Context(), g, "", sleep(0)).Done()
		start := time.Now()
		var reqs []*governor.Request[int]
		for range 20 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", sleep(0)))
		}
		for _, i := range []int{3, 0, 19, 7, 1, 2, 4, 5, 6, 8, 18, 9, 10, 11, 12, 13, 14, 15, 16, 17} {
			reqs[i].Cancel()
		}
		var next time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&next)).Done()
		if d := next.Sub(start); d > 100*time.Millisecond {
			t.Errorf("after 20 cancelled waits the next took %v, want at most an interval, 100ms", d)
		}
	})
}

func TestManyRequestsShareOneContextsWatch(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		ctx, cancel := context.WithCancel(t.Context())
		var reqs []*governor.Request[int]
		for range 100 {
			reqs = append(reqs, governor.Submit(ctx, g, "", sleep(0)))
		}
		synctest.Wait()
		cancel()
		for _, r := range reqs {
			if _, err := r.Result(t.Context()); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if s := g.Stats(); s.Queued != 0 || s.LaneCount != 0 || s.Dropped != 100 {
			t.Errorf("%d queued in %d lanes, %d dropped; want 0, 0, 100", s.Queued, s.LaneCount, s.Dropped)
		}
	})
}

func TestLatestStart(t *testing.T) {
	at := func(d time.Duration) governor.Ask { return governor.Ask{StartBy: time.Now().Add(d)} }
	t.Run("passed before submission", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			_, err := governor.Do(t.Context(), g.With(at(-time.Second)), "", sleep(0))
			if !errors.Is(err, governor.ErrLate) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a *LateError", err)
			}
		})
	})
	t.Run("known at submission", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			g.Learn(throttle.Signal{Delay: time.Minute})
			_, err := governor.Do(t.Context(), g.With(at(time.Second)), "", sleep(0))
			le, ok := errors.AsType[*governor.LateError](err)
			if !ok || !le.Could.Equal(start.Add(time.Minute)) || le.RetryAfter() != time.Minute || !time.Now().Equal(start) {
				t.Errorf("got %v after %v, want at once a *LateError that could in 1m", err, time.Since(start))
			}
		})
	})
	t.Run("known from a new cooldown", func(t *testing.T) {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			s := governortest.NewScript(governortest.Limited(time.Minute))
			s.Latency = time.Second
			governor.Submit(t.Context(), g, "", s.Call)
			_, err := governor.Do(t.Context(), g.With(at(10*time.Second)), "", sleep(0))
			since(t, "refusal", start, time.Now(), time.Second)
			if !errors.Is(err, governor.ErrLate) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("of the context's deadline", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			g.Learn(throttle.Signal{Delay: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := governor.Do(ctx, g, "", sleep(0))
			if !errors.Is(err, governor.ErrLate) || !time.Now().Equal(start) {
				t.Errorf("got %v after %v, want a *LateError at once", err, time.Since(start))
			}
		})
	})
	t.Run("while waiting for a slot", func(t *testing.T) {
		bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			governor.Submit(t.Context(), g, "", sleep(time.Minute))
			_, err := governor.Do(t.Context(), g.With(at(10*time.Second)), "", sleep(0))
			since(t, "refusal", start, time.Now(), 10*time.Second+1) // at 10 s it might still have started
			if !errors.Is(err, governor.ErrLate) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("is no deadline for what has started", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			if _, err := governor.Do(t.Context(), g.With(at(time.Second)), "", sleep(time.Minute)); err != nil {
				t.Error(err)
			}
		})
	})
}

// When they came there was a permit, and no slot.
func TestWhoCannotStartInTimeAnyMoreIsRefusedAtOnce(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 100})
		if err != nil {
			t.Fatal(err)
		}
		bubble(t, func(c *governor.PlainConfig) {
			c.Workers, c.NoPace, c.Limits = 1, true, []governor.Limit{{Per: per, Limiter: bucket}}
		}, func(t *testing.T, g *governor.Plain) {
			g.Pause()
			view := func(a governor.Ask) *governor.Plain { a.Bucket = "b"; return g.With(a) }
			start := time.Now()
			governor.Submit(t.Context(), view(governor.Ask{Cost: 100}), "", sleep(time.Second))
			late := governor.Submit(t.Context(), view(governor.Ask{Cost: 100, StartBy: start.Add(10 * time.Second)}), "", sleep(0))
			var at time.Time
			light := governor.Submit(t.Context(), view(governor.Ask{}), "", stamp(&at))
			synctest.Wait()
			g.Resume()
			_, err := late.Result(t.Context())
			since(t, "refusal", start, time.Now(), time.Second)
			if le, ok := errors.AsType[*governor.LateError](err); !ok || !le.Could.Equal(start.Add(100*time.Second)) {
				t.Errorf("got %v, want a *LateError that could start after 100s", err)
			}
			if _, err := light.Result(t.Context()); err != nil {
				t.Error(err)
			}
			since(t, "what comes after it", start, at, time.Second)
		})
	}
}

func TestWhoCannotStartInTimeIsNotKeptForTheBreaker(t *testing.T) {
	b, err := breaker.New(breaker.Config{Consecutive: 1, OpenFor: backoff.Constant(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.NoPace, c.Breaker, c.BreakerWait = 1, true, b, true }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		fails := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return 0, errors.New("503")
		}))
		late := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: start.Add(10 * time.Second)}), "", sleep(0))
		<-fails.Done()
		_, err := late.Result(t.Context())
		since(t, "refusal", start, time.Now(), time.Second)
		if le, ok := errors.AsType[*governor.LateError](err); !ok || !le.Could.Equal(start.Add(61*time.Second)) {
			t.Errorf("got %v, want a *LateError that could start after 61s", err)
		}
	})
}

// Who comes later, and who is not the next, is not kept for it either.
func TestNobodyWhoCannotStartInTimeIsKeptForTheBreaker(t *testing.T) {
	b, err := breaker.New(breaker.Config{Consecutive: 1, OpenFor: backoff.Constant(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.Workers, c.NoPace, c.Breaker, c.BreakerWait = 2, true, b, true
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		by := func(d time.Duration) *governor.Plain { return g.With(governor.Ask{StartBy: start.Add(d)}) }
		governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { time.Sleep(time.Second); return 0, errors.New("503") }))
		governor.Submit(t.Context(), g, "", sleep(1500*time.Millisecond))
		first := governor.Submit(t.Context(), g, "", sleep(0))
		late := governor.Submit(t.Context(), by(10*time.Second), "", sleep(0))
		soon := governor.Submit(t.Context(), by(61*time.Second), "", sleep(0))
		refused := func(r *governor.Request[int], at time.Duration) {
			t.Helper()
			_, err := r.Result(t.Context())
			since(t, "refusal", start, time.Now(), at)
			if le, ok := errors.AsType[*governor.LateError](err); !ok || !le.Could.Equal(start.Add(61*time.Second)) {
				t.Errorf("got %v, want a *LateError that could start after 61s", err)
			}
		}
		refused(late, time.Second)
		time.Sleep(time.Second)
		refused(governor.Submit(t.Context(), by(20*time.Second), "", sleep(0)), 2*time.Second)
		for _, r := range []*governor.Request[int]{first, soon} {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
			since(t, "it started", start, time.Now(), 61*time.Second)
		}
	})
}

func TestLatestStartBeforeALimitAdmitsIsRefusedAtOnce(t *testing.T) {
	for name, of := range map[string]func(limiter.Limiter) limiter.Limiter{
		"a limit":       func(l limiter.Limiter) limiter.Limiter { return l },
		"one of others": func(l limiter.Limiter) limiter.Limiter { return byKey(t, limiter.ByKeyConfig{Others: l}) },
		"one of a key": func(l limiter.Limiter) limiter.Limiter {
			return byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"": l}, Others: atOnce(t, 1)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 0.1, Burst: 1})
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: of(bucket)}} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				<-governor.Submit(t.Context(), g, "", sleep(0)).Done()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := governor.Do(ctx, g, "", sleep(0))
				if le, ok := errors.AsType[*governor.LateError](err); !ok || le.RetryAfter() != 10*time.Second {
					t.Errorf("got %v, want a *LateError that could start in 10s", err)
				}
				since(t, "refusal", start, time.Now(), 0)
			})
		})
	}
}

// Nobody knows when a permit comes back that is held while a call runs.
func TestLatestStartOutlastsAWaitForWhatACallHolds(t *testing.T) {
	held := atOnce(t, 1)
	for name, l := range map[string]limiter.Limiter{"a limit": held, "one of a key": byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"": held}})} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: l}} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				r := governor.Submit(t.Context(), g, "", sleep(time.Millisecond))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				defer cancel()
				if _, err := governor.Do(ctx, g, "", sleep(0)); err != nil {
					t.Error(err)
				}
				since(t, "its start", start, time.Now(), time.Millisecond)
				<-r.Done()
			})
		})
	}
}

func byKey(t *testing.T, cfg limiter.ByKeyConfig) *limiter.ByKey {
	t.Helper()
	l, err := limiter.NewByKey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEndedContextTakesNoPermit(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 0.001, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: bucket}} }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = governor.Do(ctx, g, "", sleep(0))
		g.Pause() // and one that ends while it waits
		ctx, cancel = context.WithCancel(t.Context())
		r := governor.Submit(ctx, g, "", sleep(0))
		synctest.Wait()
		cancel()
		<-r.Done()
		g.Resume()
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
		since(t, "the only permit", start, time.Now(), 0)
	})
}

func TestManyWaitWithoutAGoroutine(t *testing.T) {
	const n = 20_000
	bubble(t, func(c *governor.PlainConfig) { c.MaxQueue, c.Workers = n, 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		before := runtime.NumGoroutine()
		ran := 0
		reqs := make([]*governor.Request[int], n)
		for i := range reqs {
			reqs[i] = governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i % 1000)}), "", governor.Func(func(context.Context) (int, error) { ran++; return i, nil }))
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines more than before", after-before)
		}
		g.Resume()
		for i, r := range reqs {
			if v, err := r.Result(t.Context()); v != i || err != nil {
				t.Fatal(i, v, err)
			}
		}
		if ran != n {
			t.Errorf("%d ran, want %d", ran, n)
		}
	})
}

func TestOverflow(t *testing.T) {
	type sub struct {
		name     string
		priority int
	}
	old := []sub{{"a", 1}, {"b", 0}, {"c", 0}, {"d", 2}}
	for _, tt := range []struct {
		rule    governor.Overflow
		new     sub
		victim  string
		because error
	}{
		{governor.Reject, sub{"new", 9}, "new", governor.ErrQueueFull},
		{governor.DropOldest, sub{"new", 9}, "b", governor.ErrDropped},
		{governor.DropOldest, sub{"new", 0}, "b", governor.ErrDropped},
		{governor.DropOldest, sub{"new", -1}, "new", governor.ErrDropped},
		{governor.DropLower, sub{"new", 1}, "b", governor.ErrDropped},
		{governor.DropLower, sub{"new", 0}, "new", governor.ErrQueueFull},
	} {
		t.Run(fmt.Sprint(tt.rule, tt.new), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.MaxQueue, c.Overflow = len(old), tt.rule }, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Overflow)
				g.Pause()
				reqs := map[string]*governor.Request[int]{}
				for _, s := range append(old[:len(old):len(old)], tt.new) {
					reqs[s.name] = governor.Submit(t.Context(), g.With(governor.Ask{Priority: s.priority}), "", sleep(0))
					synctest.Wait()
				}
				for name, r := range reqs {
					if done := r.State() == governor.Done; done != (name == tt.victim) {
						t.Errorf("%s done: %v", name, done)
					}
				}
				if _, err := reqs[tt.victim].Result(t.Context()); !errors.Is(err, tt.because) || !governor.IsRefused(err) {
					t.Errorf("victim got %v, want %v", err, tt.because)
				}
				if rec.Count(event.Overflow) != 1 {
					t.Errorf("%d overflow events", rec.Count(event.Overflow))
				}
				g.Resume()
			})
		})
	}
}

func TestBlockedSubmittersEnterInOrderAsRoomIsMade(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxQueue, c.Workers = 1, 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g, "", sleep(time.Second)) // runs
		synctest.Wait()
		governor.Submit(t.Context(), g, "", sleep(time.Second)) // fills the queue
		in := make([]time.Time, 3)
		done := make(chan struct{})
		for i := range in {
			go func() {
				r := governor.Submit(t.Context(), g, "", sleep(time.Second))
				in[i] = time.Now()
				<-r.Done()
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		r := governor.Submit(ctx, g, "", sleep(0)) // leaves the line
		since(t, "cancelled submit returned", start, time.Now(), 500*time.Millisecond)
		if _, err := r.Result(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !governor.IsRefused(err) {
			t.Errorf("cancelled submit: %v", err)
		}
		for range in {
			<-done
		}
		for i := range in {
			since(t, fmt.Sprintf("blocked submitter %d entered", i), start, in[i], time.Duration(i+1)*time.Second)
		}
	})
}

func TestLoweringMaxQueueAppliesTheRule(t *testing.T) {
	for _, tt := range []struct {
		rule governor.Overflow
		left string
	}{
		{governor.Block, "[0 1 2 3 4]"}, {governor.Reject, "[0 1]"}, {governor.DropOldest, "[3 4]"}, {governor.DropLower, "[3 4]"},
	} {
		bubble(t, func(c *governor.PlainConfig) { c.Overflow = tt.rule }, func(t *testing.T, g *governor.Plain) {
			g.Pause()
			var reqs []*governor.Request[int]
			for range 5 {
				reqs = append(reqs, governor.Submit(t.Context(), g, "", sleep(0)))
			}
			if err := g.SetMaxQueue(2); err != nil {
				t.Fatal(err)
			}
			var left []int
			for i, r := range reqs {
				if r.State() == governor.Queued {
					left = append(left, i)
				}
			}
			if fmt.Sprint(left) != tt.left {
				t.Errorf("rule %v: left %v, want %s", tt.rule, left, tt.left)
			}
			if err := g.SetMaxQueue(0); err == nil {
				t.Error("SetMaxQueue(0) has no error")
			}
			g.Resume()
		})
	}
}

func TestTooManyKeys(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxKeys = 3 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var reqs []*governor.Request[int]
		for i := range 5 {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", sleep(0)))
		}
		for i := range 5 {
			reqs = append(reqs, governor.Submit(t.Context(), g, fmt.Sprint("selector ", i), sleep(0)))
		}
		synctest.Wait()
		n := 0
		for _, r := range reqs {
			if r.State() == governor.Done {
				if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrTooManyKeys) {
					t.Error(err)
				}
				n++
			}
		}
		if n != 7 {
			t.Errorf("%d refused, want all but 3", n)
		}
		g.Resume()
		for _, r := range reqs {
			<-r.Done()
		}
		// Keys that nothing uses any more make room.
		for i := range 20 {
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint("later", i)}), "", sleep(0)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestIdleSelectorsAreForgotten(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxKeys = 100 }, func(t *testing.T, g *governor.Plain) {
		for i := range 2000 {
			if _, err := governor.Do(t.Context(), g, fmt.Sprint(i), sleep(0)); err != nil {
				t.Fatalf("selector %d: %v", i, err)
			}
		}
	})
}

func TestCostThatCanNeverBeAdmitted(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 5})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: bucket}} }, func(t *testing.T, g *governor.Plain) {
		g.Pause() // it is known before anything could start
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 6}), "", sleep(0)); !errors.Is(err, governor.ErrNeverAdmissible) {
			t.Errorf("cost 6: %v", err)
		}
		g.Resume()
		start := time.Now()
		for range 2 {
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 5}), "", sleep(0)); err != nil {
				t.Errorf("cost 5: %v", err)
			}
		}
		since(t, "second one of cost 5", start, time.Now(), 5*time.Second)
	})
}

func TestLimitOfOneTenantHoldsBackNoOther(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: bucket}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var reqs []*governor.Request[int]
		for range 5 {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "busy"}), "", sleep(0)))
		}
		var other time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "calm"}), "", stamp(&other)).Done()
		since(t, "the calm tenant", start, other, 0)
		for _, r := range reqs {
			<-r.Done()
		}
		since(t, "the busy tenant's fifth", start, time.Now(), 4*time.Second)
	})
}

func TestLimitsAreChargedAllOrNone(t *testing.T) {
	wide, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 10})
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 2})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: wide}, {Per: throttle.Bucket, Limiter: narrow}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		a, b := g.With(governor.Ask{Bucket: "a"}), g.With(governor.Ask{Bucket: "b"})
		var waits []*governor.Request[int]
		for range 4 { // two start, two wait for the bucket a alone
			waits = append(waits, governor.Submit(t.Context(), a, "", sleep(0)))
		}
		synctest.Wait()
		for range 2 {
			<-governor.Submit(t.Context(), b, "", sleep(0)).Done()
		}
		since(t, "bucket b", start, time.Now(), 0) // a's waiters have taken nothing of the wide limit
		for _, r := range waits {
			<-r.Done()
		}
		since(t, "bucket a", start, time.Now(), 2*time.Second)
	})
}

// counted is a limiter that admits everything and counts.
type counted struct{ takes int }

func (*counted) Wait(time.Time, string, int) time.Duration     { return 0 }
func (l *counted) Take(_ time.Time, _ string, n int)           { l.takes += n }
func (*counted) Settle(now time.Time, key string, n, used int) {}
func (*counted) Accepted(now, sent time.Time, key string)      {}
func (*counted) Refused(now, sent time.Time, key string)       {}

// The slot of one request goes to the next before anybody has told the actor that
// the next one's context has ended.
func TestRequestThatIsCancelledBeforeItsTurnTakesNoPermit(t *testing.T) {
	limit := &counted{}
	set := func(c *governor.PlainConfig) { c.Workers, c.Limits = 1, []governor.Limit{{Limiter: limit}} }
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		runs := 0
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { runs++; cancel(); return 0, nil }))
			next := governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }))
			if _, err := next.Result(t.Context()); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if limit.takes != runs {
			t.Errorf("%d permits were taken for %d calls", limit.takes, runs)
		}
	})
}

// A submitter that waits for room waits no longer than for what it could still do.
func TestBlockedSubmitEndsAtItsLatestStart(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 1, 1 }, func(t *testing.T, g *governor.Plain) {
		governor.Submit(t.Context(), g, "", sleep(time.Hour))
		governor.Submit(t.Context(), g, "", sleep(0))
		synctest.Wait()
		start := time.Now()
		for _, by := range []time.Duration{-time.Second, 0, time.Minute} {
			r := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(by)}), "", sleep(0))
			if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrLate) || !governor.IsRefused(err) {
				t.Errorf("latest start in %v: %v, want a *LateError", by, err)
			}
		}
		since(t, "refused", start, time.Now(), time.Minute+2) // at the very moment each might still have started
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := governor.Submit(ctx, g.With(governor.Ask{StartBy: time.Now().Add(time.Hour)}), "", sleep(0)).Result(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends earlier: %v", err)
		}
		since(t, "refused", start, time.Now(), 2*time.Minute+2)
	})
}

// shut is a limiter that admits nothing and says that it never will.
type shut struct{ counted }

func (*shut) Wait(time.Time, string, int) time.Duration { return limiter.Never }

func TestRequestThatALimitNeverAdmitsFailsAtOnce(t *testing.T) {
	set := func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: &shut{}}} }
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.Is(err, governor.ErrNeverAdmissible) || !governor.IsRefused(err) {
			t.Errorf("got %v, want ErrNeverAdmissible", err)
		}
		since(t, "failed", start, time.Now(), 0)
	})
}
