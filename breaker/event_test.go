package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// told prints events, with times as seconds since start.
func told(start time.Time, events []event.Event) string {
	var lines []string
	for _, e := range events {
		s := fmt.Sprintf("%v %v", e.Time.Sub(start).Seconds(), e.Kind)
		if e.Source != "" {
			s += " " + e.Source
		}
		if e.Delay != 0 {
			s += " " + e.Delay.String()
		}
		if !e.Until.IsZero() {
			s += fmt.Sprintf(" until %v", e.Until.Sub(start).Seconds())
		}
		if e.Err != nil {
			s += fmt.Sprintf(" (%v)", e.Err)
		}
		if e.Name != "acme" || e.Request != 0 || e.Attempt != 0 || e.Scope != "" {
			s += fmt.Sprintf(" %+v", e)
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		cfg := breaker.Config{
			Name: "acme", MinCalls: 2, HalfOpenCalls: 1, HalfOpenWait: 30 * time.Second, OnEvent: r.hear, MaxRetryAfter: time.Hour,
			Ignore: func(err error) bool { return errors.Is(err, errIgnore) },
		}
		b := newBreaker(t, cfg)
		start := time.Now()
		expect := func(what, want string) {
			t.Helper()
			if got := told(start, r.take()); got != strings.TrimSpace(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
			}
		}
		takes := func(d time.Duration, err error) func(context.Context) (int, error) {
			return func(context.Context) (int, error) { time.Sleep(d); return 0, err }
		}
		_, _ = breaker.Do(t.Context(), b, takes(time.Second, nil))
		_, _ = breaker.Do(t.Context(), b, takes(time.Second, errIgnore))
		_, _ = breaker.Do(t.Context(), b, takes(time.Second, errDown))
		_ = b.Ready(time.Now())
		_, _ = breaker.Do(t.Context(), b, returns(nil))
		expect("opening", `
1 breaker success 1s
2 ignored (your fault)
3 breaker failure 1s (down)
3 breaker rate failure rate: 0.5
3 breaker state open until 63 (down)
3 breaker refused until 63`)

		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, errDown })
		expect("a cancelled trial", `
63 breaker state half-open
63 breaker state open until 63`)

		done, _ := b.Allow()
		_, _ = b.Allow()
		done(hint{2 * time.Hour})
		expect("a failed trial", `
63 breaker state half-open
63 breaker refused
63 breaker failure (again in 2h0m0s)
63 breaker rate failure rate: 1
63 clamped RetryAfter 1h0m0s (again in 2h0m0s)
63 breaker state open until 3663 (again in 2h0m0s)`)

		time.Sleep(time.Hour)
		lost, _ := b.Allow()
		time.Sleep(31 * time.Second)
		lost(nil)
		expect("a lost trial", `
3663 breaker state half-open
3694 breaker state open until 3753`)

		time.Sleep(time.Minute)
		calls(t, b, 1, breaker.Success, 1)
		expect("a good trial", `
3754 breaker state half-open
3754 breaker success 1ns
3754 breaker state closed`)

		transition(t, b, breaker.ForcedOpen)
		_ = b.Ready(time.Now())
		admitted(b, 1)
		transition(t, b, breaker.Open)
		transition(t, b, breaker.Disabled)
		calls(t, b, 3, breaker.Failure, 0)
		transition(t, b, breaker.Closed)
		transition(t, b, breaker.Closed)
		b.Reset()
		transition(t, b, breaker.HalfOpen)
		b.Reset()
		expect("by hand", `
3754 breaker set forced-open
3754 breaker refused
3754 breaker set open until 3814
3754 breaker set disabled
3754 breaker set closed
3754 breaker set closed
3754 breaker reset
3754 breaker set half-open
3754 breaker set closed
3754 breaker reset`)
	})
}

// An ignored call is told, whatever it was ignored for; a cancelled one, and one whose
// permit only comes back, is not.
func TestEventsOfIgnoredCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, breaker.Config{IgnoreOnResult: policy.OnResult(func(int) bool { return true }), OnEvent: r.hear})
		heard := func(name string, want int) {
			t.Helper()
			got := r.take()
			for _, e := range got {
				if e.Kind != event.Ignored || e.Err != nil {
					t.Errorf("%s: heard %v, %v", name, e.Kind, e.Err)
				}
			}
			if len(got) != want {
				t.Errorf("%s: %d events, want %d", name, len(got), want)
			}
		}
		_, _ = policy.Do(t.Context(), policy.Chain(b), returns(nil))
		heard("by its result, in a chain", 1)
		_, _ = breaker.DoJudged(t.Context(), b, returns(nil), func(int, error) breaker.Outcome { return breaker.Neutral })
		heard("by its result", 1)
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = breaker.Do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, errDown })
		heard("cancelled", 0)
		calls(t, b, 1, breaker.Neutral, 0)
		heard("given back", 0)
	})
}

