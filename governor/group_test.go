package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

type (
	plainGroup       = governor.Group[string, struct{}]
	plainGroupConfig = governor.GroupConfig[string, struct{}]
)

// inGroup runs fn in a bubble with a Group that is closed at its end. made counts
// the governors.
func inGroup(t *testing.T, set func(*plainGroupConfig, *governor.PlainConfig), fn func(t *testing.T, g *plainGroup, made *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		made := new(atomic.Int64)
		cfg := plainGroupConfig{}
		each := governor.PlainConfig{Vendor: governortest.Vendor{}, Workers: 8}
		if set != nil {
			set(&cfg, &each)
		}
		if cfg.Config == nil {
			cfg.Config = func(string) (governor.PlainConfig, error) { made.Add(1); return each, nil }
		}
		g, err := governor.NewGroup(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fn(t, g, made)
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func get(t *testing.T, g *plainGroup, host string) *governor.Plain {
	t.Helper()
	h, err := g.Get(host)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func alive(g *plainGroup) string {
	var hosts []string
	for host := range g.All() {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return strings.Join(hosts, " ")
}

func TestGroupMakesOneGovernorForEachHost(t *testing.T) {
	inGroup(t, func(c *plainGroupConfig, _ *governor.PlainConfig) {}, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		var mu sync.Mutex
		seen := map[*governor.Plain]int{}
		var wg sync.WaitGroup
		for range 50 {
			for _, host := range []string{"a", "b"} {
				wg.Go(func() {
					h, err := g.Get(host)
					if err != nil || h.Name() != host {
						t.Errorf("%v, %v", h.Name(), err)
					}
					mu.Lock()
					defer mu.Unlock()
					seen[h]++
				})
			}
		}
		wg.Wait()
		if made.Load() != 2 || len(seen) != 2 || alive(g) != "a b" {
			t.Errorf("%d made, %d handed out, %s", made.Load(), len(seen), alive(g))
		}
		if s := g.Stats(); len(s) != 2 || s[0].Name != "a" || s[1].Name != "b" {
			t.Errorf("%+v", s)
		}
	})
}

func TestGroupMakesOneWhileOthersWaitForIt(t *testing.T) {
	var made atomic.Int64
	inGroup(t, func(c *plainGroupConfig, _ *governor.PlainConfig) {
		c.Config = func(host string) (governor.PlainConfig, error) {
			time.Sleep(time.Second) // slow: asked of a service
			switch n := made.Add(1); {
			case host == "bad":
				return governor.PlainConfig{Workers: -1}, nil
			case host == "panic" && n == 1:
				panic("config")
			}
			return governor.PlainConfig{Name: "n-" + host}, nil
		}
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		start := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			if h, err := g.Get("other"); err != nil || h.Name() != "n-other" {
				t.Errorf("%v", err)
			}
			since(t, "another host", start, time.Now(), time.Second+time.Millisecond)
		}()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := g.Get("bad"); err == nil || !strings.Contains(err.Error(), "Config.Workers is -1") {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		since(t, "all", start, time.Now(), time.Second)
		time.Sleep(time.Minute)
		if made.Swap(0) != 2 {
			t.Errorf("%d made", made.Load())
		}
		go func() {
			defer func() {
				if v := recover(); v != "config" {
					t.Errorf("recovered %v", v)
				}
			}()
			g.Get("panic")
		}()
		time.Sleep(time.Millisecond)
		if _, err := g.Get("panic"); err == nil {
			t.Error("a governor without a Config")
		}
		if _, err := g.Get("panic"); err != nil {
			t.Error(err)
		}
		if alive(g) != "other panic" {
			t.Error(alive(g))
		}
	})
}

// actors counts the governors' goroutines.
func actors() int {
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), ".(*core).loop(")
}

func TestGroupEvictsWhatIsIdle(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		start := time.Now()
		a := get(t, g, "a")
		rec := governortest.Record(a, event.Closed)
		time.Sleep(5*time.Minute - time.Nanosecond)
		if alive(g) != "a" || actors() != 1 {
			t.Error("evicted too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if alive(g) != "" || rec.Count(event.Closed) != 1 || actors() != 0 {
			t.Errorf("not evicted after 5 min: %q, %d actors", alive(g), actors())
		}
		// The one that was handed out is as good as new.
		v, err := governor.Do(t.Context(), a.With(governor.Ask{Tenant: "x"}), "", sleep(time.Second))
		if v != 1 || err != nil || made.Load() != 2 || alive(g) != "a" {
			t.Errorf("%v, %v, %d made", v, err, made.Load())
		}
		b := get(t, g, "a")
		if s := b.Stats(); b == a || s.Succeeded != 1 || s.Wait.Count != 1 {
			t.Errorf("%+v", s)
		}
		if s := a.Stats(); !s.Closed || s.Submitted != 0 {
			t.Errorf("%+v", s)
		}
		for time.Since(start) < time.Hour { // what is used is kept, whoever uses it
			governor.Do(t.Context(), a, "", stamp(new(time.Time)))
			time.Sleep(5 * time.Minute)
		}
		if made.Load() != 2 {
			t.Errorf("%d made", made.Load())
		}
	})
}

// Who asks for a host, and does nothing with it, is about to.
func TestGroupKeepsWhatIsAskedFor(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		a := get(t, g, "a")
		for range 20 {
			time.Sleep(4 * time.Minute)
			if get(t, g, "a") != a || made.Load() != 1 {
				t.Errorf("%d made", made.Load())
				return
			}
		}
		a.Close()
		if b := get(t, g, "a"); b == a || made.Load() != 2 {
			t.Errorf("the one that was closed by hand is handed out again; %d made", made.Load())
		}
	})
}

