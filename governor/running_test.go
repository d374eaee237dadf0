package governor_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// Several holds of one attempt end with the last, and each ends once.
func TestHoldReleasedTwiceEndsNoOther(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var one, two func(error)
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			one, two = governor.Hold(ctx), governor.Hold(ctx)
			return 1, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		var at time.Time
		next := governor.Submit(t.Context(), g, "", stamp(&at))
		time.Sleep(time.Second)
		one(nil)
		one(nil)
		one(governortest.Limited(time.Hour)) // over: nobody hears it
		time.Sleep(time.Second)
		two(nil)
		two(nil)
		<-next.Done()
		since(t, "next start", start, at, 2*time.Second)
		if n := g.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

// Others that start later must not bring the report up again.
func TestStuckIsSaidOnceThoughOthersStart(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.StuckAfter = 10 * time.Second }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Stuck)
		stuck := governor.Submit(t.Context(), g, "", sleep(time.Hour))
		for range 20 {
			if _, err := governor.Do(t.Context(), g, "", sleep(8*time.Second)); err != nil {
				t.Error(err)
			}
		}
		stuck.Cancel()
		<-stuck.Done()
		synctest.Wait()
		if n := rec.Count(event.Stuck); n != 1 || g.Stats().Stuck != 1 {
			t.Errorf("%d events, %d in Stats; want 1", n, g.Stats().Stuck)
		}
	})
}

// The caller may leave, the vendor's clock runs on: a closure that ignores its
// timeout keeps its slot, so never two run on one.
func TestClosureThatIgnoresItsTimeoutKeepsItsSlot(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Workers, c.AttemptTimeout, c.StuckAfter = 1, time.Second, 5*time.Second
	}, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Stuck)
		start := time.Now()
		deaf := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { time.Sleep(10 * time.Second); return 7, nil }))
		var at time.Time
		next := governor.Submit(t.Context(), g, "", stamp(&at))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := deaf.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller that left got %v", err)
		}
		since(t, "the caller left", start, time.Now(), 2*time.Second)
		<-next.Done()
		since(t, "the next start", start, at, 10*time.Second)
		if v, err := deaf.Result(t.Context()); v != 7 || err != nil {
			t.Errorf("got %d, %v; want what the closure returned at last", v, err)
		}
		synctest.Wait()
		if rec.Count(event.Stuck) != 1 {
			t.Errorf("%d stuck events, want 1", rec.Count(event.Stuck))
		}
	})
}

// Close waits for what runs. Where it is called from inside that, it waits for
// the grace, says so, and nobody hangs.
func TestCloseFromInsideWaitsForItsGraceAlone(t *testing.T) {
	for _, from := range []string{"closure", "adapter", "RetryIf", "Open", "Close"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g *connected
				start := time.Now()
				errs := make(chan error, 1)
				var once sync.Once
				shut := func(where string) {
					if where == from {
						once.Do(func() {
							errs <- g.Close()
							since(t, "Close", start, time.Now(), 5*time.Second)
						})
					}
				}
				pc := poolOf(1)
				pc.Open = func(_ context.Context, sel string) (*conn, error) { shut("Open"); return &conn{sel, 0}, nil }
				pc.Close = func(string, *conn) { shut("Close") }
				pc.MaxUses = 1
				var e error
				g, e = governor.New(governor.Config[string, *conn]{
					Name: "x", NoPace: true, CloseGrace: 5 * time.Second, Pool: pc,
					Vendor: closer{shut},
					Retry:  &retry.Config{RetryIf: func(error) bool { shut("RetryIf"); return true }},
				})
				if e != nil {
					t.Fatal(e)
				}
				r := governor.Submit(t.Context(), g, "", func(context.Context, *conn) (int, error) { shut("closure"); return 0, errors.New("500") })
				_, _ = r.Result(t.Context())
				err := <-errs
				time.Sleep(time.Minute)
				if fe, ok := errors.AsType[*governor.ForcedError](err); !ok || (fe.Running == 1) != (from != "Open" && from != "Close") {
					t.Errorf("Close from inside: %v, want a *ForcedError, with 1 when it was inside an attempt", err)
				}
				if err := g.Close(); err != nil {
					t.Errorf("Close after that: %v", err)
				}
			})
		})
	}
}

