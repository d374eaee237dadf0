package backoff

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// delays returns the first n delays of s as a caller would get them, fewer when
// it stops.
func delays(s Schedule, n int) (out []time.Duration) {
	for step := (Step{Attempt: 1}); step.Attempt <= n; step.Attempt++ {
		d, again := s.Next(step)
		if !again {
			break
		}
		out = append(out, d)
		step.Prev, step.Elapsed = d, step.Elapsed+d
	}
	return out
}

func TestCurves(t *testing.T) {
	tests := []struct {
		name string
		s    Schedule
		want string // the delays after attempts 1 to 6
	}{
		{"Constant", Constant(sec), "[1s 1s 1s 1s 1s 1s]"},
		{"None never waits and never stops", None, "[0s 0s 0s 0s 0s 0s]"},
		{"Never stops at once", Never, "[]"},
		{"Times", Times(2), "[0s 0s]"},
		{"Linear is n x initial", Linear{Initial: sec}, "[1s 2s 3s 4s 5s 6s]"},
		{"Linear zero", Linear{}, "[500ms 1s 1.5s 2s 2.5s 3s]"},
		{"Linear with increment and cap", Linear{Initial: sec, Increment: 2 * sec, Max: 6 * sec}, "[1s 3s 5s 6s 6s 6s]"},
		{"Exponential zero doubles", Exponential{}, "[500ms 1s 2s 4s 8s 16s]"},
		{"Exponential x1.5", Exponential{Initial: sec, Multiplier: 1.5}, "[1s 1.5s 2.25s 3.375s 5.0625s 7.59375s]"},
		{"Exponential x1", Exponential{Initial: sec, Multiplier: 1}, "[1s 1s 1s 1s 1s 1s]"},
		{"Exponential of a governor", Exponential{Initial: 15 * sec, Multiplier: 2, Max: 15 * time.Minute}, "[15s 30s 1m0s 2m0s 4m0s 8m0s]"},
		{"Exponential cap under the default initial", Exponential{Max: ms}, "[1ms 1ms 1ms 1ms 1ms 1ms]"},
		{"Fibonacci zero", Fibonacci{}, "[500ms 500ms 1s 1.5s 2.5s 4s]"},
		{"Fibonacci cap", Fibonacci{Initial: sec, Max: 4 * sec}, "[1s 1s 2s 3s 4s 4s]"},
		{"Func", Func(func(s Step) (time.Duration, bool) { return time.Duration(s.Attempt) * -sec, s.Attempt < 3 }), "[0s 0s]"},
		{"Func nil", Func(nil), "[]"},
		{"MaxDelay", MaxDelay(Linear{Initial: sec}, 3*sec), "[1s 2s 3s 3s 3s 3s]"},
		{"MaxDelay zero is no limit", MaxDelay(Linear{Initial: sec}, 0), "[1s 2s 3s 4s 5s 6s]"},
		{"MaxElapsed stops before the wait that would pass it", MaxElapsed(Linear{Initial: sec}, 10*sec-1), "[1s 2s 3s]"},
		{"MaxElapsed may be reached", MaxElapsed(Linear{Initial: sec}, 10*sec), "[1s 2s 3s 4s]"},
		{"MaxElapsed zero is no limit", MaxElapsed(Linear{Initial: sec}, 0), "[1s 2s 3s 4s 5s 6s]"},
		{"Map", Map(Linear{Initial: sec}, func(s Step, d time.Duration) time.Duration { return d - 3*sec }), "[0s 0s 0s 1s 2s 3s]"},
		{"Map nil", Map(None, nil), "[]"},
		{"While nil", While(None, nil), "[]"},
		{"Until nil", Until(None, nil), "[]"},
		{"nil schedules stop", MaxDelay(nil, sec), "[]"},
		{"jitter of nil", FullJitter{}, "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(delays(tt.s, 6)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAttemptsBelowOneCountAsOne(t *testing.T) {
	for _, s := range []Schedule{Linear{}, Exponential{}, Fibonacci{}, Times(1), Then(Times(1), Linear{})} {
		want, wantAgain := s.Next(Step{Attempt: 1})
		for _, n := range []int{0, -1, math.MinInt} {
			if d, again := s.Next(Step{Attempt: n}); d != want || again != wantAgain {
				t.Errorf("%+v, attempt %d: %v %v, want %v %v", s, n, d, again, want, wantAgain)
			}
		}
	}
}

func TestHugeAttemptsSaturateQuickly(t *testing.T) {
	half := func() float64 { return 0.5 }
	start := time.Now()
	for _, n := range []int{64, 93, 1000, math.MaxInt32, math.MaxInt - 1, math.MaxInt} {
		for _, s := range []Schedule{
			Linear{Initial: 1e18}, Exponential{}, Exponential{Initial: 1, Multiplier: math.MaxFloat64},
			Exponential{Initial: longest}, Fibonacci{Initial: sec}, Fibonacci{Initial: longest},
			Constant(longest), FactorJitter{Of: Exponential{}, Upward: true, Rand: half},
			Then(Times(10), Exponential{}), Decorrelated{Initial: longest, Rand: half},
		} {
			if d, again := s.Next(Step{Attempt: n, Prev: longest, Elapsed: longest}); d != longest || !again {
				t.Errorf("%+v, attempt %d: %v %v, want the longest Duration", s, n, d, again)
			}
		}
		if d, _ := (Exponential{Initial: sec, Max: time.Minute}).Next(Step{Attempt: n}); d != time.Minute {
			t.Errorf("capped exponential, attempt %d: %v", n, d)
		}
	}
	if time.Since(start) > 5*time.Second {
		t.Errorf("took %v", time.Since(start))
	}
	if _, again := MaxElapsed(Constant(3), longest-1).Next(Step{Elapsed: longest - 2}); again {
		t.Error("MaxElapsed overflowed")
	}
}

func TestArithmeticSaturates(t *testing.T) {
	for _, tt := range []struct{ got, want time.Duration }{
		{add(longest-1, 1), longest}, {add(longest, 1), longest}, {add(longest, longest), longest}, {add(1, 2), 3},
		{mul(1e18, 9), 9e18}, {mul(1e18, 10), longest}, {mul(1e18, 19), longest}, {mul(longest, math.MaxInt), longest}, // 63, 64, 65, 126 bits
		{mul(0, math.MaxInt), 0}, {mul(3, 0), 0}, {mul(longest, 1), longest},
		{scale(1, math.Inf(1)), longest}, {scale(0, math.Inf(1)), 0}, {scale(longest, 1), longest}, {scale(1, 1<<63), longest}, {scale(3, .5), 2},
	} {
		if tt.got != tt.want {
			t.Errorf("got %d, want %d", tt.got, tt.want)
		}
	}
}

func TestLongInitialIsExact(t *testing.T) {
	const d = 1<<53 + 1 // not a float64
	if got, _ := (Exponential{Initial: d}).Next(Step{Attempt: 1}); got != d {
		t.Errorf("got %d, want %d", got, time.Duration(d))
	}
}

// A schedule with one parameter out of range is reported by Validate, and acts
// as though that parameter were not set.
func TestInvalidParameters(t *testing.T) {
	yes := func(error) bool { return true }
	one := func() float64 { return 1 }
	tests := []struct {
		s, as Schedule
		text  string // part of the error
	}{
		{Constant(-1), None, "Constant is -1ns"},
		{Times(-1), Never, "Times is -1"},
		{Linear{Initial: -1}, Linear{}, "Linear.Initial is -1ns"},
		{Linear{Increment: -1}, Linear{}, "Linear.Increment is -1ns"},
		{Linear{Max: -1}, Linear{}, "Linear.Max is -1ns"},
		{Linear{Initial: 2, Max: 1}, Constant(1), "Linear.Initial is 2ns, more than Max, 1ns"},
		{Exponential{Initial: -1}, Exponential{}, "Exponential.Initial is -1ns"},
		{Exponential{Multiplier: math.NaN()}, Exponential{}, "Exponential.Multiplier is NaN"},
		{Exponential{Multiplier: math.Inf(1)}, Exponential{}, "Exponential.Multiplier is +Inf"},
		{Exponential{Multiplier: math.Inf(-1)}, Exponential{}, "Exponential.Multiplier is -Inf"},
		{Exponential{Multiplier: -2}, Exponential{}, "Exponential.Multiplier is -2"},
		{Exponential{Multiplier: .5}, Exponential{}, "Exponential.Multiplier is 0.5"},
		{Exponential{Max: math.MinInt64}, Exponential{}, "Exponential.Max is -"},
		{Fibonacci{Initial: -1}, Fibonacci{}, "Fibonacci.Initial is -1ns"},
		{Func(nil), Never, "Func is nil"},
		{MaxDelay(Constant(5), -1), Constant(5), "MaxDelay is -1ns"},
		{MaxElapsed(Constant(5), -1), Constant(5), "MaxElapsed is -1ns"},
		{While(None, nil), Never, "While or Until is nil"},
		{Map(None, nil), Never, "Map is nil"},
		{MaxDelay(nil, 1), Never, "MaxDelay has a nil Schedule"},
		{FullJitter{}, Never, "FullJitter has a nil"},
		{EqualJitter{}, Never, "EqualJitter has a nil"},
		{FactorJitter{Of: Constant(4), Factor: math.NaN(), Rand: one}, Constant(6), "FactorJitter.Factor is NaN"},
		{FactorJitter{Of: Constant(4), Factor: 1.5, Rand: one}, Constant(6), "FactorJitter.Factor is 1.5"},
		{FactorJitter{Of: Constant(4), Factor: -1, Rand: one}, Constant(6), "FactorJitter.Factor is -1"},
		{Decorrelated{Multiplier: math.NaN(), Rand: one}, Constant(1500 * ms), "Decorrelated.Multiplier is NaN"},
		{Decorrelated{Initial: -1, Rand: one}, Constant(1500 * ms), "Decorrelated.Initial is -1ns"},
		{And(), None, "And of no schedules"},
		{Or(), Never, "Or of no schedules"},
		{Then(), Never, "Then of no schedules"},
		{And(None, nil), Never, "And has a nil"},
		{Or(None, nil), None, "Or has a nil"},
		{Then(nil, Linear{}), Linear{}, "Then has a nil"},
		{Then(Times(1), Or(None, While(FullJitter{Of: Constant(-1)}, yes))), None, "Constant is -1ns"}, // deep within
	}
	for _, tt := range tests {
		err := Validate(tt.s)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%#v: error %v, want %q", tt.s, err, tt.text)
		}
		for _, n := range []int{1, 2, 3} {
			d, again := tt.s.Next(Step{Attempt: n})
			want, wantAgain := tt.as.Next(Step{Attempt: n})
			if d != want || again != wantAgain {
				t.Errorf("%#v, attempt %d: %v %v, want %v %v", tt.s, n, d, again, want, wantAgain)
			}
		}
	}
	if err := Validate(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
}

func TestValidSchedules(t *testing.T) {
	yes := func(error) bool { return true }
	for _, s := range []Schedule{
		None, Never, Constant(1), Times(3), Linear{}, Exponential{}, Exponential{Multiplier: 1}, Exponential{Initial: 2, Max: 2},
		Exponential{Initial: 15 * sec, Multiplier: 2, Max: 15 * time.Minute}, Fibonacci{}, Decorrelated{}, FullJitter{Of: None},
		EqualJitter{Of: None}, FactorJitter{Of: None}, FactorJitter{Of: None, Factor: 1}, MaxDelay(None, 0), MaxElapsed(None, 0),
		While(None, yes), Until(None, yes), Map(None, func(_ Step, d time.Duration) time.Duration { return d }),
		And(None), Or(None), Then(None), foreign{}, Func(func(Step) (time.Duration, bool) { return 0, true }),
	} {
		if err := Validate(s); err != nil {
			t.Errorf("%#v: %v", s, err)
		}
	}
}

// foreign is another package's schedule: it has no Validate and may answer badly.
type foreign struct{ d time.Duration }

func (f foreign) Next(Step) (time.Duration, bool) { return f.d, true }

func TestForeignNegativeDelaysBecomeZero(t *testing.T) {
	bad := foreign{-sec}
	for _, s := range []Schedule{
		MaxDelay(bad, sec), MaxElapsed(bad, sec), FullJitter{Of: bad}, EqualJitter{Of: bad}, FactorJitter{Of: bad},
		And(bad), Or(bad), Then(bad), While(bad, func(error) bool { return true }),
		Map(bad, func(_ Step, d time.Duration) time.Duration { return d }),
	} {
		if d, again := s.Next(Step{}); d != 0 || !again {
			t.Errorf("%+v: %v %v", s, d, again)
		}
	}
}

func TestWhileAndUntil(t *testing.T) {
	busy, dead := errors.New("busy"), errors.New("dead")
	isBusy := func(err error) bool { return err == busy }
	for _, tt := range []struct {
		err          error
		while, until bool
	}{{busy, true, false}, {dead, false, true}, {nil, false, true}} {
		if _, again := While(None, isBusy).Next(Step{Err: tt.err}); again != tt.while {
			t.Errorf("While after %v: %v", tt.err, again)
		}
		if _, again := Until(None, isBusy).Next(Step{Err: tt.err}); again != tt.until {
			t.Errorf("Until after %v: %v", tt.err, again)
		}
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	s := Then(And(Times(5), FullJitter{Of: Exponential{Max: time.Minute}}), Or(MaxDelay(Fibonacci{}, time.Hour), Decorrelated{}))
	n := 0
	if got := testing.AllocsPerRun(100, func() { n++; s.Next(Step{Attempt: n % 20, Prev: sec}) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestValidateFindsNilPointers(t *testing.T) {
	for want, s := range map[string]Schedule{
		"Schedule is a nil *backoff.Exponential": (*Exponential)(nil),
		"Schedule is a nil *backoff.Linear":      And(None, (*Linear)(nil)),
	} {
		if err := Validate(s); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
