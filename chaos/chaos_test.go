package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/chaos"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

var errDown = errors.New("down")

func down(context.Context) error { return errDown }

func three(context.Context) (int, error) { return 3, nil }

// sequence returns numbers in turn.
func sequence(of ...float64) func() float64 {
	i := 0
	return func() float64 { i++; return of[(i-1)%len(of)] }
}

func TestTheRateDecidesWhichCallsAreHit(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  chaos.Config
		hits int // of the numbers 0, 0.0009, 0.001, 0.5, 0.9999
	}{
		{"default", chaos.Config{}, 2},
		{"half", chaos.Config{Rate: 0.5}, 3},
		{"all", chaos.Config{Rate: 1}, 5},
		{"by call", chaos.Config{Rate: 1, RateOf: func(context.Context) float64 { return 0.001 }}, 2},
		{"by call, absurd", chaos.Config{RateOf: func(context.Context) float64 { return math.NaN() }}, 0},
		{"switched off", chaos.Config{Rate: 1, Enabled: func(context.Context) bool { return false }}, 0},
	} {
		var heard []event.Event
		tt.cfg.Name, tt.cfg.Rand = "x", sequence(0, 0.0009, 0.001, 0.5, 0.9999)
		tt.cfg.OnEvent = func(e event.Event) { heard = append(heard, e) }
		faults, err := chaos.Fault(tt.cfg, down)
		if err != nil {
			t.Fatal(err)
		}
		p, hits := policy.Chain(faults), 0
		for range 5 {
			v, err := policy.Do(t.Context(), p, three)
			switch {
			case err == errDown && v == 0:
				hits++
			case err != nil || v != 3:
				t.Errorf("%s: %v, %v", tt.name, v, err)
			}
		}
		if hits != tt.hits || len(heard) != hits {
			t.Errorf("%s: %d calls hit, %d events, want %d", tt.name, hits, len(heard), tt.hits)
		}
		for _, e := range heard {
			if e.Kind != event.Injected || e.Name != "x" || e.Source != "fault" || e.Time.IsZero() {
				t.Errorf("%s: %+v", tt.name, e)
			}
		}
	}
}

func TestWhatHappensToACall(t *testing.T) {
	heard := 0
	always := chaos.Config{Rate: 1, OnEvent: func(event.Event) { heard++ }}
	calls, made := 0, chain(t)
	count := func(context.Context) (int, error) { calls++; return 3, nil }
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithTimeoutCause(t.Context(), time.Second, errDown)
		defer cancel()
		for _, tt := range []struct {
			name  string
			p     *policy.Pipeline
			ctx   context.Context
			v     int
			err   error
			calls int
			heard int
			took  time.Duration
		}{
			{"fault", made(chaos.Fault(always, down)), t.Context(), 0, errDown, 0, 1, 0},
			{"no fault after all", made(chaos.Fault(always, func(context.Context) error { return nil })), t.Context(), 3, nil, 1, 0, 0},
			{"latency", made(chaos.Latency(always, chaos.Constant(30*time.Second))), t.Context(), 3, nil, 1, 1, 30 * time.Second},
			{"no latency", made(chaos.Latency(always, chaos.Constant(-1))), t.Context(), 3, nil, 1, 0, 0},
			{"outcome", made(chaos.Outcome(always, func(context.Context) (int, error) { return 7, errDown })), t.Context(), 7, errDown, 0, 1, 0},
			{"outcome of another type", made(chaos.Outcome(always, func(context.Context) (string, error) { return "", errDown })), t.Context(), 3, nil, 1, 0, 0},
			{"behaviour", made(chaos.Behaviour(always, func(context.Context) error { time.Sleep(time.Second); return nil })), t.Context(), 3, nil, 1, 1, time.Second},
			{"behaviour that fails", made(chaos.Behaviour(always, down)), t.Context(), 0, errDown, 0, 1, 0},
			{"latency until the context ends", made(chaos.Latency(always, chaos.Constant(time.Hour))), gone, 0, errDown, 0, 1, 0},
		} {
			calls, heard = 0, 0
			start := time.Now()
			v, err := policy.Do(tt.ctx, tt.p, count)
			if v != tt.v || !errors.Is(err, tt.err) || calls != tt.calls || heard != tt.heard || time.Since(start) != tt.took {
				t.Errorf("%s: %v, %v after %v, %d calls and %d events", tt.name, v, err, time.Since(start), calls, heard)
			}
		}
	})
}

func chain(t *testing.T) func(x *chaos.Chaos, err error) *policy.Pipeline {
	return func(x *chaos.Chaos, err error) *policy.Pipeline {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return policy.Chain(x)
	}
}

func TestEndOfADelayMatchesTheContextsErrorAndItsCause(t *testing.T) {
	for cause, want := range map[error]string{
		nil:     "chaos: context canceled in an injected delay",
		errDown: "chaos: context canceled in an injected delay: down",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			_, err := policy.Do(ctx, chain(t)(chaos.Latency(chaos.Config{Rate: 1}, chaos.Constant(time.Hour))), three)
			if !errors.Is(err, context.Canceled) || cause != nil && !errors.Is(err, cause) || err.Error() != want {
				t.Error(err)
			}
		})
	}
}

