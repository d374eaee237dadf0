package governor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// observed runs fn with a governor that observes, and fails when it took time, or
// when what it tells differs from want: for each event its kind, scope, delay or
// error, and source.
func observed(t *testing.T, set func(*governor.PlainConfig), want []string, fn func(t *testing.T, g *governor.Plain)) {
	t.Helper()
	bubble(t, func(c *governor.PlainConfig) {
		c.Observe, c.NoPace = true, true
		if set != nil {
			set(c)
		}
	}, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.WouldWait, event.WouldRefuse)
		start := time.Now()
		fn(t, g)
		since(t, "end", start, time.Now(), 0)
		synctest.Wait()
		var got []string
		waits, refusals := uint64(0), uint64(0)
		for _, e := range rec.Events() {
			if e.Kind == event.WouldWait {
				waits++
				got = append(got, fmt.Sprintf("wait %s %v %s", e.Scope, e.Delay, e.Source))
			} else {
				refusals++
				got = append(got, fmt.Sprintf("refuse %T", e.Err))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told %q\nwant %q", got, want)
		}
		if s := g.Stats(); !s.Observe || s.WouldWait != waits || s.WouldRefuse != refusals {
			t.Errorf("statistics: %v, %d would wait, %d would be refused; want %d and %d", s.Observe, s.WouldWait, s.WouldRefuse, waits, refusals)
		}
	})
}

func TestObservedCooldownsHoldNobody(t *testing.T) {
	observed(t, nil, []string{"wait tenant:a 15s Retry-After: 15", "wait tenant:a 15s Retry-After: 15", "wait tenant:a 15s Retry-After: 15"}, func(t *testing.T, g *governor.Plain) {
		refusal := &governortest.Refusal{Signals: []throttle.Signal{{Scope: tenant(""), Delay: 15 * time.Second, Source: "Retry-After: 15"}}}
		s := governortest.NewScript(refusal)
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", s.Call); err != error(refusal) {
			t.Errorf("got %v, want the vendor's error as it is", err)
		}
		for range 2 {
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", s.Call); err != nil {
				t.Error(err)
			}
		}
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Tenant: "b"}), "", s.Call); err != nil {
			t.Error(err)
		}
		if cd := g.Stats().Cooldowns; len(cd) != 1 || cd[0].Phase != "cooling" {
			t.Errorf("cooldowns %+v", cd)
		}
	})
}

func TestObservedRequestsBeyondMaxWaitAreNotRefused(t *testing.T) {
	observed(t, nil, []string{"refuse *governor.CooldownError", "refuse *governor.LateError"}, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Hour})
		call(t, g, sleep(0))
		g.Clear(throttle.Scope{})
		g.Learn(throttle.Signal{Delay: time.Minute})
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}), "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

// A limit is overdrawn by what it would have kept back: the waits are those of a
// queue.
func TestObservedLimitsHoldNobody(t *testing.T) {
	observed(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: newBucket(t, 1, 2)}}
	}, []string{"wait host 1s limit", "wait host 2s limit", "wait host 3s limit", "refuse governor.refusal", "refuse *governor.LateError"}, func(t *testing.T, g *governor.Plain) {
		for range 5 {
			call(t, g, sleep(0))
		}
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 3}), "", sleep(0)); err != nil {
			t.Error(err)
		}
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}), "", sleep(0)); err != nil {
			t.Error(err)
		}
	})
}

func TestObservedBreakersRefuseNobody(t *testing.T) {
	for _, wait := range []bool{false, true} {
		want := []string{"refuse *breaker.OpenError"}
		if wait {
			want = []string{"wait host 1s breaker"}
		}
		var b *breaker.Breaker
		observed(t, func(c *governor.PlainConfig) {
			var err error
			if b, err = breaker.New(breaker.Config{Consecutive: 2, OpenFor: backoff.Constant(time.Minute)}); err != nil {
				t.Fatal(err)
			}
			c.Breaker, c.BreakerWait = b, wait
		}, want, func(t *testing.T, g *governor.Plain) {
			for range 2 {
				_, _ = governor.Do(t.Context(), g, "", governortest.NewScript(errDown).Call)
			}
			call(t, g, sleep(0))
		})
	}
}

func TestObservedRequestsAreNotRepeated(t *testing.T) {
	observed(t, func(c *governor.PlainConfig) {
		c.Retry = &retry.Config{Backoff: backoff.Constant(time.Second)}
	}, []string{"wait request 1s retry"}, func(t *testing.T, g *governor.Plain) {
		s := governortest.NewScript(errDown)
		if _, err := governor.Do(t.Context(), g, "", s.Call); err != errDown || len(s.Starts()) != 1 {
			t.Errorf("%v after %d attempts, want the error of one", err, len(s.Starts()))
		}
		s = governortest.NewScript(errDown)
		_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", s.Call)
	})
}

// How long a job is to be left alone is for its closure to say.
func TestObservedJobsAreAskedAboutAsLateAsTheySay(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe = true }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.WouldRefuse)
		start := time.Now()
		var at []time.Time
		if n, err := governor.Do(t.Context(), g, "", job(2, time.Hour, &at)); n != 3 || err != nil {
			t.Errorf("%d, %v, want the result of the third call", n, err)
		}
		if got := offsets(start, at); got != "[0s 1h0m0s 2h0m0s]" {
			t.Errorf("called at %s", got)
		}
		synctest.Wait()
		for _, e := range rec.Events() {
			if !errors.Is(e.Err, governor.ErrCooling) {
				t.Errorf("told %v", e.Err)
			}
		}
		if s := g.Stats(); rec.Count(event.WouldRefuse) != 2 || s.WouldRefuse != 2 {
			t.Errorf("%d refusals are told of, want one for each time", rec.Count(event.WouldRefuse))
		}
	})
}

