package governor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// What a call holds, counts and reports, it does so on both paths: these look at the
// seams of the fast one.

func limits(l ...limiter.Limiter) func(*governor.PlainConfig) {
	return func(c *governor.PlainConfig) {
		for _, l := range l {
			c.Limits = append(c.Limits, governor.Limit{Limiter: l})
		}
	}
}

// hang is a closure that takes d, whatever becomes of its context.
func hang(d time.Duration) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(context.Context) (int, error) { time.Sleep(d); return 1, nil })
}

func TestDoGivesBackAConcurrencyLimit(t *testing.T) {
	one, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, limits(one), func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var at time.Time
		go func() {
			time.Sleep(time.Second) // the limit is taken: this one waits for it
			_, _ = governor.Do(t.Context(), g, "", stamp(&at))
		}()
		for range 2 {
			call(t, g, hang(5*time.Second))
			synctest.Wait()
		}
		since(t, "the one that waited", start, at, 5*time.Second)
		since(t, "both", start, time.Now(), 10*time.Second)
	})
}

// fickle is a circuit that looks willing and is not, the first time.
type fickle struct{ asked int }

func (*fickle) Ready(time.Time) error { return nil }

func (f *fickle) Acquire(time.Time) (p breaker.Permit, err error) {
	if f.asked++; f.asked == 1 {
		err = &breaker.OpenError{}
	}
	return p, err
}

func (*fickle) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {}

func TestCallThatDoesNotStartGivesBackAConcurrencyLimit(t *testing.T) {
	one, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) {
		limits(one)(c)
		c.Breaker, c.BreakerWait = new(fickle), true
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := governor.Do(ctx, g, "", sleep(0)); err != nil {
			t.Errorf("%v, want that it ran", err)
		}
	})
}

func TestBudgetCountsCallsWhileTheyRun(t *testing.T) {
	b := newBudget(t, -1, 1)
	bubble(t, repeating(b), func(t *testing.T, g *governor.Plain) {
		for i := range 3 {
			_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
				if s := b.State(); s.Calls != 1 {
					t.Errorf("while one runs: %+v", s)
				}
				if i == 1 {
					panic("x")
				}
				return 0, nil
			}))
			if s := b.State(); s.Calls != 0 || (err != nil) != (i == 1) {
				t.Errorf("when it has ended with %v: %+v", err, s)
			}
		}
	})
}

// lax is a limiter that notes what it is told, and lets everything pass until it is
// told of a quota.
type lax struct {
	limiter.Limiter // for what is not told
	notes           []string
	strict          bool
}

func (l *lax) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

func (l *lax) Wait(time.Time, string, int) time.Duration { return 0 }
func (l *lax) Take(_ time.Time, _ string, n int)         { l.note("take %d", n) }
func (l *lax) Settle(_ time.Time, _ string, n, used int) { l.note("settle %d to %d", n, used) }
func (l *lax) Accepted(time.Time, time.Time, string)     {}
func (l *lax) Refused(time.Time, time.Time, string)      { l.note("refused") }
func (l *lax) Lax() bool                                 { return !l.strict }
func (l *lax) Passed(_ time.Time, _ string, n int)       { l.note("passed %d", n) }
func (l *lax) Forget(time.Time, string)                  { l.note("forget") }

func (l *lax) Told(time.Time, time.Time, throttle.Quota) {
	l.note("told")
	l.strict = true
}

func TestLaxLimitHearsOfCallsAndTheirCostInOrder(t *testing.T) {
	l := new(lax)
	bubble(t, limits(l), func(t *testing.T, g *governor.Plain) {
		cost := func(n int) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(ctx context.Context) (int, error) { return 0, governor.Settle(ctx, n) })
		}
		nop := governor.Func(func(context.Context) (int, error) { return 0, nil })
		call(t, g, nop)
		call(t, g, nop)
		call(t, g, cost(7))
		call(t, g, nop)
		call(t, g, governor.Func(func(ctx context.Context) (int, error) {
			err := governor.Report(ctx, throttle.Quota{Limit: 100, Remaining: 10, Cost: -1})
			call(t, g, nop) // strict by now
			return 0, err
		}))
		call(t, g, cost(3))
		call(t, g, nop)
		want := "passed 3, settle 1 to 7, passed 1, told, take 1, settle 1 to 1, passed 1, take 1, settle 1 to 3, take 1, settle 1 to 1"
		if got := strings.Join(l.notes, ", "); got != want {
			t.Errorf("told\n%s, want\n%s", got, want)
		}
	})
}

