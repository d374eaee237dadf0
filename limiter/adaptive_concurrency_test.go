package limiter

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/policy"
)

func newConcurrency(t testing.TB, cfg AdaptiveConcurrencyConfig) *AdaptiveConcurrency {
	t.Helper()
	c, err := NewAdaptiveConcurrency(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// crowded drives a core against a server that does so many calls at once and takes
// longer in proportion when it is asked for more, with latencies ±20 %. It returns
// the mean limit over the last half of the calls.
func crowded(t *testing.T, c *AdaptiveConcurrency, seed uint64, from time.Duration, calls int, does func(now time.Duration) float64) (mean float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	now := from
	var running agenda
	for i := 0; i < calls; {
		if c.Wait(after(now), "", 1) == 0 {
			c.Take(after(now), "", 1)
			if c.Held() > max(1, c.Limit()) {
				t.Fatalf("%d held, limit %d", c.Held(), c.Limit())
			}
			took := 50 * max(1, float64(c.Held())/does(now)) * (0.8 + 0.4*rng.Float64())
			sent := now
			heap.Push(&running, simEvent{now + time.Duration(took*1e6), i, func() {
				c.Accepted(after(now), after(sent), "")
				c.Release(after(now), "", 1)
			}})
			if i++; i > calls/2 {
				mean += float64(c.Limit()) / float64(calls-calls/2)
			}
			continue
		}
		e := heap.Pop(&running).(simEvent)
		now = e.at
		e.do()
	}
	for len(running) > 0 {
		e := heap.Pop(&running).(simEvent)
		now = e.at
		e.do()
	}
	return mean
}

func TestAdaptiveConcurrencyFindsWhatAServerDoes(t *testing.T) {
	for _, does := range []float64{5, 20, 100, 400} {
		for seed := range uint64(effort.Times(1)) {
			c := newConcurrency(t, AdaptiveConcurrencyConfig{})
			got := crowded(t, c, seed, 0, 60_000, func(time.Duration) float64 { return does })
			t.Logf("a server for %v: limit %.0f", does, got)
			if got < does || got > 2.5*does+5 {
				t.Errorf("seed %d: limit %.0f for a server that does %v at once", seed, got, does)
			}
			if c.Held() != 0 {
				t.Errorf("%d held in the end", c.Held())
			}
		}
	}
}

func TestAdaptiveConcurrencyFollowsAServerThatGetsSlower(t *testing.T) {
	c := newConcurrency(t, AdaptiveConcurrencyConfig{})
	before := crowded(t, c, 1, 0, 20_000, func(time.Duration) float64 { return 100 })
	after := crowded(t, c, 1, time.Hour, 30_000, func(time.Duration) float64 { return 25 })
	if after < 25 || after > 70 {
		t.Errorf("limit %.0f, and %.0f when the server does a quarter", before, after)
	}
}

func TestAdaptiveConcurrencyStaysWhenUnused(t *testing.T) {
	c := newConcurrency(t, AdaptiveConcurrencyConfig{})
	for i := range 1000 {
		now := after(time.Duration(i) * time.Second)
		c.Take(now, "", 1)
		c.Accepted(now.Add(50*time.Millisecond), now, "")
		c.Release(now.Add(50*time.Millisecond), "", 1)
	}
	if c.Limit() != 20 {
		t.Errorf("limit %d, want 20 as before: one call at a time ran", c.Limit())
	}
}

func TestAdaptiveConcurrencyCutsOnceForAnEpisode(t *testing.T) {
	c := newConcurrency(t, AdaptiveConcurrencyConfig{Start: 100})
	for i := range 50 {
		c.Refused(after(time.Second+time.Duration(i)), after(0), "")
	}
	if c.Limit() != 90 {
		t.Errorf("limit %d after 50 refusals of calls sent at once, want 90", c.Limit())
	}
	for i := range 200 {
		c.Refused(after(time.Duration(2*i+2)*time.Second), after(time.Duration(2*i+1)*time.Second+1e6), "")
	}
	if c.Limit() != 1 {
		t.Errorf("limit %d, want 1, the least", c.Limit())
	}
}

func TestAdaptiveConcurrencyPermits(t *testing.T) {
	c := newConcurrency(t, AdaptiveConcurrencyConfig{Start: 4, Max: 10, AskAgain: time.Second})
	for i, s := range []struct {
		do   func()
		n    int
		wait time.Duration
	}{
		{func() {}, 11, Never},
		{func() {}, 10, 0}, // alone
		{func() { c.Take(epoch, "", 3) }, 1, 0},
		{func() {}, 2, time.Second},
		{func() { c.Settle(epoch, "", 3, 4) }, 1, time.Second},
		{func() { c.Settle(epoch, "", 4, 1) }, 3, 0},
		{func() { c.Release(epoch, "", 99) }, 4, 0},
		{func() {}, 0, 0},
	} {
		s.do()
		if got := c.Wait(epoch, "", s.n); got != s.wait {
			t.Errorf("step %d: Wait for %d = %v, want %v", i, s.n, got, s.wait)
		}
	}
}

func TestAdaptiveConcurrencyConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  AdaptiveConcurrencyConfig
		want string
	}{
		{AdaptiveConcurrencyConfig{Min: -1}, "Min is -1"},
		{AdaptiveConcurrencyConfig{Max: 1 << 31}, "Max is 2147483648"},
		{AdaptiveConcurrencyConfig{Min: 5, Max: 4}, "Min is 5"},
		{AdaptiveConcurrencyConfig{Start: 5, Max: 4}, "Start is 5"},
		{AdaptiveConcurrencyConfig{Tolerance: 0.5}, "Tolerance is 0.5"},
		{AdaptiveConcurrencyConfig{Min: 1 << 31}, "Min is 2147483648"},
		{AdaptiveConcurrencyConfig{Tolerance: math.NaN()}, "Tolerance is NaN"},
		{AdaptiveConcurrencyConfig{AskAgain: -1}, "AskAgain is -1ns"},
		{AdaptiveConcurrencyConfig{AskAgain: Never}, "AskAgain is 2562047h47m16.854775807s"}, // a wait that is no refusal
	} {
		if _, err := NewAdaptiveConcurrency(c.cfg); err == nil || !strings.Contains(err.Error(), "AdaptiveConcurrencyConfig."+c.want) {
			t.Errorf("%+v: error %v, want %q", c.cfg, err, c.want)
		}
	}
}

