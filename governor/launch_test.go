package governor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// delayed has workers begin only when go is called: until then what is launched has its
// slot and waits.
func (c *core) delayed() (begin func()) {
	for i := range c.crews {
		c.crews[i].free += 1000
	}
	return func() {
		for i := range c.crews {
			w := &c.crews[i]
			w.mu.Lock()
			w.free -= 1000
			n := w.queued
			w.free += n
			w.mu.Unlock()
			for range n {
				go c.work(w)
			}
		}
	}
}

// onPool is a governor with connections, none of which is to be lost.
func onPool() Config[string, int] {
	return Config[string, int]{Vendor: listing{}, Workers: 2, Pool: ints(&pool.Config[string, int]{Max: 2})}
}

// opened has g open a connection, and know the selector.
func opened(t *testing.T, g *Governor[string, int]) {
	t.Helper()
	_, err := Do(t.Context(), g, "", answer)
	require.NoError(t, err)
	synctest.Wait()
}

var errBroken = errors.New("broken")

func never(context.Context, int) (int, error) { panic("was called") }

// unharmed checks that nothing was lost.
func unharmed(t *testing.T, g *Governor[string, int]) {
	t.Helper()
	synctest.Wait()
	s := g.Stats()
	require.Zero(t, s.InFlight)
	require.Zero(t, s.Queued)
	require.Equal(t, s.Pool.Open, s.Pool.Idle)
	require.Zero(t, g.names.m[""].refs.Load())
	require.Equal(t, s.Submitted, s.Succeeded+s.Failed+s.Dropped)
	require.Zero(t, g.launching())
}

func TestHealthySubmitIsOneAllocation(t *testing.T) {
	g, err := New(Config[string, int]{Name: "test", Workers: 2})
	require.NoError(t, err)
	g.actorOnly = false
	defer g.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := func() {
		if v, err := Submit(ctx, g, "", answer).Result(ctx); v != 42 || err != nil {
			t.Error(v, err)
		}
	}
	call()
	// Now and then a worker has ended, and the next one is no allocation of ours.
	require.LessOrEqual(t, testing.AllocsPerRun(1000, call), 1.0)
}

func TestLaunchedRequestCountsAsSubmittedAndRunning(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		before := g.Stats()
		begin := g.delayed()
		req := Submit(t.Context(), g, "", answer)
		require.NotNil(t, req.task.(flight))
		require.Equal(t, Running, req.State())
		s := g.Stats()
		require.Equal(t, before.Submitted+1, s.Submitted)
		require.Equal(t, before.Started, s.Started)
		require.Equal(t, 1, s.InFlight)
		begin()
		v, err := req.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 42, v)
		s = g.Stats()
		require.Equal(t, before.Submitted+1, s.Submitted)
		require.Equal(t, before.Succeeded+1, s.Succeeded)
		require.Equal(t, before.Wait.Count+1, s.Wait.Count)
		require.Equal(t, before.Call.Count+1, s.Call.Count)
		unharmed(t, g)
	})
}

func TestWaitForAWorkerIsCounted(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		begin := g.delayed()
		req := Submit(t.Context(), g, "", answer)
		time.Sleep(time.Second)
		begin()
		_, err := req.Result(t.Context())
		require.NoError(t, err)
		s := g.Stats()
		require.GreaterOrEqual(t, s.Wait.Max, time.Second)
		require.Less(t, s.Call.Max, time.Second)
		require.EqualValues(t, 2, s.Wait.Count)
		unharmed(t, g)
	})
}

// What ends a launched request before its closure has begun ends it for good.
func TestLaunchedRequestThatNeverBegins(t *testing.T) {
	for name, tt := range map[string]struct {
		ask  Ask
		do   func(g *Governor[string, int], req *Request[int], cancel context.CancelCauseFunc)
		want error
	}{
		"cancelled":   {do: func(_ *Governor[string, int], req *Request[int], _ context.CancelCauseFunc) { req.Cancel() }, want: context.Canceled},
		"its context": {do: func(_ *Governor[string, int], _ *Request[int], cancel context.CancelCauseFunc) { cancel(errBroken) }, want: errBroken},
		"closed":      {do: func(g *Governor[string, int], _ *Request[int], _ context.CancelCauseFunc) { go g.Close() }, want: ErrClosed},
		"too late":    {ask: Ask{StartBy: time.Now()}, do: func(*Governor[string, int], *Request[int], context.CancelCauseFunc) { time.Sleep(time.Minute) }, want: ErrLate},
	} {
		t.Run(name, func(t *testing.T) {
			direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
				opened(t, g)
				if !tt.ask.StartBy.IsZero() {
					tt.ask.StartBy = time.Now().Add(time.Second)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				begin := g.delayed()
				req := Submit(ctx, g.With(tt.ask), "", never)
				require.NotNil(t, req.task.(flight))
				tt.do(g, req, cancel)
				synctest.Wait()
				begin()
				_, err := req.Result(t.Context())
				require.ErrorIs(t, err, tt.want)
				unharmed(t, g)
			})
		})
	}
}

