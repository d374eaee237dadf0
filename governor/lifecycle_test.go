package governor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

func TestCloseRefusesWhatWaitsAndCancelsWhatRuns(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		running := governor.Submit(t.Context(), g, "", sleep(time.Hour))
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		time.Sleep(time.Second)
		if err := g.With(governor.Ask{}).Close(); err != nil { // a view closes the governor
			t.Fatal(err)
		}
		since(t, "Close", start, time.Now(), time.Second)
		if _, err := queued.Result(t.Context()); !errors.Is(err, governor.ErrClosed) || !governor.IsRefused(err) {
			t.Errorf("queued: %v", err)
		}
		if _, err := running.Result(t.Context()); !errors.Is(err, governor.ErrClosed) || governor.IsRefused(err) {
			t.Errorf("running: %v, want its context's cause, which is no refusal", err)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.Is(err, governor.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		for range 3 {
			if err := g.Close(); err != nil {
				t.Errorf("Close again: %v", err)
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown after Close: %v", err)
			}
		}
		g.Pause()
		g.Resume()
		g.Clear(throttle.Scope{})
		g.Learn(throttle.Signal{Delay: time.Second})
		if s := g.Stats(); !s.Closed || s.Submitted != 2 || s.Dropped != 1 {
			t.Errorf("stats after Close: %+v", s)
		}
	})
}

func TestCloseDuringACooldownEndsAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		g.Learn(throttle.Signal{Delay: 10 * time.Minute})
		r := governor.Submit(t.Context(), g, "", sleep(0))
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		since(t, "Close", start, time.Now(), 0)
		if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestShutdownDrains(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		refused := governor.Submit(t.Context(), g, "", governortest.NewScript(governortest.Limited(5*time.Second)).Call)
		var reqs []*governor.Request[int]
		for range 3 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", sleep(time.Second)))
		}
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- g.Shutdown(t.Context()) }()
		synctest.Wait()
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.Is(err, governor.ErrClosed) {
			t.Errorf("submitted while draining: %v", err)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		since(t, "Shutdown", start, time.Now(), 8*time.Second)
		for _, r := range append(reqs, refused) {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestShutdownTurnsIntoCloseWhenItsContextEnds(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		running := governor.Submit(t.Context(), g, "", sleep(time.Hour))
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		since(t, "Shutdown", start, time.Now(), time.Second)
		<-running.Done()
		if _, err := queued.Result(t.Context()); !errors.Is(err, governor.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestShutdownDropRefusesWhatWaits(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1; c.ShutdownDrop = true }, func(t *testing.T, g *governor.Plain) {
		running := governor.Submit(t.Context(), g, "", sleep(time.Second))
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		synctest.Wait()
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := running.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := queued.Result(t.Context()); !errors.Is(err, governor.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestClosureThatIgnoresItsContextIsAbandonedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "test", CloseGrace: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		rec := governortest.Record(g, event.Abandoned)
		start := time.Now()
		end := make(chan struct{})
		var reqs []*governor.Request[int]
		for range 3 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { <-end; return 7, nil })))
		}
		synctest.Wait()
		err = g.Close()
		since(t, "Close", start, time.Now(), 5*time.Second)
		if fe, ok := errors.AsType[*governor.ForcedError](err); !ok || fe.Running != 3 {
			t.Errorf("Close: %v, want a *ForcedError with 3", err)
		}
		for _, r := range reqs {
			if v, err := r.Result(t.Context()); v != 0 || err != governor.ErrAbandoned {
				t.Errorf("got %d, %v; want ErrAbandoned", v, err)
			}
		}
		if err := g.Close(); err == nil {
			t.Error("a second Close finds nothing running")
		}
		since(t, "second Close", start, time.Now(), 5*time.Second)
		close(end)
		synctest.Wait()
		if err := g.Close(); err != nil {
			t.Errorf("Close after they ended: %v", err)
		}
		if v, err := reqs[0].Result(t.Context()); v != 0 || err != governor.ErrAbandoned {
			t.Errorf("result changed to %d, %v", v, err)
		}
		if rec.Count(event.Abandoned) != 3 {
			t.Errorf("%d events", rec.Count(event.Abandoned))
		}
	})
}

func TestCloseReleasesBlockedSubmitters(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 1, 1 }, func(t *testing.T, g *governor.Plain) {
		governor.Submit(t.Context(), g, "", sleep(time.Hour))
		synctest.Wait()
		governor.Submit(t.Context(), g, "", sleep(time.Hour))
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := governor.Submit(t.Context(), g, "", sleep(0)).Result(t.Context())
				errs <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, governor.ErrClosed) {
				t.Error(err)
			}
		}
		since(t, "all released", start, time.Now(), 0)
	})
}

func TestPauseHoldsStartsAndLetsRunningGoOn(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		running := governor.Submit(t.Context(), g, "", sleep(time.Second))
		synctest.Wait()
		g.Pause()
		var at time.Time
		r := governor.Submit(t.Context(), g, "", stamp(&at))
		<-running.Done()
		time.Sleep(9 * time.Second)
		if !g.Stats().Paused {
			t.Error("Stats says it is not paused")
		}
		g.Resume()
		<-r.Done()
		since(t, "start", start, at, 10*time.Second)
	})
}

func TestListenersMayDoAnything(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		block := make(chan struct{})
		g.Listen(func(event.Event) { <-block })
		g.Listen(func(event.Event) { panic("listener") })
		var h governor.Handle = g
		h.Listen(func(event.Event) {
			g.Stats()
			g.Clear(throttle.Scope{})
			_, _ = governor.Do(context.Background(), g, "", sleep(0))
		}, event.Cooling)
		s := governortest.NewScript(governortest.Limited(time.Second))
		if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
			t.Error(err)
		}
		close(block)
	})
}

