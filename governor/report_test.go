package governor_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// saying is a closure that reports quotas and takes d.
func saying(d time.Duration, quotas ...throttle.Quota) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(ctx context.Context) (int, error) {
		time.Sleep(d)
		return 0, governor.Report(ctx, quotas...)
	})
}

// within returns what is left of a quota until in from now.
func within(remaining int64, in time.Duration) throttle.Quota {
	return throttle.Quota{Limit: -1, Remaining: remaining, Reset: time.Now().Add(in), Cost: -1}
}

func of(sc throttle.Scope, q throttle.Quota) throttle.Quota {
	q.Scope = sc
	return q
}

func call(t *testing.T, g *governor.Plain, fn func(context.Context, struct{}) (int, error)) {
	t.Helper()
	if _, err := governor.Do(t.Context(), g, "", fn); err != nil {
		t.Fatal(err)
	}
}

func TestSpentQuotaPausesItsScopeUntilReset(t *testing.T) {
	for _, tt := range []struct {
		level throttle.Level
		free  governor.Ask
		sel   string
	}{
		{throttle.Host, governor.Ask{}, ""},
		{throttle.Selector, governor.Ask{Tenant: "a", Bucket: "x"}, "r"},
		{throttle.Tenant, governor.Ask{Tenant: "b", Bucket: "x"}, "s"},
		{throttle.Bucket, governor.Ask{Tenant: "a", Bucket: "y"}, "s"},
		{throttle.Request, governor.Ask{Tenant: "a", Bucket: "x"}, "s"},
	} {
		t.Run(tt.level.String(), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g)
				start := time.Now()
				q := of(throttle.Scope{Level: tt.level}, within(0, 42*time.Second))
				q.Limit, q.Name = 100, "calls"
				own := g.With(governor.Ask{Tenant: "a", Bucket: "x"})
				if _, err := governor.Do(t.Context(), own, "s", saying(0, q)); err != nil {
					t.Fatal(err)
				}
				var same, other time.Time
				a := governor.Submit(t.Context(), own, "s", stamp(&same))
				b := governor.Submit(t.Context(), g.With(tt.free), tt.sel, stamp(&other))
				synctest.Wait()
				s := g.Stats()
				<-a.Done()
				<-b.Done()
				synctest.Wait()
				wantSame, wantOther := 42*time.Second, time.Duration(0)
				switch tt.level {
				case throttle.Host:
					wantOther = wantSame
				case throttle.Request:
					wantSame = 0
				}
				since(t, "same scope", start, same, wantSame)
				since(t, "other scope", start, other, wantOther)
				if tt.level == throttle.Request {
					return
				}
				if len(s.Cooldowns) != 1 || s.Cooldowns[0].Signal.Kind != throttle.KindQuota || s.Cooldowns[0].Signal.Source != "calls: remaining 0 of 100" {
					t.Errorf("cooldowns %+v", s.Cooldowns)
				}
				if s.Limited != 0 || rec.Count(event.Probe) != 1 {
					t.Errorf("limited %d, %d probes, want 0 and 1: it is no refusal, but it is a cooldown", s.Limited, rec.Count(event.Probe))
				}
			})
		})
	}
}

func TestSpentQuotaBeyondMaxWaitFailsAtOnceWithItsReset(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		q := within(0, 3*time.Hour)
		first := governor.Submit(t.Context(), g, "", saying(time.Second, q))
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		_, err := queued.Result(t.Context())
		since(t, "the queued one failed", start, time.Now(), time.Second)
		var ce *governor.CooldownError
		if !errors.As(err, &ce) || !ce.Until.Equal(q.Reset) || ce.Signal.Kind != throttle.KindQuota {
			t.Errorf("%v, want a *CooldownError of kind quota until %v", err, q.Reset)
		}
		if _, err := first.Result(t.Context()); err != nil {
			t.Errorf("the one that was answered: %v", err)
		}
	})
}

// A signal of kind quota, too: Until is the vendor's own time.
func TestQuotaSignalBeyondMaxWaitFailsAtOnceWithItsReset(t *testing.T) {
	for _, tt := range []struct {
		in   time.Duration
		fail bool
	}{{15 * time.Minute, false}, {15*time.Minute + 1, true}, {11 * time.Hour, true}} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			reset := start.Add(tt.in)
			s := governortest.NewScript(&governortest.Refusal{Signals: []throttle.Signal{{Kind: throttle.KindQuota, Until: reset}}})
			_, err := governor.Do(t.Context(), g, "", s.Call)
			var ce *governor.CooldownError
			switch {
			case !tt.fail && err != nil:
				t.Errorf("%v: %v, want it to wait", tt.in, err)
			case !tt.fail:
				since(t, "second attempt", start, s.Starts()[1], tt.in)
			case !errors.As(err, &ce) || !ce.Until.Equal(reset) || ce.Signal.Kind != throttle.KindQuota || ce.RetryAfter() != tt.in:
				t.Errorf("%v: %v, want a *CooldownError until %v", tt.in, err, reset)
			}
		})
	}
}

