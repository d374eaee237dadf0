// The tests in this file, pitfalls_queue_test.go and running_test.go are about
// mistakes that libraries of this kind are known for. Each was seen to fail when
// the mistake was put into the code.

package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// turnstile is a breaker that counts its permits. A circuit should not do what
// acquire may do here: it stands for what others do at that very moment, between
// the grant of a request and its start.
type turnstile struct {
	acquire func() error

	mu       sync.Mutex
	permits  int
	outcomes []breaker.Outcome
	took     time.Duration
	readings []time.Time
}

func (s *turnstile) Ready(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings = append(s.readings, now)
	return nil
}

func (s *turnstile) Acquire(now time.Time) (breaker.Permit, error) {
	_ = s.Ready(now)
	if s.acquire != nil {
		if err := s.acquire(); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permits++
	return 0, nil
}

func (s *turnstile) Report(_ breaker.Permit, now time.Time, o breaker.Outcome, took time.Duration) {
	_ = s.Ready(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permits--
	s.outcomes, s.took = append(s.outcomes, o), took
}

// A permit of the breaker that gets lost between the grant and the start leaves
// a half-open breaker waiting for ever.
func TestBreakerPermitComesBackFromWhatNeverStarts(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(g *governor.Plain, cancel func())
		want error
	}{
		{"a cooldown was received", func(g *governor.Plain, _ func()) { g.Learn(throttle.Signal{Delay: time.Hour}) }, governor.ErrCooling},
		{"it was cancelled", func(_ *governor.Plain, cancel func()) { cancel() }, context.Canceled},
		{"its latest start passed", func(*governor.Plain, func()) { time.Sleep(2 * time.Second) }, governor.ErrLate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &turnstile{}
			bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Breaker = true, s }, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.acquire = func() error { tt.then(g, cancel); return nil }
				script := governortest.NewScript()
				_, err := governor.Do(ctx, g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}), "", script.Call)
				if !errors.Is(err, tt.want) || !governor.IsRefused(err) || len(script.Starts()) != 0 {
					t.Errorf("got %v after %d starts, want %v after none", err, len(script.Starts()), tt.want)
				}
				synctest.Wait()
				if s.permits != 0 || !slices.Equal(s.outcomes, []breaker.Outcome{breaker.Neutral}) {
					t.Errorf("%d permits are out, outcomes %v; want none out and one that is neutral", s.permits, s.outcomes)
				}
			})
		})
	}
}

// A probe that ends before its closure began is no answer of the vendor's. The
// next one must not have to wait until patience with it is over.
func TestProbeThatNeverStartsIsFollowedByAnotherAtOnce(t *testing.T) {
	const dial = 2 * time.Second // on selector "slow": the cooldown ends at 1 s, so until 3 s
	for _, tt := range []struct {
		name string
		set  func(*governor.Config[string, *conn])
		ask  governor.Ask
		then func(g *connected, probe *governor.Request[string]) // at 2 s, during the dial
		want time.Duration
	}{
		{"the dial fails", func(c *governor.Config[string, *conn]) {
			open := c.Pool.Open
			c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
				cn, err := open(ctx, sel)
				if sel == "slow" {
					c.Pool.Close(sel, cn)
					return nil, retry.Permanent(errors.New("unknown selector"))
				}
				return cn, err
			}
		}, governor.Ask{}, nil, 3 * time.Second},
		{"the dial takes too long", func(c *governor.Config[string, *conn]) { c.Pool.OpenTimeout, c.OpenAttempts = time.Second, 1 }, governor.Ask{}, nil, 2 * time.Second},
		{"it is cancelled", nil, governor.Ask{}, func(_ *connected, probe *governor.Request[string]) { probe.Cancel() }, 2 * time.Second},
		{"its latest start passes", nil, governor.Ask{StartBy: time.Now()}, nil, 2 * time.Second},
		{"a narrower cooldown is received", nil, governor.Ask{Tenant: "a"}, func(g *connected, _ *governor.Request[string]) {
			g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Minute})
		}, 3 * time.Second},
		{"a limit changes its mind", func(c *governor.Config[string, *conn]) {
			began := time.Now()
			c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: &valve{wait: func(key string, _ int) time.Duration {
				if key == "a" && time.Since(began) >= dial {
					return time.Hour
				}
				return 0
			}}}}
		}, governor.Ask{Tenant: "a"}, nil, 3 * time.Second},
		{"the breaker has no permit", func(c *governor.Config[string, *conn]) {
			first := true
			c.Breaker = &turnstile{acquire: func() error {
				if first {
					first = false
					return &breaker.OpenError{}
				}
				return nil
			}}
		}, governor.Ask{}, nil, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withPool(t, func(c *governor.Config[string, *conn]) {
				c.NoPace = true
				open := c.Pool.Open
				c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
					if sel == "slow" {
						time.Sleep(dial)
					}
					return open(ctx, sel)
				}
				if tt.set != nil {
					tt.set(c)
				}
			}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
				start := time.Now()
				g.Learn(throttle.Signal{Delay: time.Second})
				if !tt.ask.StartBy.IsZero() {
					tt.ask.StartBy = start.Add(2 * time.Second)
				}
				probe := governor.Submit(t.Context(), g.With(tt.ask), "slow", use(0))
				synctest.Wait()
				var at time.Time
				next := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "fast", func(context.Context, *conn) (int, error) { at = time.Now(); return 0, nil })
				time.Sleep(2 * time.Second)
				if tt.then != nil {
					tt.then(g, probe)
				}
				if _, err := next.Result(t.Context()); err != nil {
					t.Error(err)
				}
				since(t, "the next probe", start, at, tt.want)
				probe.Cancel()
				<-probe.Done()
			})
		})
	}
}

