package breaker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/wall"
)

const states = 6

// By hand every state is reached from every state, itself included, and each
// time begins anew.
func TestTransitionsByHand(t *testing.T) {
	for from := range breaker.State(states) {
		for to := range breaker.State(states) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, breaker.Config{Window: 4, MinCalls: 4, Initial: from})
				if from == breaker.Closed || from == breaker.HalfOpen || from == breaker.MetricsOnly {
					calls(t, b, 1, breaker.Failure, 0)
				}
				before := b.Stats()
				old, _ := b.Acquire(time.Now())
				rejected := b.Stats().Rejected
				time.Sleep(time.Second)
				transition(t, b, to)
				s := b.Stats()
				name := fmt.Sprintf("%v to %v", from, to)
				if s.State != to || s.Generation <= before.Generation || s.Trials != 0 {
					t.Errorf("%s: %+v", name, s)
				}
				kept := to == breaker.Open // keeps what it was opened for
				if (s.Calls > 0) != (kept && before.Calls > 0) || (s.Rejected > 0) != (kept && rejected > 0) {
					t.Errorf("%s: %+v, before %+v", name, s, before)
				}
				opens := map[breaker.State]int{breaker.HalfOpen: before.Opens, breaker.Open: before.Opens + 1, breaker.ForcedOpen: before.Opens + 1}[to]
				if s.Opens != opens {
					t.Errorf("%s: %d opens, want %d", name, s.Opens, opens)
				}
				if want := time.Now().Add(time.Minute); (to == breaker.Open) != s.Until.Equal(want) || to != breaker.Open && !s.Until.IsZero() {
					t.Errorf("%s: until %v", name, s.Until)
				}
				b.Report(old, time.Now(), breaker.Failure, 0) // of an older state
				if now := b.Stats(); now != s {
					t.Errorf("%s: an old call counted: %+v", name, now)
				}
				want := map[breaker.State]int{breaker.HalfOpen: 10, breaker.Open: 0, breaker.ForcedOpen: 0}
				if n, ok := want[to]; admitted(b, 20) != n && ok || !ok && admitted(b, 20) != 20 {
					t.Errorf("%s: not %d admitted", name, n)
				}
			})
		}
	}
}

func TestTransitionRefusesWhatIsNoState(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	if err := b.Transition(99); !errors.Is(err, breaker.ErrInvalid) {
		t.Error(err)
	}
	inState(t, b, breaker.Closed)
}

// What a state makes of calls, and of what comes of them.
func TestTransitionsByItself(t *testing.T) {
	for _, tt := range []struct {
		from     breaker.State
		outcomes string // s success, f failure, n neutral, S slow success
		to       breaker.State
	}{
		{breaker.Closed, "ssss", breaker.Closed},
		{breaker.Closed, "sssfsssfsss", breaker.Closed},
		{breaker.Closed, "ffn", breaker.Closed},
		{breaker.Closed, "fssf", breaker.Open},
		{breaker.Closed, "ffss", breaker.Open},
		{breaker.Closed, "SSSs", breaker.Closed},
		{breaker.Closed, "SSSsSSSsSSSS", breaker.Open},
		{breaker.HalfOpen, "ss", breaker.HalfOpen},
		{breaker.HalfOpen, "snnnnfs", breaker.Closed},
		{breaker.HalfOpen, "fsf", breaker.Open},
		{breaker.HalfOpen, "SSs", breaker.Closed},
		{breaker.HalfOpen, "SSS", breaker.Open},
		{breaker.HalfOpen, "nnnn", breaker.HalfOpen},
		{breaker.Disabled, "ffffffffff", breaker.Disabled},
		{breaker.MetricsOnly, "ffffffffff", breaker.MetricsOnly},
	} {
		b := newBreaker(t, breaker.Config{Window: 4, HalfOpenCalls: 3, Initial: tt.from})
		for i, c := range tt.outcomes {
			if i < 3 { // never before there are three
				inState(t, b, tt.from)
			}
			switch c {
			case 's':
				calls(t, b, 1, breaker.Success, 0)
			case 'S':
				calls(t, b, 1, breaker.Success, time.Hour)
			case 'f':
				calls(t, b, 1, breaker.Failure, 0)
			case 'n':
				calls(t, b, 1, breaker.Neutral, time.Hour)
			}
		}
		if got := b.State(); got != tt.to {
			t.Errorf("%v, %s: %v, want %v", tt.from, tt.outcomes, got, tt.to)
		}
	}
}

