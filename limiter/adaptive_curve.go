package limiter

import "math"

// curve is how the rate of an Adaptive rises from one refusal to the next. It runs
// over the time in which the pace was what kept calls back, and stands still in
// between.
//
// With a depth it has the shape of TCP CUBIC (RFC 9438): it starts below the
// plateau by that share, is flat around it, where the limit probably is, and
// rises the faster the longer nothing is refused, so that a quota that was
// raised is found. Without a depth it doubles in each rise.
type curve struct {
	plateau float64 // permits per second
	depth   float64
	rise    float64 // seconds from the start to the plateau, or to the double
	grown   float64 // seconds so far
}

// rate returns where the curve is now.
func (c *curve) rate() float64 {
	x := c.grown / c.rise
	if c.depth == 0 {
		return c.plateau * math.Exp2(x)
	}
	return c.plateau * (1 + c.depth*(x-1)*(x-1)*(x-1))
}

// above returns how many permits the curve has let through so far that a limit
// of q per second would not have: the integral of its rate less q since it
// passed q. q is more than 0 and at most the rate now.
func (c *curve) above(q float64) float64 {
	from, to := 0.0, c.grown/c.rise
	if c.depth == 0 {
		from = min(max(from, math.Log2(q/c.plateau)), to)
		return c.rise * (c.plateau/math.Ln2*(math.Exp2(to)-math.Exp2(from)) - q*(to-from))
	}
	from = min(max(from, 1+math.Cbrt((q/c.plateau-1)/c.depth)), to)
	bend := math.Pow(to-1, 4) - math.Pow(from-1, 4)
	return c.rise * (c.plateau*c.depth*bend/4 + (c.plateau-q)*(to-from))
}

// solve returns the q between lo and up for which above(q) is burst(q), lo or up
// if there is none. It takes above-burst to fall as q grows.
func (c *curve) solve(lo, up float64, burst func(q float64) float64) float64 {
	for range 40 { // halvings: to 1 in 10^12 of what is between lo and up
		q := (lo + up) / 2
		if c.above(q) > burst(q) {
			lo = q
		} else {
			up = q
		}
	}
	return lo
}