// Metrics tell of a rate each time it rises to its threshold.
func TestEventsOfMetricsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		b := newBreaker(t, breaker.Config{
			Initial: breaker.MetricsOnly, WindowTime: 10 * time.Second, MinCalls: 2, SlowCall: time.Second, OnEvent: func(e event.Event) {
				if e.Kind != event.BreakerSuccess && e.Kind != event.BreakerFailure {
					r.hear(e)
				}
			},
		})
		rates := func() (s string) {
			for _, e := range r.take() {
				s += e.Kind.String() + " " + e.Source + ";"
			}
			return s
		}
		calls(t, b, 2, breaker.Success, time.Minute)
		calls(t, b, 2, breaker.Failure, 0)
		if got := rates(); got != "breaker rate slow rate: 1;breaker rate failure rate: 0.5;" {
			t.Error(got)
		}
		calls(t, b, 3, breaker.Failure, 0)
		if got := rates(); got != "" {
			t.Error(got)
		}
		calls(t, b, 6, breaker.Success, 0)
		calls(t, b, 3, breaker.Failure, 0)
		if got := rates(); got != "breaker rate failure rate: 0.5;" {
			t.Error(got)
		}
		time.Sleep(time.Minute)
		_ = b.Stats() // all is forgotten
		calls(t, b, 2, breaker.Failure, 0)
		if got := rates(); got != "breaker rate failure rate: 1;" {
			t.Error(got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a rate may rise from nothing
		var r recorder
		b := newBreaker(t, breaker.Config{Initial: breaker.MetricsOnly, WindowTime: time.Second, MinCalls: 1, OnEvent: r.hear})
		for range 3 {
			calls(t, b, 2, breaker.Failure, 0)
			time.Sleep(time.Second)
		}
		if got := len(r.take()); got != 6+3 {
			t.Errorf("%d events", got)
		}
	})
	var r recorder
	b := newBreaker(t, breaker.Config{Initial: breaker.MetricsOnly, Consecutive: 3, OnEvent: r.hear})
	calls(t, b, 5, breaker.Failure, 0)
	n := 0
	for _, e := range r.take() {
		if e.Kind == event.BreakerRate {
			n++
			if e.Source != "failures in a row: 3" {
				t.Error(e.Source)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d rates", n)
	}
}

func TestEventsTellHowLongACallRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []breaker.Config{{}, {SlowCall: -1}, {WindowTime: time.Hour, SlowCall: -1}, {Consecutive: 9}} {
			var r recorder
			cfg.OnEvent = r.hear
			b := newBreaker(t, cfg)
			for _, err := range []error{nil, errDown, nil} {
				_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, err })
			}
			for _, e := range r.take() {
				if e.Delay != time.Second {
					t.Errorf("%v: %v", e.Kind, e.Delay)
				}
			}
		}
	})
}

// A healthy call tells its listener, and allocates nothing of its own for that.
func TestEventsOfHealthyCallsAllocateNothing(t *testing.T) {
	for _, cfg := range []breaker.Config{{}, {WindowTime: time.Minute}, {Consecutive: 1}} {
		n := 0
		cfg.OnEvent = func(e event.Event) {
			if e.Kind != event.BreakerSuccess || e.Time.IsZero() {
				t.Error(e)
			}
			n++
		}
		b := newBreaker(t, cfg)
		fn := returns(nil)
		if n := testing.AllocsPerRun(1000, func() { _, _ = breaker.Do(t.Context(), b, fn) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if n != 1001 {
			t.Errorf("%d events", n)
		}
	}
}

// A listener may call any method, block, panic and exit: no lock is held, and no
// permit is lost by that.
func TestListenersMayDoAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		deep := 0
		misbehave := func() {}
		b = newBreaker(t, breaker.Config{Consecutive: 1, HalfOpenCalls: 3, Lease: 1000 * time.Hour, OnEvent: func(event.Event) {
			if deep++; deep == 1 {
				_ = b.Stats()
				_ = b.State()
				_ = b.Ready(time.Now())
				_, _ = b.Acquire(time.Now())
				b.Report(1, time.Now(), breaker.Failure, 0)
				_, _ = b.Allow()
				_, _ = breaker.Do(context.Background(), b, returns(errDown))
				_ = b.Transition(breaker.Disabled)
				b.Reset()
				_ = b.Transition(breaker.HalfOpen)
			}
			deep--
			misbehave()
		}})
		_, _ = breaker.Do(t.Context(), b, returns(errDown))
		inState(t, b, breaker.HalfOpen)

		deep = 1
		for i, how := range []func(){func() { panic("boom") }, func() { time.Sleep(time.Hour) }} {
			misbehave = how
			for _, run := range []func(context.Context) (int, error){returns(nil), returns(errDown), panics} {
				_ = do(t.Context(), b, run)
			}
			transition(t, b, breaker.Open)
			b.Reset()
			transition(t, b, breaker.HalfOpen)
			if n := admitted(b, 9); n != 3 {
				t.Errorf("%d: %d admitted", i, n)
			}
		}
		misbehave = func() {}
		if s := b.Stats(); s.Panics == 0 {
			t.Errorf("%+v", s)
		}

		b.Reset()
		misbehave = runtime.Goexit
		_ = do(t.Context(), b, returns(errDown))
		misbehave = func() {}
		inState(t, b, breaker.Open)
	})
}

// A listener that blocks holds up nobody else.
func TestBlockedListenerHoldsUpItsOwnCallOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBreaker(t, breaker.Config{Consecutive: 1, OnEvent: func(e event.Event) {
			if e.Kind == event.BreakerState && e.Source == "open" {
				<-release
			}
		}})
		returned := false
		go func() { _, _ = breaker.Do(t.Context(), b, returns(errDown)); returned = true }()
		synctest.Wait()
		inState(t, b, breaker.Open)
		b.Reset()
		if _, err := breaker.Do(t.Context(), b, returns(nil)); err != nil || returned {
			t.Error(err, returned)
		}
		close(release)
		synctest.Wait()
		if !returned {
			t.Error("still blocked")
		}
	})
}

func TestPanicsOfListenersAreCounted(t *testing.T) {
	b := newBreaker(t, breaker.Config{OnEvent: func(event.Event) { panic("boom") }})
	calls(t, b, 3, breaker.Success, 0)
	calls(t, b, 2, breaker.Failure, 0)
	if s := b.Stats(); s.Panics != 5 || s.Calls != 5 {
		t.Errorf("%+v", s)
	}
}