func TestConsecutiveFailures(t *testing.T) {
	b := newBreaker(t, breaker.Config{Consecutive: 3, HalfOpenCalls: 2})
	calls(t, b, 2, breaker.Failure, time.Hour)
	if s := b.Stats(); s.Calls != 2 || s.Failed != 2 || s.Slow != 0 || s.FailureRate != -1 {
		t.Errorf("%+v", s)
	}
	calls(t, b, 1, breaker.Neutral, 0) // is no success
	calls(t, b, 1, breaker.Success, 0)
	if s := b.Stats(); s.Calls != 0 {
		t.Errorf("%+v", s)
	}
	calls(t, b, 2, breaker.Failure, 0)
	inState(t, b, breaker.Closed)
	calls(t, b, 1, breaker.Failure, 0)
	inState(t, b, breaker.Open)

	transition(t, b, breaker.HalfOpen)
	calls(t, b, 1, breaker.Success, 0)
	calls(t, b, 1, breaker.Failure, 0) // the first failure of a trial
	inState(t, b, breaker.Open)
	transition(t, b, breaker.HalfOpen)
	calls(t, b, 2, breaker.Success, time.Hour)
	inState(t, b, breaker.Closed)

	transition(t, b, breaker.MetricsOnly)
	calls(t, b, 9, breaker.Failure, 0)
	if s := b.Stats(); s.State != breaker.MetricsOnly || s.Failed != 9 {
		t.Errorf("%+v", s)
	}
}

// A time window is the present second, of the wall clock, and those before it.
func TestTimeWindowForgetsBySecondsOfTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(400 * time.Millisecond) // the breaker is not made at a whole second
		b := newBreaker(t, breaker.Config{WindowTime: 3 * time.Second, MinCalls: 1, Initial: breaker.MetricsOnly})
		calls(t, b, 1, breaker.Failure, 0)
		time.Sleep(599 * time.Millisecond)
		calls(t, b, 2, breaker.Failure, 0)
		time.Sleep(time.Millisecond) // the second ends
		calls(t, b, 4, breaker.Success, 0)
		for _, want := range []struct{ calls, failed int }{{7, 3}, {7, 3}, {4, 0}, {0, 0}} {
			if s := b.Stats(); s.Calls != want.calls || s.Failed != want.failed {
				t.Errorf("%d calls, %d failed, want %v", s.Calls, s.Failed, want)
			}
			time.Sleep(time.Second)
		}
		calls(t, b, 1, breaker.Failure, 0)
		time.Sleep(3*time.Hour + time.Second)
		if s := b.Stats(); s.Calls != 0 || s.FailureRate != -1 {
			t.Errorf("%+v", s)
		}
	})
}

