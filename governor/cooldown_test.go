package governor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

func TestOneRefusalPausesEveryoneForExactlyAsLongAsItSaid(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		refused := governortest.NewScript(governortest.Limited(15 * time.Second))
		first := governor.Submit(t.Context(), g, "", refused.Call)
		synctest.Wait()
		at := make([]time.Time, 5)
		var reqs []*governor.Request[int]
		for i := range at {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", stamp(&at[i])))
		}
		for _, r := range append(reqs, first) {
			if _, err := r.Result(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, a := range at {
			since(t, "start", start, a, 15*time.Second)
		}
		since(t, "second attempt", start, refused.Starts()[1], 15*time.Second)
	})
}

func TestRefusedRequestKeepsItsPlace(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		var order []int
		note := func(i int, errs ...error) func(context.Context, struct{}) (int, error) {
			s := governortest.NewScript(errs...)
			return func(ctx context.Context, c struct{}) (int, error) {
				order = append(order, i)
				return s.Call(ctx, c)
			}
		}
		var reqs []*governor.Request[int]
		for i := range 4 {
			var errs []error
			if i == 1 {
				errs = []error{governortest.Limited(time.Second)}
			}
			reqs = append(reqs, governor.Submit(t.Context(), g, "", note(i, errs...)))
		}
		for _, r := range reqs {
			<-r.Done()
		}
		if got := fmt.Sprint(order); got != "[0 1 1 2 3]" {
			t.Errorf("order of attempts %s, want [0 1 1 2 3]", got)
		}
	})
}

// refuseInFlight has the given refusals arrive for requests that were all in
// flight, each at its time, and returns when the next request started.
func refuseInFlight(t *testing.T, g *governor.Plain, refusals map[time.Duration]time.Duration) (start, next time.Time) {
	t.Helper()
	start = time.Now()
	for after, delay := range refusals {
		s := governortest.NewScript(governortest.Limited(delay))
		s.Latency = after
		governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", s.Call)
	}
	synctest.Wait()
	time.Sleep(2 * time.Second) // all refusals are in
	<-governor.Submit(t.Context(), g, "", stamp(&next)).Done()
	return start, next
}

func TestCooldownsMergeByMaximum(t *testing.T) {
	for _, tt := range []struct {
		name     string
		refusals map[time.Duration]time.Duration // when: how long
		want     time.Duration
	}{
		{"a shorter one does not shorten", map[time.Duration]time.Duration{time.Second: 10 * time.Second, 1100 * time.Millisecond: time.Second}, 11 * time.Second},
		{"a longer one extends", map[time.Duration]time.Duration{time.Second: 5 * time.Second, 1100 * time.Millisecond: 10 * time.Second}, 11100 * time.Millisecond},
		{"zero is a no-op", map[time.Duration]time.Duration{time.Second: 10 * time.Second, 1100 * time.Millisecond: 0}, 11 * time.Second},
		{"negative counts as unknown, which extends by the guess", map[time.Duration]time.Duration{time.Second: 5 * time.Second, 1100 * time.Millisecond: -1}, 16100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				start, next := refuseInFlight(t, g, tt.refusals)
				since(t, "next start", start, next, tt.want)
			})
		})
	}
}

func TestPausedScopeBlocksNoOther(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level throttle.Level
		free  governor.Ask
		sel   string
	}{
		{"tenant", throttle.Tenant, governor.Ask{Tenant: "b", Bucket: "x"}, "s"},
		{"bucket", throttle.Bucket, governor.Ask{Tenant: "a", Bucket: "y"}, "s"},
		{"selector", throttle.Selector, governor.Ask{Tenant: "a", Bucket: "x"}, "r"},
		{"request", throttle.Request, governor.Ask{Tenant: "a", Bucket: "x"}, "s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				own := governor.Ask{Tenant: "a", Bucket: "x"}
				refused := governortest.NewScript(governortest.Limited(10*time.Second, throttle.Scope{Level: tt.level}))
				first := governor.Submit(t.Context(), g.With(own), "s", refused.Call)
				synctest.Wait()
				var same, other time.Time
				a := governor.Submit(t.Context(), g.With(own), "s", stamp(&same))
				b := governor.Submit(t.Context(), g.With(tt.free), tt.sel, stamp(&other))
				<-a.Done()
				<-b.Done()
				<-first.Done()
				since(t, "other scope", start, other, 0)
				want := 10 * time.Second
				if tt.level == throttle.Request {
					want = 0 // its neighbours go on
				}
				since(t, "same scope", start, same, want)
				since(t, "refused", start, refused.Starts()[1], 10*time.Second)
			})
		})
	}
}

func TestSeveralScopesAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		err := &governortest.Refusal{Signals: []throttle.Signal{{Delay: 2 * time.Second}, {Scope: tenant(""), Delay: 5 * time.Second}}}
		refused := governortest.NewScript(err)
		first := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", refused.Call)
		synctest.Wait()
		var other time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "b"}), "", stamp(&other)).Done()
		<-first.Done()
		since(t, "another tenant", start, other, 2*time.Second)
		since(t, "the refused one", start, refused.Starts()[1], 5*time.Second)
	})
}

func TestUnknownDelayIsGuessedLongerEachEpisodeUntilASuccess(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1; c.LimitedAttempts = -1 }, func(t *testing.T, g *governor.Plain) {
		unknown := governortest.Limited(throttle.Unknown)
		s := governortest.NewScript(unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, nil, unknown, nil)
		for range 2 {
			if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
				t.Fatal(err)
			}
		}
		at := s.Starts()
		var gaps []time.Duration
		for i := range at[1:] {
			gaps = append(gaps, at[i+1].Sub(at[i]))
		}
		want := "[15s 30s 1m0s 2m0s 4m0s 8m0s 15m0s 15m0s 0s 15s]"
		if fmt.Sprint(gaps) != want {
			t.Errorf("waits %v, want %s", gaps, want)
		}
	})
}

// A probe that is waited for no longer, and then fails, is no success: a vendor that
// escalates is not asked again as often as at first.
func TestGuessesGoOnWhenWhatFollowsACooldownFails(t *testing.T) {
	for name, set := range map[string]func(*governor.PlainConfig){
		"default": func(c *governor.PlainConfig) { c.Workers = 0 },
		"a limit": func(c *governor.PlainConfig) {
			c.MaxWait, c.Limits = -1, []governor.Limit{{Limiter: newBucket(t, 10, 10)}}
		},
	} {
		for _, took := range []time.Duration{0, 6 * time.Second, 30 * time.Second} {
			bubble(t, set, func(t *testing.T, g *governor.Plain) {
				refused := governor.Func(func(context.Context) (int, error) { return 0, governortest.Limited(throttle.Unknown) })
				failed := governor.Func(func(context.Context) (int, error) { time.Sleep(took); return 0, errors.New("504") })
				once := g.With(governor.Ask{NoRetry: true})
				guess := func(want time.Duration) {
					t.Helper()
					governor.Do(t.Context(), once, "", refused)
					if d := time.Until(g.Stats().Cooldowns[0].Until); d != want {
						t.Errorf("%s, calls of %v: guess %v, want %v", name, took, d, want)
					}
				}
				for i := range 3 {
					guess(15 * time.Second << i)
					governor.Do(t.Context(), once, "", failed)
					time.Sleep(10 * time.Second)
				}
				call(t, g, sleep(0))
				guess(15 * time.Second)
				governor.Do(t.Context(), once, "", failed)
				time.Sleep(16 * time.Minute) // and nothing comes
				if n := g.Stats().CooldownCount; n != 0 {
					t.Errorf("%s, calls of %v: %d scopes are held for ever", name, took, n)
				}
			})
		}
	}
}

func TestLateRefusalsOfOneEpisodeAreOneStep(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = -1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		for i := range 5 { // all in flight when the first is refused
			s := governortest.NewScript(governortest.Limited(throttle.Unknown))
			s.Latency = time.Duration(i+1) * time.Second
			governor.Submit(t.Context(), g, "", s.Call)
		}
		time.Sleep(6 * time.Second)
		var next time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "other"}), "", stamp(&next)).Done()
		if got := next.Sub(start); got < 20*time.Second || got > 21*time.Second {
			t.Errorf("next start after %v, want the last refusal plus the first guess, 20s", got)
		}
	})
}

func TestRefusalOfAnAttemptFromBeforeTheCooldownDoesNotEscalate(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		slow := governortest.NewScript(governortest.Limited(throttle.Unknown))
		slow.Latency = 20 * time.Second // reports after the first cooldown has ended
		late := governor.Submit(t.Context(), g, "", slow.Call)
		synctest.Wait()
		<-governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(throttle.Unknown)).Call).Done()
		<-late.Done()
		// At 20 s: its guess is the episode's first, 15 s, not the second, 30 s.
		since(t, "second attempt", start, slow.Starts()[1], 35*time.Second)
	})
}

