package governor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

type conn struct {
	sel string
	n   int64
}

type connected = governor.Governor[string, *conn]

// withPool runs fn in a bubble with a governor whose pool counts what it opens.
func withPool(t *testing.T, set func(*governor.Config[string, *conn]), fn func(t *testing.T, g *connected, opened, open *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var opened, open atomic.Int64
		cfg := governor.Config[string, *conn]{
			Name: "test", Vendor: governortest.Vendor{}, Workers: 8, CloseGrace: time.Minute,
			Pool: &pool.Config[string, *conn]{
				Max: 4,
				Open: func(_ context.Context, sel string) (*conn, error) {
					open.Add(1)
					return &conn{sel, opened.Add(1)}, nil
				},
				Close: func(string, *conn) { open.Add(-1) },
			},
		}
		if set != nil {
			set(&cfg)
		}
		g, err := governor.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fn(t, g, &opened, &open)
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections are open after Close", n)
		}
	})
}

// use is a closure that takes d and says which connection it had.
func use(d time.Duration, errs ...error) func(context.Context, *conn) (string, error) {
	i := 0
	return func(ctx context.Context, c *conn) (string, error) {
		if d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		if i < len(errs) {
			i++
			return "", errs[i-1]
		}
		return fmt.Sprint(c.sel, c.n), nil
	}
}

func TestConnectionsAreReusedBySelectorAndNeverTooMany(t *testing.T) {
	withPool(t, nil, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		for range 3 {
			for _, sel := range []string{"a", "b"} {
				if v, err := governor.Do(t.Context(), g, sel, use(time.Second)); err != nil || v[:1] != sel {
					t.Errorf("selector %s got %q, %v", sel, v, err)
				}
			}
		}
		if opened.Load() != 2 {
			t.Errorf("%d connections were opened, want one for each selector", opened.Load())
		}
		start := time.Now()
		var reqs []*governor.Request[string]
		for i := range 12 {
			reqs = append(reqs, governor.Submit(t.Context(), g, []string{"a", "b"}[i%2], use(time.Second)))
		}
		synctest.Wait()
		if s := g.Stats(); s.InFlight != 4 || s.Workers != 4 || open.Load() != 4 {
			t.Errorf("%d of %d slots in use, %d connections; want 4 of 4: a slot implies a connection", s.InFlight, s.Workers, open.Load())
		}
		for i, r := range reqs {
			if v, err := r.Result(t.Context()); err != nil || v[:1] != []string{"a", "b"}[i%2] {
				t.Errorf("request %d got %q, %v", i, v, err)
			}
		}
		since(t, "twelve requests, four at a time", start, time.Now(), 3*time.Second)
	})
}

func TestFullPoolStealsAnIdleConnectionOfAnotherSelector(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.Max = 1 }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		for _, sel := range []string{"a", "b", "a"} {
			if v, err := governor.Do(t.Context(), g, sel, use(0)); err != nil || v[:1] != sel {
				t.Errorf("%s got %q, %v", sel, v, err)
			}
			if open.Load() > 1 {
				t.Errorf("%d connections open, want 1", open.Load())
			}
		}
		if opened.Load() != 3 {
			t.Errorf("%d opened, want 3", opened.Load())
		}
	})
}

func TestWaitingRequestsHoldNoConnection(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.Pool.Max = 1
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Minute)}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		cooling := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "a", use(0, governortest.Limited(time.Minute, tenant(""))))
		synctest.Wait()
		retrying := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "a", use(0, errors.New("boom")))
		synctest.Wait()
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "c"}), "b", use(0)); err != nil {
			t.Error(err)
		}
		since(t, "another selector's request", start, time.Now(), 0)
		<-cooling.Done()
		<-retrying.Done()
	})
}

func TestKeepConnKeepsTheVeryConnection(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.Max = 2 }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		var first, second int64
		r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", KeepConn: true}), "a", func(ctx context.Context, c *conn) (int, error) {
			if first == 0 {
				first = c.n
				return 0, governortest.Limited(time.Second, tenant(""))
			}
			second = c.n
			return 1, nil
		})
		synctest.Wait()
		for range 3 { // others come and go meanwhile, stealing what they can
			for _, sel := range []string{"a", "b"} {
				if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "b"}), sel, use(0)); err != nil {
					t.Error(err)
				}
			}
		}
		<-r.Done()
		if first != second {
			t.Errorf("connection %d, then %d; want the same", first, second)
		}
	})
}