// A cooldown that comes before the closure has begun is waited out, in the request's
// place, with nothing held.
func TestLaunchedRequestSeesACooldownLast(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		start := time.Now()
		begin := g.delayed()
		var order []int
		note := func(i int) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) {
				require.Equal(t, 10*time.Second, time.Since(start).Round(time.Second))
				order = append(order, i)
				return i, nil
			}
		}
		first := Submit(t.Context(), g, "", note(1))
		g.Learn(throttle.Signal{Delay: 10 * time.Second})
		second := Submit(t.Context(), g, "", note(2))
		begin()
		synctest.Wait()
		require.Equal(t, Queued, first.State())
		s := g.Stats()
		require.Zero(t, s.InFlight)
		require.Equal(t, s.Pool.Open, s.Pool.Idle)
		for i, req := range []*Request[int]{first, second} {
			v, err := req.Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, i+1, v)
		}
		require.Equal(t, []int{1, 2}, order)
		unharmed(t, g)
	})
}

func TestShutdownRunsWhatWasLaunched(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		begin := g.delayed()
		req := Submit(t.Context(), g, "", answer)
		down := make(chan error, 1)
		go func() { down <- g.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Len(t, down, 0)
		begin()
		require.NoError(t, <-down)
		require.Equal(t, Done, req.State(), "before Shutdown returns")
		v, err := req.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 42, v)
	})
}

// However a closure ends that was launched, it is told as of any other.
func TestLaunchedRequestThatDoesNotGoWell(t *testing.T) {
	for name, tt := range map[string]struct {
		fn    func(context.Context, int) (int, error)
		check func(t *testing.T, v int, err error)
		calls int
	}{
		"error": {func(context.Context, int) (int, error) { return 7, errBroken }, func(t *testing.T, v int, err error) {
			require.Equal(t, errBroken, err)
			require.Equal(t, 7, v)
		}, 1},
		"panic": {func(context.Context, int) (int, error) { panic("oh") }, func(t *testing.T, _ int, err error) {
			p, ok := errors.AsType[*PanicError](err)
			require.True(t, ok, err)
			require.Equal(t, "oh", p.Value)
		}, 1},
		"Goexit": {func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil }, func(t *testing.T, _ int, err error) {
			require.Equal(t, ErrGoexit, err)
		}, 1},
		"hold": {func(ctx context.Context, _ int) (int, error) {
			release := Hold(ctx)
			time.AfterFunc(time.Second, func() { release(nil) })
			return 7, nil
		}, func(t *testing.T, v int, err error) {
			require.NoError(t, err)
			require.Equal(t, 7, v)
			time.Sleep(2 * time.Second)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
				opened(t, g)
				calls := 0
				req := Submit(t.Context(), g, "", func(ctx context.Context, conn int) (int, error) {
					calls++
					return tt.fn(ctx, conn)
				})
				require.NotNil(t, req.task.(flight))
				v, err := req.Result(t.Context())
				tt.check(t, v, err)
				require.Equal(t, tt.calls, calls)
				unharmed(t, g)
			})
		})
	}
}

// A refusal is waited out by the same request, whose later attempts go by the actor.
func TestLaunchedRequestThatIsRefusedGoesOn(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		start := time.Now()
		var at []time.Duration
		req := Submit(t.Context(), g, "", func(context.Context, int) (int, error) {
			if at = append(at, time.Since(start)); len(at) < 3 {
				return 0, listed{[]throttle.Signal{{Delay: time.Second}}}
			}
			return 42, nil
		})
		v, err := req.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 42, v)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, at)
		unharmed(t, g)
	})
}

func TestCancelReachesALaunchedClosure(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		req := Submit(t.Context(), g, "", func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		synctest.Wait()
		req.Cancel()
		_, err := req.Result(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		unharmed(t, g)
	})
}