type closer struct{ shut func(string) }

func (c closer) DelayError(error) (time.Duration, bool) { c.shut("adapter"); return 0, false }

// Functions of the user's that panic, or end their goroutine, harm the request
// that they were asked about, and nothing else.
func TestHooksThatPanicOrExitLoseNothing(t *testing.T) {
	for how, bad := range map[string]func(){"panic": func() { panic("hook") }, "Goexit": func() { runtime.Goexit() }} {
		for hook, set := range map[string]func(*governor.Config[string, *conn]){
			"RetryIf": func(c *governor.Config[string, *conn]) {
				c.Retry = &retry.Config{RetryIf: func(error) bool { bad(); return true }}
			},
			"Backoff": func(c *governor.Config[string, *conn]) {
				c.Retry = &retry.Config{Backoff: guess(func(backoff.Step) (time.Duration, bool) { bad(); return 0, true })}
			},
			"adapter": func(c *governor.Config[string, *conn]) { c.Vendor = closer{func(string) { bad() }} },
			"IsBad":   func(c *governor.Config[string, *conn]) { c.Pool.IsBad = func(error) bool { bad(); return true } },
			"OnEvent": func(c *governor.Config[string, *conn]) { c.Pool.OnEvent = func(event.Event) { bad() } },
			"Close": func(c *governor.Config[string, *conn]) {
				hangUp := c.Pool.Close
				c.Pool.MaxUses, c.Pool.Close = 1, func(sel string, cn *conn) { hangUp(sel, cn); bad() }
			},
		} {
			t.Run(hook+" "+how, func(t *testing.T) {
				withPool(t, func(c *governor.Config[string, *conn]) {
					c.Workers, c.Pool.Max = 1, 1
					set(c)
				}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
					boom := errors.New("500")
					for range 3 {
						if _, err := governor.Do(t.Context(), g, "a", use(0, boom)); !errors.Is(err, boom) {
							t.Errorf("got %v, want the closure's error", err)
						}
					}
					if _, err := governor.Do(t.Context(), g, "a", use(0)); err != nil {
						t.Errorf("the next call: %v", err)
					}
					if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 {
						t.Errorf("%d in flight, %d queued", s.InFlight, s.Queued)
					}
				})
			})
		}
	}
}

// A Guess that ends its goroutine is asked when a signal without a delay comes.
func TestGuessThatExitsTheGoroutineLosesNothing(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Workers = 1
		c.Guess = guess(func(backoff.Step) (time.Duration, bool) { runtime.Goexit(); return 0, true })
	}, func(t *testing.T, g *governor.Plain) {
		for range 3 {
			_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(throttle.Unknown)).Call)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

// The loop takes items at its own speed: the sequence is not read ahead, and
// nobody else pays for it but with the slot, which is reported.
func TestSlowLoopHoldsBackItsSequence(t *testing.T) {
	withPool(t, func(c *governor.Config[string, *conn]) { c.Pool.Max, c.StuckAfter = 1, 10*time.Second }, func(t *testing.T, g *connected, _, open *atomic.Int64) {
		rec := governortest.Record(g, event.Stuck)
		before := runtime.NumGoroutine()
		made, taken := 0, 0
		for range governor.Stream(t.Context(), g, "a", func(context.Context, *conn) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for made = 1; made <= 30 && yield(made, nil); made++ {
				}
			}
		}) {
			taken++
			time.Sleep(time.Second)
			if made != taken {
				t.Fatalf("%d items were made for %d that were taken", made, taken)
			}
			if s := g.Stats(); s.InFlight != 1 || s.Pool.InUse != 1 || open.Load() != 1 {
				t.Fatalf("in the middle %d in flight, pool %+v", s.InFlight, s.Pool)
			}
			if n := runtime.NumGoroutine(); n > before+1 { // the listener's
				t.Fatalf("%d goroutines for a stream", n-before)
			}
		}
		synctest.Wait()
		if taken != 30 || rec.Count(event.Stuck) != 1 {
			t.Errorf("%d items, %d stuck events; want 30, and one for a stream longer than StuckAfter", taken, rec.Count(event.Stuck))
		}
	})
}