func TestObservedAttemptsAreNotCutOff(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe, c.AttemptTimeout = true, time.Second }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.WouldRefuse)
		call(t, g, sleep(time.Second))
		call(t, g, sleep(2*time.Second))
		synctest.Wait()
		if e := rec.Events(); len(e) != 1 || !errors.Is(e[0].Err, context.DeadlineExceeded) || e[0].Request != 2 {
			t.Errorf("told %+v", e)
		}
	})
}

// What is learned goes its way: a cooldown ends, one is the probe, others would
// have waited for it.
func TestObservedCooldownIsProbedAndGrowsBack(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe, c.NoPace, c.Workers = true, true, 4 }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g)
		g.Learn(throttle.Signal{Delay: 10 * time.Second})
		time.Sleep(10 * time.Second)
		start := time.Now()
		for range 4 {
			var reqs []*governor.Request[int]
			for range 3 {
				reqs = append(reqs, governor.Submit(t.Context(), g, "", sleep(time.Second)))
			}
			for _, r := range reqs {
				if _, err := r.Result(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		since(t, "end", start, time.Now(), 4*time.Second)
		synctest.Wait()
		if w, p, r := rec.Count(event.WouldWait), rec.Count(event.Probe), rec.Count(event.Resumed); w != 3 || p != 1 || r != 1 {
			t.Errorf("%d would wait, %d probes, %d resumed; want 2 for the probe and 1 for the ramp, 1, 1", w, p, r)
		}
	})
}

// What there is no room for waits; what callers ask for themselves holds.
func TestObservingGovernorKeepsItsOwnBounds(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Observe, c.Workers, c.MaxQueue, c.Overflow = true, 1, 1, governor.Reject
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g, "", sleep(time.Second))
		synctest.Wait()
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.Is(err, governor.ErrQueueFull) {
			t.Errorf("got %v", err)
		}
		<-queued.Done()
		since(t, "the second", start, time.Now(), time.Second)
		g.Pause()
		governor.Submit(t.Context(), g, "", sleep(0))
		synctest.Wait()
		if s := g.Stats(); s.Started != 2 || s.WouldWait != 0 {
			t.Errorf("paused: %d started, %d would wait; want 2, 0", s.Started, s.WouldWait)
		}
		g.Resume()
	})
}

// Nor does a limit hold up who had to open a connection first.
func TestObservedLimitsLetNewConnectionsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config[string, int]{
			Name: "x", Observe: true,
			Pool:   &pool.Config[string, int]{Open: func(context.Context, string) (int, error) { time.Sleep(time.Second); return 1, nil }},
			Limits: []governor.Limit{{Limiter: newBucket(t, 0.001, 1)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var reqs []*governor.Request[int]
		for range 4 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", func(context.Context, int) (int, error) { return 0, nil }))
		}
		for _, r := range reqs {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		since(t, "end", start, time.Now(), time.Second)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A context that ends when the limit would let the call go is too short, as it is where
// calls are truly kept back.
func TestObserverRefusesWhatCouldStartWhenItsContextEnds(t *testing.T) {
	for _, tt := range []struct {
		within  time.Duration
		refused uint64
	}{{time.Second, 1}, {time.Second + 1, 0}} {
		bubble(t, func(c *governor.PlainConfig) {
			c.Observe, c.NoPace = true, true
			c.Limits = []governor.Limit{{Limiter: newBucket(t, 1, 1)}}
		}, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			for range 2 {
				<-governor.Submit(ctx, g, "", sleep(0)).Done()
			}
			if s := g.Stats(); s.WouldRefuse != tt.refused || s.WouldWait != 1-tt.refused {
				t.Errorf("within %v: %d would have been refused and %d would have waited", tt.within, s.WouldRefuse, s.WouldWait)
			}
		})
	}
}

func TestObserverCutsNoStreamOff(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe, c.StreamIdle = true, time.Second }, func(t *testing.T, g *governor.Plain) {
		for _, err := range governor.Stream(t.Context(), g, "", items(3)) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
		}
		if n := g.Stats().WouldRefuse; n != 3 {
			t.Errorf("%d were to be refused, want one for each item that took too long", n)
		}
	})
}

func TestObserverTellsThatItWouldGiveUp(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Observe, c.LimitedAttempts = true, 1 }, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(time.Second)).Call)
		if s := g.Stats(); s.WouldRefuse != 1 || s.WouldWait != 0 {
			t.Errorf("%d were to be refused, %d to wait; want 1, 0", s.WouldRefuse, s.WouldWait)
		}
	})
}

func TestObserverAsksTheBudgetOfRepetitions(t *testing.T) {
	budget, err := policy.NewBudget(policy.BudgetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if !budget.Take() { // by others, who share it
			break
		}
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.Observe, c.Retry = true, &retry.Config{Backoff: backoff.Constant(time.Second), Budget: budget}
	}, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", governortest.NewScript(errDown).Call)
		if s := g.Stats(); s.WouldRefuse != 1 || s.WouldWait != 0 {
			t.Errorf("%d were to be refused, %d to wait; want 1, 0", s.WouldRefuse, s.WouldWait)
		}
		before := budget.State()
		budget.GiveBack()
		governor.Do(t.Context(), g, "", governortest.NewScript(errDown).Call)
		if s := g.Stats(); s.WouldRefuse != 1 || s.WouldWait != 1 || !budget.Take() || budget.State() != before {
			t.Errorf("%d were to be refused, %d to wait, %+v is taken; want 1, 1, %+v", s.WouldRefuse, s.WouldWait, budget.State(), before)
		}
	})
}