// Close that gives up completes what was launched, wherever that is: with its crew, with
// a worker that has taken it and not begun, in its closure, and past it.
func TestAbandonedLaunchedRequestIsDone(t *testing.T) {
	sleeps := func(context.Context, int) (int, error) { time.Sleep(time.Minute); return 7, nil }
	for name, tt := range map[string]struct {
		prepare func(g *Governor[string, int], b *spoiler) (goOn func())
		fn      func(context.Context, int) (int, error)
	}{
		"with its crew": {func(g *Governor[string, int], _ *spoiler) func() { return g.delayed() }, never},
		"taken by a worker": {func(g *Governor[string, int], _ *spoiler) func() {
			begin := g.delayed()
			var taken []*request
			for i := range g.crews {
				time.AfterFunc(time.Millisecond, func() {
					if r := g.core.steal(&g.crews[i]); r != nil {
						taken = append(taken, r)
					}
				})
			}
			return func() {
				begin()
				for _, r := range taken {
					go r.task.(flight).begin(g.core)
				}
			}
		}, never},
		"in its closure": {func(*Governor[string, int], *spoiler) func() { return func() {} }, sleeps},
		"looking last": {func(_ *Governor[string, int], b *spoiler) func() {
			b.acquire = func() { time.Sleep(time.Minute) }
			return func() {}
		}, never},
		"past it": {func(_ *Governor[string, int], b *spoiler) func() {
			b.report = func() { time.Sleep(time.Minute) }
			return func() {}
		}, answer},
	} {
		abandons := func(t *testing.T, listens bool) {
			synctest.Test(t, func(t *testing.T) {
				cfg, b := onPool(), &spoiler{}
				cfg.Name, cfg.CloseGrace, cfg.Breaker = "test", time.Second, b
				g, err := New(cfg)
				require.NoError(t, err)
				g.actorOnly = false
				opened(t, g)
				var told []event.Kind
				if listens {
					g.Listen(func(e event.Event) { told = append(told, e.Kind) }, event.Completed, event.Abandoned)
				}
				goOn := tt.prepare(g, b)
				req := Submit(t.Context(), g, "", tt.fn)
				require.NotNil(t, req.task.(flight))
				time.Sleep(time.Millisecond)
				synctest.Wait()
				forced, _ := errors.AsType[*ForcedError](g.Close())
				require.NotNil(t, forced)
				require.Equal(t, 1, forced.Running)
				require.Equal(t, Done, req.State(), "before Close returns")
				v, err := req.Result(t.Context())
				require.Equal(t, ErrAbandoned, err)
				require.Zero(t, v)
				goOn()
				time.Sleep(time.Hour)
				v, err = req.Result(t.Context())
				require.Equal(t, ErrAbandoned, err)
				require.Zero(t, v)
				require.NoError(t, g.Close())
				synctest.Wait()
				if listens {
					require.Equal(t, []event.Kind{event.Completed, event.Abandoned}, told)
				}
				s := g.Stats()
				require.Zero(t, s.InFlight)
				require.Zero(t, s.Pool.Open)
				require.Equal(t, s.Submitted, s.Succeeded+s.Failed+s.Dropped)
			})
		}
		t.Run(name, func(t *testing.T) { abandons(t, false) })
		t.Run(name+", and somebody listens", func(t *testing.T) { abandons(t, true) })
	}
}

// Without bubbles: Close without any grace meets a request anywhere on its way.
func TestCloseWithoutGraceCompletesWhatWasLaunched(t *testing.T) {
	for range 2000 {
		g, err := New(Config[string, int]{Name: "test", Workers: 2, CloseGrace: 1})
		require.NoError(t, err)
		g.actorOnly = false
		_, err = Do(t.Context(), g, "", answer)
		require.NoError(t, err)
		req := Submit(t.Context(), g, "", answer)
		g.Close()
		require.Equal(t, Done, req.State())
		require.NoError(t, g.Shutdown(t.Context()))
	}
}

