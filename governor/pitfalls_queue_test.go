package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// valve is a limit that is opened and closed by hand, and notes what it hears.
// The zero valve lets everything pass.
type valve struct {
	mu       sync.Mutex
	wait     func(key string, n int) time.Duration
	changed  func()
	began    time.Time
	heard    []string
	readings []time.Time
}

func (v *valve) Wait(now time.Time, key string, n int) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readings = append(v.readings, now)
	if v.wait == nil {
		return 0
	}
	return v.wait(key, n)
}

func (v *valve) Take(now time.Time, _ string, _ int)      { v.Wait(now, "", 1) }
func (v *valve) Settle(time.Time, string, int, int)       {}
func (v *valve) Accepted(now, sent time.Time, key string) { v.hear("accepted", now, sent, key) }
func (v *valve) Refused(now, sent time.Time, key string)  { v.hear("refused", now, sent, key) }
func (v *valve) OnChange(fn func())                       { v.changed = fn }
func (v *valve) since(start time.Time)                    { v.began = start }
func (v *valve) hear(what string, now, sent time.Time, k string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard = append(v.heard, fmt.Sprint(what, " ", k, " ", now.Sub(v.began), " ", sent.Sub(v.began)))
	v.readings = append(v.readings, now, sent)
}

func (v *valve) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return fmt.Sprint(v.heard)
}

// set changes the limit and says so.
func (v *valve) set(wait func(key string, n int) time.Duration) {
	v.mu.Lock()
	v.wait = wait
	v.mu.Unlock()
	v.changed()
}

// upTo is a limit that holds no more than most, and gives nothing for now.
func upTo(most int) func(string, int) time.Duration {
	return func(_ string, n int) time.Duration {
		if n > most {
			return limiter.Never
		}
		return time.Hour
	}
}

var levels = []throttle.Level{throttle.Host, throttle.Selector, throttle.Tenant, throttle.Bucket}

func TestLimitThatChangesWakesWhoWaits(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			v := &valve{wait: upTo(10)}
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Limits = true, []governor.Limit{{Per: level, Limiter: v}} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				at := make([]time.Time, 3)
				var reqs []*governor.Request[int]
				for i := range at {
					reqs = append(reqs, governor.Submit(t.Context(), g, "", stamp(&at[i])))
				}
				time.Sleep(time.Second)
				v.set(nil)
				for i, r := range reqs {
					<-r.Done()
					since(t, "start", start, at[i], time.Second)
				}
			})
		})
	}
}

// A limit that shrinks below the cost of what waits must not make it, and all
// behind it, wait for ever.
func TestLimitThatShrinksRefusesWhatItCanNeverAdmit(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			v := &valve{wait: upTo(10)}
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Limits = true, []governor.Limit{{Per: level, Limiter: v}} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				heavy := governor.Submit(t.Context(), g.With(governor.Ask{Cost: 5}), "", sleep(0))
				var at time.Time
				light := governor.Submit(t.Context(), g, "", stamp(&at))
				time.Sleep(time.Second)
				v.set(func(_ string, n int) time.Duration {
					if n > 2 {
						return limiter.Never
					}
					return 0
				})
				_, err := heavy.Result(t.Context())
				if !errors.Is(err, governor.ErrNeverAdmissible) {
					t.Errorf("got %v, want ErrNeverAdmissible", err)
				}
				since(t, "refusal", start, time.Now(), time.Second)
				<-light.Done()
				since(t, "the one behind it", start, at, time.Second)
			})
		})
	}
}