// Whatever became of the probes before, a later healthy call passes, and traffic
// comes back.
func TestAfterAnyMixOfProbesAHealthyCallPasses(t *testing.T) {
	for seed := range uint64(effort.Times(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := &turnstile{}
			withPool(t, func(c *governor.Config[string, *conn]) {
				c.NoPace, c.Workers, c.Pool.Max, c.Pool.OpenTimeout, c.Breaker = true, 16, 16, 3*time.Second, s
				if seed%2 == 0 {
					c.Limits = []governor.Limit{{Limiter: newBucket(t, 50, 2)}}
				}
				open := c.Pool.Open
				c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
					switch sel {
					case "slow":
						time.Sleep(2 * time.Second)
					case "down":
						return nil, errors.New("connection refused")
					case "hangs":
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return open(ctx, sel)
				}
			}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
				var full atomic.Bool
				s.acquire = func() error {
					if full.Load() {
						return &breaker.OpenError{}
					}
					return nil
				}
				g.Learn(throttle.Signal{Delay: time.Second})
				var mixed []*governor.Request[string]
				for range 12 {
					ask := governor.Ask{Tenant: fmt.Sprint(r.IntN(3)), NoRetry: r.IntN(2) == 0, KeepConn: r.IntN(4) == 0}
					if r.IntN(4) == 0 {
						ask.StartBy = time.Now().Add(time.Duration(r.IntN(4000)) * time.Millisecond)
					}
					sel := []string{"well", "well", "slow", "down", "hangs"}[r.IntN(5)]
					d := time.Duration(r.IntN(2000)) * time.Millisecond
					kind, tries := r.IntN(8), 0
					req := governor.Submit(t.Context(), g.With(ask), sel, func(ctx context.Context, c *conn) (string, error) {
						if tries++; tries > 3 {
							return use(d)(ctx, c)
						}
						switch kind {
						case 0:
							return "", errors.New("failed")
						case 1:
							panic("probe")
						case 2:
							return "", goexit()
						case 3:
							return use(24*time.Hour)(ctx, c) // hangs
						case 4:
							return "", governortest.Limited(d)
						case 5:
							return "", governortest.Limited(d, tenant(""))
						}
						return use(d)(ctx, c)
					})
					mixed = append(mixed, req)
					full.Store(r.IntN(4) == 0)
					time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
					switch r.IntN(4) {
					case 0:
						req.Cancel()
					case 1:
						g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(r.IntN(3))), Delay: d})
					}
				}
				full.Store(false)
				start := time.Now()
				for i := range 3 {
					if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "well", use(0)); err != nil {
						t.Error(err)
					}
				}
				if d := time.Since(start); d > time.Minute {
					t.Errorf("three healthy calls took %v", d)
				}
				for _, r := range mixed {
					r.Cancel()
				}
				time.Sleep(20 * time.Minute)
				start = time.Now()
				var reqs []*governor.Request[string]
				for i := range 64 {
					reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i % 3)}), "well", use(time.Second)))
				}
				for _, r := range reqs {
					if _, err := r.Result(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if d := time.Since(start); d > 20*time.Second {
					t.Errorf("64 calls of 1 s on 16 slots took %v long after the last trouble", d)
				}
				synctest.Wait()
				if st := g.Stats(); st.InFlight != 0 || st.Queued != 0 || s.permits != 0 {
					t.Errorf("at rest %d in flight, %d queued, %d permits of the breaker out", st.InFlight, st.Queued, s.permits)
				}
			})
		})
	}
}