func TestGroupKeepsWhatIsInUse(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*governor.PlainConfig)
		use   func(t *testing.T, g *governor.Plain)
		least time.Duration // at least
	}{
		"running": {nil, func(t *testing.T, g *governor.Plain) { governor.Submit(t.Context(), g, "", sleep(time.Hour)) }, time.Hour},
		"held": {nil, func(t *testing.T, g *governor.Plain) {
			governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				release := governor.Hold(ctx)
				time.AfterFunc(time.Hour, func() { release(nil) })
				return 0, nil
			}))
		}, time.Hour},
		"a stream": {nil, func(t *testing.T, g *governor.Plain) {
			go func() {
				for range governor.Stream(t.Context(), g, "", items(1)) {
					time.Sleep(time.Hour)
				}
			}()
		}, time.Hour},
		"waiting for its pause": {nil, func(t *testing.T, g *governor.Plain) {
			governor.Submit(t.Context(), g, "", governortest.NewScript(governortest.Limited(14*time.Minute)).Call)
		}, 14 * time.Minute},
		"polled": {func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
			var at []time.Time
			governor.Submit(t.Context(), g, "", job(1, time.Hour, &at))
		}, time.Hour},
		"cooling": {nil, func(t *testing.T, g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: time.Hour})
		}, time.Hour},
		"one tenant cooling": {nil, func(t *testing.T, g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: time.Hour, Scope: tenant("x")})
		}, time.Hour},
		"paused": {nil, func(t *testing.T, g *governor.Plain) {
			g.Pause()
			time.AfterFunc(time.Hour, g.Resume)
		}, time.Hour},
		"an hourly quota": {func(c *governor.PlainConfig) {
			c.Limits = []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 10, Per: time.Hour}}}
		}, func(t *testing.T, g *governor.Plain) { governor.Do(t.Context(), g, "", stamp(new(time.Time))) }, time.Hour},
		"a tenant's quota": {func(c *governor.PlainConfig) {
			c.Limits = []governor.Limit{{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 10, Per: time.Hour}}}
		}, func(t *testing.T, g *governor.Plain) {
			governor.Do(t.Context(), g.With(governor.Ask{Tenant: "x"}), "", stamp(new(time.Time)))
		}, time.Hour},
		"an open breaker": {func(c *governor.PlainConfig) {
			b, _ := breaker.New(breaker.Config{})
			b.OpenUntil(time.Now().Add(time.Hour))
			c.Breaker = b
		}, func(*testing.T, *governor.Plain) {}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) {
				if c.set != nil {
					c.set(each)
				}
			}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
				start, h := time.Now(), get(t, g, "a")
				c.use(t, h)
				for alive(g) != "" && time.Since(start) < 3*time.Hour {
					time.Sleep(time.Minute)
				}
				if d := time.Since(start); d < c.least || d > c.least+time.Hour {
					t.Errorf("evicted after %v, want a while after %v", d, c.least)
				}
			})
		})
	}
}

// A limit that cannot say what it remembers is never forgotten.
func TestGroupKeepsAGovernorWithALimitItDoesNotKnow(t *testing.T) {
	inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) {
		each.Limits = []governor.Limit{{Limiter: &tally{}}}
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		get(t, g, "a")
		time.Sleep(24 * time.Hour)
		if alive(g) != "a" {
			t.Error("evicted")
		}
	})
}