func TestFreshEvidenceEndsACooldown(t *testing.T) {
	ann := tenant("ann")
	for _, tt := range []struct {
		name    string
		early   bool // the call is sent before the signal
		evident throttle.Quota
		want    time.Duration
	}{
		{"quota again", false, throttle.Quota{Scope: ann, Remaining: 5}, 2 * time.Second},
		{"of a call sent before the signal", true, throttle.Quota{Scope: ann, Remaining: 5}, 100 * time.Second},
		{"none", false, throttle.Quota{Scope: ann, Limit: 10}, 100 * time.Second},
		{"not said", false, throttle.Quota{Scope: ann, Remaining: -1, Limit: 10}, 100 * time.Second},
		{"of the host", false, throttle.Quota{Remaining: 5}, 100 * time.Second},
		{"of another tenant", false, throttle.Quota{Scope: tenant("eve"), Remaining: 5}, 100 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Cleared, event.Ramp)
				start := time.Now()
				call := func() { governor.Submit(t.Context(), g, "", saying(2*time.Second, tt.evident)) }
				if tt.early {
					call()
					synctest.Wait()
				}
				g.Learn(throttle.Signal{Scope: ann, Delay: 100 * time.Second})
				if !tt.early {
					call()
				}
				var at time.Time
				<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "ann"}), "", stamp(&at)).Done()
				since(t, "start", start, at, tt.want)
				synctest.Wait()
				if got, want := rec.Count(event.Cleared), tt.want == 2*time.Second; got == 1 != want {
					t.Errorf("%d Cleared", got)
				}
			})
		})
	}
}

// The signal that was heard last decides what is fresh, not the one that began it.
func TestEvidenceOlderThanTheLatestSignalEndsNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 100 * time.Second})
		governor.Submit(t.Context(), g, "", saying(2*time.Second, throttle.Quota{Scope: tenant("a"), Remaining: 5}))
		time.Sleep(time.Second)
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Second}) // it moves nothing, but it is news
		var at time.Time
		<-governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", stamp(&at)).Done()
		since(t, "start", start, at, 100*time.Second)
	})
}

func TestAfterEvidenceTrafficGrowsWithoutAProbe(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 16 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: 100 * time.Second})
		at := make([]time.Time, 14)
		var reqs []*governor.Request[int]
		for i := range at {
			reqs = append(reqs, governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(context.Context) (int, error) {
				at[i] = time.Now()
				time.Sleep(time.Second)
				return 0, nil
			})))
		}
		call(t, g, saying(0, throttle.Quota{Scope: tenant("a"), Remaining: 100}))
		perSecond := map[time.Duration]int{}
		for i, r := range reqs {
			<-r.Done()
			perSecond[at[i].Sub(start)]++
		}
		if perSecond[0] != 2 || perSecond[time.Second] != 4 || perSecond[2*time.Second] != 8 {
			t.Errorf("starts per second %v, want 2, 4, 8", perSecond)
		}
	})
}

// What a limit was told before does not outlive the cooldown that evidence ended.
func TestEvidenceIsBelievedByTheLimits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		reset := start.Add(time.Hour / 6)
		host := func(n int64) throttle.Quota { return throttle.Quota{Limit: 100, Remaining: n, Reset: reset} }
		call(t, g, saying(0, host(1)))
		call(t, g, saying(0, host(0)))
		g.Clear(throttle.Scope{}) // an operator knows better
		if s := g.Stats(); len(s.Cooldowns) != 0 {
			t.Fatalf("cooldowns %+v", s.Cooldowns)
		}
		call(t, g, saying(time.Second, host(50)))
		call(t, g, sleep(0))
		since(t, "end", start, time.Now(), time.Second)
	})
}

func TestProbeThatSaysThereIsQuotaLetsOthersFollow(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Delay: 10 * time.Second})
		end := time.Now().Add(10 * time.Second)
		governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			if err := governor.Report(ctx, throttle.Quota{Remaining: 9}); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Second)
			return 0, nil
		}))
		var at time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&at)).Done()
		since(t, "the second", end, at, time.Second)
	})
}

// told is a limiter that notes what it is told.
type told struct {
	limiter.Limiter
	log       []throttle.Quota
	forgotten []string
}

func (l *told) Told(now, sent time.Time, q throttle.Quota) { l.log = append(l.log, q) }
func (l *told) Forget(_ time.Time, key string)             { l.forgotten = append(l.forgotten, key) }

func TestProbeThatSaysThatNothingIsLeftEndsTheGuessing(t *testing.T) {
	for _, spent := range []bool{false, true} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			rec := governortest.Record(g, event.Cooling)
			n := 0
			fn := governor.Func(func(ctx context.Context) (int, error) {
				if n++; n != 2 {
					return 0, governortest.Limited(throttle.Unknown)
				}
				if spent {
					return n, governor.Report(ctx, within(0, time.Minute))
				}
				return n, nil
			})
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				governor.Do(ctx, g, "", fn)
				cancel()
			}
			var guessed []time.Duration
			for _, e := range rec.Events() {
				guessed = append(guessed, e.Delay)
			}
			if spent {
				guessed = slices.Delete(guessed, 1, 2)
			}
			if len(guessed) < 2 || guessed[0] != guessed[1] {
				t.Errorf("spent %v: guesses %v, want after the success the first again", spent, guessed)
			}
		})
	}
}

