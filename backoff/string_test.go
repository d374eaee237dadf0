package backoff

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// unnamed is a schedule of another package that does not describe itself.
type unnamed struct{ f func() }

func (*unnamed) Next(Step) (time.Duration, bool) { return 0, false }

func TestSchedulesDescribeThemselvesWithTheirDefaults(t *testing.T) {
	sec := Constant(time.Second)
	yes := func(error) bool { return true }
	for want, s := range map[string]Schedule{
		"1s":                                   sec,
		"0s":                                   None,
		"linear 500ms +500ms":                  Linear{},
		"linear 1s +2s up to 1m0s":             Linear{Initial: time.Second, Increment: 2 * time.Second, Max: time.Minute},
		"exponential 500ms x2":                 Exponential{},
		"exponential 1s x1.5 up to 1m0s":       Exponential{Initial: time.Second, Multiplier: 1.5, Max: time.Minute},
		"exponential 100ms x2":                 Exponential{Initial: 100 * time.Millisecond, Multiplier: math.NaN(), Max: -1},
		"fibonacci 500ms":                      Fibonacci{},
		"fibonacci 1s up to 1m0s":              Fibonacci{Initial: time.Second, Max: time.Minute},
		"decorrelated 500ms x3":                Decorrelated{},
		"decorrelated 1s x2 up to 1m0s":        Decorrelated{Initial: time.Second, Multiplier: 2, Max: time.Minute, Rand: func() float64 { return 0 }},
		"5 times":                              Times(5),
		"func":                                 Func(func(Step) (time.Duration, bool) { return 0, false }),
		"full jitter(1s)":                      FullJitter{Of: sec, Rand: func() float64 { return 0 }},
		"equal jitter(1s)":                     EqualJitter{Of: sec},
		"jitter 50%(1s)":                       FactorJitter{Of: sec},
		"jitter +12.5%(1s)":                    FactorJitter{Of: sec, Factor: 0.125, Upward: true},
		"full jitter(nil)":                     FullJitter{},
		"full jitter(*backoff.unnamed)":        FullJitter{Of: &unnamed{func() {}}},
		"max delay 1m0s(exponential 500ms x2)": MaxDelay(Exponential{}, time.Minute),
		"max elapsed 1h0m0s(1s)":               MaxElapsed(sec, time.Hour),
		"while(1s)":                            While(sec, yes),
		"until(1s)":                            Until(sec, yes),
		"map(1s)":                              Map(sec, func(_ Step, d time.Duration) time.Duration { return d }),
		"and(2 times, full jitter(linear 1s +1s))": And(Times(2), FullJitter{Of: Linear{Initial: time.Second}}),
		"or(2 times, 1s)":                          Or(Times(2), sec),
		"then(and(2 times, 1s), 1m0s)":             Then(And(Times(2), sec), Constant(time.Minute)),
	} {
		if got := fmt.Sprint(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