func TestRaisingMaxQueueLetsBlockedSubmittersIn(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxQueue = 1 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		reqs := make(chan *governor.Request[int], 5)
		reqs <- governor.Submit(t.Context(), g, "", sleep(0))
		for range 4 {
			go func() { reqs <- governor.Submit(t.Context(), g, "", sleep(0)) }()
		}
		in := func(want int) {
			t.Helper()
			synctest.Wait()
			if n := g.Stats().Queued; n != 5 || len(reqs) != want {
				t.Errorf("%d queued, %d submitted; want 5 and %d", n, len(reqs), want)
			}
		}
		in(1)
		if err := g.SetMaxQueue(3); err != nil {
			t.Error(err)
		}
		in(3)
		for _, n := range []int{0, -1, math.MinInt, math.MaxInt} { // refused, and the old one is kept
			if err := g.SetMaxQueue(n); err == nil || g.Stats().MaxQueue != 3 {
				t.Errorf("SetMaxQueue(%d): %v, MaxQueue is %d", n, err, g.Stats().MaxQueue)
			}
		}
		in(3)
		if err := g.SetMaxQueue(1); err != nil { // Block drops nobody
			t.Error(err)
		}
		in(3)
		g.Resume() // and all of it goes on
		for range 5 {
			if _, err := (<-reqs).Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// The oldest is the one submitted first, in whichever lane it waits; of those of
// the lowest priority.
func TestOldestIsFoundInWhicheverLaneItWaits(t *testing.T) {
	const n = 20
	for name, drop := range map[string]func(g *governor.Plain){
		"a new one": func(g *governor.Plain) {
			for range n / 2 {
				governor.Submit(context.Background(), g.With(governor.Ask{Tenant: "new", Priority: 9}), "", sleep(0))
			}
			g.Stats()
		},
		"a smaller queue": func(g *governor.Plain) {
			if err := g.SetMaxQueue(n / 2); err != nil {
				t.Error(err)
			}
		},
	} {
		for _, rule := range []governor.Overflow{governor.DropOldest, governor.DropLower} {
			t.Run(fmt.Sprint(name, rule), func(t *testing.T) {
				bubble(t, func(c *governor.PlainConfig) { c.MaxQueue, c.Overflow = n, rule }, func(t *testing.T, g *governor.Plain) {
					g.Pause()
					var reqs []*governor.Request[int]
					for i := range n { // the first quarter are of a higher priority, and stay
						ask := governor.Ask{Tenant: fmt.Sprint(7 * i % n), Priority: 1}
						if i >= n/4 {
							ask.Priority = 0
						}
						reqs = append(reqs, governor.Submit(t.Context(), g.With(ask), "", sleep(0)))
						synctest.Wait()
					}
					drop(g)
					for i, r := range reqs {
						if dropped := r.State() == governor.Done; dropped != (i >= n/4 && i < n/4+n/2) {
							t.Errorf("request %d of %d dropped: %v", i, n, dropped)
						}
					}
					g.Resume()
				})
			})
		}
	}
}

// What is heavy waits for its permits at the head of its lane, and is neither
// overtaken there nor starved by the light ones of others. Only those who share
// the limit wait with it.
func TestHeavyRequestKeepsItsTurn(t *testing.T) {
	for _, tt := range []struct {
		level  throttle.Level
		heavy  time.Duration // when it starts: a limit of the host's admits as much of the other tenant before
		others time.Duration // when the first of another tenant starts
	}{{throttle.Host, 9 * time.Second, time.Second}, {throttle.Tenant, 5 * time.Second, 0}} {
		t.Run(tt.level.String(), func(t *testing.T) {
			b := newBucket(t, 1, 5)
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Limits = true, []governor.Limit{{Per: tt.level, Limiter: b}}
			}, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				tenant := func(name string, cost int) *governor.Plain { return g.With(governor.Ask{Tenant: name, Cost: cost}) }
				if _, err := governor.Do(t.Context(), tenant("a", 5), "", sleep(0)); err != nil { // empties it
					t.Fatal(err)
				}
				g.Pause()
				var heavy, behind, other time.Time
				reqs := []*governor.Request[int]{
					governor.Submit(t.Context(), tenant("a", 5), "", stamp(&heavy)),
					governor.Submit(t.Context(), tenant("a", 1), "", stamp(&behind)),
					governor.Submit(t.Context(), tenant("b", 1), "", stamp(&other)),
				}
				for range 20 {
					reqs = append(reqs, governor.Submit(t.Context(), tenant("b", 1), "", sleep(0)))
				}
				g.Resume()
				for _, r := range reqs {
					<-r.Done()
				}
				since(t, "the heavy one", start, heavy, tt.heavy)
				since(t, "the first of another tenant", start, other, tt.others)
				if !behind.After(heavy) {
					t.Errorf("the light one behind it overtook it: %v before", heavy.Sub(behind))
				}
			})
		})
	}
}

