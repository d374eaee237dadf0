// Package effort says how often a test that draws at random, or compares with a slow
// model, repeats itself: seldom on every run, often when there is a night for it.
//
// Its functions may be called by several goroutines at once. It is for tests of what is
// repeated with other seeds; a test whose size is what it is about keeps its size.
package effort

import (
	"fmt"
	"os"
	"strconv"
)

// Times returns n, or as many times that as the environment variable FLYBALL_EFFORT
// says, a whole number from 1 to 1,000,000.
func Times(n int) int { return n * factor }

// Usual reports whether nothing is repeated more often than on every run.
func Usual() bool { return factor == 1 }

var factor = parse(os.Getenv("FLYBALL_EFFORT"))

func parse(s string) int {
	if s == "" {
		return 1
	}
	f, err := strconv.Atoi(s)
	if err != nil || f < 1 || f > 1_000_000 {
		panic(fmt.Sprintf("effort: FLYBALL_EFFORT is %q, want a whole number from 1 to 1000000", s))
	}
	return f
}
