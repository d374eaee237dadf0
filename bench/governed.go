package main

import (
	"fmt"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
)

// F1gov to F5: the calls of F1 to F3 made by 200 submitters through a governor, each
// of which waits for its result before it makes the next. It is the governor as it
// is, with its clock in a bubble, and what it is told is in governings. The peers are
// those of F1 to F3, the gate without a limit being a governor without one.
//
// /gentle is the time with a vendor that reads its own rule gently: at its longest, a
// wait grows no more. /seeds is with how many of 20 seeds, by either reading, one of
// the targets is missed.
func init() {
	for _, s := range governings {
		s.add()
	}
	fair := governings[0]
	add(row{
		id: "F5", what: "F1gov's time from submission to result: 99th percentile", peer: "the median", unit: "ns", target: []bound{{ratio, 1.1}},
		measure: func(passes int) ([]sample, error) {
			all, err := virtual(fair.id, passes)
			samples := make([]sample, len(all))
			for i, o := range all {
				samples[i] = sample{ours: float64(o.P99), peer: float64(o.P50)}
			}
			return samples, err
		},
	})
	for _, n := range []int{1, 64, 1000} {
		id := fmt.Sprintf("F4/%d", n)
		bubbles[id] = func(seed int) (outcome, error) { return capped(seed, n) }
		add(row{
			id: id, what: fmt.Sprintf("first success of %d submitters, the vendor's wait being at its longest", n), peer: "the wait and a call",
			unit: "ns", target: []bound{{ratio, 1.05}},
			measure: func(passes int) ([]sample, error) {
				all, err := virtual(id, passes)
				samples := make([]sample, len(all))
				v := newVendor(1)
				for i, o := range all {
					samples[i] = sample{ours: float64(o.First), peer: float64(v.most + v.up + v.service + v.down)}
				}
				return samples, err
			},
		})
	}
}

// governing is what a governor is told, what the vendor's quota does meanwhile, and
// the targets; none if slower is 0.
type governing struct {
	scenario
	limits func() ([]governor.Limit, error)
}

const vendorWindow = 60 * time.Millisecond

var governings = []governing{
	{scenario{id: "F1gov", what: "a quota that is known", slower: 1.015}, documented},
	{scenario{id: "F1govdoc", what: "a quota that is known, and an Adaptive beside it", slower: 1.015}, doubted},
	{scenario{id: "F2gov", what: "a quota that is not known", slower: 1.069, refused: 6, wait: 4 * 15 * time.Millisecond}, undocumented},
	{scenario{id: "F2govblind", what: "neither quota nor window are known"}, untold},
	{scenario{"F3gov", "a quota not known, halved from 1 s to 3 s", nil, time.Second, 3 * time.Second, 1.08, 10, 4 * 15 * time.Millisecond}, undocumented},
	{scenario{"F3govdoc", "a quota that is known, and an Adaptive beside it, halved from 1 s to 3 s", nil, time.Second, 3 * time.Second, 1.08, 10, 4 * 15 * time.Millisecond}, doubted},
	{scenario{id: "F3govquota", what: "a quota that is known, halved from 1 s to 3 s", fall: time.Second, back: 3 * time.Second}, documented},
}

// documented is a quota as the vendor documents it.
func documented() ([]governor.Limit, error) {
	return []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 300, Per: vendorWindow}}}, nil
}

// undocumented is the window and an order of magnitude.
func undocumented() ([]governor.Limit, error) {
	l, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: vendorWindow, Start: 1000})
	return []governor.Limit{{Limiter: l}}, err
}

// untold leaves the governor to find a pace of its own.
func untold() ([]governor.Limit, error) { return nil, nil }

// doubted is a documented quota, and an Adaptive beside it that learns when the
// vendor does not keep to it.
func doubted() ([]governor.Limit, error) {
	l, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Window: vendorWindow, Max: 5000})
	quota, _ := documented()
	return append(quota, governor.Limit{Limiter: l}), err
}