// Requests that come back together wait in the order of their submission, among
// themselves and with others.
func TestWhatWasLaunchedComesBackInItsOrder(t *testing.T) {
	for name, learns := range map[string]bool{"before it begins": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			cfg := Config[string, int]{Vendor: listing{}, Workers: 6}
			direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
				opened(t, g)
				begin := func() {}
				if learns {
					begin = g.delayed()
				}
				var mu sync.Mutex
				var order []int
				refused := make(map[int]bool)
				var reqs []*Request[int]
				submit := func(i int) *Request[int] {
					req := Submit(t.Context(), g, "", func(context.Context, int) (int, error) {
						mu.Lock()
						again := learns || refused[i]
						if refused[i] = true; again {
							order = append(order, i)
						}
						mu.Unlock()
						if !again {
							time.Sleep(time.Second - time.Duration(i)*time.Millisecond) // the last one first
							return 0, listed{[]throttle.Signal{{Delay: time.Second}}}
						}
						time.Sleep(time.Second) // those that start together do so before one ends
						return i, nil
					})
					reqs = append(reqs, req)
					return req
				}
				for i := range 4 {
					require.NotNil(t, submit(i).task.(flight))
					time.Sleep(time.Microsecond)
				}
				if learns {
					g.Learn(throttle.Signal{Delay: 10 * time.Second})
				}
				submit(4)
				begin()
				for _, req := range reqs {
					_, err := req.Result(t.Context())
					require.NoError(t, err)
				}
				for _, together := range [][]int{order[1:3], order[3:]} { // after a cooldown one starts, then two, then four
					slices.Sort(together)
				}
				require.Equal(t, []int{0, 1, 2, 3, 4}, order)
				unharmed(t, g)
			})
		})
	}
}

// What came back is as old as when it was submitted.
func TestDropOldestKnowsWhatWasLaunched(t *testing.T) {
	cfg := Config[string, int]{Vendor: listing{}, Workers: 2, MaxQueue: 2, Overflow: DropOldest}
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		begin := g.delayed()
		oldest := Submit(t.Context(), g, "", answer)
		g.Learn(throttle.Signal{Delay: time.Second})
		second := Submit(t.Context(), g, "", answer)
		begin()
		synctest.Wait()
		third := Submit(t.Context(), g, "", answer)
		_, err := oldest.Result(t.Context())
		require.ErrorIs(t, err, ErrDropped)
		for _, req := range []*Request[int]{second, third} {
			_, err := req.Result(t.Context())
			require.NoError(t, err)
		}
		unharmed(t, g)
	})
}

// Cancel is seen last, too, with nothing else to keep the closure from starting.
func TestCancelWhileTheBreakerIsAsked(t *testing.T) {
	cfg := onPool()
	b := &spoiler{}
	cfg.Breaker = b
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		var req *Request[int]
		begin := g.delayed()
		b.acquire = func() { b.acquire = nil; req.Cancel() }
		req = Submit(t.Context(), g, "", never)
		require.NotNil(t, req.task.(flight))
		begin()
		_, err := req.Result(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		unharmed(t, g)
	})
}

// Who listens hears of every step, in time.
func TestLaunchedRequestTellsOfItsSteps(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		type told struct {
			kind event.Kind
			at   time.Duration
			d    time.Duration
			seq  bool
		}
		start, first := time.Now(), uint64(0)
		var all []told
		stop := g.Listen(func(e event.Event) {
			if first == 0 {
				first = e.Request
			}
			all = append(all, told{e.Kind, e.Time.Sub(start), e.Delay, e.Request == first && first != 0})
		}, event.Submitted, event.Started, event.AttemptEnded, event.Completed)
		begin := g.delayed()
		req := Submit(t.Context(), g, "", func(context.Context, int) (int, error) { time.Sleep(time.Second); return 42, nil })
		require.NotNil(t, req.task.(flight))
		time.Sleep(time.Millisecond)
		begin()
		_, err := req.Result(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		stop()
		require.Equal(t, []told{
			{event.Submitted, 0, 0, true},
			{event.Started, time.Millisecond, time.Millisecond, true},
			{event.AttemptEnded, time.Second + time.Millisecond, time.Second, true},
			{event.Completed, time.Second + time.Millisecond, 0, true},
		}, all)
		unharmed(t, g)
	})
}

// What it takes from the limits it takes once, when it is submitted, and gets back what it
// did not use.
func TestLaunchedRequestPaysTheLimits(t *testing.T) {
	answers := func(err error) func(context.Context, int) (int, error) {
		return func(context.Context, int) (int, error) { return 0, err }
	}
	for name, tt := range map[string]struct {
		meanwhile func(g *Governor[string, int], req *Request[int])
		fn        func(ctx context.Context, _ int) (int, error)
		want      error
		left      int // of ten permits, of which it takes three
	}{
		"well":      {fn: answers(nil), left: 7},
		"failed":    {fn: answers(errBroken), want: errBroken, left: 7},
		"settled":   {fn: func(ctx context.Context, _ int) (int, error) { return 0, Settle(ctx, 1) }, left: 9},
		"cancelled": {func(_ *Governor[string, int], req *Request[int]) { req.Cancel() }, never, context.Canceled, 7},
		"shutdown":  {func(g *Governor[string, int], _ *Request[int]) { go g.Shutdown(context.Background()); synctest.Wait() }, answers(nil), nil, 7},
		"later":     {func(g *Governor[string, int], _ *Request[int]) { g.Learn(throttle.Signal{Delay: time.Second}) }, answers(nil), nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, l := onPool(), &ledger{left: 100}
			cfg.Limits = []Limit{{Limiter: l}}
			direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
				opened(t, g)
				l.left = 10
				begin := g.delayed()
				req := Submit(t.Context(), g.With(Ask{Cost: 3}), "", tt.fn)
				require.NotNil(t, req.task.(flight))
				require.EqualValues(t, 7, l.left, "at once")
				if tt.meanwhile != nil {
					tt.meanwhile(g, req)
				}
				begin()
				_, err := req.Result(t.Context())
				require.ErrorIs(t, err, tt.want)
				synctest.Wait()
				require.Equal(t, tt.left, l.left)
				unharmed(t, g)
			})
		})
	}
}