func TestSuccessFromBeforeTheCooldownClearsNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g, "", sleep(5*time.Second))
		synctest.Wait()
		s := governortest.NewScript(governortest.Limited(throttle.Unknown), governortest.Limited(throttle.Unknown))
		<-governor.Submit(t.Context(), g, "", s.Call).Done()
		at := s.Starts()
		since(t, "second attempt", start, at[1], 15*time.Second)
		since(t, "third attempt", at[1], at[2], 30*time.Second) // the guess was not reset
	})
}

func TestZeroDelayIsOneProbeAfterMinCooldown(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		s := governortest.NewScript(governortest.Limited(0), governortest.Limited(0))
		if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
			t.Fatal(err)
		}
		at := s.Starts()
		since(t, "second attempt", at[0], at[1], 100*time.Millisecond)
		since(t, "third attempt", at[1], at[2], 100*time.Millisecond)
	})
}

func TestAbsurdDelaysAreClampedAndSaidToBe(t *testing.T) {
	for _, tt := range []struct {
		delay, want time.Duration
		clamped     int
	}{
		{math.MaxInt64, 24 * time.Hour, 1},
		{24*time.Hour + 1, 24 * time.Hour, 1},
		{24 * time.Hour, 24 * time.Hour, 0},
		{-time.Second, 15 * time.Second, 1},
		{math.MinInt64 + 1, 15 * time.Second, 1},
		{throttle.Unknown, 15 * time.Second, 0},
	} {
		t.Run(fmt.Sprint(int64(tt.delay)), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Clamped)
				s := governortest.NewScript(governortest.Limited(tt.delay))
				if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
					t.Fatal(err)
				}
				since(t, "second attempt", s.Starts()[0], s.Starts()[1], tt.want)
				synctest.Wait()
				if got := rec.Count(event.Clamped); got != tt.clamped {
					t.Errorf("%d clamp events, want %d", got, tt.clamped)
				}
			})
		})
	}
}

// What is told of a pause can be kept and shown, whatever the vendor said.
func TestAbsurdEndsAreClamped(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, tt := range []struct {
		until   time.Time
		want    time.Duration
		clamped int
	}{
		{year(-5), 100 * time.Millisecond, 1},
		{year(0), 100 * time.Millisecond, 1},
		{year(1500), 100 * time.Millisecond, 0}, // over
		{year(9999), 24 * time.Hour, 1},
		{year(2000).In(time.FixedZone("", 24*60*60)), 100 * time.Millisecond, 0},
		{year(12000), 24 * time.Hour, 1},
		{time.Unix(1<<62, 0), 24 * time.Hour, 1},
		{time.Unix(math.MaxInt64, 0), 24 * time.Hour, 1}, // which is before all others, says package time
	} {
		t.Run(fmt.Sprint(tt.until.Year(), tt.until.Location()), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Clamped)
				marshals := func(what any) {
					t.Helper()
					if _, err := json.Marshal(what); err != nil {
						t.Error(err)
					}
				}
				start := time.Now()
				g.Learn(throttle.Signal{Until: tt.until})
				marshals(g.Stats())
				marshals(g.Export())
				var at time.Time
				if _, err := governor.Do(t.Context(), g, "", stamp(&at)); err != nil {
					t.Fatal(err)
				}
				since(t, "the next start", start, at, tt.want)
				marshals(g.Stats())
				marshals(g.Recent())
				synctest.Wait()
				if got := rec.Count(event.Clamped); got != tt.clamped {
					t.Errorf("%d clamp events, want %d", got, tt.clamped)
				}
			})
		})
	}
}

func TestAbsoluteEndIsObeyed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		s := governortest.NewScript(&governortest.Refusal{Signals: []throttle.Signal{{Until: start.Add(42 * time.Second)}}})
		if _, err := governor.Do(t.Context(), g, "", s.Call); err != nil {
			t.Fatal(err)
		}
		since(t, "second attempt", start, s.Starts()[1], 42*time.Second)
	})
}

