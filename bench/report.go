package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is a measured row. The fields named ns hold bytes when the unit says so.
type result struct {
	Row    string  `json:"row"`
	Ours   float64 `json:"ours_ns"`
	Peer   string  `json:"peer"`
	PeerNS float64 `json:"peer_ns"`
	Ratio  float64 `json:"ratio"`
	Allocs float64 `json:"allocs"`
	Target string  `json:"target"` // "-" when there is none yet
	OK     *bool   `json:"ok"`     // null when there is none yet
	Unit   string  `json:"unit"`

	what string
}

// judge condenses a row's samples to medians. The ratio is the median of the
// ratios within a pass, not the ratio of the medians: what disturbs the machine
// disturbs both halves of a pass.
func judge(r row, samples []sample) result {
	of := func(f func(sample) float64) float64 {
		v := make([]float64, len(samples))
		for i, s := range samples {
			v[i] = f(s)
		}
		return median(v)
	}
	res := result{
		Row: r.id, Peer: r.peer, Unit: r.unit, Target: r.targetText(), what: r.what,
		Ours:   round(of(func(s sample) float64 { return s.ours }), 1),
		PeerNS: round(of(func(s sample) float64 { return s.peer }), 1),
		Ratio:  round(of(func(s sample) float64 { return s.ours / s.peer }), 3),
		Allocs: round(of(func(s sample) float64 { return s.allocs }), 1),
	}
	if len(r.target) == 0 {
		return res
	}
	ok := true
	for _, b := range r.target {
		ok = ok && []float64{ratio: res.Ratio, amount: res.Ours, allocs: res.Allocs}[b.of] <= b.most
	}
	res.OK = &ok
	return res
}

// median returns the middle of v, or the mean of the two that are there.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// round rounds to so many decimals. What is not a number becomes 0: JSON has
// none, and nothing that was measured has such a value.
func round(v float64, decimals int) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	p := math.Pow10(decimals)
	return math.Round(v*p) / p
}

func writeJSON(w io.Writer, results []result) error {
	out, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", out)
	return err
}

func writeTable(w io.Writer, results []result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tours\tpeer\tratio\tallocations\ttarget\tok\twhat, beside which peer")
	for _, r := range results {
		fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
	}
	return t.Flush()
}

// cells are a row of the table for people.
func (r *result) cells() []string {
	verdict := "-"
	if r.OK != nil {
		verdict = map[bool]string{true: "ok", false: "short"}[*r.OK]
	}
	return []string{
		r.Row, quantityText(r.Ours, r.Unit), quantityText(r.PeerNS, r.Unit), fmt.Sprintf("%.3gx", r.Ratio),
		fmt.Sprintf("%g", r.Allocs), r.Target, verdict, r.what + "; " + r.Peer,
	}
}

// larger has the units that follow those of the rows, each a thousand of the one before.
var larger = map[string][]string{"ns": {"µs", "ms", "s"}, "B": {"kB", "MB", "GB"}}

// quantityText is v with a unit that is easy to read. Four digits of the row's own are.
func quantityText(v float64, unit string) string {
	most := 1e4
	for _, next := range larger[unit] {
		if v < most {
			break
		}
		v, unit, most = v/1000, next, 1000
	}
	if v < 100 {
		return fmt.Sprintf("%.3g %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}