func TestConnectionsThatMayBeBrokenAreClosed(t *testing.T) {
	bad := errors.New("bad connection")
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.Pool.IsBad = func(err error) bool { return errors.Is(err, bad) }
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		want := int64(0)
		for _, tt := range []struct {
			name  string
			fn    func(context.Context, *conn) (string, error)
			close bool
		}{
			{"success", use(0), false},
			{"an ordinary error", use(0, errors.New("not found")), false},
			{"an error that IsBad knows", use(0, bad), true},
			{"a panic", func(context.Context, *conn) (string, error) { panic("x") }, true},
			{"Goexit", func(context.Context, *conn) (string, error) { return "", goexit() }, true},
			{"cancellation midway", func(ctx context.Context, _ *conn) (string, error) { <-ctx.Done(); return "", ctx.Err() }, true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = do(ctx, g, "a", tt.fn)
			cancel()
			synctest.Wait()
			if _, err := governor.Do(t.Context(), g, "a", use(0)); err != nil {
				t.Error(err)
			}
			if want == 0 || tt.close {
				if want++; tt.name == "success" {
					want = 1
				}
			}
			if opened.Load() != want {
				t.Errorf("after %s: %d were opened, want %d", tt.name, opened.Load(), want)
			}
		}
	})
}

func TestFailedOpenIsTriedAgainAfterABackoffAndThenReported(t *testing.T) {
	down := errors.New("connection refused")
	var fail atomic.Int64
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Pool.OpenBackoff = backoff.Constant(time.Second)
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if fail.Add(-1) >= 0 {
				return nil, down
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		fail.Store(2)
		if _, err := governor.Do(t.Context(), g, "a", use(0)); err != nil {
			t.Errorf("two failures: %v", err)
		}
		since(t, "third dial", start, time.Now(), 2*time.Second)

		fail.Store(1000)
		_, err := governor.Do(t.Context(), g, "b", use(0))
		oe, ok := errors.AsType[*pool.OpenError](err)
		if !ok || !errors.Is(err, down) || !governor.IsRefused(err) {
			t.Errorf("a host that is down: %v, want a *pool.OpenError", err)
		}
		_ = oe
		if _, err := governor.Do(t.Context(), g, "a", use(0)); err != nil {
			t.Errorf("a selector with an idle connection: %v", err)
		}
	})
}

// While no connection can be opened for a minute, nor comes back, it is known who cannot
// start in time.
func TestWhoCannotStartInTimeIsNotKeptForAnOpenBackoff(t *testing.T) {
	var down atomic.Bool
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.OpenAttempts, c.Pool.OpenBackoff = -1, backoff.Constant(time.Minute)
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if down.Load() {
				time.Sleep(time.Second)
				return nil, errors.New("connection refused")
			}
			return open(ctx, sel)
		}
		c.Workers = 1
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		by := func(d time.Duration) *connected { return g.With(governor.Ask{StartBy: start.Add(d)}) }
		refused := func(r *governor.Request[string], at time.Duration) {
			t.Helper()
			_, err := r.Result(t.Context())
			since(t, "refusal", start, time.Now(), at)
			if le, ok := errors.AsType[*governor.LateError](err); !ok || !le.Could.Equal(start.Add(61*time.Second)) {
				t.Errorf("got %v, want a *LateError that could start after 61s", err)
			}
		}
		down.Store(true)
		first := governor.Submit(t.Context(), g, "a", use(0))
		late := governor.Submit(t.Context(), by(10*time.Second), "a", use(0))
		soon := governor.Submit(t.Context(), by(61*time.Second), "a", use(0))
		refused(late, time.Second)
		time.Sleep(time.Second)
		down.Store(false)
		refused(governor.Submit(t.Context(), by(20*time.Second), "a", use(0)), 2*time.Second)
		for _, r := range []*governor.Request[string]{first, soon} {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
			since(t, "it started", start, time.Now(), 61*time.Second)
		}
	})
}