func TestRequestsFacingALongerCooldownThanMaxWaitFailAtOnce(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1; c.MaxWait = time.Minute }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		refusal := governortest.Limited(time.Hour)
		s := governortest.NewScript(refusal)
		s.Latency = time.Second
		first := governor.Submit(t.Context(), g, "", s.Call)
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		_, err := queued.Result(t.Context())
		since(t, "the queued one failed", start, time.Now(), time.Second)
		var ce *governor.CooldownError
		if !errors.As(err, &ce) || !errors.Is(err, governor.ErrCooling) || !governor.IsRefused(err) {
			t.Fatalf("queued: %v, want a *CooldownError", err)
		}
		if got := ce.RetryAfter(); got != time.Hour {
			t.Errorf("RetryAfter %v, want 1h", got)
		}
		if _, err := first.Result(t.Context()); !errors.As(err, &ce) || !errors.Is(err, refusal) {
			t.Errorf("refused: %v, want a *CooldownError with the vendor's error", err)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.As(err, &ce) {
			t.Errorf("new: %v, want a *CooldownError", err)
		}
		time.Sleep(59 * time.Minute)
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Errorf("with a minute left: %v, want it to wait", err)
		}
		since(t, "that one", start, time.Now(), time.Hour+time.Second)
	})
}

// startsAfterCooldown submits n requests of a second during a cooldown and
// returns how many began in each second after it.
func startsAfterCooldown(t *testing.T, g *governor.Plain, n int, latency time.Duration) (starts []time.Duration) {
	t.Helper()
	<-governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(10*time.Second)).Call).Done()
	end := time.Now().Add(10 * time.Second)
	at := make([]time.Time, n)
	var reqs []*governor.Request[int]
	for i := range n {
		reqs = append(reqs, governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			at[i] = time.Now()
			time.Sleep(latency)
			return 0, nil
		})))
	}
	for i, r := range reqs {
		<-r.Done()
		starts = append(starts, at[i].Sub(end))
	}
	return starts
}

func TestAfterACooldownOneProbeThenDoubling(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true; c.Workers = 16 }, func(t *testing.T, g *governor.Plain) {
		starts := startsAfterCooldown(t, g, 40, time.Second)
		perSecond := map[time.Duration]int{}
		for _, s := range starts {
			perSecond[s]++
		}
		want := map[time.Duration]int{0: 1, time.Second: 2, 2 * time.Second: 4, 3 * time.Second: 8, 4 * time.Second: 16, 5 * time.Second: 9}
		if fmt.Sprint(perSecond) != fmt.Sprint(want) {
			t.Errorf("starts per second %v, want %v", perSecond, want)
		}
	})
}

func TestPatienceWithASlowProbeEnds(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
		starts := startsAfterCooldown(t, g, 3, time.Minute)
		if fmt.Sprint(starts) != "[0s 5s 10s]" {
			t.Errorf("starts %v, want the probe, and after each ProbePatience more", starts)
		}
	})
}

func TestFailedProbeIsFollowedByAnother(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for name, probe := range map[string]func(context.Context, struct{}) (int, error){
			"error":  governor.Func(func(context.Context) (int, error) { return 0, errors.New("broken") }),
			"panic":  governor.Func(func(context.Context) (int, error) { panic("probe") }),
			"goexit": governor.Func(func(context.Context) (int, error) { return 0, goexit() }),
		} {
			<-governor.Submit(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(time.Second)).Call).Done()
			start := time.Now()
			bad := governor.Submit(t.Context(), g, "", probe)
			var at time.Time
			<-governor.Submit(t.Context(), g, "", stamp(&at)).Done()
			<-bad.Done()
			since(t, "next after a probe that ended in "+name, start, at, time.Second)
		}
	})
}

func TestRefusedProbeDoesNotCountTowardsLimitedAttempts(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = 2 }, func(t *testing.T, g *governor.Plain) {
		l := governortest.Limited(time.Second)
		s := governortest.NewScript(l, l, l, l, l) // the first, then four probes
		if n, err := governor.Do(t.Context(), g, "", s.Call); n != 6 || err != nil {
			t.Errorf("attempt %d, %v; want the sixth to succeed", n, err)
		}
	})
}

func TestRequestRefusedTooOftenGivesUp(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = 3 }, func(t *testing.T, g *governor.Plain) {
		l := governortest.Limited(time.Second, throttle.Scope{Level: throttle.Request}) // never a probe
		_, err := governor.Do(t.Context(), g, "", governortest.NewScript(l, l, l, l).Call)
		ge, ok := errors.AsType[*governor.GaveUpError](err)
		if !ok || ge.Attempts != 3 || ge.Waited != 2*time.Second || !errors.Is(err, l) || !errors.Is(err, governor.ErrGaveUp) {
			t.Fatalf("got %v, want to give up after 3 attempts and 2s", err)
		}
		if !governor.IsRefused(err) {
			t.Error("IsRefused is false although the vendor executed no attempt")
		}
	})
}