// The caller's change of mind says nothing about the vendor: the next is again
// one probe, and the guess goes on from where it was.
func TestCancelledProbeProvesNothing(t *testing.T) {
	for name, cancel := range map[string]func(cancel func(), probe *governor.Request[int]){
		"context": func(cancel func(), _ *governor.Request[int]) { cancel() },
		"Cancel":  func(_ func(), probe *governor.Request[int]) { probe.Cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
				unknown := governortest.Limited(throttle.Unknown)
				<-governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(unknown).Call).Done()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				probe := governor.Submit(ctx, g, "", sleep(time.Hour))
				time.Sleep(16 * time.Second) // it runs since 15 s
				if probe.State() != governor.Running {
					t.Fatalf("the probe is %v", probe.State())
				}
				cancel(stop, probe)
				start := time.Now()
				at := make([]time.Time, 3)
				var tries atomic.Int64
				var reqs []*governor.Request[int]
				for i := range at {
					reqs = append(reqs, governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
						at[i] = time.Now()
						time.Sleep(time.Second)
						if tries.Add(1) == 1 {
							return 0, unknown
						}
						return 0, nil
					})))
				}
				for _, r := range reqs {
					<-r.Done()
				}
				since(t, "the one probe that follows", start, at[0], time.Second+30*time.Second) // its second attempt, after the second guess
				for _, a := range at[1:] {
					if d := a.Sub(start); d < 31*time.Second {
						t.Errorf("another started after %v, beside the probe", d)
					}
				}
			})
		})
	}
}