// An endless stream of one priority does not starve another, whichever is the
// higher.
func TestNoPriorityIsStarvedByAnother(t *testing.T) {
	for _, p := range []struct {
		endless, single int
		ageing, after   time.Duration // after is when the single one has the priority of the others
	}{
		{0, 9, time.Second, 0},
		{9, 0, time.Second, 9 * time.Second},
		{math.MaxInt32, math.MinInt32, time.Nanosecond, math.MaxUint32},
	} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Workers, c.Ageing = 1, p.ageing }, func(t *testing.T, g *governor.Plain) {
				endless := g.With(governor.Ask{Priority: p.endless})
				var stop atomic.Bool
				begun := time.Now()
				var again func(context.Context) (int, error)
				again = func(context.Context) (int, error) {
					if !stop.Load() && time.Since(begun) < time.Minute { // not quite endless, for a failure's sake
						governor.Submit(context.Background(), endless, "", governor.Func(again))
					}
					time.Sleep(10 * time.Millisecond)
					return 0, nil
				}
				for range 20 {
					governor.Submit(t.Context(), endless, "", governor.Func(again))
				}
				time.Sleep(time.Second)
				start := time.Now()
				var at time.Time
				<-governor.Submit(t.Context(), g.With(governor.Ask{Priority: p.single}), "", stamp(&at)).Done()
				stop.Store(true)
				// Of the twenty there are, the oldest has waited for 190 ms, and one runs.
				if d := at.Sub(start); d < p.after || p.after == 0 && d > 20*time.Millisecond || d > p.after+210*time.Millisecond {
					t.Errorf("it started after %v, want it to be next but one from %v on", d, p.after)
				}
				if err := g.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Tenants that want more than there is get the same, however much each has
// queued and however slow its calls are.
func TestTenantsGetEqualSharesOfUnequalLoads(t *testing.T) {
	const tenants, starts = 8, 1600
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 4, 100_000 }, func(t *testing.T, g *governor.Plain) {
		g.Pause()
		var mu sync.Mutex
		got := make([]int, tenants)
		total := 0
		for i := range tenants {
			for range starts/tenants + 10 + 1000*i { // the last has thirty times as much as the first
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", governor.Func(func(context.Context) (int, error) {
					mu.Lock()
					if total < starts {
						got[i]++
					}
					total++
					mu.Unlock()
					time.Sleep(time.Duration(1+10*(i%3)) * time.Millisecond)
					return 0, nil
				}))
			}
		}
		g.Resume()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		var sum, squares float64
		for _, n := range got {
			sum += float64(n)
			squares += float64(n * n)
			if n < starts/tenants*95/100 || n > starts/tenants*105/100 {
				t.Errorf("of the first %d starts each of %d tenants got %v, want %d, 5 %% more or less", starts, tenants, got, starts/tenants)
				break
			}
		}
		if jain := sum * sum / (tenants * squares); jain < 0.98 {
			t.Errorf("Jain's index is %.3f, want 0.98", jain)
		}
	})
}