// One that is in use may come back at any time.
func TestOpenBackoffKeepsNobodyFromWaitingForAConnectionInUse(t *testing.T) {
	var down atomic.Bool
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.OpenAttempts, c.Pool.OpenBackoff = -1, backoff.Constant(time.Minute)
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if down.Load() {
				return nil, errors.New("connection refused")
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		governor.Submit(t.Context(), g, "a", use(5*time.Second))
		synctest.Wait()
		down.Store(true)
		governor.Submit(t.Context(), g, "a", use(0))
		synctest.Wait()
		soon := g.With(governor.Ask{StartBy: start.Add(10 * time.Second)})
		if _, err := governor.Submit(t.Context(), soon, "a", use(0)).Result(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "it started", start, time.Now(), 5*time.Second)
	})
}

func TestPermanentOpenErrorFailsAtOnce(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.Pool.Open = func(context.Context, string) (*conn, error) {
			return nil, retry.Permanent(errors.New("unknown selector"))
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		if _, err := governor.Do(t.Context(), g, "a", use(0)); err == nil {
			t.Error("no error")
		}
		since(t, "refusal", start, time.Now(), 0)
	})
}

func TestFailedOpenConsumesNoPermit(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Limits = []governor.Limit{{Limiter: bucket}}
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "bad" {
				return nil, retry.Permanent(errors.New("unknown selector"))
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		for range 10 {
			_, _ = governor.Do(t.Context(), g, "bad", use(0))
		}
		if _, err := governor.Do(t.Context(), g, "good", use(0)); err != nil {
			t.Error(err)
		}
		since(t, "the good one, for which the only permit was left", start, time.Now(), 0)
	})
}

func TestSlowDialsDoNotFireTogetherBeyondTheLimit(t *testing.T) {
	bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 2})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var starts []time.Duration
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Limits = []governor.Limit{{Limiter: bucket}}
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(10 * time.Second)
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		var reqs []*governor.Request[int]
		for range 6 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "a", func(context.Context, *conn) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, time.Since(start))
				return 0, nil
			}))
		}
		for _, r := range reqs {
			<-r.Done()
		}
		if got := fmt.Sprint(starts); got != "[10s 10s 11s 12s 13s 14s]" {
			t.Errorf("starts %s: more than two at once, or slower than one a second", got)
		}
	})
}

func TestHangingDialHoldsUpNoOtherSelector(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "hangs" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		hung := governor.Submit(t.Context(), g, "hangs", use(0))
		synctest.Wait()
		if _, err := governor.Do(t.Context(), g, "a", use(0)); err != nil {
			t.Error(err)
		}
		since(t, "the other selector", start, time.Now(), 0)
		hung.Cancel()
		if _, err := hung.Result(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("hung: %v", err)
		}
	})
}

func TestCloseDuringADial(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		r := governor.Submit(t.Context(), g, "a", use(0))
		synctest.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		since(t, "Close", start, time.Now(), 0)
		if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

func TestPerSelectorMaximumParksOnlyItsLane(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.MaxPerSelector = 1 }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		var a []*governor.Request[string]
		for range 3 {
			a = append(a, governor.Submit(t.Context(), g, "a", use(time.Second)))
		}
		if _, err := governor.Do(t.Context(), g, "b", use(time.Second)); err != nil {
			t.Error(err)
		}
		since(t, "selector b", start, time.Now(), time.Second)
		for _, r := range a {
			<-r.Done()
		}
		since(t, "three of selector a, one at a time", start, time.Now(), 3*time.Second)

		_, err := governor.Do(t.Context(), g, "a", func(ctx context.Context, _ *conn) (string, error) {
			return governor.Do(ctx, g, "a", use(0)) // slots are spare, a's connection is not
		})
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("reentrant: %v, want ErrReentrant", err)
		}
	})
}