func TestGroupRemembersTheLearnedRate(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		h := get(t, g, "a")
		// A vendor that takes 10 calls a second.
		var sent []time.Time
		end := time.Now().Add(10 * time.Minute)
		for time.Now().Before(end) {
			governor.Do(t.Context(), h, "", governor.Func(func(context.Context) (int, error) {
				now := time.Now()
				if len(sent) >= 10 && now.Sub(sent[len(sent)-10]) < time.Second {
					return 0, governortest.Limited(time.Second)
				}
				sent = append(sent, now)
				return 0, nil
			}))
		}
		rate := h.Stats().Limits[0].Rate
		if rate <= 0 {
			t.Fatal("nothing was learned")
		}
		time.Sleep(time.Hour - time.Minute)
		if alive(g) != "" {
			t.Fatal("not evicted")
		}
		if got := get(t, g, "a").Stats().Limits[0].Rate; got < rate/2 || got > rate*2 || made.Load() != 2 {
			t.Errorf("rate %v, was %v", got, rate)
		}
	})
}

func TestGroupIsBounded(t *testing.T) {
	inGroup(t, func(c *plainGroupConfig, _ *governor.PlainConfig) { c.MaxHosts, c.IdleTimeout = 20, -1 }, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		busy := governor.Submit(t.Context(), get(t, g, "busy"), "", sleep(time.Hour))
		for i := range 300 { // hostile: a new host each time
			h := get(t, g, fmt.Sprint("host", i))
			if _, err := governor.Do(t.Context(), h, "", stamp(new(time.Time))); err != nil {
				t.Fatal(err)
			}
			if n := len(g.Stats()); n > 20 {
				t.Fatalf("%d governors", n)
			}
		}
		if get(t, g, "busy").Stats().InFlight != 1 || made.Load() != 301 {
			t.Errorf("%d made", made.Load())
		}
		busy.Cancel()
		if _, err := g.Get(strings.Repeat("x", 1025)); err == nil {
			t.Error("a host of more than 1 KiB")
		}
	})
	inGroup(t, func(c *plainGroupConfig, _ *governor.PlainConfig) { c.MaxHosts = 3 }, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		for _, host := range []string{"a", "b", "c"} {
			governor.Submit(t.Context(), get(t, g, host), "", sleep(time.Hour))
		}
		if _, err := g.Get("d"); err != governor.ErrTooManyHosts || !governor.IsRefused(err) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Hour)
		get(t, g, "d")
	})
}

func TestGroupBoundsWhatWaitsEverywhere(t *testing.T) {
	inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
		c.MaxQueue, each.Workers = 5, 1
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		var all []*governor.Request[int]
		for i := range 12 {
			all = append(all, governor.Submit(t.Context(), get(t, g, fmt.Sprint(i%3)), "", sleep(time.Second)))
			synctest.Wait()
		}
		refused := 0
		for _, r := range all {
			if _, err := r.Result(t.Context()); errors.Is(err, governor.ErrQueueFull) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 4 { // 3 run, 5 wait
			t.Errorf("%d refused, want 4", refused)
		}
		for range 5 { // and all the room is there again
			r := governor.Submit(t.Context(), get(t, g, "0"), "", sleep(time.Second))
			if r.State() == governor.Done {
				t.Error(r.Result(t.Context()))
			}
		}
	})
}

func TestGroupListensToAll(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		var at []time.Time
		names := map[string]int{}
		get(t, g, "a")
		stop := g.Listen(func(e event.Event) { names[e.Name]++ }, event.Completed) // one at a time, says -race
		for range 2 {
			for _, host := range []string{"a", "b", "c"} {
				governor.Do(t.Context(), get(t, g, host), "", job(0, 0, &at))
			}
			synctest.Wait()
			time.Sleep(time.Hour) // evicted
		}
		stop()
		governor.Do(t.Context(), get(t, g, "a"), "", job(0, 0, &at))
		synctest.Wait()
		if fmt.Sprint(names) != "map[a:2 b:2 c:2]" {
			t.Errorf("%v", names)
		}
		g.Listen(nil)()
	})
}

// Also what is told before New returns, as of what is restored.
func TestGroupListensFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{Config: func(string) (governor.PlainConfig, error) {
			return governor.PlainConfig{Restore: governor.Learned{
				When: time.Now(), Cooldowns: []governor.LearnedCooldown{{Until: time.Now().Add(time.Minute)}},
			}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		heard := map[event.Kind]int{}
		stop := group.Listen(func(e event.Event) { heard[e.Kind]++ })
		g, err := group.Get("host")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		stop()
		if heard[event.Cooling] != 1 || heard[event.Cooled] != 1 || heard[event.Completed] != 1 {
			t.Errorf("heard %v", heard)
		}
	})
}

func TestGroupClosesAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.NewGroup(plainGroupConfig{Config: func(host string) (governor.PlainConfig, error) {
			return governor.PlainConfig{CloseGrace: 10 * time.Second}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, host := range []string{"a", "b", "c"} {
			governor.Submit(t.Context(), get(t, g, host), "", governor.Func(func(context.Context) (int, error) {
				if host != "c" {
					time.Sleep(time.Minute) // ignores its context
				}
				return 0, nil
			}))
		}
		old := get(t, g, "c")
		time.Sleep(time.Second)
		err = g.Close()
		since(t, "Close", start, time.Now(), 11*time.Second)
		forced, ok := errors.AsType[*governor.ForcedError](err)
		if !ok || forced.Running != 1 || !strings.Contains(err.Error(), "a: ") || !strings.Contains(err.Error(), "b: ") || strings.Contains(err.Error(), "c: ") {
			t.Errorf("got %v", err)
		}
		if _, err := g.Get("a"); err != governor.ErrClosed {
			t.Errorf("Get: %v", err)
		}
		if _, err := governor.Do(t.Context(), old, "", sleep(1)); !errors.Is(err, governor.ErrClosed) {
			t.Errorf("Do: %v", err)
		}
		time.Sleep(time.Minute)
		if err := g.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

func TestGroupShutdownDrainsAll(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		start := time.Now()
		var all []*governor.Request[int]
		for i := range 3 {
			all = append(all, governor.Submit(t.Context(), get(t, g, fmt.Sprint(i)), "", sleep(time.Duration(i)*time.Second)))
		}
		old := get(t, g, "idle")
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "the end", start, time.Now(), 2*time.Second)
		for _, r := range all {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, err := governor.Do(t.Context(), old, "", sleep(1)); !errors.Is(err, governor.ErrClosed) {
			t.Error(err)
		}
		var none context.Context
		if err := g.Shutdown(none); err != governor.ErrNilContext {
			t.Error(err)
		}
	})
}

// A connection that takes its time to close outlives its governor, but not the Group.
func TestGroupCloseWaitsForTheConnectionsOfEvictedGovernors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := 0
		g, err := governor.NewGroup(governor.GroupConfig[string, int]{
			IdleTimeout: time.Second,
			Config: func(host string) (governor.Config[string, int], error) {
				return governor.Config[string, int]{Pool: &pool.Config[string, int]{
					Open:  func(context.Context, string) (int, error) { open++; return open, nil },
					Close: func(string, int) { time.Sleep(10 * time.Second); open-- },
				}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		h, _ := g.Get("a")
		governor.Do(t.Context(), h, "", func(context.Context, int) (int, error) { return 0, nil })
		time.Sleep(3 * time.Second)
		for range g.All() {
			t.Error("not evicted")
		}
		if err := g.Close(); err != nil || open != 0 {
			t.Errorf("%v, %d open", err, open)
		}
	})
}

// The timer looks once a millisecond at most, however short IdleTimeout is.
func TestTinyIdleTimeoutDoesNotSpin(t *testing.T) {
	inGroup(t, func(c *plainGroupConfig, _ *governor.PlainConfig) { c.IdleTimeout = 1 }, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		get(t, g, "a")
		time.Sleep(time.Millisecond - 1)
		if n := len(g.Handles()); n != 1 {
			t.Errorf("%d governors just before the first look, want 1", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := len(g.Handles()); n != 0 {
			t.Errorf("%d governors after it, want none", n)
		}
	})
}

func TestGroupOfAGovernorClosedByHand(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		h := get(t, g, "a")
		h.Close()
		if _, err := governor.Do(t.Context(), h, "", sleep(1)); !errors.Is(err, governor.ErrClosed) {
			t.Error(err)
		}
		if _, err := governor.Do(t.Context(), get(t, g, "a"), "", sleep(1)); err != nil || made.Load() != 2 {
			t.Error(err)
		}
	})
}

func TestGroupConfigIsChecked(t *testing.T) {
	each := func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil }
	for want, cfg := range map[string]plainGroupConfig{
		"GroupConfig.Config is nil":  {},
		"GroupConfig.MaxHosts is -1": {Config: each, MaxHosts: -1},
		"GroupConfig.MaxQueue is -1": {Config: each, MaxQueue: -1},
	} {
		if _, err := governor.NewGroup(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	g, _ := governor.NewGroup(plainGroupConfig{Config: each})
	defer g.Close()
	if _, err := g.Get(""); err == nil {
		t.Error("a governor without a name")
	}
}

// Inside a closure a blocking call through an old handle is known for what it is.
func TestReentrantCallThroughAnEvictedGovernor(t *testing.T) {
	inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) { each.Workers = 1 }, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		old := get(t, g, "a")
		time.Sleep(time.Hour)
		_, err := governor.Do(t.Context(), old, "", governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, old, "", sleep(1))
		}))
		if !errors.Is(err, governor.ErrReentrant) {
			t.Errorf("got %v", err)
		}
	})
}

