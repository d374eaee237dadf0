package governor

import (
	"math"
	"testing"

	"github.com/flyball-go/flyball/governor/internal/fair"
)

func TestWeightIsBounded(t *testing.T) {
	for weight, want := range map[int]int32{math.MinInt: 1, 0: 1, 5: 5, fair.MaxWeight: fair.MaxWeight, fair.MaxWeight + 1: fair.MaxWeight, math.MaxInt: fair.MaxWeight} {
		c := &core{settings: settings{weight: func(string) int { return weight }}}
		if got := c.weigh(""); got != want {
			t.Errorf("weight %d counts as %d, want %d", weight, got, want)
		}
	}
}