// The same holds for calls that are counted without the lock, one way or another.
func TestTimeWindowForgetsHealthyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []breaker.Config{{}, {SlowCall: -1}} {
			cfg.WindowTime = 2 * time.Second
			do, report := newBreaker(t, cfg), newBreaker(t, cfg)
			for range 6 {
				_, _ = breaker.Do(t.Context(), do, returns(nil))
				calls(t, report, 1, breaker.Success, 0)
				time.Sleep(500 * time.Millisecond)
			}
			for _, b := range []*breaker.Breaker{do, report} {
				if s := b.Stats(); s.Calls != 2 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}

// An open breaker's window goes on forgetting.
func TestOpenBreakerKeepsWhatOpenedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 2 * time.Second, MinCalls: 2})
		calls(t, b, 2, breaker.Failure, 0)
		admitted(b, 3)
		if s := b.Stats(); s.State != breaker.Open || s.Failed != 2 || s.FailureRate != 1 || s.Rejected != 3 {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := b.Stats(); s.State != breaker.Open || s.Calls != 0 || s.FailureRate != -1 || s.Rejected != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// doubling opens for 1 s, 2 s, 4 s and at most 5 s.
var doubling = backoff.Exponential{Initial: time.Second, Max: 5 * time.Second}

// Every way to Open counts in the schedule, and to Closed, Disabled or
// MetricsOnly begins it anew.
func TestOpenDelayFollowsTheScheduleOverTheOpensOfACycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 1, HalfOpenCalls: 1, OpenFor: doubling})
		open := func(want time.Duration) {
			t.Helper()
			s := b.Stats()
			if got := time.Until(s.Until); s.State != breaker.Open || got != want {
				t.Fatalf("%v for %v, want open for %v", s.State, got, want)
			}
		}
		trial := func(o breaker.Outcome) {
			t.Helper()
			time.Sleep(time.Until(b.Stats().Until))
			calls(t, b, 1, o, 0)
		}
		calls(t, b, 1, breaker.Failure, 0)
		open(1 * time.Second)
		trial(breaker.Failure)
		open(2 * time.Second)
		transition(t, b, breaker.HalfOpen)
		transition(t, b, breaker.Open) // by hand as by itself
		open(4 * time.Second)
		trial(breaker.Failure)
		open(5 * time.Second)
		trial(breaker.Success)
		inState(t, b, breaker.Closed)
		calls(t, b, 1, breaker.Failure, 0)
		open(1 * time.Second)
		transition(t, b, breaker.Open)
		open(2 * time.Second)
		transition(t, b, breaker.ForcedOpen) // the third
		transition(t, b, breaker.Open)
		open(5 * time.Second)
		for _, anew := range []func(){b.Reset, func() { transition(t, b, breaker.Closed) },
			func() { transition(t, b, breaker.Disabled) }, func() { transition(t, b, breaker.MetricsOnly) }} {
			anew()
			transition(t, b, breaker.Open)
			open(1 * time.Second)
			transition(t, b, breaker.Open)
			open(2 * time.Second)
		}
	})
}

func TestResetClearsWindowAndSchedule(t *testing.T) {
	for from := range breaker.State(states) {
		b := newBreaker(t, breaker.Config{MinCalls: 3, Initial: from})
		if from == breaker.Closed {
			calls(t, b, 2, breaker.Failure, 0)
		}
		before := b.Stats()
		b.Reset()
		if got, want := b.Stats(), (breaker.Stats{Generation: before.Generation + 1, FailureRate: -1, SlowRate: -1}); got != want {
			t.Errorf("%v: %+v", from, got)
		}
	}
}

// The schedule is told the steps of its cycle.
func TestScheduleIsToldTheCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []backoff.Step
		b := newBreaker(t, breaker.Config{Consecutive: 1, OpenFor: backoff.Func(func(s backoff.Step) (time.Duration, bool) {
			steps = append(steps, s)
			return time.Duration(s.Attempt) * time.Second, true
		})})
		_, _ = breaker.Do(t.Context(), b, returns(errDown))
		time.Sleep(3 * time.Second)
		_, _ = breaker.Do(t.Context(), b, returns(errTrip))
		b.Reset()
		transition(t, b, breaker.Open)
		want := []backoff.Step{{Attempt: 1, Err: errDown}, {Attempt: 2, Prev: time.Second, Elapsed: 3 * time.Second, Err: errTrip}, {Attempt: 1}}
		if fmt.Sprint(steps) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", steps, want)
		}
	})
}

func TestScheduleThatEndsKeepsToItsLastDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			s    backoff.Schedule
			want []time.Duration
		}{
			{backoff.And(backoff.Times(2), backoff.Linear{Initial: time.Second}), []time.Duration{1e9, 2e9, 2e9, 2e9}},
			{backoff.Never, []time.Duration{60e9, 60e9}},
			{backoff.Constant(math.MaxInt64), []time.Duration{math.MaxInt64, math.MaxInt64}},
			{backoff.None, []time.Duration{0, 0}},
		} {
			b := newBreaker(t, breaker.Config{OpenFor: tt.s})
			for i, want := range tt.want {
				transition(t, b, breaker.Open)
				if got := time.Until(b.Stats().Until); got != want {
					t.Errorf("%v: open %d for %v, want %v", tt.s, i+1, got, want)
				}
			}
		}
	})
}