// Many goroutines use few hosts through old and new handles while governors come and
// go: every request is answered, no host is called while it is cooling down, and never
// by more than Workers.
func TestGroupUnderChurn(t *testing.T) {
	for seed := range uint64(effort.Times(2)) {
		inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
			c.MaxHosts, c.IdleTimeout = 3, 20*time.Millisecond
			each.Workers, each.NoPace, each.MinCooldown = 2, true, time.Millisecond
		}, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
			type host struct {
				mu     sync.Mutex
				said   time.Time // all that begins at this very moment may have begun before
				until  time.Time
				inside int
			}
			hosts := make([]host, 5)
			var wg sync.WaitGroup
			for w := range uint64(8) {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, w))
					handles := make([]*governor.Plain, len(hosts))
					for range 200 {
						i := rnd.IntN(len(hosts))
						h := &hosts[i]
						if handles[i] == nil || rnd.IntN(4) == 0 {
							got, err := g.Get(fmt.Sprint(i))
							if err != nil {
								if err != governor.ErrTooManyHosts {
									t.Error(err)
								}
								continue
							}
							handles[i] = got
						}
						if rnd.IntN(50) == 0 {
							handles[i].Learn(throttle.Signal{Delay: 5 * time.Millisecond})
						}
						_, err := governor.Do(t.Context(), handles[i], "", governor.Func(func(context.Context) (int, error) {
							h.mu.Lock()
							if h.inside++; h.inside > 2 {
								t.Errorf("%d calls of a host at once", h.inside)
							}
							if now := time.Now(); now.After(h.said) && now.Before(h.until) {
								t.Error("called while it was cooling down")
							}
							h.mu.Unlock()
							runtime.Gosched()
							h.mu.Lock()
							defer h.mu.Unlock()
							h.inside--
							if h.inside == 0 && rnd.IntN(20) == 0 {
								h.said = time.Now()
								h.until = h.said.Add(7 * time.Millisecond)
								return 0, governortest.Limited(7 * time.Millisecond)
							}
							return 0, nil
						}))
						if err != nil && !errors.Is(err, governor.ErrTooManyHosts) && !errors.Is(err, governor.ErrGaveUp) {
							t.Error(err)
						}
						if rnd.IntN(10) == 0 {
							time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			if made.Load() < 10 {
				t.Errorf("%d made: no churn", made.Load())
			}
		})
	}
}

// Evicted governors whose connections take long to close still are there: they
// count, too.
func TestGroupIsBoundedWhenConnectionsAreSlowToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		g, err := governor.NewGroup(governor.GroupConfig[string, int]{
			MaxHosts: 20,
			Config: func(host string) (governor.Config[string, int], error) {
				return governor.Config[string, int]{Pool: &pool.Config[string, int]{
					Open:  func(context.Context, string) (int, error) { return 0, nil },
					Close: func(string, int) { <-hang },
				}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		refused := 0
		for i := range 500 {
			h, err := g.Get(fmt.Sprint(i))
			if err != nil {
				if refused++; err != governor.ErrTooManyHosts {
					t.Fatal(err)
				}
				continue
			}
			governor.Do(t.Context(), h, "", func(context.Context, int) (int, error) { return 0, nil })
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 1000 || refused < 300 {
			t.Errorf("%d goroutines, %d hosts refused", n, refused)
		}
		close(hang)
		synctest.Wait()
		if _, err := g.Get("again"); err != nil {
			t.Error(err)
		}
		g.Close()
	})
}

// A limiter.Spread remembers nothing when what it was told is over.
func TestGroupEvictsWhatSpendsEvenly(t *testing.T) {
	inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) { each.SpendEvenly = true }, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		get(t, g, "a")
		b := get(t, g, "b")
		if _, err := governor.Do(t.Context(), b, "", governor.Func(func(ctx context.Context) (int, error) {
			q := throttle.Quota{Limit: -1, Remaining: 10, Reset: time.Now().Add(20 * time.Minute), Cost: -1}
			return 0, governor.Report(ctx, q)
		})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		if alive(g) != "b" {
			t.Errorf("%q alive, want b, which has a quota to spread", alive(g))
		}
		time.Sleep(45 * time.Minute)
		if alive(g) != "" || made.Load() != 2 {
			t.Errorf("%q alive when its window is over", alive(g))
		}
	})
}
