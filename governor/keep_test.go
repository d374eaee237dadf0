package governor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/retry"
)

// unread is a failure with something that is read later.
type unread struct {
	*slowDown // nil: it is no refusal
	settled   func(again bool) bool
}

func (e *unread) Error() string { return "unread" }

func (e *unread) Unwrap() error {
	if e.slowDown == nil {
		return nil
	}
	return e.slowDown
}

func (e *unread) Settled(again bool) bool { return e.settled(again) }

func TestFailureWithAKeeperKeepsSlotAndContextUntilRelease(t *testing.T) {
	open := &breaker.Config{Consecutive: 1}
	for name, c := range map[string]struct {
		cfg    governor.PlainConfig
		ask    governor.Ask
		by     time.Duration // its latest start
		limit  *slowDown
		open   *breaker.Config
		agains int
		is     error
	}{
		"a failure":                   {},
		"attempts ran out":            {cfg: governor.PlainConfig{Retry: &retry.Config{Attempts: 3, Backoff: backoff.Constant(time.Second)}}, agains: 2, is: governor.ErrGaveUp},
		"the schedule ended":          {cfg: governor.PlainConfig{Retry: &retry.Config{Backoff: backoff.Func(func(backoff.Step) (time.Duration, bool) { return 0, false })}}, is: governor.ErrGaveUp},
		"its wait is too long":        {cfg: governor.PlainConfig{MaxWait: time.Second, Retry: &retry.Config{Backoff: backoff.Constant(time.Minute)}}, is: governor.ErrCooling},
		"its wait ends too late":      {by: time.Second, cfg: governor.PlainConfig{Retry: &retry.Config{Backoff: backoff.Constant(time.Minute)}}, is: governor.ErrLate},
		"a refusal not to be waited":  {ask: governor.Ask{NoRetry: true}, limit: &slowDown{time.Second}},
		"refused once too often":      {cfg: governor.PlainConfig{LimitedAttempts: 1}, limit: &slowDown{time.Second}, is: governor.ErrGaveUp},
		"a pause that is too long":    {limit: &slowDown{time.Hour}, is: governor.ErrCooling},
		"a pause that ends too late":  {by: time.Second, limit: &slowDown{time.Minute}, is: governor.ErrLate},
		"it has opened the breaker":   {cfg: governor.PlainConfig{Retry: &retry.Config{Backoff: backoff.None}}, open: open, is: breaker.ErrOpen},
		"the same, and a backoff":     {cfg: governor.PlainConfig{Retry: &retry.Config{Backoff: backoff.Constant(time.Second)}}, open: open, is: breaker.ErrOpen},
		"it was judged by a breaker":  {open: open},
		"only observed":               {cfg: governor.PlainConfig{Observe: true}, limit: &slowDown{time.Hour}},
		"the fast path is not for it": {ask: governor.Ask{KeepConn: true}, limit: &slowDown{time.Hour}, is: governor.ErrCooling},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := c.cfg
				cfg.Name, cfg.Workers, cfg.Vendor = "kept", 1, slowVendor{}
				if c.open != nil {
					b, err := breaker.New(*c.open)
					if err != nil {
						t.Fatal(err)
					}
					cfg.Breaker = b
				}
				g, err := governor.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var at context.Context
				agains, ends := 0, 0
				fail := &unread{slowDown: c.limit, settled: func(again bool) bool {
					if g.Stats().InFlight != 1 {
						t.Error("told when the slot is free")
					}
					if again {
						agains++
					} else {
						ends++
					}
					return true // which does not count where it goes on
				}}
				l := governor.Lease{Ask: c.ask}
				if c.by > 0 {
					l.Ask.StartBy = time.Now().Add(c.by)
				}
				_, err = governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) { at = ctx; return 0, fail })
				if !errors.Is(err, fail) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v, want the closure's error, as %v", err, c.is)
				}
				if agains != c.agains || ends != 1 {
					t.Errorf("told %d times that it goes on and %d times that it is over, want %d and 1", agains, ends, c.agains)
				}
				synctest.Wait()
				dropped := uint64(0) // from the queue, as far as anybody can tell
				if errors.Is(err, governor.ErrCooling) || errors.Is(err, governor.ErrLate) || errors.Is(err, breaker.ErrOpen) {
					dropped = 1
				}
				if s := g.Stats(); s.InFlight != 1 || s.Succeeded != 0 || s.Failed != 1-dropped || s.Dropped != dropped || at.Err() != nil {
					t.Errorf("%d in flight, %d failed, %d dropped; its context: %v", s.InFlight, s.Failed, s.Dropped, at.Err())
				}
				l.Release(&slowDown{time.Hour}) // of which nobody hears
				synctest.Wait()
				if s := g.Stats(); s.InFlight != 0 || s.Limited > 1 || at.Err() == nil {
					t.Errorf("%d in flight, %d refusals; its context: %v", s.InFlight, s.Limited, at.Err())
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestKeeperOfARequestThatGoesOnHoldsNothing(t *testing.T) {
	heldPaths(t, governor.PlainConfig{Vendor: slowVendor{}, Workers: 1}, func(t *testing.T, g *governor.Plain, ask governor.Ask) {
		told, calls := []bool(nil), 0
		var first context.Context
		fail := &unread{slowDown: &slowDown{20 * time.Second}, settled: func(again bool) bool { told = append(told, again); return true }}
		l := governor.Lease{Ask: ask}
		go func() {
			time.Sleep(10 * time.Second)
			if n := g.Stats().InFlight; n != 0 && !ask.KeepConn {
				t.Errorf("%d in flight while it waits", n)
			}
			if first.Err() == nil {
				t.Error("the context of the attempt before goes on")
			}
		}()
		v, err := governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) {
			if calls++; calls == 1 {
				first = ctx
				return 0, fail
			}
			return 7, nil
		})
		if v != 7 || err != nil || len(told) != 1 || !told[0] {
			t.Errorf("%d, %v, told %v", v, err, told)
		}
		l.Release(nil)
		synctest.Wait()
		if n := g.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

func TestKeeperThatKeepsNothing(t *testing.T) {
	for name, settled := range map[string]func(bool) bool{"no": func(bool) bool { return false }, "a panic": func(bool) bool { panic("p") }} {
		t.Run(name, func(t *testing.T) {
			heldPaths(t, governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain, ask governor.Ask) {
				fail := &unread{settled: settled}
				var at context.Context
				l := governor.Lease{Ask: ask}
				_, err := governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) { at = ctx; return 0, fail })
				synctest.Wait()
				if n := g.Stats().InFlight; err != fail || n != 0 || at.Err() == nil {
					t.Errorf("%v, %d in flight; its context: %v", err, n, at.Err())
				}
			})
		})
	}
}