// A success of a call that began before a guess says nothing about that.
func TestSuccessOfAnEarlierCallDoesNotEndTheGuessing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Cooling)
		unknown := governortest.NewScript(governortest.Limited(throttle.Unknown))
		call(t, g, unknown.Call) // refused, and then its probe
		early := governor.Submit(t.Context(), g, "", sleep(10*time.Second))
		synctest.Wait() // it has begun
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		refused := governortest.Limited(throttle.Unknown)
		governor.Do(ctx, g, "", governortest.NewScript(refused, refused).Call)
		<-early.Done()
		var guessed []time.Duration
		for _, e := range rec.Events() {
			guessed = append(guessed, e.Delay)
		}
		if want := []time.Duration{15 * time.Second, 15 * time.Second, 30 * time.Second}; !slices.Equal(guessed, want) {
			t.Errorf("guesses %v, want %v", guessed, want)
		}
	})
}

func TestLimitsOfTheLevelAreTold(t *testing.T) {
	host, perTenant, count := &told{Limiter: newBucket(t, 1000, 1000)}, &told{Limiter: newBucket(t, 1000, 1000)}, newBucket(t, 1, 50)
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: host}, {Per: throttle.Tenant, Limiter: perTenant}, {Per: throttle.Tenant, Limiter: count}}
	}, func(t *testing.T, g *governor.Plain) {
		reset := time.Now().Add(time.Minute)
		a := g.With(governor.Ask{Tenant: "a"})
		if _, err := governor.Do(t.Context(), a, "", saying(0, throttle.Quota{Limit: 100, Remaining: 90, Reset: reset}, throttle.Quota{Scope: tenant(""), Limit: 10, Remaining: 3, Reset: reset})); err != nil {
			t.Fatal(err)
		}
		if len(host.log) != 1 || host.log[0].Remaining != 90 {
			t.Errorf("the host's was told %+v", host.log)
		}
		if len(perTenant.log) != 1 || perTenant.log[0].Scope != tenant("a") || perTenant.log[0].Remaining != 3 || !perTenant.log[0].Reset.Equal(reset) {
			t.Errorf("the tenants' was told %+v", perTenant.log)
		}
		if got := count.Available(time.Now(), "a"); got != 3 {
			t.Errorf("%d available, want the vendor's 3", got)
		}
	})
}

// Of a cooldown that evidence or an operator ends, no limit keeps what it was told.
func TestLimitsForgetWhatACooldownWasToldBy(t *testing.T) {
	l := &told{Limiter: newBucket(t, 1000, 1000)}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: l}} }, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: tenant("a"), Delay: time.Minute})
		call(t, g, saying(0, throttle.Quota{Scope: tenant("b"), Remaining: 5})) // b is not cooling
		call(t, g, saying(0, throttle.Quota{Scope: tenant("a"), Remaining: 5}))
		g.Clear(throttle.Scope{})
		g.Clear(tenant("c"))
		if got := strings.Join(l.forgotten, ","); got != "a,c" {
			t.Errorf("forgotten %q, want a,c", got)
		}
	})
}

// The first answer about a quota does not know of the calls that started after the one it
// answers, which nobody had counted while everything passed.
func TestFirstReportedRemainingCountsWhatIsUnderWay(t *testing.T) {
	for name, start := range map[string]func(*governor.Plain, func(context.Context, struct{}) (int, error)){
		"Submit": func(g *governor.Plain, fn func(context.Context, struct{}) (int, error)) {
			governor.Submit(context.Background(), g, "", fn)
		},
		"Do": func(g *governor.Plain, fn func(context.Context, struct{}) (int, error)) {
			go governor.Do(context.Background(), g, "", fn)
		},
	} {
		for _, takes := range []time.Duration{300 * time.Millisecond, 30 * time.Second} {
			bubble(t, func(c *governor.PlainConfig) { c.Workers = 1000 }, func(t *testing.T, g *governor.Plain) {
				var since atomic.Int32
				reset := time.Now().Add(time.Minute)
				longer := governor.Func(func(context.Context) (int, error) { since.Add(1); time.Sleep(takes); return 0, nil })
				for range 10 {
					start(g, sleep(200*time.Millisecond)) // which the vendor counts, too
					synctest.Wait()
				}
				time.Sleep(time.Millisecond)
				start(g, saying(100*time.Millisecond, throttle.Quota{Limit: -1, Remaining: 60, Reset: reset, Cost: -1}))
				for range 50 {
					time.Sleep(time.Microsecond)
					start(g, longer)
				}
				time.Sleep(150 * time.Millisecond) // what was on its way has not ended
				for range 200 {
					start(g, longer)
					synctest.Wait()
				}
				time.Sleep(50 * time.Second)
				if n := since.Load(); n != 60 {
					t.Errorf("%s, calls of %v: %d before the reset, want 60, as the answer to the one before them said", name, takes, n)
				}
				g.Close()
			})
		}
	}
}

