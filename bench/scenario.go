package main

import (
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// F: 20,000 calls to a vendor that tells nobody its quota, or to one that tells and
// halves it: how long they take, how many are refused, and what the longest wait
// is that the vendor asks for. Time is virtual, a pass is a seed.
//
// Beside the time is that of an oracle, whose calls wait at the vendor's door;
// beside the refusals and the waits are those of the same gate, with a cooldown
// that all share, but without a limit.
func init() {
	const window = 60 * time.Millisecond // the vendor tells of it
	unknown := limiter.AdaptiveConfig{Window: window, Start: 1000}
	add(row{
		id: "F2/blind", what: "neither the quota nor the window is known: time for 20,000 calls", peer: "an oracle", unit: "ns",
		measure: scenario{cfg: limiter.AdaptiveConfig{Start: 1000}}.compare(true, func(o outcome) float64 { return float64(o.elapsed) }),
	})
	for _, s := range []struct {
		id, what   string
		cfg        limiter.AdaptiveConfig
		fall, back time.Duration
		slower     float64
		refused    float64
		wait       time.Duration
	}{
		{"F1", "a quota that is known", limiter.AdaptiveConfig{Window: window, Start: 5000, Max: 5000}, 0, 0, 1.015, 0, 0},
		{"F2", "a quota that is not known", unknown, 0, 0, 1.069, 6, 60 * time.Millisecond},
		{"F3", "a quota not known, halved from 1 s to 3 s", unknown, time.Second, 3 * time.Second, 1.08, 10, 60 * time.Millisecond},
	} {
		sc := scenario{s.cfg, s.fall, s.back}
		add(
			row{
				id: s.id, what: s.what + ": time for 20,000 calls", peer: "an oracle", unit: "ns", target: []bound{{ratio, s.slower}},
				measure: sc.compare(true, func(o outcome) float64 { return float64(o.elapsed) }),
			},
			row{
				id: s.id + "/refused", what: s.what + ": refusals", peer: "a cooldown alone", unit: "calls", target: []bound{{amount, s.refused}},
				measure: sc.compare(false, func(o outcome) float64 { return float64(o.refused) }),
			},
			row{
				id: s.id + "/wait", what: s.what + ": longest wait asked for", peer: "a cooldown alone", unit: "ns", target: []bound{{amount, float64(s.wait)}},
				measure: sc.compare(false, func(o outcome) float64 { return float64(o.longest) }),
			},
		)
	}
}

// scenario is a limit and what the vendor's quota does meanwhile.
type scenario struct {
	cfg        limiter.AdaptiveConfig
	fall, back time.Duration
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
			limit, err := limiter.NewAdaptive(s.cfg)
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

// noLimit lets everything pass.
type noLimit struct{}

func (noLimit) Wait(time.Time, string, int) time.Duration { return 0 }
func (noLimit) Take(time.Time, string, int)               {}
func (noLimit) Settle(time.Time, string, int, int)        {}
func (noLimit) Accepted(time.Time, time.Time, string)     {}
func (noLimit) Refused(now, sent time.Time, key string)   {}