// Cancel and the start meet in every way: either the closure runs once and has
// the word, or it never runs and the error says so. Slots and connections are
// all there afterwards.
func TestCancelRacingWithTheStartHasOneWinner(t *testing.T) {
	rounds := effort.Times(10_000)
	const workers = 4
	g, err := governor.New(governor.Config[string, *conn]{Name: "x", NoPace: true, Workers: workers, CloseGrace: time.Second, Pool: poolOf(workers)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	patience, enough := context.WithTimeout(t.Context(), time.Duration(effort.Times(10))*time.Minute)
	defer enough()
	var ran, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range 2 * workers {
		wg.Go(func() {
			for i := range rounds / (2 * workers) {
				ctx, cancel := context.WithCancel(t.Context())
				runs := 0
				r := governor.Submit(ctx, g, "", func(context.Context, *conn) (int, error) { runs++; return 1, nil })
				for range i % 5 { // also where there is one processor only
					runtime.Gosched()
				}
				switch (i + w) % 4 {
				case 0:
					r.Cancel()
				case 1:
					cancel()
				case 2:
					go r.Cancel()
				case 3:
					go cancel()
				}
				v, err := r.Result(patience)
				cancel()
				switch {
				case patience.Err() != nil:
					t.Errorf("a request is %v for ever", r.State())
					return
				case err == nil && v == 1 && runs == 1:
					ran.Add(1)
				case errors.Is(err, context.Canceled) && governor.IsRefused(err) && v == 0 && runs == 0:
					refused.Add(1)
				default:
					t.Errorf("got %d, %v after %d runs", v, err, runs)
				}
			}
		})
	}
	wg.Wait()
	if ran.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d ran, %d were refused: the race was not tried", ran.Load(), refused.Load())
	}
	if t.Failed() {
		return
	}
	together := make(chan struct{})
	var there atomic.Int64
	for range workers { // every slot and every connection, at once
		wg.Go(func() {
			_, err := governor.Do(patience, g, "", func(context.Context, *conn) (int, error) {
				if there.Add(1) == workers {
					close(together)
				}
				select {
				case <-together:
					return 1, nil
				case <-time.After(time.Minute):
					return 0, fmt.Errorf("only %d of %d slots are there", there.Load(), workers)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 || s.Pool.InUse != 0 || s.Pool.Open > workers {
		t.Errorf("at rest %d in flight, %d queued, pool %+v", s.InFlight, s.Queued, s.Pool)
	}
}

// Whatever meets Close is run to its end, or refused: nothing is in between, and
// nothing is left.
func TestSubmitRacingWithCloseHasOneOutcome(t *testing.T) {
	rounds := effort.Times(300)
	var ran, refused atomic.Int64
	for round := range rounds {
		g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Workers: 2, MaxQueue: 3})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 4 {
					runs := 0
					r := governor.Submit(context.Background(), g, "", governor.Func(func(context.Context) (int, error) { runs++; return 1, nil }))
					select {
					case <-r.Done():
					case <-time.After(time.Minute):
						t.Errorf("a request is %v for ever", r.State())
						return
					}
					switch v, err := r.Result(context.Background()); {
					case err == nil && v == 1 && runs == 1:
						ran.Add(1)
					case errors.Is(err, governor.ErrClosed) && governor.IsRefused(err) && v == 0 && runs == 0:
						refused.Add(1)
					default:
						t.Errorf("got %d, %v after %d runs", v, err, runs)
					}
				}
			})
		}
		wg.Go(func() {
			for range round % 30 { // also where there is one processor only
				runtime.Gosched()
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 || s.Submitted != s.Succeeded+s.Failed+s.Dropped {
			t.Errorf("after Close: %+v", s)
		}
		if t.Failed() {
			return
		}
	}
	if ran.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d ran, %d were refused: the race was not tried", ran.Load(), refused.Load())
	}
}

// A context that has ended takes nothing, and the answer is there at once.
func TestEndedContextTakesNoConnection(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.Max = 1 }, func(t *testing.T, g *connected, opened, open *atomic.Int64) {
		if _, err := governor.Do(t.Context(), g, "idle", use(0)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		g.Pause()
		waits := governor.Submit(ctx, g, "other", use(0)) // would take the place of the idle one
		synctest.Wait()
		cancel()
		if _, err := waits.Result(t.Context()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended := governor.Submit(ctx, g, "other", use(0))
		if ended.State() != governor.Done {
			t.Error("Submit with an ended context returned a request that is not done")
		}
		g.Resume()
		synctest.Wait()
		if opened.Load() != 1 || open.Load() != 1 || g.Stats().Pool.Stolen != 0 {
			t.Errorf("%d opened, %d open, %d stolen; want the idle one untouched", opened.Load(), open.Load(), g.Stats().Pool.Stolen)
		}
	})
}

// What ends one reason to wait may find another.
func TestWhoIsWokenLooksAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(g *governor.Plain) // takes 3 s
		want time.Duration
	}{
		{"the cooldown was extended", func(g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: 5 * time.Second})
			time.Sleep(3 * time.Second)
			g.Learn(throttle.Signal{Delay: 10 * time.Second})
		}, 13 * time.Second},
		{"the cooldown of another scope ends later", func(g *governor.Plain) {
			g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 20 * time.Second})
			g.Learn(throttle.Signal{Delay: 5 * time.Second})
			time.Sleep(3 * time.Second)
		}, 20 * time.Second},
		{"one of two cooldowns was cleared", func(g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: 20 * time.Second})
			g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 30 * time.Second})
			time.Sleep(3 * time.Second)
			g.Clear(throttle.Scope{})
		}, 30 * time.Second},
		{"the governor was paused", func(g *governor.Plain) {
			g.Learn(throttle.Signal{Delay: time.Second})
			time.Sleep(500 * time.Millisecond)
			g.Pause()
			time.AfterFunc(10*time.Second, g.Resume)
			time.Sleep(2500 * time.Millisecond)
		}, 10500 * time.Millisecond},
		{"the slots were taken meanwhile", func(g *governor.Plain) {
			g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 5 * time.Second})
			time.Sleep(3 * time.Second)
			for range 8 {
				governor.Submit(context.Background(), g, "", sleep(10*time.Second))
			}
		}, 13 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				var at time.Time
				waits := make(chan *governor.Request[int], 1)
				time.AfterFunc(250*time.Millisecond, func() {
					waits <- governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", stamp(&at))
				})
				tt.do(g)
				<-(<-waits).Done()
				since(t, "start", start, at, tt.want)
			})
		})
	}
}

