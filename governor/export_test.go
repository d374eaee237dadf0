package governor_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// restart closes g and returns a governor that goes on with what it has learned,
// kept as JSON for d.
func restart(t *testing.T, g *governor.Plain, d time.Duration, set func(*governor.PlainConfig)) *governor.Plain {
	t.Helper()
	b, err := json.Marshal(g.Export())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	cfg := governor.PlainConfig{Name: "test", Vendor: governortest.Vendor{}, Workers: 8}
	if err := json.Unmarshal(b, &cfg.Restore); err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(&cfg)
	}
	next, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	return next
}

func TestCooldownsGoOnAfterARestart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		want := throttle.Signal{Kind: throttle.KindQuota, Scope: tenant("a"), Delay: 100 * time.Second, Source: "Retry-After: 100"}
		g.Learn(want)
		g.Learn(throttle.Signal{Delay: 10 * time.Second})
		g.Learn(throttle.Signal{Scope: tenant("b"), Delay: time.Second}) // over by then
		next := restart(t, g, 3*time.Second, nil)
		rec := governortest.Record(next)
		s := next.Stats()
		if len(s.Cooldowns) != 2 || s.Cooldowns[1].Scope != tenant("a") || s.Cooldowns[1].Signal.Source != want.Source || s.Cooldowns[1].Signal.Kind != want.Kind {
			t.Errorf("cooldowns %+v", s.Cooldowns)
		}
		if d := s.Cooldowns[1].Until.Sub(start); d != 100*time.Second {
			t.Errorf("until %v, want 100s", d)
		}
		var other, own time.Time
		b := governor.Submit(t.Context(), next.With(governor.Ask{Tenant: "b"}), "", stamp(&other))
		a := governor.Submit(t.Context(), next.With(governor.Ask{Tenant: "a"}), "", stamp(&own))
		<-a.Done()
		<-b.Done()
		since(t, "another tenant", start, other, 10*time.Second)
		since(t, "the tenant", start, own, 100*time.Second)
		synctest.Wait()
		if rec.Count(event.Probe) != 2 || rec.Count(event.Ramp) != 2 || s.Episodes != 0 {
			t.Errorf("%d probes, %d ramps, %d episodes; want 2, 2, 0", rec.Count(event.Probe), rec.Count(event.Ramp), s.Episodes)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The wall clock may be set back between Export and New, as by a machine that starts with a
// wrong one: then what is left of a pause is what was left of it at Export.
func TestCooldownsAreNotLengthenedByAClockThatWasSetBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		for back, want := range map[time.Duration]time.Duration{
			time.Hour: 30 * time.Second, 10 * time.Second: 30 * time.Second, 0: 30 * time.Second, -10 * time.Second: 20 * time.Second,
		} {
			at := time.Now().Add(back) // when it was exported, by the clock of then
			next, err := governor.New(governor.PlainConfig{Name: "next", Restore: governor.Learned{
				When: at, Cooldowns: []governor.LearnedCooldown{{Until: at.Add(30 * time.Second)}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if s := next.Stats(); len(s.Cooldowns) != 1 || s.Cooldowns[0].Until.Sub(s.Time) != want || s.Clamped != 0 {
				t.Errorf("set back by %v: %d clamped, %+v, want one of %v", back, s.Clamped, s.Cooldowns, want)
			}
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestGuessesGoOnAfterARestart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		unknown := governortest.Limited(throttle.Unknown)
		r := governor.Submit(t.Context(), g, "", governortest.NewScript(unknown, unknown).Call)
		time.Sleep(20 * time.Second) // 15 s, then 30 s
		start := time.Now()
		if l := g.Export(); len(l.Cooldowns) != 1 || l.Cooldowns[0].Guesses != 2 || l.Cooldowns[0].Guess != 30*time.Second {
			t.Errorf("%+v", l.Cooldowns)
		}
		next := restart(t, g, 0, nil)
		<-r.Done()
		s := governortest.NewScript(unknown)
		call(t, next, s.Call)
		since(t, "first attempt", start, s.Starts()[0], 25*time.Second)
		since(t, "second attempt", s.Starts()[0], s.Starts()[1], time.Minute)
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestLearnedRateGoesOnAfterARestart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: tenant("x"), Delay: time.Second})
		l := g.Export()
		if len(l.Rates) != 1 || l.Rates[0].Per != throttle.Host || l.Rates[0].Rate != 0 || !l.Rates[0].When.Equal(time.Now()) {
			t.Fatalf("rates %+v", l.Rates)
		}
		l.Rates[0].Rate, l.Rates[0].Pause = 20, 10*time.Second
		next, err := governor.New(governor.PlainConfig{Name: "next", Restore: l})
		if err != nil {
			t.Fatal(err)
		}
		if rate := next.Stats().Limits[0].Rate; rate < 10 || rate > 20 {
			t.Errorf("rate %v, want a little less than 20", rate)
		}
		again := next.Export()
		if again.Rates[0].Rate != 20 || again.Rates[0].Pause != 10*time.Second {
			t.Errorf("exported %+v", again.Rates)
		}
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
}

// By their levels, whatever their order was; those of one level in theirs.
func TestRatesGoOnInLimitsOfTheirLevels(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *governor.Plain) {
		var l governor.Learned
		for i, per := range []throttle.Level{throttle.Tenant, throttle.Host, throttle.Tenant} {
			l.Rates = append(l.Rates, governor.LearnedRate{Per: per, Learned: limiter.Learned{Rate: float64(10 + i), Pause: time.Second, When: time.Now()}})
		}
		var limits []governor.Limit
		for _, per := range []throttle.Level{throttle.Host, throttle.Tenant, throttle.Tenant} {
			a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{})
			if err != nil {
				t.Fatal(err)
			}
			limits = append(limits, governor.Limit{Per: per, Limiter: a})
		}
		g, err := governor.New(governor.PlainConfig{Name: "next", Restore: l, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var got []float64
		for _, r := range g.Export().Rates {
			got = append(got, r.Rate)
		}
		if !slices.Equal(got, []float64{11, 10, 12}) {
			t.Errorf("rates %v of host, tenant and tenant, want 11, 10 and 12", got)
		}
	})
}

func TestRatesOfKeysGoOnAfterARestart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *governor.Plain) {
		start := func(l governor.Learned, rate ...float64) *governor.Plain {
			var each []limiter.Limiter
			for _, r := range rate {
				a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: r, Max: 1000})
				if err != nil {
					t.Fatal(err)
				}
				each = append(each, a)
			}
			g, err := governor.New(governor.PlainConfig{Name: "x", NoPace: true, Restore: l, Limits: []governor.Limit{{Per: throttle.Tenant,
				Limiter: byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"": each[0], "ann": each[1]}, Others: each[2]})}}})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		g := start(governor.Learned{}, 10, 20, 30)
		text, err := json.Marshal(g.Export())
		if err != nil {
			t.Fatal(err)
		}
		g.Close()
		var l governor.Learned
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		next := start(l, 1, 1, 1)
		defer next.Close()
		var got []float64
		for _, r := range next.Export().Rates {
			got = append(got, r.Rate)
		}
		if !slices.Equal(got, []float64{10, 20, 30}) {
			t.Errorf("rates %v after %s", got, text)
		}
	})
}

