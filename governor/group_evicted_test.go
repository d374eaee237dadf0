package governor_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// evicted returns a governor of g that was evicted.
func evicted(t *testing.T, g *plainGroup) *governor.Plain {
	t.Helper()
	old := get(t, g, "a")
	time.Sleep(time.Hour)
	if alive(g) != "" || !old.Stats().Closed {
		t.Fatal("not evicted")
	}
	return old
}

// The slot is the successor's, and goes back to it.
func TestStreamThroughAnEvictedGovernor(t *testing.T) {
	inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) { each.Workers = 1 }, func(t *testing.T, g *plainGroup, made *atomic.Int64) {
		old := evicted(t, g)
		for range 3 {
			n := 0
			for _, err := range governor.Stream(t.Context(), old, "", items(3)) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if s := get(t, g, "a").Stats(); n != 3 || s.InFlight != 0 || s.Succeeded == 0 || old.Stats().InFlight != 0 {
				t.Fatalf("%d items, %d slots in use at the successor, %d at the evicted one", n, s.InFlight, old.Stats().InFlight)
			}
		}
		time.Sleep(time.Hour)
		if alive(g) != "" || made.Load() != 2 {
			t.Errorf("%q alive, %d made", alive(g), made.Load())
		}
	})
}

// While another goroutine calls Config, which takes an hour.
func TestWhoWaitsForAnothersConfigWaitsNoLongerThanItsContext(t *testing.T) {
	errGone := errors.New("gone")
	only := func(context.Context, struct{}) (int, error) { return 1, nil }
	through := map[string]func(ctx context.Context, g *governor.Plain) error{
		"Do": func(ctx context.Context, g *governor.Plain) error {
			_, err := governor.Do(ctx, g, "", only)
			return err
		},
		"Submit": func(ctx context.Context, g *governor.Plain) error {
			_, err := governor.Submit(ctx, g, "", only).Result(context.Background())
			return err
		},
		"Stream": func(ctx context.Context, g *governor.Plain) (last error) {
			for _, err := range governor.Stream(ctx, g, "", items(1)) {
				last = err
			}
			return last
		},
		"Map": func(ctx context.Context, g *governor.Plain) (last error) {
			of := func(context.Context, struct{}, int) (int, error) { return 1, nil }
			for _, err := range governor.Map(ctx, g, "", slices.Values([]int{1}), of, nil) {
				last = err
			}
			return last
		},
	}
	for name, call := range through {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
				first := true
				c.Config = func(string) (governor.PlainConfig, error) {
					if !first {
						time.Sleep(time.Hour)
					}
					first = false
					return *each, nil
				}
			}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
				old := evicted(t, g)
				made := make(chan struct{})
				go func() { defer close(made); get(t, g, "a") }()
				synctest.Wait()

				start := time.Now()
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
				defer cancel()
				err := call(ctx, old)
				if took := time.Since(start); took != time.Second {
					t.Errorf("waited %v", took)
				}
				if !errors.Is(err, errGone) || !errors.Is(err, context.DeadlineExceeded) || !governor.IsRefused(err) {
					t.Errorf("got %v, want a refusal that says why", err)
				}
				<-made
				if err := call(t.Context(), old); err != nil {
					t.Errorf("when there is a governor: %v", err)
				}
			})
		})
	}
}