// The wait that MaxWait and the latest start allowed may get longer.
func TestExtendedCooldownFailsThoseWhoMustNotWaitSoLong(t *testing.T) {
	for _, sc := range []throttle.Scope{{}, tenant("a")} {
		t.Run(sc.String(), func(t *testing.T) {
			bubble(t, noPace, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				g.Learn(throttle.Signal{Scope: sc, Delay: time.Minute})
				a := g.With(governor.Ask{Tenant: "a"})
				patient := governor.Submit(t.Context(), a, "", sleep(0))
				timed := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", StartBy: start.Add(2 * time.Minute)}), "", sleep(0))
				time.Sleep(time.Second)
				g.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute})
				if _, err := timed.Result(t.Context()); !errors.Is(err, governor.ErrLate) {
					t.Errorf("latest start in 2m, cooldown 10m: %v, want a *LateError", err)
				}
				since(t, "refusal of the timed one", start, time.Now(), time.Second)
				time.Sleep(time.Second)
				g.Learn(throttle.Signal{Scope: sc, Delay: time.Hour})
				if _, err := patient.Result(t.Context()); !errors.Is(err, governor.ErrCooling) {
					t.Errorf("MaxWait 15m, cooldown 1h: %v, want a *CooldownError", err)
				}
				since(t, "refusal of the patient one", start, time.Now(), 2*time.Second)
			})
		})
	}
}

// A connection that takes long to open makes no call slow, and none time out.
func TestDialCountsAsNobodysCall(t *testing.T) {
	s := &turnstile{}
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.AttemptTimeout, c.Breaker = time.Second, s
		open := c.Pool.Open
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			time.Sleep(10 * time.Second)
			return open(ctx, sel)
		}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		if _, err := governor.Do(t.Context(), g, "a", use(900*time.Millisecond)); err != nil {
			t.Errorf("a call of 900 ms with a timeout of 1 s, after a dial of 10 s: %v", err)
		}
		synctest.Wait()
		if s.took != 900*time.Millisecond {
			t.Errorf("the breaker was told that it took %v", s.took)
		}
		if st := g.Stats(); st.Call.Max > 2*time.Second || st.Wait.Max < 10*time.Second {
			t.Errorf("calls took up to %v, the wait for their start up to %v; want the dial to be part of the wait", st.Call.Max, st.Wait.Max)
		}
	})
}

// A schedule of the user's can say anything.
func TestGuessIsBoundedWhateverItsScheduleSays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		guess func(backoff.Step) (time.Duration, bool)
		want  time.Duration
	}{
		{"too long", func(backoff.Step) (time.Duration, bool) { return time.Hour, true }, time.Minute},
		{"the longest", func(backoff.Step) (time.Duration, bool) { return math.MaxInt64, true }, time.Minute},
		{"as long as may be", func(backoff.Step) (time.Duration, bool) { return time.Minute, true }, time.Minute},
		{"too short", func(backoff.Step) (time.Duration, bool) { return 1, true }, 100 * time.Millisecond},
		{"negative", func(backoff.Step) (time.Duration, bool) { return -1, true }, time.Minute},
		{"it ends", func(backoff.Step) (time.Duration, bool) { return 0, false }, time.Minute},
		{"it panics", func(backoff.Step) (time.Duration, bool) { panic("guess") }, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Guess, c.MaxGuess = guess(tt.guess), time.Minute }, func(t *testing.T, g *governor.Plain) {
				for _, sc := range []throttle.Scope{{}, {Level: throttle.Request}} {
					s := governortest.NewScript(governortest.Limited(throttle.Unknown, sc))
					if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
						t.Fatal(err)
					}
					since(t, "second attempt after a signal for the "+sc.String(), s.Starts()[0], s.Starts()[1], tt.want)
				}
			})
		})
	}
}

