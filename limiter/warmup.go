package limiter

import (
	"math"
)

// warmUp is how a Leaky gets from cold to its rate. It measures permits in the time
// that they take at the rate, so that a change of the rate changes nothing here.
//
// A key has heat, 0 up to 1: the share of its store that is used up. Permits taken
// from the slow part of the store, the first one of it Cold times as long as at the
// rate and the last one as long, take longer by a straight line; others do not.
// Taking heats, by as much as is taken; rest cools.
type warmUp struct {
	over  float64 // ns of rest from hot to cold; 0: there is no warming up
	store float64 // ns of permits from cold to hot
	slow  float64 // of them, the slow ones
	steep float64 // how much longer a permit takes for each ns of slow ones left
}

func newWarmUp(cfg LeakyConfig) warmUp {
	if cfg.WarmUp == 0 {
		return warmUp{}
	}
	cold := cfg.Cold
	if cold == 0 {
		cold = 3
	}
	over := float64(cfg.WarmUp)
	slow := 2 * over / (1 + cold)
	return warmUp{over: over, store: over/2 + slow, slow: slow, steep: (cold - 1) / slow}
}

// rest returns how many ns it takes to cool down.
func (w *warmUp) rest(heat float64) uint64 { return uint64(math.Ceil(heat * w.over)) }

// cooled returns heat after a rest of so many ns.
func (w *warmUp) cooled(heat float64, rest uint64) float64 {
	if w.over == 0 {
		return 0
	}
	return max(0, heat-float64(rest)/w.over)
}

// take heats by so many ns of permits, and returns how much longer they take for it.
func (w *warmUp) take(heat *float64, permits float64) (longer uint64) {
	if w.over == 0 {
		return 0
	}
	left := w.slow - *heat*w.store // of the slow ones
	*heat = min(1, *heat+permits/w.store)
	if left <= 0 {
		return 0
	}
	k := min(permits, left)
	return uint64(math.Ceil(w.steep * k * (left - k/2)))
}