func TestNoRetryFailsAtOnceAndTeachesOthers(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, g *governor.Plain) error{
		"signal": func(t *testing.T, g *governor.Plain) error {
			_, err := governor.Do(t.Context(), g, "", governortest.NewScript(&governortest.Refusal{Signals: []throttle.Signal{{Delay: time.Second, NoRetry: true}}}).Call)
			return err
		},
		"ask": func(t *testing.T, g *governor.Plain) error {
			_, err := governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(governortest.Limited(time.Second)).Call)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				err := run(t, g)
				if _, ok := errors.AsType[*governortest.Refusal](err); !ok || !time.Now().Equal(start) {
					t.Errorf("got %v after %v, want the vendor's error at once", err, time.Since(start))
				}
				var next time.Time
				<-governor.Submit(t.Context(), g, "", stamp(&next)).Done()
				since(t, "next start", start, next, time.Second)
			})
		})
	}
}

func TestClearWakesWaitersAtOnce(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for _, sc := range []throttle.Scope{{}, tenant("a"), {Level: throttle.Selector, Key: "s"}, {Level: throttle.Bucket, Key: "b"}} {
			start := time.Now()
			g.Learn(throttle.Signal{Scope: sc, Delay: 10 * time.Minute})
			at := make([]time.Time, 3)
			var reqs []*governor.Request[int]
			for i := range at {
				reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a", Bucket: "b"}), "s", stamp(&at[i])))
			}
			time.Sleep(time.Second)
			g.Clear(sc)
			for i, r := range reqs {
				<-r.Done()
				since(t, "start after Clear of "+sc.String(), start, at[i], time.Second)
			}
			if c := g.Stats().Cooldowns; len(c) != 0 {
				t.Errorf("cooldowns left: %v", c)
			}
		}
	})
}

func TestAdapterThatPanicsCountsAsNotLimited(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Vendor = badVendor{} }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.BadVendor)
		boom := errors.New("boom")
		for range 2 {
			_, err := governor.Do(t.Context(), g, "", governortest.NewScript(boom).Call)
			if err != boom {
				t.Errorf("got %v, want the closure's error", err)
			}
		}
		synctest.Wait()
		if rec.Count(event.BadVendor) != 2 {
			t.Errorf("%d events, want 2", rec.Count(event.BadVendor))
		}
	})
}

type badVendor struct{}

func (badVendor) DelayError(error) (time.Duration, bool) { panic("bad adapter") }

func TestScopesBeyondMaxKeysPauseTheHost(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxKeys = 3 }, func(t *testing.T, g *governor.Plain) {
		for i := range 10 {
			g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Second})
		}
		if n := len(g.Stats().Cooldowns); n != 4 {
			t.Errorf("%d cooldowns, want 3 tenants and the host", n)
		}
	})
}

func hostPauses(g *governor.Plain) bool {
	return slices.ContainsFunc(g.Stats().Cooldowns, func(c governor.CooldownStats) bool { return c.Scope == throttle.Scope{} })
}

// A clear by somebody who knew nothing of what was said of a scope without room leaves the
// host's pause that stands for it, whatever the host itself was told.
func TestAPauseForWantOfRoomOutlivesAnEarlierClear(t *testing.T) {
	for _, hostAfter := range []bool{false, true} {
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.MaxKeys, c.MaxWait = true, 1, -1
		}, func(t *testing.T, g *governor.Plain) {
			host := func() { g.Learn(throttle.Signal{Delay: 10 * time.Second}) }
			if !hostAfter {
				host()
			}
			time.Sleep(time.Second)
			cleared := time.Now() // in another process
			time.Sleep(time.Second)
			if hostAfter {
				host()
			}
			start := time.Now()
			g.Learn(throttle.Signal{Scope: tenant("b"), Delay: time.Minute})
			time.Sleep(100 * time.Millisecond)
			g.ClearBefore(throttle.Scope{}, cleared)
			var at time.Time
			call(t, forTenant(g, "b"), stamp(&at))
			since(t, "b starts", start, at, time.Minute)
		})
	}
}