// guess is a schedule that keeps to no contract.
type guess func(backoff.Step) (time.Duration, bool)

func (f guess) Next(s backoff.Step) (time.Duration, bool) { return f(s) }

// With a known rate traffic grows by rate: a tenth of it at first, all of it
// after a quarter of the pause, at most 5 s.
func TestAfterACooldownTrafficGrowsToAKnownRate(t *testing.T) {
	for pause, length := range map[time.Duration]time.Duration{8 * time.Second: 2 * time.Second, 10 * time.Minute: 5 * time.Second} {
		t.Run(fmt.Sprint(pause), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.Limits = []governor.Limit{{Limiter: newBucket(t, 10, 1000)}} // which would let all pass at once
			}, func(t *testing.T, g *governor.Plain) {
				g.Learn(throttle.Signal{Delay: pause})
				at := make([]time.Time, 101)
				var reqs []*governor.Request[int]
				for i := range at {
					reqs = append(reqs, governor.Submit(t.Context(), g, "", stamp(&at[i])))
				}
				for _, r := range reqs {
					<-r.Done()
				}
				since(t, "the first after the probe", at[0], at[1], 0)
				if gap := at[2].Sub(at[1]); gap != time.Second {
					t.Errorf("the first gap is %v, want that of a tenth of 10 per second, 1s", gap)
				}
				ramp := 2
				for ; at[ramp+1].Sub(at[1]) < length; ramp++ {
					gap, next := at[ramp].Sub(at[ramp-1]), at[ramp+1].Sub(at[ramp])
					if next >= gap || next < 100*time.Millisecond {
						t.Errorf("start %d: %v after the one before, the next %v after it; want them to shrink towards 100ms", ramp, gap, next)
					}
				}
				if got, want := ramp, int(5.5*length.Seconds()); got < want/2 || got > want { // as many as at the mean of a tenth and all
					t.Errorf("%d starts in the %v of growth, want up to %d", got, length, want)
				}
				since(t, "the last, with the growth over", at[1], at[len(at)-1], length)
			})
		})
	}
}

// A limiter that learns must know when a refused call was sent, or it takes old
// news for new, and cuts its rate for each of them.
func TestLimitersHearOfEachAnswerAndWhenItsCallWasSent(t *testing.T) {
	host, tenants := &valve{}, &valve{}
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: host}, {Per: throttle.Tenant, Limiter: tenants}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		host.since(start)
		tenants.since(start)
		for _, call := range []struct {
			latency time.Duration
			err     error
		}{
			{time.Second, nil},
			{2 * time.Second, governortest.Limited(time.Second)},
			{3 * time.Second, governortest.Limited(time.Second, tenant(""))},
			{4 * time.Second, governortest.Limited(time.Second, throttle.Scope{}, tenant("b"))},
			{5 * time.Second, governortest.Limited(time.Second, throttle.Scope{Level: throttle.Request})},
			{6 * time.Second, errors.New("500")},
		} {
			s := governortest.NewScript(call.err)
			s.Latency = call.latency
			governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", NoRetry: true}), "", s.Call)
		}
		time.Sleep(7 * time.Second)
		if got, want := host.String(), "[accepted  1s 0s refused  2s 0s refused  4s 0s]"; got != want {
			t.Errorf("the host's limit heard %s, want %s", got, want)
		}
		if got, want := tenants.String(), "[accepted a 1s 0s refused a 3s 0s refused b 4s 0s]"; got != want {
			t.Errorf("the tenants' limit heard %s, want %s", got, want)
		}
	})
}