// Keys count while they are in use, also by what runs and by what only waits for
// its turn, and are never taken from it.
func TestSelectorsInUseAreBoundedAndNeverForgotten(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxKeys = true, 5 }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Selector, Key: "cooling"}, Delay: time.Minute})
		first := governor.Submit(t.Context(), g, "cooling", sleep(0))
		var running []*governor.Request[int]
		for i := range 4 {
			running = append(running, governor.Submit(t.Context(), g, fmt.Sprint("runs ", i), sleep(time.Second)))
		}
		synctest.Wait()
		for i := range 100 {
			if _, err := governor.Do(t.Context(), g, fmt.Sprint("one more ", i), sleep(0)); !errors.Is(err, governor.ErrTooManyKeys) {
				t.Fatalf("with 5 selectors of 5 in use: %v, want ErrTooManyKeys", err)
			}
		}
		for _, r := range running {
			<-r.Done()
		}
		for i := range 100 {
			if _, err := governor.Do(t.Context(), g, fmt.Sprint("later ", i), sleep(0)); err != nil {
				t.Fatalf("with one selector in use: %v", err)
			}
		}
		second := governor.Submit(t.Context(), g, "cooling", sleep(0))
		synctest.Wait()
		if s := g.Stats(); s.LaneCount != 1 || s.Lanes[0].Waiting != 2 {
			t.Errorf("lanes %+v, want the two of one selector in one", s.Lanes)
		}
		<-first.Done()
		<-second.Done()
	})
}

// An error of the queue tells both that the context ended and why.
func TestCancelledInTheQueueMatchesContextAndCause(t *testing.T) {
	cause := errors.New("the user closed the page")
	for name, tt := range map[string]struct {
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(cause) }
		}, context.Canceled},
		"timed out": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, cause)
			return ctx, func() { time.Sleep(2 * time.Second); cancel() }
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				g.Pause()
				ctx, end := tt.ctx(t.Context())
				r := governor.Submit(ctx, g, "", sleep(0))
				synctest.Wait()
				end()
				_, err := r.Result(t.Context())
				if !errors.Is(err, tt.want) || !errors.Is(err, cause) || !governor.IsRefused(err) {
					t.Errorf("got %v, want a refusal that matches %v and the cause", err, tt.want)
				}
			})
		})
	}
}

// Nobody may ask for nothing to be done, by whichever way.
func TestNilIsRefusedByEveryWayIn(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		var none context.Context
		if _, err := governor.Do[string, struct{}, int](t.Context(), g, "", nil); !errors.Is(err, governor.ErrNilFunc) {
			t.Errorf("Do of nil: %v", err)
		}
		if _, err := governor.Do(none, g, "", sleep(0)); !errors.Is(err, governor.ErrNilContext) {
			t.Errorf("Do without a context: %v", err)
		}
		turns := func(ctx context.Context, nothing bool) (n int, last error) {
			seq := items(3)
			if nothing {
				seq = nil
			}
			for _, err := range governor.Stream(ctx, g, "", seq) {
				n, last = n+1, err
			}
			return n, last
		}
		if n, err := turns(t.Context(), true); n != 1 || !errors.Is(err, governor.ErrNilFunc) {
			t.Errorf("Stream of nil: %d turns, %v", n, err)
		}
		if n, err := turns(none, false); n != 1 || !errors.Is(err, governor.ErrNilContext) {
			t.Errorf("Stream without a context: %d turns, %v", n, err)
		}
		if err := g.Shutdown(none); !errors.Is(err, governor.ErrNilContext) {
			t.Errorf("Shutdown without a context: %v", err)
		}
		g.Listen(nil)()
		if s := g.Stats(); s.Refused != 4 || s.Submitted != 0 || s.Closed {
			t.Errorf("%d refused, %d submitted, closed %v; want 4, 0, false", s.Refused, s.Submitted, s.Closed)
		}
	})
}