func TestARateGoesOnInALimitOfItsUnit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *governor.Plain) {
		limits := func(units ...string) (all []governor.Limit) {
			for _, u := range units {
				a, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 2, Max: 1e6})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, governor.Limit{Limiter: a, Unit: u})
			}
			return all
		}
		l := governor.Learned{Rates: []governor.LearnedRate{
			{Unit: "tokens", Learned: limiter.Learned{Rate: 1e5, Pause: time.Second, When: time.Now()}},
			{Learned: limiter.Learned{Rate: 50, Pause: time.Second, When: time.Now()}},
		}}
		for _, units := range [][]string{{""}, {"", "tokens"}} {
			g, err := governor.New(governor.PlainConfig{Name: "x", Restore: l, Limits: limits(units...)})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			got := g.Export().Rates
			for _, r := range got {
				if want := map[string]float64{"": 50, "tokens": 1e5}[r.Unit]; r.Rate != want {
					t.Errorf("in %q the rate is %v, want %v", r.Unit, r.Rate, want)
				}
			}
			if len(got) != len(units) {
				t.Errorf("%d rates, want %d", len(got), len(units))
			}
		}
	})
}

func TestRestoredCooldownsAreClamped(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *governor.Plain) {
		start := time.Now()
		far := governor.LearnedCooldown{Until: start.AddDate(400, 0, 0), Guesses: 3, Guess: math.MaxInt64}
		g, err := governor.New(governor.PlainConfig{
			Name: "x", MaxCooldown: time.Hour, MaxWait: -1, MaxKeys: 1,
			Restore: governor.Learned{Cooldowns: []governor.LearnedCooldown{
				{Scope: tenant("a"), Until: start.Add(time.Minute)},
				{Scope: tenant("b"), Until: start.Add(2 * time.Minute)}, // no room: the host
				{Scope: tenant("c"), Until: start},
				{Scope: tenant("d"), Until: start.AddDate(-300, 0, 0)},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(g.Stats().Clamped, len(g.Stats().Cooldowns)); got != "1 2" {
			t.Errorf("clamped, cooldowns: %s, want 1 2", got)
		}
		call(t, g, sleep(0))
		since(t, "the host, for a key too many", start, time.Now(), 2*time.Minute)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		start = time.Now()
		g, err = governor.New(governor.PlainConfig{Name: "x", MaxCooldown: time.Hour, MaxWait: -1, Restore: governor.Learned{Cooldowns: []governor.LearnedCooldown{far, {Until: start.Add(time.Second)}}}})
		if err != nil {
			t.Fatal(err)
		}
		if l := g.Export(); len(l.Cooldowns) != 1 || l.Cooldowns[0].Guess != 15*time.Minute {
			t.Errorf("%+v", l.Cooldowns)
		}
		call(t, g, sleep(0))
		since(t, "the host, for centuries", start, time.Now(), time.Hour)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever a vendor or somebody else says, Export can be written as JSON, read and restored.
func TestExportCanBeKeptWhateverWasLearned(t *testing.T) {
	for _, sig := range []throttle.Signal{
		{Until: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Until: time.Unix(1<<60, 0), Delay: -1},
		{Kind: 200, Delay: time.Minute},
		{Delay: math.MaxInt64},
		{Delay: throttle.Unknown},
	} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			g.Learn(sig)
			l := g.Export()
			text, err := json.Marshal(l)
			if err != nil || len(l.Cooldowns) != 1 {
				t.Fatalf("%+v: %v, %d cooldowns", sig, err, len(l.Cooldowns))
			}
			var back governor.Learned
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatalf("%+v: %v, of %s", sig, err, text)
			}
			for _, l := range []governor.Learned{l, back} {
				next, err := governor.New(governor.PlainConfig{Name: "next", Restore: l})
				if err != nil {
					t.Errorf("%+v: %v", sig, err)
					continue
				}
				if n := len(next.Stats().Cooldowns); n != 1 {
					t.Errorf("%+v: the next governor has %d cooldowns", sig, n)
				}
				next.Close()
			}
		})
	}
}

// What was kept otherwise than as JSON can be kept as that.
func TestRestoredSignalsCanBeExported(t *testing.T) {
	for _, year := range []int{-1, 12000} {
		bubble(t, func(c *governor.PlainConfig) {
			c.Restore.Cooldowns = []governor.LearnedCooldown{{
				Until: time.Now().Add(time.Hour), Signal: throttle.Signal{Until: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)},
			}}
		}, func(t *testing.T, g *governor.Plain) {
			for _, all := range []any{g.Export(), g.Stats()} {
				if _, err := json.Marshal(all); err != nil {
					t.Errorf("%d: %v", year, err)
				}
			}
			if all := g.Stats().Cooldowns; len(all) != 1 || !all[0].Until.Equal(time.Now().Add(time.Hour)) {
				t.Errorf("%d: %+v, want an hour", year, all)
			}
		})
	}
}

