package governor

import (
	"math"
	"testing"
)

func TestWeightIsBounded(t *testing.T) {
	for weight, want := range map[int]int32{math.MinInt: 1, 0: 1, 5: 5, maxWeight: maxWeight, maxWeight + 1: maxWeight, math.MaxInt: maxWeight} {
		c := &core{settings: settings{weight: func(string) int { return weight }}}
		if got := c.weigh(""); got != want {
			t.Errorf("weight %d counts as %d, want %d", weight, got, want)
		}
	}
}