// OpenDelay is told what is counted when the breaker opens, by itself, after a
// trial, by HalfOpenWait and by hand.
func TestOpenDelayIsToldWhatWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		b := newBreaker(t, breaker.Config{
			Window: 10, MinCalls: 4, HalfOpenCalls: 1, HalfOpenWait: 5 * time.Second,
			OpenDelay: func(s breaker.Stats, step backoff.Step) time.Duration {
				told = append(told, fmt.Sprintf("%v %d/%d %v, opened %d, step %d %v", s.State, s.Failed, s.Calls, s.FailureRate, s.Opens, step.Attempt, step.Prev))
				return time.Duration(s.Failed) * time.Second
			},
		})
		open := func(want time.Duration) {
			t.Helper()
			if s := b.Stats(); s.State != breaker.Open || time.Until(s.Until) != want {
				t.Errorf("%v for %v, want open for %v", s.State, time.Until(s.Until), want)
			}
		}
		calls(t, b, 1, breaker.Success, 0)
		calls(t, b, 3, breaker.Failure, 0)
		open(3 * time.Second)
		time.Sleep(3 * time.Second)
		calls(t, b, 1, breaker.Failure, 0)
		open(1 * time.Second)
		time.Sleep(time.Second)
		if _, err := b.Acquire(time.Now()); err != nil { // and nothing is heard of it
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		open(0)
		transition(t, b, breaker.Closed)
		transition(t, b, breaker.Open)
		want := []string{
			"closed 3/4 0.75, opened 0, step 1 0s", "half-open 1/1 1, opened 1, step 2 3s",
			"half-open 0/0 -1, opened 2, step 3 1s", "closed 0/0 -1, opened 0, step 1 0s",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		less := newBreaker(t, breaker.Config{OpenDelay: func(breaker.Stats, backoff.Step) time.Duration { return -time.Second }})
		transition(t, less, breaker.Open)
		if s := less.Stats(); time.Until(s.Until) != 0 {
			t.Errorf("open for %v", time.Until(s.Until))
		}
	})
}

// A schedule that panics does so in the caller's face, and harms nobody else.
func TestScheduleThatPanicsChangesNothing(t *testing.T) {
	b := newBreaker(t, breaker.Config{Consecutive: 1, OpenFor: backoff.Func(func(backoff.Step) (time.Duration, bool) { panic("boom") })})
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
		}()
		calls(t, b, 1, breaker.Failure, 0)
	}()
	if s := b.Stats(); s.State != breaker.Closed || s.Opens != 0 {
		t.Errorf("%+v", s)
	}
	calls(t, b, 1, breaker.Success, 0)
}

func TestOpenErrorSaysUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 1})
		until := time.Now().Add(time.Minute)
		for _, tt := range []struct {
			to    breaker.State
			until time.Time
		}{{breaker.Open, until}, {breaker.HalfOpen, time.Time{}}, {breaker.ForcedOpen, time.Time{}}} {
			transition(t, b, tt.to)
			admitted(b, 1)
			_, acquire := b.Acquire(time.Now())
			_, allow := b.Allow()
			_, do := breaker.Do(t.Context(), b, returns(nil))
			for _, err := range []error{b.Ready(time.Now()), acquire, allow, do} {
				e, ok := errors.AsType[*breaker.OpenError](err)
				if !ok || !e.Until.Equal(tt.until) {
					t.Errorf("%v: %v", tt.to, err)
				}
			}
		}
	})
}

// Ready agrees with Acquire, takes no permit and counts no refusal.
func TestReadyTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 1})
		for s := range breaker.State(states) {
			transition(t, b, s)
			for range 2 {
				before := b.Stats()
				first, second := b.Ready(time.Now()), b.Ready(time.Now())
				if after := b.Stats(); after != before {
					t.Errorf("%v: %+v became %+v", s, before, after)
				}
				_, err := b.Acquire(time.Now())
				if (first == nil) != (err == nil) || (second == nil) != (err == nil) {
					t.Errorf("%v: ready: %v, %v; acquire: %v", s, first, second, err)
				}
				time.Sleep(time.Minute)
			}
		}
	})
}