func TestMapInAClosureThroughAnEvictedGovernor(t *testing.T) {
	inGroup(t, func(_ *plainGroupConfig, each *governor.PlainConfig) { each.Workers = 1 }, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		old := evicted(t, g)
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := governor.Do(ctx, get(t, g, "a"), "", governor.Func(func(ctx context.Context) (int, error) {
			for _, err := range governor.Map(ctx, old, "", slices.Values([]int{1, 2}), func(context.Context, struct{}, int) (int, error) { return 1, nil }, nil) {
				if !errors.Is(err, governor.ErrReentrant) {
					t.Errorf("got %v, want ErrReentrant", err)
				}
			}
			return 0, nil
		}))
		if err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestExportOfAnEvictedGovernorIsItsSuccessors(t *testing.T) {
	inGroup(t, nil, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		old := evicted(t, g)
		old.Learn(throttle.Signal{Delay: time.Minute})
		if l := old.Export(); len(l.Cooldowns) != 1 {
			t.Errorf("%+v, want the cooldown", l)
		}
	})
}

// What the vendor said is left is so, whoever looks after its host.
func TestTheNextGovernorKnowsWhatTheVendorSaidIsLeft(t *testing.T) {
	inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) { each.MaxWait = -1 }, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		reset := time.Now().Add(3 * time.Hour)
		call(t, get(t, g, "a"), governor.Func(func(ctx context.Context) (int, error) {
			return 0, governor.Report(ctx, throttle.Quota{Limit: 100, Remaining: 3, Reset: reset, Cost: -1})
		}))
		for range 2 {
			evicted(t, g) // and made anew
		}
		n := 0
		ctx, cancel := context.WithDeadline(t.Context(), reset.Add(-time.Second))
		defer cancel()
		for n < 20 {
			if _, err := governor.Do(ctx, get(t, g, "a"), "", sleep(0)); err != nil {
				break
			}
			n++
		}
		if n != 3 {
			t.Errorf("%d calls before the reset, the vendor said 3 were left", n)
		}
		time.Sleep(time.Until(reset))
		call(t, get(t, g, "a"), sleep(0))
	})
}

// While a Group is shut down, what still waits hears what is said through a handle whose own
// governor was evicted before, as it hears what is said through its own.
func TestWhatIsSaidThroughAnEvictedGovernorReachesTheOneThatIsShutDown(t *testing.T) {
	for name, say := range map[string]func(h *governor.Plain){
		"Resume": func(h *governor.Plain) {
			h.Pause()
			time.AfterFunc(time.Second, h.Resume)
		},
		"Clear": func(h *governor.Plain) {
			h.Learn(throttle.Signal{Delay: time.Minute})
			time.AfterFunc(time.Second, func() { h.Clear(throttle.Scope{}) })
		},
		"Learn": func(h *governor.Plain) {
			h.Pause()
			time.AfterFunc(time.Second/2, func() {
				h.Learn(throttle.Signal{Delay: time.Second / 2})
				h.Resume()
			})
		},
	} {
		for _, whose := range []func(*testing.T, *plainGroup) *governor.Plain{
			func(t *testing.T, g *plainGroup) *governor.Plain { return get(t, g, "a") },
			evicted,
		} {
			inGroup(t, nil, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
				h := whose(t, g)
				began := time.Now()
				say(h)
				r := governor.Submit(t.Context(), h, "", governor.Func(func(context.Context) (time.Duration, error) {
					return time.Since(began), nil
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute/2)
				defer cancel()
				if err := g.Shutdown(ctx); err != nil {
					t.Errorf("%s: Shutdown: %v", name, err)
				}
				if at, err := r.Result(t.Context()); err != nil || at != time.Second {
					t.Errorf("%s: started after %v, %v, want 1s", name, at, err)
				}
			})
		}
	}
}

// An error of Config's says nothing of whether the call was made: it was not.
func TestAConfigThatFailsRefusesTheCall(t *testing.T) {
	secrets := errors.New("no secrets today")
	fails := false
	inGroup(t, func(c *plainGroupConfig, each *governor.PlainConfig) {
		c.Config = func(string) (governor.PlainConfig, error) {
			if fails {
				return governor.PlainConfig{}, secrets
			}
			return *each, nil
		}
	}, func(t *testing.T, g *plainGroup, _ *atomic.Int64) {
		old := evicted(t, g)
		fails = true
		_, err := governor.Do(t.Context(), old, "", stamp(new(time.Time)))
		if !errors.Is(err, secrets) || !governor.IsRefused(err) {
			t.Errorf("%v, refused: %t", err, governor.IsRefused(err))
		}
	})
}