// passed counts what an Adaptive is told of.
type passed struct {
	*limiter.Adaptive
	lax bool
	n   int
}

func (p *passed) Lax() bool { return p.lax || p.Adaptive.Lax() }

func (p *passed) Passed(now time.Time, key string, n int) {
	p.n += n
	p.Adaptive.Passed(now, key, n)
}

func (p *passed) Take(now time.Time, key string, n int) {
	p.n += n
	p.Adaptive.Take(now, key, n)
}

// What answers say of other scopes, or of a limit that lets everything pass nevertheless,
// does not have calls told of more than once.
func TestReportsTellALimitOfEachCallOnce(t *testing.T) {
	for _, level := range []throttle.Level{throttle.Host, throttle.Tenant, throttle.Bucket} {
		adaptive, err := limiter.NewAdaptive(limiter.AdaptiveConfig{})
		if err != nil {
			t.Fatal(err)
		}
		l := &passed{Adaptive: adaptive, lax: level == throttle.Host}
		set := func(c *governor.PlainConfig) { c.Workers, c.Limits = 100, []governor.Limit{{Limiter: l}} }
		bubble(t, set, func(t *testing.T, g *governor.Plain) {
			said := throttle.Quota{Scope: throttle.Scope{Level: level}, Limit: 1e6, Remaining: 1e6, Reset: time.Now().Add(time.Hour), Cost: -1}
			all := g.With(governor.Ask{Tenant: "t", Bucket: "b"})
			var calls []*governor.Request[int]
			for i := range 1000 {
				calls = append(calls, governor.Submit(t.Context(), all, "", saying(time.Second+time.Duration(i%100)*time.Millisecond, said)))
			}
			for _, r := range calls {
				r.Result(t.Context())
			}
			l.lax = false
			call(t, g, saying(0))
			if l.n < 990 || l.n > 1001 { // what ends just now may be told of by whoever is later
				t.Errorf("%v: the limit of the host is told of %d calls, there were 1001", level, l.n)
			}
		})
	}
}

func TestReportedRemainingHoldsTheAdaptiveUntilReset(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		call(t, g, saying(0, within(3, time.Minute)))
		var at [4]time.Time
		var reqs []*governor.Request[int]
		for i := range at {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", stamp(&at[i])))
		}
		for i, r := range reqs {
			<-r.Done()
			want := time.Duration(0)
			if i == 3 {
				want = time.Minute
			}
			since(t, "start", start, at[i], want)
		}
	})
}

func TestHostileQuotasAreTidied(t *testing.T) {
	century := time.Now().AddDate(500, 0, 0)
	for name, tt := range map[string]struct {
		q       throttle.Quota
		pause   time.Duration
		clamped int
	}{
		"zero":                          {q: throttle.Quota{}},
		"cost alone":                    {q: throttle.Quota{Cost: 3}},
		"negative everything":           {q: throttle.Quota{Limit: math.MinInt64, Remaining: math.MinInt64, Cost: math.MinInt64, Reset: century}, clamped: 1},
		"largest everything":            {q: throttle.Quota{Limit: math.MaxInt64, Remaining: math.MaxInt64, Cost: math.MaxInt64, Reset: century}, clamped: 1},
		"spent until the past":          {q: throttle.Quota{Reset: time.Unix(1, 0)}},
		"spent until the year 1":        {q: throttle.Quota{Reset: time.Time{}.Add(1)}},
		"spent until for centuries":     {q: throttle.Quota{Reset: century}, pause: 24 * time.Hour, clamped: 1},
		"spent until in a moment":       {q: throttle.Quota{Reset: time.Date(2000, 1, 1, 0, 0, 0, 1, time.UTC)}, pause: 100 * time.Millisecond},
		"spent, but until when":         {q: throttle.Quota{Limit: 10}},
		"spent, of a level that is new": {q: throttle.Quota{Scope: throttle.Scope{Level: 99, Key: "x"}, Reset: time.Date(2000, 1, 1, 0, 0, 9, 0, time.UTC)}, pause: 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
				rec := governortest.Record(g, event.Clamped)
				start := time.Now() // 2000-01-01 in a bubble
				call(t, g, saying(0, tt.q))
				call(t, g, sleep(0))
				since(t, "the next", start, time.Now(), tt.pause)
				synctest.Wait()
				if n := rec.Count(event.Clamped); n != tt.clamped {
					t.Errorf("%d Clamped, want %d", n, tt.clamped)
				}
			})
		})
	}
}

