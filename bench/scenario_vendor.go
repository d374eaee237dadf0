package main

import (
	"math/rand/v2"
	"time"
)

// vendor is a simulated vendor: it accepts so many calls in any sliding window,
// and so many at once. A call beyond that is told to wait. A call that arrives
// during the wait is refused, too, and doubles it, counted from that call or, by the
// gentle reading, from where the wait began, up to a cap. Who sits a wait out in
// peace begins at the base again.
//
// At a scale of 1:1000 it is one of 300 calls a minute and 20 at once, that takes
// 2 s for a call and asks for 15 s, and for 15 min in the end.
type vendor struct {
	quota      int // calls in a window
	window     time.Duration
	concurrent int
	base, most time.Duration // the waits that it asks for
	gentle     bool          // at its longest, a wait grows no more

	// The way there, the work and the way back, each ±40 %.
	up, service, down time.Duration

	// From halved on and until whole the quota is half of what it was, and nobody
	// is told. Both 0: it never is.
	halved, whole time.Duration

	rng      *rand.Rand
	accepted []time.Duration // within the window, the oldest first
	serving  int
	wait     time.Duration
	began    time.Duration // what wait is counted from
	until    time.Duration // closed
	refused  int
	longest  time.Duration // of the waits
}

func newVendor(seed uint64) *vendor {
	return &vendor{
		quota: 300, window: 60 * time.Millisecond, concurrent: 20,
		base: 15 * time.Millisecond, most: 900 * time.Millisecond,
		up: 250 * time.Microsecond, service: 1500 * time.Microsecond, down: 250 * time.Microsecond,
		rng: rand.New(rand.NewPCG(seed, 300)),
	}
}

// about returns d, more or less.
func (v *vendor) about(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.6 + 0.8*v.rng.Float64()))
}

// arrive decides about a call: it is served, or refused and told to wait.
func (v *vendor) arrive(now time.Duration) (wait time.Duration, ok bool) {
	switch {
	case now < v.until:
		v.wait = min(2*v.wait, v.most)
		if !v.gentle {
			v.began = now
		}
	case v.serving >= v.concurrent || v.room(now) > 0:
		v.wait, v.began = v.base, now
	default:
		v.accepted = append(v.accepted, now)
		v.serving++
		return 0, true
	}
	v.until = v.began + v.wait
	v.refused++
	v.longest = max(v.longest, v.wait)
	return v.until - now, false
}

// room returns how long it is until the window has room for a call.
func (v *vendor) room(now time.Duration) time.Duration {
	for len(v.accepted) > 0 && now-v.accepted[0] >= v.window {
		v.accepted = v.accepted[1:]
	}
	quota := v.quota
	if now > v.halved && now < v.whole {
		quota /= 2
	}
	if over := len(v.accepted) - quota; over >= 0 {
		return v.accepted[over] + v.window - now
	}
	return 0
}