func TestConfigErrorsNameEveryField(t *testing.T) {
	for field, set := range map[string]func(*governor.PlainConfig){
		"Workers is 1048576":      func(c *governor.PlainConfig) { c.Workers = 1 << 20 },
		"MaxKeys is -1":           func(c *governor.PlainConfig) { c.MaxKeys = -1 },
		"MaxQueue is 2147483648":  func(c *governor.PlainConfig) { c.MaxQueue = 1 << 31 },
		"Overflow is 4":           func(c *governor.PlainConfig) { c.Overflow = governor.DropLower + 1 },
		"AttemptTimeout is -1ns":  func(c *governor.PlainConfig) { c.AttemptTimeout = -1 },
		"MaxGuess is -1ns":        func(c *governor.PlainConfig) { c.MaxGuess = -1 },
		"MinCooldown is -1ns":     func(c *governor.PlainConfig) { c.MinCooldown = -1 },
		"ProbePatience is -1ns":   func(c *governor.PlainConfig) { c.ProbePatience = -1 },
		"Guess: backoff: invalid": func(c *governor.PlainConfig) { c.Guess = backoff.Constant(-1) },
		"Retry: retry: invalid":   func(c *governor.PlainConfig) { c.Retry = &retry.Config{MaxElapsed: -1} },
		"Limits[1].Per is": func(c *governor.PlainConfig) {
			c.Limits = []governor.Limit{{Limiter: &valve{}}, {Per: throttle.Request, Limiter: &valve{}}}
		},
		"Pool: pool: Config.Open is nil": func(c *governor.PlainConfig) { c.Pool = &pool.Config[string, struct{}]{} },
	} {
		cfg := governor.PlainConfig{Name: "x"}
		set(&cfg)
		if g, err := governor.New(cfg); g != nil || err == nil || !strings.HasPrefix(err.Error(), "governor: Config."+field) {
			t.Errorf("got %v, want governor: Config.%s", err, field)
		}
	}
}

// What was wrong with a vendor's answers is counted, for those who do not listen.
func TestStatsCountWhatWasWrongWithTheVendor(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.MaxWait = true, -1 }, func(t *testing.T, g *governor.Plain) {
		for _, d := range []time.Duration{time.Second, math.MaxInt64, -5, throttle.Unknown, 0} {
			_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(d)).Call)
			time.Sleep(48 * time.Hour)
		}
		if s := g.Stats(); s.Limited != 5 || s.Episodes != 5 || s.Clamped != 2 || s.BadVendor != 0 {
			t.Errorf("%d limited in %d episodes, %d clamped, %d bad; want 5, 5, 2, 0", s.Limited, s.Episodes, s.Clamped, s.BadVendor)
		}
	})
	bubble(t, func(c *governor.PlainConfig) { c.Vendor = badVendor{} }, func(t *testing.T, g *governor.Plain) {
		_, _ = governor.Do(t.Context(), g, "", governortest.NewScript(errors.New("500")).Call)
		if s := g.Stats(); s.BadVendor != 1 || s.Limited != 0 {
			t.Errorf("%d bad, %d limited; want 1, 0", s.BadVendor, s.Limited)
		}
	})
}

// Events that a slow listener loses are counted where an operator looks.
func TestStatsCountWhatListenersLose(t *testing.T) {
	bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
		free := make(chan struct{})
		g.Listen(func(event.Event) { <-free }, event.Paused)
		rec := governortest.Record(g, event.Paused)
		for range 2000 {
			g.Pause()
			synctest.Wait() // the quick listener is not to lose any
			g.Resume()
		}
		if n := g.Stats().EventsDropped; n == 0 || n >= 2000 {
			t.Errorf("%d of 2000 events were dropped for a listener that hears nothing", n)
		}
		synctest.Wait()
		if n := rec.Count(event.Paused); n != 2000 {
			t.Errorf("the quick listener heard %d, want 2000", n)
		}
		close(free)
	})
}