// Nothing that is compared with a later time may come from the wall clock, which
// can be set: every time that the governor hands out has a monotonic reading. It
// is not in a bubble, where no time has one.
func TestWallClockIsNeverCounted(t *testing.T) {
	monotonic := func(what string, at time.Time) {
		t.Helper()
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is of the wall clock: %v", what, at)
		}
	}
	limit, s := &valve{}, &turnstile{}
	g, err := governor.New(governor.PlainConfig{Name: "x", Vendor: governortest.Vendor{}, Breaker: s, Limits: []governor.Limit{{Limiter: limit}}})
	if err != nil {
		t.Fatal(err)
	}
	rec := governortest.Record(g)
	wall := time.Now().Round(0) // as a user may have read it from a header or a file
	by := g.With(governor.Ask{StartBy: wall.Add(time.Minute)})
	until := &governortest.Refusal{Signals: []throttle.Signal{{Until: wall.Add(200 * time.Millisecond)}}}
	if _, err := governor.Do(t.Context(), by, "", governortest.NewScript(until).Call); err != nil {
		t.Fatal(err)
	}
	g.Learn(throttle.Signal{Until: wall.Add(10 * time.Minute)})
	_, err = governor.Do(t.Context(), by, "", sleep(0))
	le, ok := errors.AsType[*governor.LateError](err)
	if !ok {
		t.Fatal(err)
	}
	monotonic("LateError.By", le.By)
	monotonic("LateError.Could", le.Could)
	g.Learn(throttle.Signal{Until: wall.Add(time.Hour)})
	_, err = governor.Do(t.Context(), g, "", sleep(0))
	ce, ok := errors.AsType[*governor.CooldownError](err)
	if !ok {
		t.Fatal(err)
	}
	monotonic("CooldownError.Until", ce.Until)
	monotonic("Stats.Cooldowns.Until", g.Stats().Cooldowns[0].Until)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	for range 60_000 { // listeners are heard a moment later
		if rec.Count(event.Closed) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if len(limit.readings) == 0 || len(s.readings) == 0 || rec.Count(event.Closed) == 0 {
		t.Fatal("nothing to look at")
	}
	for _, at := range limit.readings {
		monotonic("a limit's now", at)
	}
	for _, at := range s.readings {
		monotonic("the breaker's now", at)
	}
	for _, e := range rec.Events() {
		monotonic("Time of the event "+e.Kind.String(), e.Time)
		if !e.Until.IsZero() {
			monotonic("Until of the event "+e.Kind.String(), e.Until)
		}
	}
}

// A hint of years in an error that is retried is a wait like any other: bounded,
// and no overflow makes it none.
func TestAbsurdRetryHintsAreBoundedLikeCooldowns(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, tt := range []struct{ hint, maxWait time.Duration }{
		{24 * time.Hour, 0}, {2 * century, 0}, {math.MaxInt64, 0}, {24 * time.Hour, -1}, {2 * century, -1},
	} {
		t.Run(fmt.Sprint(tt.hint, tt.maxWait), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.MaxWait, c.Retry = tt.maxWait, &retry.Config{} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				boom := errors.New("503")
				s := governortest.NewScript(retry.After(tt.hint, boom))
				r := governor.Submit(t.Context(), g, "", s.Call)
				if tt.maxWait < 0 {
					time.Sleep(23 * time.Hour)
					if r.State() != governor.Waiting || len(s.Starts()) != 1 {
						t.Errorf("%v after %d attempts, want it to wait", r.State(), len(s.Starts()))
					}
					r.Cancel()
				}
				_, err := r.Result(t.Context())
				if !errors.Is(err, boom) || governor.IsRefused(err) {
					t.Errorf("got %v, want the vendor's error, and that it was sent", err)
				}
				if tt.maxWait == 0 {
					since(t, "refusal", start, time.Now(), 0)
					if !errors.Is(err, governor.ErrCooling) {
						t.Errorf("got %v, want a *CooldownError", err)
					}
				}
			})
		})
	}
}
