package backoff_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/flyball-go/flyball/backoff"
)

// show prints the first five delays of s, or fewer when it stops.
func show(s backoff.Schedule) {
	step := backoff.Step{Attempt: 1, Err: errors.New("busy")}
	for ; step.Attempt <= 5; step.Attempt++ {
		d, again := s.Next(step)
		if !again {
			fmt.Println("stop")
			return
		}
		fmt.Print(d, " ")
		step.Prev, step.Elapsed = d, step.Elapsed+d
	}
	fmt.Println("...")
}

func Example() {
	s := backoff.And( // at most three repeats, and wait as the exponential says
		backoff.Times(3),
		backoff.Exponential{Initial: time.Second, Max: time.Minute},
	)
	if err := backoff.Validate(s); err != nil {
		fmt.Println(err)
	}
	show(s)
	// Output: 1s 2s 4s stop
}

func ExampleConstant() {
	show(backoff.Constant(time.Second))
	show(backoff.None)
	// Output:
	// 1s 1s 1s 1s 1s ...
	// 0s 0s 0s 0s 0s ...
}

func ExampleLinear() {
	show(backoff.Linear{Initial: time.Second})
	show(backoff.Linear{Initial: time.Second, Increment: 10 * time.Second, Max: 30 * time.Second})
	// Output:
	// 1s 2s 3s 4s 5s ...
	// 1s 11s 21s 30s 30s ...
}

func ExampleExponential() {
	show(backoff.Exponential{})
	show(backoff.Exponential{Initial: 15 * time.Second, Multiplier: 3, Max: 15 * time.Minute})
	// Output:
	// 500ms 1s 2s 4s 8s ...
	// 15s 45s 2m15s 6m45s 15m0s ...
}

func ExampleFibonacci() {
	show(backoff.Fibonacci{Initial: time.Second})
	// Output: 1s 1s 2s 3s 5s ...
}

func ExampleFunc() {
	show(backoff.Func(func(s backoff.Step) (time.Duration, bool) {
		if errors.Is(s.Err, io.EOF) {
			return 0, false
		}
		return time.Duration(s.Attempt*s.Attempt) * time.Second, s.Attempt < 4
	}))
	// Output: 1s 4s 9s stop
}

func ExampleTimes() {
	show(backoff.Times(2)) // three attempts in all
	show(backoff.And(backoff.Times(2), backoff.Constant(time.Second)))
	show(backoff.Never)
	// Output:
	// 0s 0s stop
	// 1s 1s stop
	// stop
}

func ExampleFullJitter() {
	dice := func() float64 { return 0.25 } // leave Rand nil for true randomness
	show(backoff.FullJitter{Of: backoff.Exponential{Initial: time.Second}, Rand: dice})
	// Output: 250ms 500ms 1s 2s 4s ...
}

func ExampleEqualJitter() {
	dice := func() float64 { return 0.5 }
	show(backoff.EqualJitter{Of: backoff.Exponential{Initial: time.Second}, Rand: dice})
	// Output: 750ms 1.5s 3s 6s 12s ...
}

func ExampleFactorJitter() {
	least, most := func() float64 { return 0 }, func() float64 { return 1 }
	show(backoff.FactorJitter{Of: backoff.Constant(time.Second), Factor: 0.2, Rand: least})
	show(backoff.FactorJitter{Of: backoff.Constant(time.Second), Factor: 0.2, Rand: most})
	show(backoff.FactorJitter{Of: backoff.Constant(time.Second), Factor: 0.2, Upward: true, Rand: least})
	// Output:
	// 800ms 800ms 800ms 800ms 800ms ...
	// 1.2s 1.2s 1.2s 1.2s 1.2s ...
	// 1s 1s 1s 1s 1s ...
}

func ExampleDecorrelated() {
	most := func() float64 { return 1 }
	show(backoff.Decorrelated{Initial: time.Second, Max: time.Minute, Rand: most})
	// Output: 3s 9s 27s 1m0s 1m0s ...
}

func ExampleMaxDelay() {
	show(backoff.MaxDelay(backoff.Linear{Initial: time.Second}, 3*time.Second))
	// Output: 1s 2s 3s 3s 3s ...
}

func ExampleMaxElapsed() {
	show(backoff.MaxElapsed(backoff.Linear{Initial: time.Second}, 6*time.Second))
	// Output: 1s 2s 3s stop
}

func ExampleWhile() {
	temporary := func(err error) bool { return !errors.Is(err, io.EOF) }
	s := backoff.While(backoff.Constant(time.Second), temporary)
	fmt.Println(s.Next(backoff.Step{Attempt: 1, Err: errors.New("busy")}))
	fmt.Println(s.Next(backoff.Step{Attempt: 2, Err: io.EOF}))
	// Output:
	// 1s true
	// 0s false
}

func ExampleUntil() {
	final := func(err error) bool { return errors.Is(err, io.EOF) }
	s := backoff.Until(backoff.Constant(time.Second), final)
	fmt.Println(s.Next(backoff.Step{Attempt: 1, Err: io.EOF}))
	// Output: 0s false
}

func ExampleMap() {
	hurry := func(s backoff.Step, d time.Duration) time.Duration {
		if s.Attempt == 1 {
			return 0 // the first repeat at once
		}
		return d
	}
	show(backoff.Map(backoff.Exponential{Initial: time.Second}, hurry))
	// Output: 0s 2s 4s 8s 16s ...
}

func ExampleAnd() {
	show(backoff.And(backoff.Constant(3*time.Second), backoff.Linear{Initial: time.Second}))
	// Output: 3s 3s 3s 4s 5s ...
}

func ExampleOr() {
	show(backoff.Or(backoff.Constant(3*time.Second), backoff.Linear{Initial: time.Second}))
	// Output: 1s 2s 3s 3s 3s ...
}

func ExampleThen() {
	quick := backoff.And(backoff.Times(2), backoff.Constant(100*time.Millisecond))
	show(backoff.Then(quick, backoff.Exponential{Initial: time.Minute}))
	// Output: 100ms 100ms 1m0s 2m0s 4m0s ...
}

func ExampleValidate() {
	err := backoff.Validate(backoff.FullJitter{Of: backoff.Exponential{Multiplier: math.NaN()}})
	fmt.Println(errors.Is(err, backoff.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// backoff: invalid schedule: Exponential.Multiplier is NaN, not 0 or a finite number of at least 1
}
