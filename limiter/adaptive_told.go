package limiter

import (
	"slices"
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// told is what a vendor said is left of its quotas.
type told struct {
	windows []toldWindow // at most mostTold
}

// toldWindow is one of them.
type toldWindow struct {
	which toldOf
	left  float64 // permits
	until float64 // seconds; 0: nothing was said, or it is over
	limit float64 // of the window that follows; 0: not said
	span  float64 // the longest time that the end of a window was away
}

// toldOf tells the windows of one vendor apart.
type toldOf struct {
	name   string
	window time.Duration
}

// lately are the takes of late, oldest first: those that an answer cannot know of are
// subtracted from what it says. Where there are too many, older ones are made one that
// counts as late as the latest of them. So none is forgotten, and too many are subtracted
// by no more than a part of those that are, an eighth while that is enough to make room.
type lately struct {
	taken []stamp // its capacity is how many there may be; 0: fewStamps
}

type stamp struct{ at, n float64 }

const (
	fewStamps = 32  // as long as nothing was told
	stamps    = 256 // then
	mostTold  = 8   // of one limit: names come from the vendor
)

// sameReset is how far the ends that a vendor tells of one window may be apart, in
// seconds: headers have whole ones, and clocks differ.
const sameReset = 1.5

// hear takes what was said. since is what was taken after the call was sent that was
// answered.
func (o *told) hear(t, since float64, q throttle.Quota, reset float64) {
	which := toldOf{q.Name, q.Window}
	said := reset > t && q.Remaining >= 0
	if said || len(o.windows) < mostTold || slices.ContainsFunc(o.windows, func(w toldWindow) bool { return w.which == which }) {
		o.of(which).hear(t, q, reset, float64(q.Remaining)-since)
	}
}

// of returns the window that is meant. When there are too many, the one that ends
// first is forgotten: hear asks for no further one of which nothing is said.
func (o *told) of(which toldOf) *toldWindow {
	first := 0
	for i := range o.windows {
		switch w := &o.windows[i]; {
		case w.which == which:
			return w
		case w.until < o.windows[first].until:
			first = i
		}
	}
	if len(o.windows) < mostTold {
		first = len(o.windows)
		o.windows = append(o.windows, toldWindow{})
	}
	o.windows[first] = toldWindow{which: which}
	return &o.windows[first]
}

// forget drops what is known.
func (o *told) forget() { o.windows = o.windows[:0] }

func (o *toldWindow) hear(t float64, q throttle.Quota, reset, left float64) {
	if q.Limit > 0 {
		o.limit = float64(q.Limit)
	}
	if reset <= t || q.Remaining < 0 {
		return
	}
	switch o.roll(t); {
	case o.until == 0 || reset > o.until+sameReset:
		o.left, o.until = left, reset
	case reset < o.until-sameReset:
		return // a late answer about the window before, or another without a name
	default:
		o.left, o.until = min(o.left, left), max(o.until, reset)
	}
	o.span = max(o.span, reset-t)
}

// since returns how many permits were taken after a call that was sent then.
func (r *lately) since(sent float64) (n float64) {
	for i := len(r.taken) - 1; i >= 0 && r.taken[i].at > sent; i-- {
		n += r.taken[i].n
	}
	return n
}

func (r *lately) note(t, n float64) {
	if last := len(r.taken) - 1; last >= 0 && r.taken[last].at == t {
		r.taken[last].n += n
		return
	}
	if cap(r.taken) == 0 {
		r.room(fewStamps)
	}
	if len(r.taken) == cap(r.taken) {
		r.merge()
	}
	r.taken = append(r.taken, stamp{t, n})
}

// merge frees an eighth of the stamps at least. Those of the newer half stay as they are.
func (r *lately) merge() {
	most := len(r.taken)
	begin, half := 0, most/2
	for part := 1. / 8; begin < most/8; part *= 2 {
		newer := 0.
		for _, s := range r.taken[half:] {
			newer += s.n
		}
		to, one := half, r.taken[half-1]
		for i := half - 2; i >= begin; i-- {
			s := r.taken[i]
			if one.n+s.n <= newer*part {
				one.n += s.n
				continue
			}
			newer += one.n
			to--
			r.taken[to], one = one, s
		}
		to--
		r.taken[to], begin = one, to
	}
	r.taken = append(r.taken[:0], r.taken[begin:]...)
}

// room makes room for so many stamps, eight at least.
func (r *lately) room(most int) {
	if cap(r.taken) < most {
		r.taken = append(make([]stamp, 0, most), r.taken...)
	}
}

// roll goes on to the next window when one is over: what it will hold is known when
// the limit is, how long it lasts only roughly.
func (o *toldWindow) roll(t float64) {
	if o.until == 0 || t < o.until-tick {
		return
	}
	if o.limit > 0 && t < o.until+o.span {
		o.left, o.until, o.span = o.limit, o.until+o.span, 0
	} else {
		o.until = 0
	}
}

func (o *toldWindow) wait(t, n float64) float64 {
	o.roll(t)
	if o.until == 0 || n <= o.left || o.limit > 0 && n > o.limit && o.left == o.limit {
		return 0
	}
	return o.until - t
}

// wait returns how long all of them make n permits wait, seen from now.
func (o *told) wait(t, n float64) (d float64) {
	if o == nil {
		return 0
	}
	for i := range o.windows {
		d = max(d, o.windows[i].wait(t, n))
	}
	return d
}

func (o *told) take(t, n float64) {
	if o == nil {
		return
	}
	for i := range o.windows {
		w := &o.windows[i]
		w.roll(t)
		w.left -= n
	}
}

// Remaining returns what Told has taken that is not over: of each window what is left
// until when, and its limit where that was said. Told takes it in another Adaptive,
// with the same now for sent. nil: there is nothing.
func (a *Adaptive) Remaining(now time.Time) (all []throttle.Quota) {
	t := a.at(now)
	if a.told == nil {
		return nil
	}
	for i := range a.told.windows {
		w := &a.told.windows[i]
		if w.roll(t); w.until == 0 {
			continue
		}
		q := throttle.Quota{
			Name: w.which.name, Window: w.which.window, Limit: -1, Remaining: whole(w.left), Cost: -1,
			Reset: now.Add(time.Duration(whole((w.until - t) * 1e9))),
		}
		if w.limit > 0 {
			q.Limit = whole(w.limit)
		}
		all = append(all, q)
	}
	return all
}

// whole is x, at least 0 and at most 1<<62, rounded down.
func whole(x float64) int64 { return int64(max(0, min(x, 1<<62))) }