// A scope for which there is no room pauses the host, but its guesses are not the host's.
func TestGuessesOfAScopeWithoutRoomAreNotTheHosts(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.MaxKeys, c.MaxWait = 1, -1
		for _, key := range []string{"a", "b"} {
			c.Restore.Cooldowns = append(c.Restore.Cooldowns, governor.LearnedCooldown{
				Scope: tenant(key), Until: time.Now().Add(time.Minute), Guesses: 5, Guess: 4 * time.Minute,
			})
		}
	}, func(t *testing.T, g *governor.Plain) {
		s := governortest.NewScript(governortest.Limited(throttle.Unknown))
		call(t, g, s.Call)
		since(t, "second attempt", s.Starts()[0], s.Starts()[1], 15*time.Second)
	})
}

func TestGarbageIsNotRestored(t *testing.T) {
	now := time.Now().Add(time.Hour)
	cd := func(c governor.LearnedCooldown) governor.Learned {
		return governor.Learned{Cooldowns: []governor.LearnedCooldown{{Until: now}, c}}
	}
	rate := func(r limiter.Learned) governor.Learned {
		return governor.Learned{Rates: []governor.LearnedRate{{Learned: r}}}
	}
	for want, l := range map[string]governor.Learned{
		"Config.Restore.Cooldowns[1].Scope is request, want one of the host, a selector, a tenant or a bucket": cd(governor.LearnedCooldown{Scope: throttle.Scope{Level: throttle.Request}, Until: now}),
		"Config.Restore.Cooldowns[1].Scope is invalid:, want":                                                  cd(governor.LearnedCooldown{Scope: throttle.Scope{Level: 9}, Until: now}),
		`Config.Restore.Cooldowns[1].Scope.Key is "x", want none for the host`:                                 cd(governor.LearnedCooldown{Scope: throttle.Scope{Key: "x"}, Until: now}),
		"Config.Restore.Cooldowns[1].Until is zero, want a time":                                               cd(governor.LearnedCooldown{}),
		"Config.Restore.Cooldowns[1].Signal.Kind is 99, want a kind that there is":                             cd(governor.LearnedCooldown{Until: now, Signal: throttle.Signal{Kind: 99}}),
		"Config.Restore.Cooldowns[1].Guesses is -1, want 0 to 1048576":                                         cd(governor.LearnedCooldown{Until: now, Guesses: -1}),
		"Config.Restore.Cooldowns[1].Guesses is 9223372036854775807, want 0":                                   cd(governor.LearnedCooldown{Until: now, Guesses: math.MaxInt}),
		"Config.Restore.Cooldowns[1].Guess is -1ns, want 0 or more":                                            cd(governor.LearnedCooldown{Until: now, Guess: -1}),
		"Config.Restore.Rates[0].Per is 4, want host, selector, tenant or bucket":                              {Rates: []governor.LearnedRate{{Per: throttle.Request}}},
		"Config.Restore.Rates[0]: limiter: Learned.Rate is NaN, want":                                          rate(limiter.Learned{Rate: math.NaN()}),
		"Config.Restore.Rates[0]: limiter: Learned.Pause is -1ns, want":                                        rate(limiter.Learned{Rate: 1, Pause: -1}),
	} {
		if g, err := governor.New(governor.PlainConfig{Name: "x", Restore: l}); g != nil || err == nil || !strings.HasPrefix(err.Error(), "governor: "+want) {
			t.Errorf("got %v, want governor: %s", err, want)
		}
	}
}