// A call that comes back into the queue is of its tenant's weight, though it began
// on the fast path.
func TestTenantKeepsItsWeightWhenItsCallComesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string // up to the heavy one's second start: it pays half as much
	}{
		{"it asks again", governor.Again(0), "aba"},
		{"it is refused", governortest.Limited(time.Second), "aa"},
	} {
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Workers = true, 1
			c.Weight = func(tenant string) int { return len(tenant) }
		}, func(t *testing.T, g *governor.Plain) {
			var order, upToA string
			mark := func(s string, err error) func(context.Context, struct{}) (int, error) {
				return governor.Func(func(context.Context) (int, error) {
					if order += s; s == "a" {
						upToA = order
					}
					time.Sleep(time.Second)
					defer func() { err = nil }()
					return 0, err
				})
			}
			heavy, light := g.With(governor.Ask{Tenant: "aaaa"}), g.With(governor.Ask{Tenant: "bb"})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = governor.Do(t.Context(), heavy, "", mark("a", c.err))
			}()
			synctest.Wait()
			for range 4 {
				r := governor.Submit(t.Context(), light, "", mark("b", nil))
				defer func() { <-r.Done() }()
			}
			<-done
			if upToA != c.want {
				t.Errorf("%s: order %s, want %s", c.name, upToA, c.want)
			}
		})
	}
}

func TestObserverTellsOfCallsThatTookTooLong(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Observe, c.AttemptTimeout = true, time.Second
	}, func(t *testing.T, g *governor.Plain) {
		for range 2 { // once without anybody who listens
			before := g.Stats().WouldRefuse
			call(t, g, hang(time.Second))
			call(t, g, hang(time.Second+1))
			if n := g.Stats().WouldRefuse - before; n != 1 {
				t.Errorf("%d would have been cut off, want 1", n)
			}
			governortest.Record(g, event.WouldRefuse)
		}
	})
}

// single is a limiter that lets one call after the other pass, and tells nobody.
type single struct {
	limiter.Limiter
	taken bool
}

func (l *single) Wait(time.Time, string, int) time.Duration {
	if l.taken {
		return time.Hour
	}
	return 0
}
func (l *single) Take(time.Time, string, int)                { l.taken = true }
func (l *single) Settle(time.Time, string, int, int)         {}
func (l *single) Accepted(time.Time, time.Time, string)      { l.taken = false }
func (l *single) Refused(_ time.Time, _ time.Time, _ string) {}

func TestLimitsAreAskedAgainWhenACallHasEnded(t *testing.T) {
	bubble(t, limits(new(single)), func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var at time.Time
		go func() {
			time.Sleep(time.Second)
			_, _ = governor.Do(t.Context(), g, "", stamp(&at))
		}()
		call(t, g, hang(5*time.Second))
		synctest.Wait()
		since(t, "the one that waited", start, at, 5*time.Second)
	})
}

func TestGroupSeesCallsOfTheFastPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gr, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
			IdleTimeout: time.Minute,
			Config:      func(string) (governor.PlainConfig, error) { return governor.PlainConfig{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		g, err := gr.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			call(t, g, hang(0))
			time.Sleep(30 * time.Second)
		}
		if s := g.Stats(); s.Started != 20 || s.Closed {
			t.Errorf("%d started, closed %v; want all by one governor", s.Started, s.Closed)
		}
		time.Sleep(2 * time.Minute)
		if s := g.Stats(); !s.Closed {
			t.Error("idle, and not evicted")
		}
		if err := gr.Close(); err != nil {
			t.Error(err)
		}
	})
}