// MaxKeys bounds what cools, not what has.
func TestScopesThatAreOverMakeRoomAtMaxKeys(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxKeys, c.NoPace = 3, true }, func(t *testing.T, g *governor.Plain) {
		pause := func(n int, d time.Duration) {
			t.Helper()
			for i := range 3 {
				g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(n, i)), Delay: d})
			}
			if hostPauses(g) {
				t.Errorf("the host pauses, when %d cool and %d have", 3, 3*n)
			}
			time.Sleep(time.Minute)
		}
		pause(0, time.Second)
		pause(1, 2*time.Minute)
		g.Clear(tenant("1 0"))
		g.Learn(throttle.Signal{Scope: tenant("2"), Delay: time.Second})
		if hostPauses(g) {
			t.Error("the host pauses, when one that cooled was cleared")
		}
		for i, one := range []string{"3", "0 0"} { // a new one, and one that has cooled
			g.Learn(throttle.Signal{Scope: tenant(one), Delay: time.Second})
			if !hostPauses(g) {
				t.Errorf("%d: the host does not pause, when a fourth is to cool", i)
			}
			g.Clear(throttle.Scope{})
		}
	})
}

// They have to be remembered for some time, and so to be bounded.
func TestScopesThatHaveCooledAreBounded(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxKeys = 3 }, func(t *testing.T, g *governor.Plain) {
		for i := range 10 {
			g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Second})
			time.Sleep(10 * time.Second)
		}
		if n := len(g.Stats().Cooldowns); n != 7 {
			t.Errorf("%d scopes, want 6 tenants and the host", n)
		}
	})
}

func TestTableEmptiesItself(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for i := range 100 {
			g.Learn(throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Second})
		}
		time.Sleep(time.Hour)
		if n := len(g.Stats().Cooldowns); n != 0 {
			t.Errorf("%d scopes are still in the table an hour later", n)
		}
	})
}

// signals is an adapter that answers every error with the same signals.
type signals []throttle.Signal

func (signals) DelayError(error) (time.Duration, bool)       { panic("not asked: it is a Signaler") }
func (s signals) Signals(error, time.Time) []throttle.Signal { return s }

func TestSignalOfAnUnknownLevelPausesTheHost(t *testing.T) {
	set := func(c *governor.PlainConfig) {
		c.Vendor = signals{{Scope: throttle.Scope{Level: 99, Key: "x"}, Delay: time.Minute}}
	}
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(errors.New("limited")).Call)
		if cd := g.Stats().Cooldowns; len(cd) != 1 || cd[0].Scope != (throttle.Scope{}) {
			t.Errorf("paused is %v, want the host: who does not know what was meant pauses more", cd)
		}
	})
}

func TestOneAnswerPausesOnlySoManyScopes(t *testing.T) {
	var many signals
	for i := range 1000 {
		many = append(many, throttle.Signal{Scope: tenant(fmt.Sprint(i)), Delay: time.Minute})
	}
	bubble(t, func(c *governor.PlainConfig) { c.Vendor = many }, func(t *testing.T, g *governor.Plain) {
		_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governortest.NewScript(errors.New("limited")).Call)
		if cd := g.Stats().Cooldowns; len(cd) != 16 {
			t.Errorf("%d scopes are paused, want 16", len(cd))
		}
	})
}

func TestCooldownsWithoutEndDoNotWrapAround(t *testing.T) {
	set := func(c *governor.PlainConfig) { c.MaxCooldown, c.MaxWait = math.MaxInt64, -1 }
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		time.Sleep(time.Second)
		g.Learn(throttle.Signal{Delay: math.MaxInt64})
		r := governor.Submit(t.Context(), g, "", sleep(0))
		time.Sleep(1000 * time.Hour)
		if st := r.State(); st != governor.Queued {
			t.Errorf("the request is %v after a thousand hours, want it to wait", st)
		}
		r.Cancel()
	})
}

func TestGuessThatPanicsIsTheLongestGuess(t *testing.T) {
	set := func(c *governor.PlainConfig) {
		c.MaxGuess = time.Minute
		c.Guess = backoff.Func(func(backoff.Step) (time.Duration, bool) { panic("bad schedule") })
	}
	bubble(t, set, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(throttle.Unknown)).Call); err != nil {
			t.Error(err)
		}
		since(t, "done", start, time.Now(), time.Minute)
	})
}