func TestExportOfAClosedGovernor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: time.Minute})
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if l := g.Export(); len(l.Cooldowns) != 1 || !l.Cooldowns[0].Until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("%+v", l)
		}
	})
}

// Whatever a file holds, New says what is wrong with it or runs, and what runs
// starts within MaxCooldown.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"when":"2026-01-01T00:00:00Z","cooldowns":[{"scope":{"level":"tenant","key":"a"},"until":"2026-01-01T00:10:00Z","signal":{"kind":"quota","scope":{"level":"host"},"delay":1},"guesses":2,"guess":3}],"rates":[{"per":"host","rate":10,"pause":1000000000,"when":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"cooldowns":[{"scope":{"level":"host"},"until":"9999-01-01T00:00:00Z","guesses":1000000,"guess":9223372036854775807}]}`))
	f.Add([]byte(`{"rates":[{"per":"host","rate":1e-300,"burst":1e9,"pause":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l governor.Learned
		if json.Unmarshal(b, &l) != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			g, err := governor.New(governor.PlainConfig{Name: "x", MaxWait: -1, Restore: l})
			if err != nil {
				if !strings.HasPrefix(err.Error(), "governor: Config.Restore.") {
					t.Errorf("%v", err)
				}
				return
			}
			start := time.Now()
			if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil || time.Since(start) > 24*time.Hour {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if _, err := json.Marshal(g.Export()); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}