var errBusy = errors.New("busy")

func TestConcurrencyPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewConcurrencyPolicy(ConcurrencyPolicyConfig{
			Concurrency: AdaptiveConcurrencyConfig{Start: 10},
			Overload:    func(err error) bool { return errors.Is(err, errBusy) },
		})
		if err != nil {
			t.Fatal(err)
		}
		chain := policy.Chain(p)
		call := func(result error) error {
			return policy.Run(t.Context(), chain, func(context.Context) error { time.Sleep(time.Second); return result })
		}
		results := make(chan error, 11)
		for range 11 {
			go func() { results <- call(nil) }()
		}
		synctest.Wait()
		wantLimited(t, <-results, NoPermits, 0) // nobody knows when calls end
		for range 10 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		seen := p.core.round.calls
		func() {
			defer func() { _ = recover() }()
			_ = policy.Run(t.Context(), chain, func(context.Context) error { time.Sleep(time.Second); panic("broken") })
		}()
		if p.core.round.calls != seen {
			t.Error("a call that panicked counts as one that succeeded")
		}
		if held := p.core.Held(); held != 0 {
			t.Errorf("%d permits held after all calls ended, one by a panic", held)
		}
		limit := p.Limit()
		call(errors.New("not found"))
		if p.Limit() != limit {
			t.Error("an error that is no overload lowered the limit")
		}
		if call(errBusy); p.Limit() >= limit {
			t.Errorf("limit %d after an overload, was %d", p.Limit(), limit)
		}
	})
}

func TestThrottlePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewThrottlePolicy(ThrottlePolicyConfig{})
		if err != nil {
			t.Fatal(err)
		}
		chain := policy.Chain(p)
		var made, rejected int
		call := func(result error) {
			if err := policy.Run(t.Context(), chain, func(context.Context) error { made++; return result }); errors.Is(err, ErrLimited) {
				rejected++
			}
		}
		for range 1000 {
			call(context.Canceled) // the caller's doing
			call(nil)
		}
		if rejected != 0 || made != 2000 {
			t.Fatalf("%d of %d calls rejected while nothing failed", rejected, made)
		}
		time.Sleep(3 * time.Minute)
		made = 0
		for range 5000 {
			call(errBusy)
		}
		if made < 350 || made > 700 || made+rejected != 5000 {
			t.Errorf("%d calls made and %d rejected of 5000 at a server that is down, want about a tenth made", made, rejected)
		}
	})
}

// The latencies of a server that never slows down, however many it is asked, are no reason
// to ask it less, whatever they are.
func TestAdaptiveConcurrencyIsNotMovedByChance(t *testing.T) {
	for name, took := range map[string]func(*rand.Rand) float64{ // with a mean of 1
		"constant":             func(*rand.Rand) float64 { return 1 },
		"uniform":              func(rng *rand.Rand) float64 { return 2 * rng.Float64() },
		"exponential":          (*rand.Rand).ExpFloat64,
		"log-normal":           func(rng *rand.Rand) float64 { return math.Exp(0.7*rng.NormFloat64() - 0.245) },
		"log-normal, wide":     func(rng *rand.Rand) float64 { return math.Exp(1.2*rng.NormFloat64() - 0.7) },
		"one of 20 hundredths": func(rng *rand.Rand) float64 { return 0.2 + 16*float64(rng.IntN(20)/19) },
	} {
		for seed := range uint64(effort.Times(3)) {
			rng := rand.New(rand.NewPCG(seed, 3))
			c := newConcurrency(t, AdaptiveConcurrencyConfig{})
			const callers = 100
			made, end := 0, 10*time.Minute
			var running agenda
			now, i := time.Duration(0), 0
			for now < end {
				if len(running) < callers && c.Wait(after(now), "", 1) == 0 {
					c.Take(after(now), "", 1)
					sent := now
					heap.Push(&running, simEvent{now + 1 + time.Duration(1e8*took(rng)), i, func() {
						made++
						c.Accepted(after(now), after(sent), "")
						c.Release(after(now), "", 1)
					}})
					i++
					continue
				}
				e := heap.Pop(&running).(simEvent)
				now = e.at
				e.do()
			}
			if could := 10 * 60 * 10 * callers; made < could*7/10 {
				t.Errorf("%s, seed %d: %d calls of %d, limit %d", name, seed, made, could, c.Limit())
			}
		}
	}
}
