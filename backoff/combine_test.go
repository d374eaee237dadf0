package backoff

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

func TestCombine(t *testing.T) {
	two, three := And(Times(2), Constant(sec)), And(Times(3), Linear{Initial: sec})
	tests := []struct {
		name string
		s    Schedule
		want string
	}{
		{"And waits the longer", And(Constant(2*sec), Linear{Initial: sec}), "[2s 2s 3s 4s 5s 6s]"},
		{"And stops with the first to stop", And(two, three), "[1s 2s]"},
		{"And of nothing is None", And(), "[0s 0s 0s 0s 0s 0s]"},
		{"Or waits the shorter", Or(Constant(2*sec), Linear{Initial: sec}), "[1s 2s 2s 2s 2s 2s]"},
		{"Or goes on with the last to stop", Or(two, three), "[1s 1s 3s]"},
		{"Or of nothing is Never", Or(), "[]"},
		{"Or skips nil", Or(nil, two), "[1s 1s]"},
		{"Then counts from 1 again", Then(two, three), "[1s 1s 1s 2s 3s]"},
		{"Then of three", Then(two, three, Exponential{Initial: sec}), "[1s 1s 1s 2s 3s 1s]"},
		{"Then within Then", Then(Then(two, two), Linear{Initial: sec}), "[1s 1s 1s 1s 1s 2s]"},
		{"Then after Or", Then(Or(two, three), Linear{Initial: sec}), "[1s 1s 3s 1s 2s 3s]"},
		{"Then after And of a Then", Then(And(Times(3), Then(two, Constant(5*sec))), Linear{Initial: sec}), "[1s 1s 5s 1s 2s 3s]"},
		{"Then after wrappers", Then(MaxDelay(MaxElapsed(FactorJitter{Of: two, Rand: half}, 0), 0), Linear{Initial: sec}), "[1s 1s 1s 2s 3s 4s]"},
		{"Then skips Never", Then(Never, Linear{Initial: sec}), "[1s 2s 3s 4s 5s 6s]"},
		{"Then after nothing that stops", Then(Constant(sec), Linear{}), "[1s 1s 1s 1s 1s 1s]"},
		{"Then of nothing is Never", Then(), "[]"},
		// The time stops the first; how many attempts that took is not known.
		{"Then after MaxElapsed counts on", Then(MaxElapsed(Constant(sec), 2*sec), Linear{Initial: sec}), "[1s 1s 3s 4s 5s 6s]"},
		{"Then after MaxElapsed under Times", Then(MaxElapsed(two, sec), Linear{Initial: sec}), "[1s 1s 1s 2s 3s 4s]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(delays(tt.s, 6)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func half() float64 { return 0.5 }

func TestAndDoesNotAskAfterOneThatStops(t *testing.T) {
	asked := false
	And(Never, Func(func(Step) (time.Duration, bool) { asked = true; return 0, true })).Next(Step{})
	if asked {
		t.Error("asked")
	}
}

func TestThenGoesBackWhenTheErrorDoes(t *testing.T) {
	busy := errors.New("busy")
	s := Then(While(Constant(sec), func(err error) bool { return err == busy }), Linear{Initial: time.Minute})
	for i, tt := range []struct {
		err  error
		want time.Duration
	}{{busy, sec}, {nil, 2 * time.Minute}, {busy, sec}, {nil, 4 * time.Minute}} {
		if d, _ := s.Next(Step{Attempt: i + 1, Err: tt.err}); d != tt.want {
			t.Errorf("step %d: %v, want %v", i+1, d, tt.want)
		}
	}
}

func TestCombinationsKeepTheirOwnList(t *testing.T) {
	list := []Schedule{Times(1), Constant(sec)}
	all := []Schedule{And(list...), Or(list...), Then(list...)}
	before := fmt.Sprint(all)
	list[0] = Never
	if after := fmt.Sprint(all); after != before {
		t.Errorf("%v became %v", before, after)
	}
}

// A model is a schedule as Arrow has it: one sequence, with state, asked once
// for each step.
type model func(prev time.Duration) (time.Duration, bool)

func leaf(s Schedule) model {
	n := 0
	return func(prev time.Duration) (time.Duration, bool) {
		n++
		return s.Next(Step{Attempt: n, Prev: prev})
	}
}

func andModel(a, b model) model {
	return func(prev time.Duration) (time.Duration, bool) {
		x, goA := a(prev)
		y, goB := b(prev)
		if !goA || !goB {
			return 0, false
		}
		return max(x, y), true
	}
}

func orModel(a, b model) model {
	return func(prev time.Duration) (time.Duration, bool) {
		x, goA := a(prev)
		y, goB := b(prev)
		switch {
		case goA && goB:
			return min(x, y), true
		case goA:
			return x, true
		}
		return y, goB
	}
}

func thenModel(a, b model) model {
	second := false
	return func(prev time.Duration) (time.Duration, bool) {
		if !second {
			if x, again := a(prev); again {
				return x, true
			}
			second, prev = true, 0
		}
		return b(prev)
	}
}

func randomPair(r *rand.Rand, depth int) (Schedule, model) {
	if depth == 0 || r.IntN(4) == 0 {
		d := time.Duration(r.IntN(5)) * sec
		leaves := []Schedule{
			Times(r.IntN(6)), Times(r.IntN(6)), Times(r.IntN(6)), Constant(d), Linear{Initial: d}, Exponential{Initial: d, Max: time.Minute},
			Fibonacci{Initial: d}, Decorrelated{Initial: d, Max: time.Minute, Rand: half}, Never,
		}
		s := leaves[r.IntN(len(leaves))]
		return s, leaf(s)
	}
	a, ma := randomPair(r, depth-1)
	b, mb := randomPair(r, depth-1)
	switch r.IntN(4) {
	case 0:
		return And(a, b), andModel(ma, mb)
	case 1:
		return Or(a, b), orModel(ma, mb)
	}
	return Then(a, b), thenModel(ma, mb)
}

func TestCombinationsMatchTheStatefulModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range effort.Times(500) {
		s, m := randomPair(r, 4)
		step := Step{Attempt: 1}
		for range 40 {
			d, again := s.Next(step)
			want, wantAgain := m(step.Prev)
			if d != want || again != wantAgain {
				t.Fatalf("%+v\nattempt %d, prev %v: %v %v, the model says %v %v", s, step.Attempt, step.Prev, d, again, want, wantAgain)
			}
			if !again {
				break
			}
			step.Attempt++
			step.Prev, step.Elapsed = d, step.Elapsed+d
		}
	}
}

// FuzzSchedules builds a composition from the bytes and asks it about any step.
func FuzzSchedules(f *testing.F) {
	f.Add([]byte{12, 13, 0, 3, 9, 4}, 1, int64(0), int64(0), 0.5, int64(sec))
	f.Add([]byte{14, 11, 8, 1, 2, 10, 5, 3}, math.MaxInt, int64(math.MaxInt64), int64(math.MinInt64), math.NaN(), int64(-1))
	f.Add([]byte{14, 1, 3, 7, 6, 3}, math.MinInt, int64(-1), int64(math.MaxInt64), math.Inf(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, code []byte, attempt int, prev, elapsed int64, x float64, delay int64) {
		d := time.Duration(delay)
		source := func() float64 { return x }
		var build func(depth int) Schedule
		build = func(depth int) Schedule {
			if len(code) == 0 || depth > 8 {
				return Times(attempt)
			}
			op := code[0] % 20
			code = code[1:]
			next := func() Schedule { return build(depth + 1) }
			switch op {
			case 0:
				return Constant(d)
			case 1:
				return Times(delay)
			case 2:
				return Linear{Initial: d, Increment: time.Duration(prev), Max: time.Duration(elapsed)}
			case 3:
				return Exponential{Initial: d, Multiplier: x, Max: time.Duration(elapsed)}
			case 4:
				return Fibonacci{Initial: d, Max: time.Duration(prev)}
			case 5:
				return Decorrelated{Initial: d, Multiplier: x, Max: time.Duration(prev), Rand: source}
			case 6:
				return Func(func(s Step) (time.Duration, bool) { return s.Prev, s.Attempt%2 == 0 })
			case 7:
				return FullJitter{Of: next(), Rand: source}
			case 8:
				return EqualJitter{Of: next(), Rand: source}
			case 9:
				return FactorJitter{Of: next(), Factor: x, Rand: source}
			case 10:
				return FactorJitter{Of: next(), Factor: x, Upward: true, Rand: source}
			case 11:
				return MaxDelay(next(), d)
			case 12:
				return MaxElapsed(next(), d)
			case 13:
				return While(next(), func(error) bool { return delay%2 == 0 })
			case 14:
				return Map(next(), func(s Step, d time.Duration) time.Duration { return d - s.Elapsed })
			case 15:
				return And(next(), next())
			case 16:
				return Or(next(), next())
			case 17:
				return Then(next(), next())
			case 18:
				return Then(next(), next(), next())
			}
			return nil
		}
		s := build(0)
		if s == nil {
			return
		}
		_ = Validate(s)
		step := Step{Attempt: attempt, Prev: time.Duration(prev), Elapsed: time.Duration(elapsed)}
		got, again := s.Next(step)
		if got < 0 || !again && got != 0 {
			t.Errorf("%+v at %+v: %v %v", s, step, got, again)
		}
		if twice, againTwice := s.Next(step); twice != got || againTwice != again {
			t.Errorf("%+v at %+v: %v %v, then %v %v", s, step, got, again, twice, againTwice)
		}
	})
}