func TestCooldownRaisedDuringADialIsSeenBeforeTheStart(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(time.Second)
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		var at time.Time
		r := governor.Submit(t.Context(), g, "a", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		time.Sleep(500 * time.Millisecond)
		g.Learn(throttle.Signal{Delay: 10 * time.Second})
		time.Sleep(time.Second)
		if s := g.Stats(); s.InFlight != 0 || s.Queued != 1 || s.Pool.Idle != 1 {
			t.Errorf("%d in flight, %d queued, %d idle connections; want it to wait and hold nothing", s.InFlight, s.Queued, s.Pool.Idle)
		}
		<-r.Done()
		since(t, "start", start, at, 10500*time.Millisecond)
	})
}

func TestStreamHoldsItsConnectionToTheEndOfTheLoop(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.Max = 1 }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		start := time.Now()
		var other *governor.Request[string]
		for range governor.Stream(t.Context(), g, "a", func(_ context.Context, c *conn) iter.Seq2[int64, error] {
			return func(yield func(int64, error) bool) {
				for range 3 {
					if !yield(c.n, nil) {
						return
					}
				}
			}
		}) {
			if other == nil {
				other = governor.Submit(t.Context(), g, "b", use(0))
			}
			time.Sleep(time.Second)
		}
		<-other.Done()
		since(t, "the other selector", start, time.Now(), 3*time.Second)
	})
}

// A request that was granted before a cooldown, and whose connection was being
// opened until after it, is neither the probe nor part of the ramp.
func TestConnectionOpenedThroughACooldownStartsWithTheRamp(t *testing.T) {
	set := func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(10 * time.Second)
			}
			return open(ctx, sel)
		}
	}
	withPool(t, set, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		var began time.Time
		slow := governor.Submit(t.Context(), g, "slow", func(context.Context, *conn) (int, error) { began = time.Now(); return 0, nil })
		time.Sleep(time.Second)
		g.Learn(throttle.Signal{Delay: 5 * time.Second})
		probe := governor.Submit(t.Context(), g, "fast", use(time.Minute)) // from 6 s on, in sight of nobody
		if _, err := slow.Result(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "started", start, began, 11*time.Second) // when patience with the probe is over
		if st := probe.State(); st != governor.Running {
			t.Errorf("the probe is %v", st)
		}
		probe.Cancel()
	})
}

func TestCallThatOpensAConnectionPaysItsWholeCost(t *testing.T) {
	limit := &counted{}
	set := func(c *governor.Config[string, *conn]) { c.Limits = []governor.Limit{{Limiter: limit}} }
	withPool(t, set, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		for range 2 { // the second finds it open
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 5}), "a", use(0)); err != nil {
				t.Error(err)
			}
		}
		if limit.takes != 10 {
			t.Errorf("%d permits were taken, want 5 for each of two calls", limit.takes)
		}
	})
}

func TestSelectorWithoutAFreeConnectionBlocksNoOther(t *testing.T) {
	set := func(c *governor.Config[string, *conn]) { c.Pool.MaxPerSelector = 1 }
	withPool(t, set, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		long := governor.Submit(t.Context(), g, "a", use(time.Hour))
		synctest.Wait()
		g.Pause() // so that the actor sees both in one turn
		waits := governor.Submit(t.Context(), g, "a", use(0))
		other := governor.Submit(t.Context(), g, "b", use(0))
		g.Resume()
		synctest.Wait()
		if long.State() != governor.Running || waits.State() != governor.Queued || other.State() != governor.Done {
			t.Errorf("of selector a one is %v and one %v, that of b is %v; want running, queued, done", long.State(), waits.State(), other.State())
		}
	})
}

// Whoever is next, and has no connection, is passed over four times for each slot by those
// for whom one has just come back, and no more often.
func TestConnectionIsUsedByWhoWaitsForItBeforeItIsReplaced(t *testing.T) {
	one := func(cfg *governor.Config[string, *conn]) { cfg.Pool.Max = 1 }
	withPool(t, one, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		var order []string
		var reqs []*governor.Request[string]
		for _, sel := range strings.Split("abaaaaabaa", "") {
			reqs = append(reqs, governor.Submit(t.Context(), g, sel, func(ctx context.Context, c *conn) (string, error) {
				order = append(order, sel)
				return use(time.Second)(ctx, c)
			}))
			synctest.Wait()
		}
		for _, r := range reqs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(order, ""); got != "aaaaabbaaa" {
			t.Errorf("started in the order %s, want aaaaabbaaa: the first, four instead of b, b twice", got)
		}
		if n := opened.Load(); n != 3 {
			t.Errorf("%d connections were opened, want 3", n)
		}
	})
}