func TestCloseEndsTheContextOfAKeptFailureAndWaitsForIt(t *testing.T) {
	for _, ask := range []governor.Ask{{}, {KeepConn: true}} {
		synctest.Test(t, func(t *testing.T) {
			g, err := governor.New(governor.PlainConfig{Name: "kept"})
			if err != nil {
				t.Fatal(err)
			}
			var at context.Context
			l := governor.Lease{Ask: ask}
			fail := &unread{settled: func(bool) bool { return true }}
			if _, err := governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) { at = ctx; return 0, fail }); err != fail {
				t.Fatal(err)
			}
			began := time.Now()
			go func() { <-at.Done(); time.Sleep(3 * time.Second); l.Release(nil) }()
			if err := g.Close(); err != nil || time.Since(began) != 3*time.Second {
				t.Errorf("%v after %v, want none after 3s", err, time.Since(began))
			}
		})
	}
}

// Settled of a request that goes on ends the goroutine of its attempt.
func TestGoexitInSettledLosesNothing(t *testing.T) {
	for name, ask := range map[string]governor.Ask{"in the queue": {}, "with its connection": {KeepConn: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "kept", Workers: 1, Retry: &retry.Config{Attempts: 3, Backoff: backoff.Constant(time.Second)}})
				if err != nil {
					t.Fatal(err)
				}
				governor.Submit(t.Context(), g, "", sleep(time.Second)) // so that the call is not inline
				calls := 0
				fail := &unread{settled: func(bool) bool { runtime.Goexit(); return true }}
				l := governor.Lease{Ask: ask}
				v, err := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) {
					if calls++; calls == 1 {
						return 0, fail
					}
					return 7, nil
				})
				l.Release(nil)
				if v != 7 || err != nil || calls != 2 {
					t.Errorf("%d, %v after %d calls, want 7 after 2", v, err, calls)
				}
				synctest.Wait()
				if s := g.Stats(); s.InFlight != 0 {
					t.Errorf("%d in flight", s.InFlight)
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// notYet is an Again with something to read.
type notYet struct{ error }

func (e notYet) Unwrap() error   { return e.error }
func (notYet) Settled(bool) bool { return false }

func TestObserverEndsNoKeeper(t *testing.T) {
	for _, err := range []error{governor.Again(time.Minute), notYet{governor.Again(time.Minute)}} {
		synctest.Test(t, func(t *testing.T) {
			g, e := governor.New(governor.PlainConfig{Name: "kept", Workers: 1, Observe: true, MaxWait: time.Second})
			if e != nil {
				t.Fatal(e)
			}
			defer g.Close()
			calls := 0
			var l governor.Lease
			v, e := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) {
				if calls++; calls == 1 {
					return 0, err
				}
				return 7, nil
			})
			l.Release(nil)
			if v != 7 || e != nil {
				t.Errorf("%T: %d, %v after %d calls", err, v, e, calls)
			}
		})
	}
}

