package main

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/flyball-go/flyball/examples/internal/adsclient"
)

// curve is what a mode did over time. All times are counted from its first call.
type curve struct {
	elapsed time.Duration   // when the last result was there
	done    []time.Duration // when each report was there, in order
	pauses  []pause         // of the whole host, as they were announced; they may overlap
}

type pause struct{ from, to time.Duration }

// curveOf cuts what was noted to the time from the first call to the end.
func curveOf(first, end time.Time, done []time.Time, told []adsclient.Span) curve {
	if first.IsZero() { // there was no call
		return curve{}
	}
	c := curve{elapsed: end.Sub(first)}
	for _, at := range done {
		c.done = append(c.done, at.Sub(first))
	}
	for _, s := range told {
		if p := (pause{max(0, s.From.Sub(first)), min(c.elapsed, s.To.Sub(first))}); p.from < p.to {
			c.pauses = append(c.pauses, p)
		}
	}
	return c
}

// rates returns reports per second in each window, at its middle, in seconds. What
// is left at the end is a window of its own, when it is half a window or more, or
// else part of the one before.
func (c *curve) rates(window time.Duration) plotter.XYs {
	if c.elapsed <= 0 {
		return nil
	}
	n := max(1, int(math.Round(float64(c.elapsed)/float64(window))))
	reports := make([]int, n)
	for _, at := range c.done {
		reports[min(n-1, int(at/window))]++
	}
	points := make(plotter.XYs, n)
	for i := range points {
		from, to := time.Duration(i)*window, time.Duration(i+1)*window
		if i == n-1 {
			to = c.elapsed
		}
		points[i] = plotter.XY{X: (from + to).Seconds() / 2, Y: float64(reports[i]) / (to - from).Seconds()}
	}
	return points
}

// window returns a round length of which the longest mode has some forty, or fewer
// when they would hold less than ten reports each, but eight.
func window(rs []*result) time.Duration {
	var elapsed time.Duration
	var most int
	for _, r := range rs {
		elapsed, most = max(elapsed, r.curve.elapsed), max(most, len(r.curve.done))
	}
	want := max(elapsed/45, min(elapsed/8, 10*elapsed/time.Duration(max(1, most))))
	for round := time.Millisecond; ; round *= 10 {
		steps := []time.Duration{round, 2 * round, 5 * round}
		if i := slices.IndexFunc(steps, func(s time.Duration) bool { return s >= want }); i >= 0 {
			return steps[i]
		}
	}
}