func TestReportOutsideAnAttempt(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		both := func(when string, ctx context.Context, want error) {
			t.Helper()
			if err := governor.Report(ctx, within(0, time.Hour)); err != want {
				t.Errorf("%s: Report: %v, want %v", when, err, want)
			}
			if err := governor.Settle(ctx, 1); err != want {
				t.Errorf("%s: Settle: %v, want %v", when, err, want)
			}
		}
		both("no context", nil, governor.ErrNoAttempt) //nolint:staticcheck // on purpose
		both("a context of nobody's", t.Context(), governor.ErrNoAttempt)
		var ctx context.Context
		var release func(error)
		call(t, g, governor.Func(func(c context.Context) (int, error) { ctx = c; return 0, nil }))
		both("after the closure", ctx, governor.ErrNoAttempt)
		call(t, g, governor.Func(func(c context.Context) (int, error) { ctx, release = c, governor.Hold(c); return 0, nil }))
		if err := governor.Report(ctx); err != nil {
			t.Errorf("while held: %v", err)
		}
		if err := governor.Settle(ctx, 1); err != nil {
			t.Errorf("while held: %v", err)
		}
		release(nil)
		both("after the hold", ctx, governor.ErrNoAttempt)
		_, _ = governor.Do(t.Context(), g, "", governor.Func(func(c context.Context) (int, error) {
			ctx = c
			governor.Hold(c)
			return 0, errors.New("failed")
		}))
		both("after a failure", ctx, governor.ErrNoAttempt)
		if s := g.Stats(); len(s.Cooldowns) != 0 {
			t.Errorf("cooldowns %+v", s.Cooldowns)
		}
	})
}

func TestOpenOfAConnectionIsNoAttempt(t *testing.T) {
	var g *connected
	var kept context.Context
	withPool(t, func(c *governor.Config[string, *conn]) {
		open := c.Pool.Open
		c.Workers = 1
		c.Pool.Open = func(ctx context.Context, sel string) (*conn, error) {
			kept = ctx
			if err := governor.Report(ctx, within(0, time.Hour)); err != governor.ErrNoAttempt {
				t.Errorf("Report: %v", err)
			}
			if err := governor.Settle(ctx, 7); err != governor.ErrNoAttempt {
				t.Errorf("Settle: %v", err)
			}
			if info, ok := retry.FromContext(ctx); ok {
				t.Errorf("retry.FromContext: %+v", info)
			}
			governor.Hold(ctx)
			if _, err := governor.Do(ctx, g, sel, use(0)); !errors.Is(err, governor.ErrReentrant) {
				t.Errorf("a call, with the only slot taken: %v, want ErrReentrant", err)
			}
			return open(ctx, sel)
		}
	}, func(t *testing.T, made *connected, _, _ *atomic.Int64) {
		g = made
		if _, err := governor.Do(t.Context(), g, "a", func(ctx context.Context, _ *conn) (int, error) {
			if err := governor.Settle(kept, 7); err != governor.ErrNoAttempt {
				t.Errorf("Settle with what Open was given, while the closure runs: %v", err)
			}
			return 0, governor.Settle(ctx, 1)
		}); err != nil {
			t.Error(err)
		}
		if s := g.Stats(); s.InFlight != 0 || len(s.Cooldowns) != 0 {
			t.Errorf("afterwards %d are in flight, cooldowns %+v", s.InFlight, s.Cooldowns)
		}
	})
}

// The context says which governor's attempt it is: the innermost.
func TestReportGoesToTheGovernorOfTheContext(t *testing.T) {
	bubble(t, nil, func(t *testing.T, outer *governor.Plain) {
		inner, err := governor.New(governor.PlainConfig{Name: "inner"})
		if err != nil {
			t.Fatal(err)
		}
		call(t, outer, governor.Func(func(ctx context.Context) (int, error) {
			return governor.Do(ctx, inner, "", saying(0, within(0, time.Hour)))
		}))
		if a, b := len(outer.Stats().Cooldowns), len(inner.Stats().Cooldowns); a != 0 || b != 1 {
			t.Errorf("%d cooldowns outside, %d inside, want 0 and 1", a, b)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
}

// quoting reads quotas from errors, too.
type quoting struct{ governortest.Vendor }

type quoted struct {
	error
	quotas []throttle.Quota
}

func (q quoted) Unwrap() error { return q.error }

func (quoting) Quotas(err error, _ time.Time) []throttle.Quota {
	if e, ok := errors.AsType[quoted](err); ok {
		if e.quotas == nil {
			panic("no quotas")
		}
		return e.quotas
	}
	return nil
}

func TestQuotasOfErrors(t *testing.T) {
	set := func(c *governor.PlainConfig) { c.Vendor = quoting{}; c.MaxWait = -1 }
	for _, tt := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"a failure that says that nothing is left", quoted{errors.New("not found"), []throttle.Quota{within(0, 0)}}, 40 * time.Second},
		{"a refusal's pause is its signal's", quoted{governortest.Limited(10 * time.Second), []throttle.Quota{within(0, 0)}}, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, set, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				e, _ := errors.AsType[quoted](tt.err)
				e.quotas[0].Reset = start.Add(40 * time.Second)
				_, _ = governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governor.Func(func(context.Context) (int, error) { return 0, tt.err }))
				call(t, g, sleep(0))
				since(t, "the next", start, time.Now(), tt.want)
			})
		})
	}
	t.Run("a panic is no quota", func(t *testing.T) {
		bubble(t, set, func(t *testing.T, g *governor.Plain) {
			_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, quoted{error: errors.New("x")} }))
			if err == nil || err.Error() != "x" || g.Stats().BadVendor != 1 {
				t.Errorf("%v, %d bad", err, g.Stats().BadVendor)
			}
		})
	})
}