func TestListenerMayClose(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		done := make(chan error, 1)
		g.Listen(func(event.Event) { done <- g.Close() }, event.Cooling)
		g.Learn(throttle.Signal{Delay: time.Minute})
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestClosureThatRunsTooLongIsReportedOnce(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.StuckAfter = 10 * time.Second }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Stuck)
		start := time.Now()
		for i := range 3 {
			governor.Submit(t.Context(), g, "", sleep(time.Duration(i)*time.Minute))
		}
		time.Sleep(time.Hour)
		if ev := rec.Events(); len(ev) != 2 || ev[0].Time.Sub(start) != 10*time.Second || ev[0].Delay != 10*time.Second {
			t.Errorf("events %+v, want two after 10s", ev)
		}
		if n := g.Stats().Stuck; n != 2 {
			t.Errorf("Stats says %d", n)
		}
	})
}

func TestConfigErrorsNameFieldAndValue(t *testing.T) {
	for want, cfg := range map[string]governor.PlainConfig{
		`governor: Config.Name is "", want a name`:                                      {},
		"governor: Config.Workers is -1, want 0 to 1048575":                             {Name: "x", Workers: -1},
		"governor: Config.MaxQueue is -5, want 0 to 2147483647":                         {Name: "x", MaxQueue: -5},
		"governor: Config.MaxCooldown is -1s, want 0 or more":                           {Name: "x", MaxCooldown: -time.Second},
		"governor: Config.MinCooldown is 48h0m0s, want at most MaxCooldown, 24h0m0s":    {Name: "x", MinCooldown: 48 * time.Hour},
		"governor: Config.Limits[0].Limiter is nil, want a limiter, or a Quota":         {Name: "x", Limits: []governor.Limit{{}}},
		"governor: Config.Breaker is a nil *breaker.Breaker, want a breaker, or nil":    {Name: "x", Breaker: (*breaker.Breaker)(nil)},
		"governor: Config.Limits[0].Limiter is a nil *limiter.ByKey, want a limiter":    {Name: "x", Limits: []governor.Limit{{Limiter: (*limiter.ByKey)(nil)}}},
		"governor: Config.Limits[1].Limiter is a nil *limiter.Adaptive, want a limiter": {Name: "x", Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 1, Per: 1}}, {Limiter: (*limiter.Adaptive)(nil)}}},
	} {
		g, err := governor.New(cfg)
		if g != nil || err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// lines is a writer for a logger whose lines can be looked at.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.TrimSpace(string(p)))
	return len(p), nil
}

func TestLoggerHearsOfCooldownsAndOfGivingUp(t *testing.T) {
	var out lines
	bubble(t, func(c *governor.PlainConfig) {
		c.LimitedAttempts = 1
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "until" {
				return slog.Attr{}
			}
			return a
		}}))
	}, func(t *testing.T, g *governor.Plain) {
		_, _ = governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(time.Second)).Call)
		time.Sleep(time.Minute)
		synctest.Wait()
		out.mu.Lock()
		defer out.mu.Unlock()
		want := []string{
			"level=INFO msg=cooling governor=test scope=host delay=1s source=governortest",
			`level=WARN msg="gave up" governor=test request=1 err="governor: gave up, attempts: 1, waited: 0s: governortest: refused, host for 1s"`,
			"level=INFO msg=cooled governor=test scope=host",
		}
		if !slices.Equal(out.all, want) {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(out.all, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Sixty calls that were on their way when a cooldown began say the same again, each a
// little later: that is one line, and one more for what they add up to.
func TestLoggerIsSparedSmallExtensions(t *testing.T) {
	var out lines
	bubble(t, func(c *governor.PlainConfig) {
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "level" || a.Key == slog.TimeKey || a.Key == "until" || a.Key == "governor" {
				return slog.Attr{}
			}
			return a
		}}))
	}, func(t *testing.T, g *governor.Plain) {
		ann := throttle.Scope{Level: throttle.Tenant, Key: "ann"}
		g.Learn(throttle.Signal{Delay: time.Minute})
		g.Learn(throttle.Signal{Scope: ann, Delay: time.Minute})
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			g.Learn(throttle.Signal{Delay: time.Minute})
		}
		g.Learn(throttle.Signal{Scope: ann, Delay: 2 * time.Minute})
		time.Sleep(time.Hour)
		g.Learn(throttle.Signal{Delay: time.Minute})
		time.Sleep(time.Hour)
		synctest.Wait()
		out.mu.Lock()
		defer out.mu.Unlock()
		want := []string{
			"msg=cooling scope=host delay=1m0s", "msg=cooling scope=tenant:ann delay=1m0s",
			"msg=extended scope=host delay=1m0s", "msg=extended scope=tenant:ann delay=2m0s",
			"msg=cooled scope=host", "msg=cooled scope=tenant:ann",
			"msg=cooling scope=host delay=1m0s", "msg=cooled scope=host",
		}
		if !slices.Equal(out.all, want) {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(out.all, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestCloseEndsABackoffAtOnce(t *testing.T) {
	set := func(c *governor.PlainConfig) { c.Retry = &retry.Config{Backoff: backoff.Constant(10 * time.Minute)} }
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		broken := errors.New("broken")
		r := governor.Submit(t.Context(), g, "", governortest.NewScript(broken).Call)
		synctest.Wait()
		if st := r.State(); st != governor.Waiting {
			t.Errorf("the request is %v, want it to wait out its backoff", st)
		}
		start := time.Now()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrClosed) || !errors.Is(err, broken) {
			t.Errorf("got %v, want ErrClosed and how the attempt ended", err)
		}
		since(t, "closed", start, time.Now(), 0)
	})
}
