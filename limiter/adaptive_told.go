package limiter

import "github.com/flyball-go/flyball/throttle"

// told is what a vendor said is left of its quota.
type told struct {
	left  float64 // permits
	until float64 // seconds; 0: nothing was said, or it is over
	limit float64 // of the window that follows; 0: not said
	span  float64 // the longest time that the end of a window was away

	// The last takes, a ring: those that an answer cannot know of are subtracted
	// from what it says.
	taken []stamp
	next  int
}

type stamp struct{ at, n float64 }

const stamps = 256

// sameReset is how far the ends that a vendor tells of one window may be apart, in
// seconds: headers have whole ones, and clocks differ.
const sameReset = 1.5

func (o *told) hear(t, sent float64, q throttle.Quota, reset float64) {
	if q.Limit > 0 {
		o.limit = float64(q.Limit)
	}
	if reset <= t || q.Remaining < 0 {
		return
	}
	left := float64(q.Remaining) - o.since(sent)
	switch o.roll(t); {
	case o.until == 0 || reset > o.until+sameReset:
		o.left, o.until = left, reset
	case reset < o.until-sameReset:
		return // a late answer about the window before, or a shorter one
	default:
		o.left, o.until = min(o.left, left), max(o.until, reset)
	}
	o.span = max(o.span, reset-t)
}

// since returns how many permits were taken after a call that was sent then.
func (o *told) since(sent float64) (n float64) {
	for _, s := range o.taken {
		if s.at > sent {
			n += s.n
		}
	}
	return n
}

// roll goes on to the next window when one is over: what it will hold is known when
// the limit is, how long it lasts only roughly.
func (o *told) roll(t float64) {
	if o.until == 0 || t < o.until {
		return
	}
	if o.limit > 0 && t < o.until+o.span {
		o.left, o.until, o.span = o.limit, o.until+o.span, 0
	} else {
		o.until = 0
	}
}

func (o *told) wait(t, n float64) float64 {
	if o == nil {
		return 0
	}
	o.roll(t)
	if o.until == 0 || n <= o.left || o.limit > 0 && n > o.limit && o.left == o.limit {
		return 0
	}
	return o.until - t
}

func (o *told) take(t, n float64) {
	if o == nil {
		return
	}
	o.roll(t)
	o.left -= n
	o.taken[o.next] = stamp{t, n}
	o.next = (o.next + 1) % len(o.taken)
}
