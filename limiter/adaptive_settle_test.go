package limiter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
)

// costly is a take, and what it turned out to cost.
type costly struct {
	at      time.Duration
	n, cost int
}

// settled drives a at its pace, with takes of 1 or of up to 20 that turn out to cost less,
// some at once and some long after they were made, and returns them.
func settled(a *Adaptive, r *rand.Rand, takes int) []costly {
	var all []costly
	var open []int
	now := time.Duration(0)
	for len(all) < takes {
		switch r.IntN(8) {
		case 0:
			now += time.Duration(r.ExpFloat64() * float64(100*time.Millisecond))
		case 1, 2, 3:
			if len(open) > 0 {
				i := r.IntN(len(open))
				c := &all[open[i]]
				c.cost = r.IntN(c.n + 1)
				a.SettleAt(after(now), after(c.at), "", c.n, c.cost)
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			}
		default:
			n := 1
			if r.IntN(4) == 0 {
				n = 1 + r.IntN(20)
			}
			now += a.Wait(after(now), "", n)
			a.Take(after(now), "", n)
			a.Accepted(after(now), after(now), "")
			open = append(open, len(all))
			all = append(all, costly{now, n, n})
		}
	}
	return all
}

func TestAdaptiveKeepsItsShortRunBoundWhateverIsSettled(t *testing.T) {
	const rate = 10.0
	for seed := range uint64(effort.Times(20)) {
		r := rand.New(rand.NewPCG(seed, 11))
		all := settled(newAdaptive(t, AdaptiveConfig{Start: rate, Min: rate, Max: rate}), r, 300)
		for i := range all {
			passed, largest := 0, 0
			for _, c := range all[i:] {
				passed, largest = passed+c.cost, max(largest, c.n)
				d := (c.at - all[i].at).Seconds()
				if most := max(1+rate*catchUp, float64(largest)) + rate*d; float64(passed) > most+1e-6 {
					t.Fatalf("seed %d: %d permits passed in %.3f s from %v on, want at most %.2f", seed, passed, d, all[i].at, most)
				}
			}
		}
	}
}

func TestAdaptiveKeepsItsWindowWhateverIsSettled(t *testing.T) {
	for seed := range uint64(effort.Times(20)) {
		r := rand.New(rand.NewPCG(seed, 12))
		all := settled(newAdaptive(t, AdaptiveConfig{Start: 100, Max: 100, Window: time.Second}), r, 1000)
		for i := range all {
			passed := 0
			for _, c := range all[i:] {
				if c.at-all[i].at >= time.Second {
					break
				}
				passed += c.cost
			}
			if passed > 100 {
				t.Fatalf("seed %d: %d permits in the second from %v on, want at most 100", seed, passed, all[i].at)
			}
		}
	}
}

// Takes of long ago have left the window, and come back by the passing of time.
func TestAdaptiveGivesNothingBackThatHasComeBack(t *testing.T) {
	for name, cfg := range map[string]AdaptiveConfig{
		"bucket": {Start: 10, Max: 10},
		"window": {Start: 10, Max: 10, Window: time.Second},
	} {
		for how, settle := range map[string]func(a *Adaptive, now, taken time.Time){
			"at":      func(a *Adaptive, now, taken time.Time) { a.SettleAt(now, taken, "", 100, 1) },
			"undated": func(a *Adaptive, now, taken time.Time) { a.Settle(now, "", 100, 1) },
		} {
			a := newAdaptive(t, cfg)
			now, got := epoch, 0
			for range 20 {
				now = now.Add(a.Wait(now, "", 100))
				a.Take(now, "", 100)
			}
			taken := now
			now = now.Add(time.Hour)
			for end := now.Add(500 * time.Millisecond); now.Before(end); now = now.Add(time.Millisecond) {
				if a.Wait(now, "", 1) == 0 {
					a.Take(now, "", 1)
					got++
				}
				settle(a, now, taken)
			}
			if got > 10 {
				t.Errorf("%s, %s: %d permits passed in half a second at 10 a second", name, how, got)
			}
			if name == "bucket" && got > 6 {
				t.Errorf("%s, %s: %d permits passed in half a second at 10 a second, want 6", name, how, got)
			}
		}
	}
}

// What the last take cost less shortens the wait of those who wait now.
func TestAdaptiveGivesBackWhatTheLastTakeCostLess(t *testing.T) {
	a := newAdaptive(t, AdaptiveConfig{Start: 10, Max: 10})
	a.Take(epoch, "", 1)
	a.SettleAt(after(time.Millisecond), epoch, "", 1, 0)
	if d := a.Wait(after(time.Millisecond), "", 1); d != 0 {
		t.Errorf("Wait = %v after a take that cost nothing, want none", d)
	}
}