// Not in a bubble, whose times have no monotonic reading.
func TestSteppingTheWallClockChangesNothing(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		b := newBreaker(t, breaker.Config{WindowTime: 10 * time.Second, MinCalls: 4, HalfOpenCalls: 1, HalfOpenWait: 30 * time.Second, Lease: 10 * time.Second})
		start := time.Now()
		after := func(d time.Duration) time.Time { return wall.Set(t, start.Add(d), step) }
		call := func(o breaker.Outcome) {
			t.Helper()
			p, err := b.Acquire(after(0))
			if err != nil {
				t.Fatal(err)
			}
			b.Report(p, after(0), o, 0)
		}
		calls(t, b, 3, breaker.Success, 0) // before the step
		call(breaker.Success)
		call(breaker.Failure)
		if s := b.Stats(); s.Calls != 5 || s.FailureRate != 0.2 {
			t.Errorf("window: %+v", s)
		}
		transition(t, b, breaker.Open)
		admits := func(d time.Duration, want bool) {
			t.Helper()
			if err := b.Ready(after(d)); (err == nil) != want {
				t.Errorf("after %v: %v", d, err)
			}
		}
		admits(59*time.Second, false)
		admits(70*time.Second, true)
		if _, err := b.Acquire(start.Add(70 * time.Second)); err != nil {
			t.Error(err)
		}
		admits(79*time.Second, false) // leased
		admits(80*time.Second, true)
		admits(99*time.Second, true)
		admits(100*time.Second, false) // half-open no more
		admits(159*time.Second, false)
		admits(160*time.Second, true)
	}
}

// Goroutines come with a now that is a little older than another's, and nothing
// is lost by that.
func TestOlderTimesCountToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 2 * time.Second, MinCalls: 1, Initial: breaker.MetricsOnly})
		old := time.Now()
		p, _ := b.Acquire(old)
		time.Sleep(1500 * time.Millisecond)
		b.Report(p, time.Now(), breaker.Success, 0)
		b.Report(p, old, breaker.Success, 0)
		b.Report(p, old, breaker.Failure, 0)
		b.Report(p, time.Now(), breaker.Failure, 0)
		if s := b.Stats(); s.Calls != 4 || s.Failed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestStatesHaveNames(t *testing.T) {
	for s, want := range []string{"closed", "open", "half-open", "disabled", "forced-open", "metrics-only", "invalid"} {
		if got := breaker.State(s).String(); got != want {
			t.Errorf("%d: %s", s, got)
		}
	}
	text, err := json.Marshal(breaker.Stats{State: breaker.HalfOpen, Until: time.Unix(0, 0).UTC()})
	const want = `{"state":"half-open","generation":0,"until":"1970-01-01T00:00:00Z","opens":0,"failure_rate":0,"slow_rate":0,` +
		`"calls":0,"failed":0,"slow":0,"rejected":0,"trials":0,"panics":0}`
	if string(text) != want || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

func TestStatsSurviveJSON(t *testing.T) {
	for want := breaker.Closed; want <= breaker.MetricsOnly; want++ {
		text, err := json.Marshal(newBreaker(t, breaker.Config{Initial: want}).Stats())
		if err != nil {
			t.Fatal(err)
		}
		var s breaker.Stats
		if err := json.Unmarshal(text, &s); err != nil || s.State != want {
			t.Errorf("%s became %v, %v", text, s.State, err)
		}
	}
	var s breaker.State
	if err := s.UnmarshalText([]byte("invalid")); !errors.Is(err, breaker.ErrInvalid) {
		t.Error(err)
	}
}

// A breaker has no goroutines and no timers: nothing is left of it.
func TestNothingRunsInTheBackground(t *testing.T) {
	before := runtime.NumGoroutine()
	for s := range breaker.State(states) {
		b := newBreaker(t, breaker.Config{Initial: s, HalfOpenWait: time.Hour})
		use(t, b)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// A poll of a dashboard may be what finds that trial calls took too long.
func TestStatsLeavesTheLockWhenASchedulePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		b, err := breaker.New(breaker.Config{Consecutive: 1, HalfOpenWait: time.Second, OpenDelay: func(breaker.Stats, backoff.Step) time.Duration {
			if n++; n == 2 {
				panic("user")
			}
			return time.Second
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, errors.New("x") })
		time.Sleep(time.Second)
		if _, err := b.Allow(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		func() {
			defer func() {
				if recover() != "user" {
					t.Error("no panic")
				}
			}()
			b.Stats()
		}()
		asked := make(chan struct{})
		go func() {
			b.Stats()
			close(asked)
		}()
		select {
		case <-asked:
		case <-time.After(time.Second):
			t.Fatal("the lock is held for ever")
		}
	})
}
