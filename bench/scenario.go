package main

import (
	"fmt"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// F: 20,000 calls to a vendor that tells nobody its quota, or to one that tells and
// halves it: how long they take, how many are refused, and what the longest wait
// is that the vendor asks for. Time is virtual, a pass is a seed.
//
// Beside the time is that of an oracle, whose calls wait at the vendor's door;
// beside the refusals and the waits are those of the same gate, with a cooldown
// that all share, but without a limit. A median over the seeds does not say how
// often a target is missed: /seeds does.
func init() {
	const window = 60 * time.Millisecond // the vendor tells of it
	unknown := learns(limiter.AdaptiveConfig{Window: window, Start: 1000})
	blind := scenario{limit: learns(limiter.AdaptiveConfig{Start: 1000})}
	add(row{
		id: "F2/blind", what: "neither the quota nor the window is known: time for 20,000 calls", peer: "an oracle", unit: "ns",
		measure: blind.compare(true, func(o outcome) float64 { return float64(o.Elapsed) }),
	})
	for _, s := range []scenario{
		{"F1", "a quota that is known", knows(300, window), 0, 0, 1.015, 0, 0},
		{"F2", "a quota that is not known", unknown, 0, 0, 1.069, 6, 60 * time.Millisecond},
		{"F3", "a quota not known, halved from 1 s to 3 s", unknown, time.Second, 3 * time.Second, 1.08, 10, 60 * time.Millisecond},
	} {
		add(
			row{
				id: s.id, what: s.what + ": time for 20,000 calls", peer: "an oracle", unit: "ns", target: []bound{{ratio, s.slower}},
				measure: s.compare(true, func(o outcome) float64 { return float64(o.Elapsed) }),
			},
			row{
				id: s.id + "/refused", what: s.what + ": refusals", peer: "a cooldown alone", unit: "calls", target: []bound{{amount, s.refused}},
				measure: s.compare(false, func(o outcome) float64 { return float64(o.Refused) }),
			},
			row{
				id: s.id + "/wait", what: s.what + ": longest wait asked for", peer: "a cooldown alone", unit: "ns", target: []bound{{amount, float64(s.wait)}},
				measure: s.compare(false, func(o outcome) float64 { return float64(o.Longest) }),
			},
			row{
				id: s.id + "/seeds", what: fmt.Sprintf("%s: seeds of %d that miss a target of the three", s.what, seeds), peer: "a cooldown alone", unit: "seeds",
				measure: s.misses,
			},
		)
	}
}

// scenario is a limit, what the vendor's quota does meanwhile, and the targets.
type scenario struct {
	id, what   string
	limit      func() (limiter.Limiter, error)
	fall, back time.Duration
	slower     float64 // than the oracle
	refused    float64
	wait       time.Duration
}

// learns is a limit that finds out.
func learns(cfg limiter.AdaptiveConfig) func() (limiter.Limiter, error) {
	return func() (limiter.Limiter, error) { return limiter.NewAdaptive(cfg) }
}

// knows is the limit for a documented quota. The slowest way to the vendor takes
// 350 us and the fastest 150 us: the default Margin, 300 us, is enough.
func knows(limit int, per time.Duration) func() (limiter.Limiter, error) {
	return func() (limiter.Limiter, error) {
		return limiter.NewQuota(limiter.QuotaConfig{Limit: limit, Per: per})
	}
}

func (s scenario) vendor(seed int) *vendor {
	v := newVendor(uint64(seed))
	v.halved, v.whole = s.fall, s.back
	return v
}

// compare runs the scenario with as many seeds as there are passes, beside the
// oracle or beside no limit at all.
func (s scenario) compare(ideal bool, of func(outcome) float64) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		all := make([]sample, passes)
		for i := range all {
			limit, err := s.limit()
			if err != nil {
				return nil, err
			}
			ours, err := drive(s.vendor(i+1), limit)
			if err != nil {
				return nil, err
			}
			var peer outcome
			if ideal {
				peer, err = oracle(s.vendor(i + 1))
			} else {
				peer, err = drive(s.vendor(i+1), noLimit{})
			}
			if err != nil {
				return nil, err
			}
			all[i] = sample{ours: of(ours), peer: of(peer)}
		}
		return all, nil
	}
}

// seeds is how many are tried for how many of them miss a target.
const seeds = 20

// misses counts the seeds with which a target is missed, beside those with which no
// limit at all misses one. How many passes there are makes no difference to it.
func (s scenario) misses(int) ([]sample, error) {
	var n sample
	for seed := range seeds {
		limit, err := s.limit()
		if err != nil {
			return nil, err
		}
		ideal, err := oracle(s.vendor(seed + 1))
		if err != nil {
			return nil, err
		}
		for l, count := range map[limiter.Limiter]*float64{limit: &n.ours, noLimit{}: &n.peer} {
			o, err := drive(s.vendor(seed+1), l)
			if err != nil {
				return nil, err
			}
			if !s.holds(o, ideal) {
				*count++
			}
		}
	}
	return []sample{n}, nil
}

// holds reports whether o is within the targets.
func (s scenario) holds(o, ideal outcome) bool {
	return float64(o.Elapsed) <= s.slower*float64(ideal.Elapsed) && float64(o.Refused) <= s.refused && o.Longest <= s.wait
}

// noLimit lets everything pass.
type noLimit struct{}

func (noLimit) Wait(time.Time, string, int) time.Duration { return 0 }
func (noLimit) Take(time.Time, string, int)               {}
func (noLimit) Settle(time.Time, string, int, int)        {}
func (noLimit) Accepted(time.Time, time.Time, string)     {}
func (noLimit) Refused(now, sent time.Time, key string)   {}