// An injected delay is that of a vendor: a timeout because of it is a failure.
func TestInjectedDelayOpensABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{Consecutive: 1})
		if err != nil {
			t.Fatal(err)
		}
		timeout, err := policy.NewTimeout(policy.TimeoutConfig{})
		if err != nil {
			t.Fatal(err)
		}
		slow, err := chaos.Latency(chaos.Config{Rate: 1}, chaos.Constant(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		_, err = policy.Do(t.Context(), policy.Stack(b, timeout, slow), three)
		if !errors.Is(err, policy.ErrTimeout) || b.State() != breaker.Open {
			t.Errorf("%v, breaker %v", err, b.State())
		}
	})
}

func TestListenerThatPanicsHarmsNobody(t *testing.T) {
	p := chain(t)(chaos.Fault(chaos.Config{Rate: 1, OnEvent: func(event.Event) { panic("listener") }}, down))
	if _, err := policy.Do(t.Context(), p, three); err != errDown {
		t.Error(err)
	}
}

// Numbers from 0 to 1 may be 1.
func TestRateOfOneHitsAllCalls(t *testing.T) {
	one := func() float64 { return 1 }
	for name, cfg := range map[string]chaos.Config{
		"Rate":   {Rate: 1, Rand: one},
		"RateOf": {RateOf: func(context.Context) float64 { return 1 }, Rand: one},
	} {
		if _, err := policy.Do(t.Context(), chain(t)(chaos.Fault(cfg, down)), three); err != errDown {
			t.Errorf("%s: not hit: %v", name, err)
		}
	}
}

func TestOnErrorMapsWhateverLeavesTheLayer(t *testing.T) {
	own := errors.New("the call's own")
	for name, tt := range map[string]struct {
		fault func(context.Context) error
		fn    func(context.Context) (int, error)
		want  error
	}{
		"injected":      {down, three, errDown},
		"from the call": {func(context.Context) error { return nil }, func(context.Context) (int, error) { return 0, own }, own},
		"none":          {func(context.Context) error { return nil }, three, nil},
	} {
		var asked []error
		p := chain(t)(chaos.Fault(chaos.Config{Rate: 1, OnError: func(err error) error { asked = append(asked, err); return nil }}, tt.fault))
		_, err := policy.Do(t.Context(), p, tt.fn)
		if err != nil || len(asked) > 1 || (len(asked) == 1) != (tt.want != nil) || len(asked) == 1 && asked[0] != tt.want {
			t.Errorf("%s: %v, asked about %v", name, err, asked)
		}
	}
	asked := 0
	p := chain(t)(chaos.Fault(chaos.Config{Enabled: func(context.Context) bool { return false }, OnError: func(err error) error { asked++; return err }}, down))
	if _, err := policy.Do(t.Context(), p, func(context.Context) (int, error) { return 0, own }); err != own || asked != 1 {
		t.Errorf("a call that is not hit: %v, asked %d times", err, asked)
	}
}

func TestNilChaosIsFoundWhenTheChainIsMade(t *testing.T) {
	defer func() {
		if got := recover(); got != "policy: nil *chaos.Chaos in a chain" {
			t.Errorf("recovered %v", got)
		}
	}()
	policy.Chain((*chaos.Chaos)(nil))
}

// punctual is a layer that compares the time it is told with the clock.
type punctual struct {
	t    *testing.T
	name string
}

func (p punctual) Layer() policy.Layer { return policy.ChaosLayer }
func (p punctual) String() string      { return "punctual" }
func (p punctual) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		check := func() {
			if late := time.Since(c.Now()); late != 0 {
				p.t.Errorf("%s: told a time that is %v old", p.name, late)
			}
		}
		check()
		defer check()
		return next(c)
	}
}

func TestChaosSaysThatTimeHasPassed(t *testing.T) {
	always := chaos.Config{Rate: 1}
	ends := func(err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(time.Second); return err }
	}
	for name, make := range map[string]func() (*chaos.Chaos, error){
		"fault":           func() (*chaos.Chaos, error) { return chaos.Fault(always, ends(errDown)) },
		"no fault":        func() (*chaos.Chaos, error) { return chaos.Fault(always, ends(nil)) },
		"latency":         func() (*chaos.Chaos, error) { return chaos.Latency(always, chaos.Constant(time.Second)) },
		"endless latency": func() (*chaos.Chaos, error) { return chaos.Latency(always, chaos.Constant(time.Hour)) },
		"no latency": func() (*chaos.Chaos, error) {
			return chaos.Latency(always, func(context.Context) time.Duration { time.Sleep(time.Second); return 0 })
		},
		"outcome": func() (*chaos.Chaos, error) {
			return chaos.Outcome(always, func(context.Context) (int, error) { time.Sleep(time.Second); return 1, nil })
		},
		"behaviour":            func() (*chaos.Chaos, error) { return chaos.Behaviour(always, ends(nil)) },
		"behaviour that fails": func() (*chaos.Chaos, error) { return chaos.Behaviour(always, ends(errDown)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			x, err := make()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, _ = policy.Do(ctx, policy.Chain(punctual{t, name + ", outside"}, x, punctual{t, name + ", inside"}), three)
		})
	}
}