// With more selectors than connections, all of which have something to do, it would be
// natural to open one for every call: who is next closes what the one after him needs.
func TestFewCallsOpenAConnectionWhereSelectorsAreMoreThanConnections(t *testing.T) {
	for selectors, percent := range map[int]int{4: 10, 6: 35, 20: 65} {
		withPool(t, nil, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
			const each = 100
			var wg sync.WaitGroup
			for i := range selectors {
				for range 4 {
					wg.Go(func() {
						for k := range each / 4 {
							took := time.Second + time.Duration(i*7+k*13)%101*time.Millisecond
							if _, err := governor.Do(t.Context(), g, fmt.Sprint(i), use(took)); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			if n, most := int(opened.Load()), selectors*each*percent/100; n > most {
				t.Errorf("%d calls for %d selectors opened %d connections, want at most %d", selectors*each, selectors, n, most)
			}
		})
	}
}

// A lane with one call is kept back by the others of its tenant for as long as four calls
// last, however much of them wants connections that are open, and however many such lanes
// there are.
func TestLaneIsNotKeptBackForLongByThoseThatHaveConnections(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.NoPace = true }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = governor.Do(ctx, g, fmt.Sprint("busy", i%2), use(time.Second))
				}
			})
		}
		time.Sleep(10 * time.Second)
		var worst atomic.Int64
		for i := range 200 {
			wg.Go(func() {
				began := time.Now()
				_, err := governor.Do(t.Context(), g, fmt.Sprint("rare", i), func(ctx context.Context, c *conn) (string, error) {
					worst.Store(max(worst.Load(), int64(time.Since(began))))
					return use(time.Second)(ctx, c)
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
		}
		stop()
		wg.Wait()
		// Two lanes and the calls that run are before it, and those that have overtaken it.
		if d := time.Duration(worst.Load()); d > 6*time.Second {
			t.Errorf("one of 200 rare calls, a quarter of what is possible, waited for %v", d)
		}
	})
}

// Nobody pays for that: tenants of 1 to 8 selectors each start as often at any time.
func TestTenantsShareConnectionsWhateverSelectorsTheyHave(t *testing.T) {
	withPool(t, nil, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		var got [4]atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		g.Pause() // until all tenants are there
		for tenant := range got {
			with := g.With(governor.Ask{Tenant: fmt.Sprint(tenant)})
			for i := range 64 {
				governor.Submit(ctx, with, fmt.Sprint(i%(1<<tenant)), func(ctx context.Context, c *conn) (string, error) {
					got[tenant].Add(1)
					return use(time.Second+time.Duration(tenant*8+i)*time.Millisecond)(ctx, c)
				})
			}
		}
		g.Resume()
		for i := range 40 {
			time.Sleep(time.Second)
			synctest.Wait()
			var n []int64
			for i := range got {
				n = append(n, got[i].Load())
			}
			if slices.Max(n)-slices.Min(n) > 2 || i == 39 && n[0] < 36 {
				t.Errorf("after %d s tenants have started %v", i, n)
				break
			}
		}
		if n := opened.Load(); n > 120 {
			t.Errorf("%d connections were opened", n)
		}
	})
}

// Who waits for the probe waits no longer because it has to open a connection first.
func TestPatienceWithAProbeIncludesItsConnection(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.NoPace = true
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			if sel == "slow" {
				time.Sleep(4 * time.Second)
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		g.Learn(throttle.Signal{Delay: time.Second})
		start := time.Now()
		slow := governor.Submit(t.Context(), g, "slow", use(20*time.Second))
		synctest.Wait()
		if _, err := governor.Do(t.Context(), g, "fast", use(0)); err != nil {
			t.Error(err)
		}
		since(t, "another", start, time.Now(), 6*time.Second)
		<-slow.Done()
	})
}