func TestSettleGivesBackAndCharges(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(ctx context.Context) error
		want int // left of 100 after an attempt of 10
	}{
		{"nothing said", func(context.Context) error { return nil }, 90},
		{"less", func(ctx context.Context) error { return governor.Settle(ctx, 4) }, 96},
		{"nothing", func(ctx context.Context) error { return governor.Settle(ctx, 0) }, 100},
		{"more", func(ctx context.Context) error { return governor.Settle(ctx, 150) }, -50},
		{"the last one counts", func(ctx context.Context) error {
			return errors.Join(governor.Settle(ctx, 70), governor.Settle(ctx, 5))
		}, 95},
		{"by a report", func(ctx context.Context) error { return governor.Report(ctx, throttle.Quota{Cost: 25}) }, 75},
		{"by a report, the highest", func(ctx context.Context) error {
			return governor.Report(ctx, throttle.Quota{Cost: 25}, throttle.Quota{Cost: 30, Scope: tenant("")}, throttle.Quota{Cost: -1})
		}, 70},
		{"a report without a cost", func(ctx context.Context) error {
			return errors.Join(governor.Settle(ctx, 30), governor.Report(ctx, throttle.Quota{Cost: -1, Remaining: -1}, throttle.Quota{}))
		}, 70},
		{"by a later report", func(ctx context.Context) error {
			return errors.Join(governor.Settle(ctx, 30), governor.Report(ctx, throttle.Quota{Cost: -1}, throttle.Quota{Cost: 20}))
		}, 80},
		{"from another goroutine", func(ctx context.Context) (err error) {
			var wg sync.WaitGroup
			wg.Go(func() { err = governor.Settle(ctx, 7) })
			wg.Wait()
			return err
		}, 93},
	} {
		t.Run(tt.name, func(t *testing.T) {
			window, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 100, Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: window}} }, func(t *testing.T, g *governor.Plain) {
				if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 10}), "", governor.Func(func(ctx context.Context) (int, error) { return 0, tt.say(ctx) })); err != nil {
					t.Fatal(err)
				}
				if got := window.Available(time.Now(), ""); got != tt.want {
					t.Errorf("%d left, want %d", got, tt.want)
				}
			})
		})
	}
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		call(t, g, governor.Func(func(ctx context.Context) (int, error) {
			for _, bad := range []int{-1, math.MinInt, math.MaxInt32 + 1, math.MaxInt} {
				if err := governor.Settle(ctx, bad); err == nil || !strings.Contains(err.Error(), "governor: cost is ") {
					t.Errorf("%d: %v", bad, err)
				}
			}
			return 0, nil
		}))
	})
}

func TestWhatIsGivenBackWakesWhoWaitsForIt(t *testing.T) {
	window, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 10, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: window}} }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		governor.Submit(t.Context(), g.With(governor.Ask{Cost: 10}), "", governor.Func(func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			return 0, governor.Settle(ctx, 3)
		}))
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 7}), "", sleep(0)); err != nil {
			t.Fatal(err)
		}
		since(t, "end", start, time.Now(), time.Second)
	})
}

// A Bucket gives back exactly that much only when every take was settled, those
// that said nothing, too.
func TestEveryTakeIsSettled(t *testing.T) {
	bucket := newBucket(t, 10, 100)
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Limiter: bucket}} }, func(t *testing.T, g *governor.Plain) {
		for range 50 {
			if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 10}), "", sleep(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := governor.Do(t.Context(), g.With(governor.Ask{Cost: 100}), "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, governor.Settle(ctx, 40)
		})); err != nil {
			t.Fatal(err)
		}
		if got := bucket.Available(time.Now(), ""); got != 60 {
			t.Errorf("%d left, want 60", got)
		}
	})
}

// A vendor that says a call cost more than there is in a century does not stop
// the governor for one.
func TestDebtIsPaidWithinMaxCooldown(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: newBucket(t, 1, 10)}}
		c.MaxCooldown = time.Hour
	}, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Clamped)
		start := time.Now()
		call(t, g, saying(0, throttle.Quota{Cost: math.MaxInt64}))
		call(t, g, sleep(0))
		if took := time.Since(start); took > time.Hour || took < 59*time.Minute {
			t.Errorf("the next after %v, want about an hour", took)
		}
		synctest.Wait()
		if rec.Count(event.Clamped) != 1 {
			t.Errorf("%d Clamped, want 1", rec.Count(event.Clamped))
		}
	})
}