// Cancel is heard, too, when it comes while the actor is just about to grant a request that
// kept its slot.
func TestCancelIsHeardWhileAKeptRequestIsGranted(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked func()
				g, err := governor.New(governor.PlainConfig{
					Name: "test", Workers: 2,
					Limits: []governor.Limit{{Limiter: onWait(func() {
						if asked != nil {
							asked()
						}
					})}},
					Retry: &retry.Config{Attempts: 5, Backoff: backoff.None},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				attempts := 0
				var req *governor.Request[int]
				gate := make(chan struct{})
				req = governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: keep}), "", func(ctx context.Context, _ struct{}) (int, error) {
					if attempts++; attempts == 1 {
						<-gate
						asked = func() { asked = nil; req.Cancel() }
						return 0, errors.New("again")
					}
					select {
					case <-ctx.Done():
						return 0, ctx.Err()
					case <-time.After(time.Minute):
						return 42, nil
					}
				})
				close(gate)
				if v, err := req.Result(t.Context()); !errors.Is(err, context.Canceled) || attempts != 1 {
					t.Errorf("%d, %v after %d attempts", v, err, attempts)
				}
			})
		})
	}
}

// onWait is a limit that admits everything, and says when it is asked.
type onWait func()

func (f onWait) Wait(time.Time, string, int) time.Duration { f(); return 0 }
func (onWait) Take(time.Time, string, int)                 {}
func (onWait) Settle(time.Time, string, int, int)          {}
func (onWait) Accepted(_, _ time.Time, _ string)           {}
func (onWait) Refused(_, _ time.Time, _ string)            {}

// What a closure returns beside an error of another governor that was closed is the result.
func TestValueBesideAnErrorOfAnotherGovernor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		abandoned := func(context.Context, struct{}) (int, error) { return 42, governor.ErrAbandoned }
		v, err := governor.Submit(t.Context(), g, "", abandoned).Result(t.Context())
		if v != 42 || err != governor.ErrAbandoned {
			t.Errorf("Submit: %d, %v", v, err)
		}
		v, err = governor.Do(t.Context(), g, "", abandoned)
		if v != 42 || err != governor.ErrAbandoned {
			t.Errorf("Do: %d, %v", v, err)
		}
	})
}