// A result that nobody fetches goes with its request: the governor keeps none.
func TestForgottenRequestsAreCollected(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Workers: 2, Retry: &retry.Config{Backoff: backoff.Constant(time.Microsecond)}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	type page [1 << 16]byte
	var values []weak.Pointer[page]
	for i := range 200 {
		var p weak.Pointer[page]
		tries := 0
		r := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i % 7)}), fmt.Sprint(i%5), governor.Func(func(context.Context) (*page, error) {
			if tries++; tries == 1 && i%3 == 0 {
				return new(page), errors.New("500")
			}
			v := new(page)
			p = weak.Make(v)
			return v, nil
		}))
		<-r.Done()
		values = append(values, p)
	}
	if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
		t.Fatal(err)
	}
	g.Stats()
	for range 3000 { // half a minute and more, which only a failure takes
		runtime.GC()
		left := 0
		for _, p := range values {
			if p.Value() != nil {
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("results that nobody can reach any more are kept by an idle governor")
}

// With one processor and a long queue nothing may be done that takes a walk
// through it: ten times as many requests take ten times as long, not a hundred.
func TestLongQueueOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, ask := range map[string]governor.Ask{"one lane": {}, "with a latest start": {StartBy: time.Now().Add(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			few, many := time.Hour, time.Hour
			for round := 0; round < 3 || round < 20 && many >= 40*few; round++ { // others may be at work here, too, or the machine stalls
				few = min(few, queueAndCancel(t, 2_000, ask))
				many = min(many, queueAndCancel(t, 20_000, ask))
			}
			if many >= 40*few {
				t.Fatalf("ten times as many requests take %.0f times as long", float64(many)/float64(few))
			}
		})
	}
}

// queueAndCancel has n requests wait, cancels half of them, from the middle
// outwards, and lets the others run. It returns how long that took.
func queueAndCancel(t *testing.T, n int, ask governor.Ask) time.Duration {
	t.Helper()
	g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Workers: 1, MaxQueue: n})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.Pause()
	start, before := time.Now(), runtime.NumGoroutine()
	reqs := make([]*governor.Request[int], n)
	for i := range reqs {
		reqs[i] = governor.Submit(t.Context(), g.With(ask), "", governor.Func(func(context.Context) (int, error) { return i, nil }))
	}
	g.Stats()
	if m := runtime.NumGoroutine(); m > before {
		t.Errorf("%d goroutines more than before", m-before)
	}
	for i := range n / 2 { // each second one of both halves
		reqs[n/2+(1-i%2*2)*(i|1)].Cancel()
	}
	g.Resume()
	ran, cancelled := 0, 0
	for i, r := range reqs {
		switch v, err := r.Result(t.Context()); {
		case err == nil && v == i:
			ran++
		case errors.Is(err, context.Canceled):
			cancelled++
		default:
			t.Fatal(i, v, err)
		}
	}
	if ran+cancelled != n || cancelled < n/4 {
		t.Errorf("%d ran, %d were cancelled", ran, cancelled)
	}
	return time.Since(start)
}

// A dial that hears nothing holds its place in the pool, but not the slot, nor
// the request.
func TestDeafDialFreesItsSlotAfterOpenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pc := poolOf(2)
		pc.Open = func(_ context.Context, sel string) (*conn, error) {
			if sel == "deaf" {
				time.Sleep(time.Hour)
			}
			return &conn{sel, 0}, nil
		}
		g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, Workers: 1, OpenAttempts: 1, Pool: pc})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		deaf := governor.Submit(t.Context(), g, "deaf", use(0))
		var at time.Time
		next := governor.Submit(t.Context(), g, "well", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
		_, err = deaf.Result(t.Context())
		since(t, "its failure", start, time.Now(), 30*time.Second)
		if _, ok := errors.AsType[*pool.OpenError](err); !ok || !errors.Is(err, pool.ErrOpenTimeout) || !governor.IsRefused(err) {
			t.Errorf("got %v, want a *pool.OpenError", err)
		}
		<-next.Done()
		since(t, "the next, on another selector", start, at, 30*time.Second)
		time.Sleep(2 * time.Hour)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// poolOf is a pool of connections that open and close at once.
func poolOf(most int) *pool.Config[string, *conn] {
	return &pool.Config[string, *conn]{Max: most, Open: func(_ context.Context, sel string) (*conn, error) { return &conn{sel, 0}, nil }}
}