// Nobody else's calls are fair to have for years on end because of one header.
func TestAbsurdCostDoesNotStarveItsTenant(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.MaxQueue = 1, 100_000 }, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Clamped)
		var a, b atomic.Int64
		submit := func(tenant string, made *atomic.Int64, n int, cost int64) {
			view := g.With(governor.Ask{Tenant: tenant})
			for i := range n {
				governor.Submit(t.Context(), view, "", governor.Func(func(ctx context.Context) (int, error) {
					made.Add(1)
					time.Sleep(10 * time.Millisecond)
					if i == 0 && cost > 0 {
						_ = governor.Report(ctx, throttle.Quota{Limit: -1, Remaining: -1, Cost: cost})
					}
					return 0, nil
				}))
			}
		}
		submit("a", &a, 5_000, 1<<40)
		submit("b", &b, 30_000, 0)
		time.Sleep(120*time.Second + time.Millisecond)
		if n := a.Load(); n < 4_900 || n > 5_000 {
			t.Errorf("a made %d calls, b %d", n, b.Load())
		}
		if rec.Count(event.Clamped) != 1 || g.Stats().Clamped != 1 {
			t.Errorf("%d Clamped, want 1", rec.Count(event.Clamped))
		}
	})
}

// A limit of calls at once gets each back when it has ended, however.
func TestConcurrencyLimitIsReleased(t *testing.T) {
	limit, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 2, AskAgain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(c *governor.PlainConfig) { c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: limit}} }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var reqs []*governor.Request[int]
		for i := range 10 {
			reqs = append(reqs, governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				time.Sleep(time.Second)
				switch i % 5 {
				case 0:
					return 0, errors.New("failed")
				case 1:
					panic("failed")
				case 2:
					return 0, governor.Settle(ctx, 2)
				}
				return 0, nil
			})))
		}
		for _, r := range reqs {
			<-r.Done()
		}
		since(t, "end", start, time.Now(), 5*time.Second)
		if n := limit.Available(time.Now(), ""); n != 2 {
			t.Errorf("%d available, want 2", n)
		}
	})
}

func TestSpendEvenlyMakesRemainingLastUntilReset(t *testing.T) {
	for _, level := range []throttle.Level{throttle.Host, throttle.Selector, throttle.Tenant, throttle.Bucket} {
		bubble(t, func(c *governor.PlainConfig) { c.SpendEvenly, c.NoPace = true, true }, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			reset, left := start.Add(time.Minute), int64(11)
			own := g.With(governor.Ask{Tenant: "a", Bucket: "x"})
			at := make([]time.Time, 11)
			call := func(i int) func(context.Context, struct{}) (int, error) {
				return governor.Func(func(ctx context.Context) (int, error) {
					at[i] = time.Now()
					left--
					return 0, governor.Report(ctx, throttle.Quota{Scope: throttle.Scope{Level: level}, Limit: -1, Remaining: left, Reset: reset, Cost: -1})
				})
			}
			if _, err := governor.Do(t.Context(), own, "s", call(0)); err != nil {
				t.Fatal(err)
			}
			var reqs []*governor.Request[int]
			for i := range at[1:] {
				reqs = append(reqs, governor.Submit(t.Context(), own, "s", call(i+1)))
			}
			for _, r := range reqs {
				<-r.Done()
			}
			for i, a := range at[1:] {
				if d := a.Sub(start) - time.Duration(i)*6*time.Second; d < 0 || d > time.Microsecond {
					t.Errorf("%v: start %d at %v, want %v", level, i, a.Sub(start), time.Duration(i)*6*time.Second)
				}
			}
		})
	}
}