func TestInvalidConfigurationIsNamed(t *testing.T) {
	for _, rate := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if x, err := chaos.Fault(chaos.Config{Rate: rate}, down); x != nil || !errors.Is(err, chaos.ErrInvalid) {
			t.Errorf("rate %v: %v, %v", rate, x, err)
		} else if want := fmt.Sprintf("chaos: invalid configuration: Config.Rate is %v, want 0 to 1", rate); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for what, err := range map[string]error{
		"fault": second(chaos.Fault(chaos.Config{}, nil)), "delay": second(chaos.Latency(chaos.Config{}, nil)),
		"outcome": second(chaos.Outcome[int](chaos.Config{}, nil)), "do": second(chaos.Behaviour(chaos.Config{}, nil)),
	} {
		if want := "chaos: invalid configuration: " + what + " is nil, want a function"; !errors.Is(err, chaos.ErrInvalid) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func second(_ *chaos.Chaos, err error) error { return err }

func TestChaosIsInnermostAndCostsNothing(t *testing.T) {
	x, err := chaos.Fault(chaos.Config{Rate: 1e-12}, down)
	if err != nil {
		t.Fatal(err)
	}
	if x.Layer() != policy.ChaosLayer || x.String() != "chaos(fault, 1e-12)" {
		t.Error(x.Layer(), x)
	}
	p, ctx := policy.Chain(x), t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = policy.Do(ctx, p, three) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func Example() {
	turn := 0
	faults, err := chaos.Fault(chaos.Config{
		Rate: 0.5,
		Rand: func() float64 { turn++; return float64(turn%2) / 2 }, // every second call; leave it out for chance
	}, func(context.Context) error { return errors.New("503 Service Unavailable") })
	if err != nil {
		log.Fatal(err)
	}
	p := policy.Stack(faults)
	for range 3 {
		fmt.Println(policy.Do(context.Background(), p, func(context.Context) (string, error) { return "ok", nil }))
	}
	// Output:
	// ok <nil>
	//  503 Service Unavailable
	// ok <nil>
}

// A slow vendor, for one tenant alone.
func ExampleLatency() {
	type tenant struct{}
	slow, err := chaos.Latency(chaos.Config{
		Rate:    1,
		Enabled: func(ctx context.Context) bool { return ctx.Value(tenant{}) == "guinea pig" },
	}, chaos.Constant(2*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	p := policy.Stack(slow)
	for _, name := range []string{"somebody", "guinea pig"} {
		ctx, start := context.WithValue(context.Background(), tenant{}, name), time.Now()
		_ = policy.Run(ctx, p, func(context.Context) error { return nil })
		fmt.Println(name, time.Since(start) >= 2*time.Millisecond)
	}
	// Output:
	// somebody false
	// guinea pig true
}

// A vendor that answers with an empty page now and then.
func ExampleOutcome() {
	empty, err := chaos.Outcome(chaos.Config{Rate: 1}, func(context.Context) ([]string, error) { return nil, nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Do(context.Background(), policy.Stack(empty), func(context.Context) ([]string, error) { return []string{"a"}, nil }))
	// Output: [] <nil>
}

// Whatever a function can do.
func ExampleBehaviour() {
	unplug, err := chaos.Behaviour(chaos.Config{Rate: 1}, func(context.Context) error {
		fmt.Println("pulling the plug")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(policy.Run(context.Background(), policy.Stack(unplug), func(context.Context) error { return errors.New("connection reset") }))
	// Output:
	// pulling the plug
	// connection reset
}

// How much goes wrong may depend on the call, and each time somebody is told.
func ExampleConfig_rateOf() {
	type canary struct{}
	faults, err := chaos.Fault(chaos.Config{
		Name: "canary",
		RateOf: func(ctx context.Context) float64 {
			if ctx.Value(canary{}) == nil {
				return 0
			}
			return 1
		},
		OnEvent: func(e event.Event) { fmt.Println(e.Name, e.Kind, e.Source) },
	}, func(context.Context) error { return errors.New("503 Service Unavailable") })
	if err != nil {
		log.Fatal(err)
	}
	p := policy.Stack(faults)
	for _, ctx := range []context.Context{context.Background(), context.WithValue(context.Background(), canary{}, true)} {
		fmt.Println(policy.Run(ctx, p, func(context.Context) error { return nil }))
	}
	// Output:
	// <nil>
	// canary injected fault
	// 503 Service Unavailable
}

func FuzzConfig(f *testing.F) {
	f.Add(0.5)
	f.Add(math.NaN())
	f.Fuzz(func(t *testing.T, rate float64) {
		x, err := chaos.Fault(chaos.Config{Rate: rate}, down)
		if (err == nil) != (rate >= 0 && rate <= 1) || (x == nil) != (err != nil) {
			t.Error(rate, x, err)
		}
	})
}