// run makes the calls in the bubble that it is called in.
func (s governing) run(seed int, gentle bool) (outcome, error) {
	v := s.vendor(seed)
	v.gentle = gentle
	cfg := governed(v)
	var err error
	if cfg.Limits, err = s.limits(); err != nil {
		return outcome{}, err
	}
	return through(cfg, v, scenarioCalls, submitters)
}

// unlimited makes them through a governor that has no limit, and finds none.
func (s governing) unlimited(seed int) (outcome, error) {
	v := s.vendor(seed)
	cfg := governed(v)
	cfg.NoPace = true
	return through(cfg, v, scenarioCalls, submitters)
}

const submitters = 200

func (s governing) add() {
	gentle, bare := s.id+"/gentle", s.id+"/bare"
	bubbles[s.id] = func(seed int) (outcome, error) { return s.run(seed, false) }
	bubbles[gentle] = func(seed int) (outcome, error) { return s.run(seed, true) }
	bubbles[bare] = s.unlimited
	target := func(of quantity, most float64) []bound {
		if s.slower == 0 {
			return nil
		}
		return []bound{{of, most}}
	}
	elapsed := func(o outcome) float64 { return float64(o.Elapsed) }
	add(
		row{
			id: s.id, what: s.what + ": time for 20,000 calls through a governor", peer: "an oracle", unit: "ns", target: target(ratio, s.slower),
			measure: s.beside(s.id, "", elapsed),
		},
		row{
			id: gentle, what: s.what + ", waits that do not grow for ever: time for 20,000 calls through a governor", peer: "an oracle", unit: "ns", target: target(ratio, s.slower),
			measure: s.beside(gentle, "", elapsed),
		},
		row{
			id: s.id + "/refused", what: s.what + ": refusals", peer: "a governor without a limit", unit: "calls", target: target(amount, s.refused),
			measure: s.beside(s.id, bare, func(o outcome) float64 { return float64(o.Refused) }),
		},
		row{
			id: s.id + "/wait", what: s.what + ": longest wait asked for", peer: "a governor without a limit", unit: "ns", target: target(amount, float64(s.wait)),
			measure: s.beside(s.id, bare, func(o outcome) float64 { return float64(o.Longest) }),
		},
	)
	if s.slower == 0 {
		return
	}
	add(
		row{
			id: s.id + "/seeds", what: fmt.Sprintf("%s: seeds of %d that miss a target of the three", s.what, seeds), peer: "a governor without a limit", unit: "seeds",
			measure: func(int) ([]sample, error) {
				ours, err := s.missed(s.id, gentle)
				if err != nil {
					return nil, err
				}
				peer, err := s.missed(bare)
				return []sample{{ours: ours, peer: peer}}, err
			},
		},
	)
}

// beside runs a bubble with as many seeds as there are passes, beside another one or,
// if that is "", an oracle.
func (s governing) beside(ours, peer string, of func(outcome) float64) func(passes int) ([]sample, error) {
	return func(passes int) ([]sample, error) {
		all, err := virtual(ours, passes)
		if err != nil {
			return nil, err
		}
		theirs := make([]outcome, passes)
		if peer != "" {
			theirs, err = virtual(peer, passes)
		} else {
			for i := range theirs {
				if theirs[i], err = oracle(s.vendor(i + 1)); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		samples := make([]sample, passes)
		for i := range samples {
			samples[i] = sample{ours: of(all[i]), peer: of(theirs[i])}
		}
		return samples, nil
	}
}

// missed returns with how many seeds one of the bubbles misses a target.
func (s governing) missed(names ...string) (n float64, err error) {
	miss := make(map[int]bool)
	for _, name := range names {
		all, err := virtual(name, seeds)
		if err != nil {
			return 0, err
		}
		for i, o := range all {
			ideal, err := oracle(s.vendor(i + 1))
			if err != nil {
				return 0, err
			}
			if !s.holds(o, ideal) {
				miss[i] = true
			}
		}
	}
	return float64(len(miss)), nil
}

// capped makes a call of each of n submitters, when the vendor has just asked others
// for its longest wait. The governor knows nothing.
func capped(seed, n int) (outcome, error) {
	v := newVendor(uint64(seed))
	v.wait, v.until = v.most, v.most
	return through(governed(v), v, n, n)
}