func TestReportCostsNoAllocation(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	q := throttle.Quota{Limit: 1000, Remaining: 900, Reset: time.Now().Add(time.Hour), Cost: 1}
	call(t, g, governor.Func(func(ctx context.Context) (int, error) {
		if n := testing.AllocsPerRun(100, func() { _ = governor.Report(ctx, q) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		return 0, nil
	}))
}

// One answer that says several things: those with a time all hold, a guess gives
// way to the vendor's own narrower word of the same kind.
func TestNarrowestOfTheVendorsOwnWordsWins(t *testing.T) {
	host, ann, alone := throttle.Scope{}, tenant(""), throttle.Scope{Level: throttle.Request}
	bucket := throttle.Scope{Level: throttle.Bucket}
	unknown := throttle.Unknown
	for _, tt := range []struct {
		name           string
		signals        []throttle.Signal
		own, sameOther time.Duration // the refused one; another request of no common tenant
		otherTenant    time.Duration
	}{
		{"a guess for the host, a time for the tenant", []throttle.Signal{{Scope: host, Delay: unknown}, {Scope: ann, Delay: 5 * time.Second}}, 5 * time.Second, 5 * time.Second, 0},
		{"in the other order", []throttle.Signal{{Scope: ann, Delay: 5 * time.Second}, {Scope: host, Delay: unknown}}, 5 * time.Second, 5 * time.Second, 0},
		{"a guess for the tenant, a time for the request", []throttle.Signal{{Scope: ann, Delay: unknown}, {Scope: alone, Delay: 5 * time.Second}}, 5 * time.Second, 0, 0},
		{"of different kinds", []throttle.Signal{{Kind: throttle.KindOverload, Delay: unknown}, {Kind: throttle.KindQuota, Scope: ann, Delay: 5 * time.Second}}, 15 * time.Second, 15 * time.Second, 15 * time.Second},
		{"a time for each", []throttle.Signal{{Delay: 5 * time.Second}, {Scope: ann, Delay: 9 * time.Second}}, 9 * time.Second, 9 * time.Second, 5 * time.Second},
		{"a guess for the narrower", []throttle.Signal{{Delay: 5 * time.Second}, {Scope: ann, Delay: unknown}}, 15 * time.Second, 15 * time.Second, 5 * time.Second},
		{"guesses only", []throttle.Signal{{Delay: unknown}, {Scope: ann, Delay: unknown}}, 15 * time.Second, 15 * time.Second, 15 * time.Second},
		{"the narrower is another's", []throttle.Signal{{Delay: unknown}, {Scope: tenant("eve"), Delay: 5 * time.Second}}, 15 * time.Second, 15 * time.Second, 15 * time.Second},
		{"neither is in the other", []throttle.Signal{{Scope: ann, Delay: unknown}, {Scope: bucket, Delay: 5 * time.Second}}, 15 * time.Second, 15 * time.Second, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				s := governortest.NewScript(&governortest.Refusal{Signals: tt.signals})
				start := time.Now()
				first := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "ann", Bucket: "x"}), "", s.Call)
				synctest.Wait()
				var same, other time.Time
				a := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "ann", Bucket: "x"}), "", stamp(&same))
				b := governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "bob", Bucket: "x"}), "", stamp(&other))
				<-first.Done()
				<-a.Done()
				<-b.Done()
				since(t, "the refused one", start, s.Starts()[1], tt.own)
				since(t, "its tenant", start, same, tt.sameOther)
				since(t, "another tenant", start, other, tt.otherTenant)
			})
		})
	}
}

func TestQuotaInAnotherUnitIsForCooldownsAlone(t *testing.T) {
	b := newBucket(t, 1, 100)
	bubble(t, func(c *governor.PlainConfig) {
		c.Limits = []governor.Limit{{Limiter: b}}
	}, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		in := func(unit string, remaining int64) throttle.Quota {
			return throttle.Quota{Unit: unit, Limit: 1000, Remaining: remaining, Reset: time.Now().Add(time.Minute), Cost: 50}
		}
		report := func(q throttle.Quota) {
			call(t, g, governor.Func(func(ctx context.Context) (int, error) { return 0, governor.Report(ctx, q) }))
		}
		report(in("tokens", 1))
		if n := b.Available(time.Now(), ""); n != 99 {
			t.Errorf("%d permits are left, want 99: tokens are no calls", n)
		}
		report(in("", 40))
		if n := b.Available(time.Now(), ""); n > 40 {
			t.Errorf("%d permits are left, want at most 40", n)
		}
		report(in("tokens", 0))
		call(t, g, sleep(0))
		since(t, "when no tokens are left, the next", start, time.Now(), time.Minute)
	})
}

func TestReportReachesTheLimitOfAKey(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		l, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 100, Per: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		c.NoPace = true
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"ann": l}})}}
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, who := range []string{"bob", "ann"} { // bob has no limit to be told
			governor.Do(ctx, forTenant(g, who), "", governor.Func(func(ctx context.Context) (int, error) {
				return 0, governor.Report(ctx, throttle.Quota{Scope: throttle.Scope{Level: throttle.Tenant}, Limit: 100, Remaining: 2, Cost: -1})
			}))
		}
		n := 0
		for ; n < 10; n++ {
			if _, err := governor.Do(ctx, forTenant(g, "ann"), "", sleep(0)); err != nil {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d calls in a minute, the vendor said that 2 are left", n)
		}
	})
}

func TestClearReachesTheLimitOfAKey(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		l, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 100, Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		c.NoPace = true
		c.Limits = []governor.Limit{{Per: throttle.Tenant, Limiter: byKey(t, limiter.ByKeyConfig{Keys: map[string]limiter.Limiter{"ann": l}})}}
	}, func(t *testing.T, g *governor.Plain) {
		ann := forTenant(g, "ann")
		governor.Do(t.Context(), ann, "", governor.Func(func(ctx context.Context) (int, error) {
			return 0, governor.Report(ctx, throttle.Quota{Scope: throttle.Scope{Level: throttle.Tenant}, Limit: 100, Remaining: 1, Reset: time.Now().Add(time.Hour), Cost: -1})
		}))
		in := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, err := governor.Do(ctx, ann, "", sleep(0))
			return err
		}
		if in(time.Minute) != nil || in(time.Minute) == nil {
			t.Fatal("not one call passed, which the vendor said was left")
		}
		g.Clear(tenant("ann"))
		if err := in(time.Minute); err != nil {
			t.Errorf("after Clear: %v", err)
		}
	})
}
