package governor_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
)

// heldPaths calls test on the fast path, and with a queue and a listener, which need more.
func heldPaths(t *testing.T, cfg governor.PlainConfig, test func(t *testing.T, g *governor.Plain, ask governor.Ask)) {
	for name, c := range map[string]struct {
		ask    governor.Ask
		listen bool
	}{"inline": {}, "described": {listen: true}, "queued": {ask: governor.Ask{KeepConn: true}}, "bucket": {ask: governor.Ask{Bucket: "b"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Name = "held"
				g, err := governor.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if c.listen {
					defer g.Listen(func(event.Event) {})()
				}
				test(t, g, c.ask)
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestHeldKeepsTheSlotUntilRelease(t *testing.T) {
	heldPaths(t, governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain, ask governor.Ask) {
		l := governor.Lease{Ask: ask}
		v, err := governor.Held(t.Context(), g, "s", &l, func(context.Context) (int, error) { return 7, nil })
		if v != 7 || err != nil {
			t.Fatal(v, err)
		}
		ran := false
		req := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { ran = true; return 0, nil }))
		synctest.Wait()
		if ran || g.Stats().InFlight != 1 {
			t.Fatalf("another call ran: %v; in flight %d", ran, g.Stats().InFlight)
		}
		l.Release(nil)
		l.Release(errors.New("late")) // does nothing
		if _, err := req.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if s := g.Stats(); s.InFlight != 0 || s.Succeeded != 2 || s.Started != 2 || s.Failed != 0 {
			t.Errorf("%d in flight, %d succeeded, %d started", s.InFlight, s.Succeeded, s.Started)
		}
	})
}

func TestHeldCallThatFailsHoldsNothing(t *testing.T) {
	bad := errors.New("bad")
	heldPaths(t, governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain, ask governor.Ask) {
		for want, fn := range map[error]func(context.Context) (int, error){
			bad: func(context.Context) (int, error) { return 0, bad },
			nil: func(context.Context) (int, error) { panic("p") },
		} {
			l := governor.Lease{Ask: ask}
			_, err := governor.Held(t.Context(), g, "", &l, fn)
			if want != nil && err != want {
				t.Error(err)
			}
			if _, panicked := errors.AsType[*governor.PanicError](err); want == nil && !panicked {
				t.Error(err)
			}
			l.Release(nil)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			l := governor.Lease{Ask: ask}
			_, err := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
			if !errors.Is(err, governor.ErrGoexit) {
				t.Error(err)
			}
		}()
		<-done
		if s := g.Stats(); s.InFlight != 0 {
			t.Errorf("%d in flight", s.InFlight)
		}
	})
}

type slowDown struct{ after time.Duration }

func (e *slowDown) Error() string { return "slow down" }

type slowVendor struct{}

func (slowVendor) DelayError(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*slowDown](err)
	if !ok {
		return 0, false
	}
	return e.after, true
}

func TestWhatEndsALeaseIsLearned(t *testing.T) {
	heldPaths(t, governor.PlainConfig{Vendor: slowVendor{}}, func(t *testing.T, g *governor.Plain, ask governor.Ask) {
		l := governor.Lease{Ask: ask}
		if _, err := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Fatal(err)
		}
		l.Release(&slowDown{20 * time.Second})
		began := time.Now()
		if _, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, nil })); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 20*time.Second {
			t.Errorf("the next call after %v, want 20s", d)
		}
	})
}

func TestForgottenLeaseIsReportedAndCloseWaitsForIt(t *testing.T) {
	for _, ask := range []governor.Ask{{}, {KeepConn: true}} {
		synctest.Test(t, func(t *testing.T) {
			g, err := governor.New(governor.PlainConfig{Name: "held", StuckAfter: time.Second, CloseGrace: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			l := governor.Lease{Ask: ask}
			var at context.Context
			if _, err := governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) { at = ctx; return 0, nil }); err != nil {
				t.Fatal(err)
			}
			stuck := make(chan event.Event, 1)
			g.Listen(func(e event.Event) { stuck <- e }, event.Stuck)
			<-stuck
			if at.Err() != nil {
				t.Error("its context has ended")
			}
			ended := time.Now()
			go func() { <-at.Done(); time.Sleep(3 * time.Second); l.Release(at.Err()) }()
			if err := g.Close(); err != nil || time.Since(ended) != 3*time.Second {
				t.Errorf("%v after %v", err, time.Since(ended))
			}
		})
	}
}

func TestLeaseOfACallThatWasGivenUpEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "held", CloseGrace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l := governor.Lease{Ask: governor.Ask{KeepConn: true}}
		go func() {
			_, err := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) { time.Sleep(time.Minute); return 0, nil })
			if err != governor.ErrAbandoned {
				t.Error(err)
			}
			l.Release(nil) // before there is anything to release
		}()
		time.Sleep(time.Second)
		if err := g.Close(); err == nil {
			t.Error("Close did not say that a closure runs")
		}
		time.Sleep(2 * time.Minute)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

type lenient struct{ breaker.Circuit }

func (lenient) Judge(error) breaker.Outcome { return breaker.Success }

func TestJudgeDecidesWhatAnErrorMeansToTheBreaker(t *testing.T) {
	for _, judged := range []bool{true, false} {
		b, err := breaker.New(breaker.Config{Consecutive: 1})
		if err != nil {
			t.Fatal(err)
		}
		cfg := governor.PlainConfig{Name: "judged", Breaker: b}
		if judged {
			cfg.Breaker = lenient{b}
		}
		g, err := governor.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fail := governor.Func(func(context.Context) (int, error) { return 0, errors.New("bad") })
		governor.Do(t.Context(), g, "", fail)
		if _, err = governor.Do(t.Context(), g, "", fail); errors.Is(err, breaker.ErrOpen) == judged {
			t.Errorf("judged %v: %v", judged, err)
		}
		g.Close()
	}
}

// A limit refuses the fast path after the slot was taken.
func TestHeldThatALimitRefusesKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		g, err := governor.New(governor.PlainConfig{Name: "held", Workers: 1, Limits: []governor.Limit{{Limiter: bucket}}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i := range 3 {
			var l governor.Lease
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := governor.Held(ctx, g, "", &l, func(context.Context) (int, error) { return 0, nil })
			cancel()
			if took := time.Since(begun); err != nil || took != time.Duration(i)*time.Second {
				t.Fatalf("call %d: %v after %v", i, err, took)
			}
			l.Release(nil)
		}
		if n := g.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A Release that comes too early, from the call itself, is not lost.
func TestLeaseThatIsReleasedByItsCallIsGivenBack(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.CloseGrace = time.Second }, func(t *testing.T, g *governor.Plain) {
		for name, more := range map[string]func(context.Context){"bare": func(context.Context) {}, "known": func(ctx context.Context) { _ = governor.Settle(ctx, 1) }} {
			var l governor.Lease
			if _, err := governor.Held(t.Context(), g, "", &l, func(ctx context.Context) (int, error) {
				more(ctx)
				l.Release(nil)
				return 0, nil
			}); err != nil {
				t.Error(err)
			}
			if s := g.Stats(); s.InFlight != 0 {
				t.Errorf("%s: %d in flight", name, s.InFlight)
			}
		}
	})
}

// moody is a breaker of the user's that panics in Report while it is bad.
type moody struct{ bad bool }

func (m *moody) Ready(time.Time) error                     { return nil }
func (m *moody) Acquire(time.Time) (breaker.Permit, error) { return 0, nil }
func (m *moody) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	if m.bad {
		panic("moody")
	}
}

func TestLeaseWhoseBreakerPanicsGivesItsSlotBack(t *testing.T) {
	b := &moody{bad: true}
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.Breaker = 1, b }, func(t *testing.T, g *governor.Plain) {
		var l governor.Lease
		if _, err := governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // on the fast path it is the caller's
			l.Release(nil)
		}()
		b.bad = false
		if n := g.Stats().InFlight; n != 0 {
			t.Errorf("%d in flight", n)
		}
		goesAtOnce(t, g, "")
	})
}