// What the limits do not let pass at once is queued.
func TestNothingIsLaunchedThatALimitKeepsBack(t *testing.T) {
	cfg, l := onPool(), &ledger{left: 2}
	cfg.Limits = []Limit{{Limiter: l}}
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		req := Submit(t.Context(), g.With(Ask{Cost: 3}), "", never)
		_, launched := req.task.(flight)
		require.False(t, launched)
		synctest.Wait()
		require.Equal(t, Queued, req.State())
		req.Cancel()
		_, err := req.Result(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, l.left)
		unharmed(t, g)
	})
}

// ledger is a limit whose permits do not come back by themselves.
type ledger struct{ left int }

func (l *ledger) Wait(_ time.Time, _ string, n int) time.Duration {
	if n <= l.left {
		return 0
	}
	return time.Hour
}
func (l *ledger) Take(_ time.Time, _ string, n int)         { l.left -= n }
func (l *ledger) Settle(_ time.Time, _ string, n, used int) { l.left += n - used }
func (*ledger) Accepted(_, _ time.Time, _ string)           {}
func (*ledger) Refused(_, _ time.Time, _ string)            {}

// The wait for a worker counts, too, when the call does not go well.
func TestWaitForAWorkerIsCountedOfFailures(t *testing.T) {
	direct(t, onPool(), func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		begin := g.delayed()
		req := Submit(t.Context(), g, "", func(context.Context, int) (int, error) { return 0, errBroken })
		time.Sleep(time.Second)
		begin()
		_, err := req.Result(t.Context())
		require.Equal(t, errBroken, err)
		require.GreaterOrEqual(t, g.Stats().Wait.Max, time.Second)
		unharmed(t, g)
	})
}

// A breaker is the user's: what it does takes nothing from a call that went well.
func TestLaunchedRequestSurvivesItsBreaker(t *testing.T) {
	cfg := onPool()
	b := &spoiler{}
	cfg.Breaker = b
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		for _, report := range []func(){func() { panic("oh") }, runtime.Goexit} {
			b.report = report
			req := Submit(t.Context(), g, "", answer)
			require.NotNil(t, req.task.(flight))
			v, err := req.Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, 42, v)
			b.report = nil
			unharmed(t, g)
		}
		require.EqualValues(t, 1, g.Stats().HookPanics)
	})
}

// spoiler is a breaker that does as it is told.
type spoiler struct{ acquire, report func() }

func (*spoiler) Ready(time.Time) error { return nil }
func (b *spoiler) Acquire(time.Time) (breaker.Permit, error) {
	if b.acquire != nil {
		b.acquire()
	}
	return 1, nil
}
func (b *spoiler) Report(p breaker.Permit, _ time.Time, _ breaker.Outcome, _ time.Duration) {
	if p != 1 {
		panic("a permit that was not given")
	}
	if b.report != nil {
		b.report()
	}
}

// What ends a launched request while it looks last is found, and nothing is given back twice.
func TestLaunchedRequestIsCancelledWhileItLooksLast(t *testing.T) {
	cfg := onPool()
	b, reports := &spoiler{}, 0
	b.report = func() { reports++ }
	cfg.Breaker = b
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		opened(t, g)
		reports = 0
		before := g.Stats()
		begin := g.delayed()
		req := Submit(t.Context(), g, "", never)
		b.acquire = func() {
			b.acquire = nil
			g.Learn(throttle.Signal{Delay: time.Second})
			req.Cancel()
		}
		begin()
		_, err := req.Result(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, reports)
		unharmed(t, g)
		s := g.Stats()
		require.Equal(t, before.Started, s.Started)
		require.Equal(t, before.Wait.Count, s.Wait.Count)
	})
}
