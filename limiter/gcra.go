package limiter

import (
	"math"
	"math/bits"
	"time"
)

// gcra is the arithmetic of the generic cell rate algorithm (ITU-T I.371, in the
// form of a virtual schedule) in whole nanoseconds. The state of a bucket is one
// number, which the user of a gcra keeps: tat, when all that has been taken will
// have come back and the bucket is full again. A tat that has passed says the
// same as none.
//
// A permit moves tat on by interval, from now if it has passed. It may be used
// when tat is no more than depth ahead: at once, or else at tat-depth. So the
// permits used in a window of length d move tat by at most d+depth, which makes
//
//	depth/interval + d/interval <= Burst + Rate*d
//
// of them, as depth is Burst intervals and an interval is at least 1/Rate. That
// holds in whatever order the takes of several goroutines come, each with its
// own now: tat never moves back, so between the first and the last take that is
// used in the window it goes from the window's start or later to its end plus
// depth or earlier.
type gcra struct {
	rate     float64 // permits per second, as configured
	burst    int64   // permits in a full bucket
	interval int64   // between two permits
	depth    int64   // burst*interval: from empty to full
}

// newGCRA checks what config's fields Rate and Burst say.
func newGCRA(config string, rate float64, burst int) (gcra, error) {
	if err := checkRate(config+".Rate", rate); err != nil {
		return gcra{}, err
	}
	g := gcra{rate: rate, burst: int64(burst), interval: int64(perPermit(rate).ceil())}
	if burst == 0 {
		g.burst = int64(math.Ceil(rate)) // at least 1
	}
	// One a century is a little less as a float64.
	if over, depth := bits.Mul64(uint64(g.burst), uint64(g.interval)); burst < 0 || over > 0 || depth > uint64(century+time.Second) {
		return gcra{}, invalidf("%s.Burst is %d, want 0 up to what comes back in a century", config, burst)
	}
	g.depth = g.burst * g.interval
	return g, nil
}

// wait returns how long from now it is until n permits, 1 to burst, may be used
// by who takes them now. It does not overflow: what is subtracted is at most
// depth.
func (g *gcra) wait(tat, now int64, n int) int64 {
	return max(0, max(tat-now, 0)-(g.depth-int64(n)*g.interval))
}

// next returns tat after a take of n permits at now. The caller keeps it within
// farthest by a bound on wait.
func (g *gcra) next(tat, now int64, n int) int64 {
	return max(tat, now) + int64(n)*g.interval
}

// tokens returns how many permits there are at now; less than none when more
// than the bucket held are reserved.
func (g *gcra) tokens(tat, now int64) float64 {
	return float64(g.burst) - float64(max(tat-now, 0))/float64(g.interval)
}

// farthest is the longest wait for which permits are reserved.
const farthest = int64(10 * 365 * 24 * time.Hour)

// instants counts time in nanoseconds on the monotonic clock, so that a step of
// the wall clock changes nothing. Its base belongs to the limiter that uses it,
// as the clock of a synctest bubble is not the clock outside.
type instants struct{ base time.Time }

// origin is the instant of the base. What is further away, 73 years, counts as
// that far: so an instant is from 0 to 2^62, and with farthest and depth added,
// twice a century at most, it is below 2^63.
const origin = 1 << 61

func (c *instants) at(t time.Time) int64 { return c.after(t.Sub(c.base)) }

// after returns the instant that is d after the base.
func (c *instants) after(d time.Duration) int64 { return origin + int64(min(max(d, -origin), origin)) }

// now reads the clock. time.Since reads the monotonic half only, which is the
// cheaper one.
func (c *instants) now() int64 { return origin + int64(time.Since(c.base)) }

// until reads the clock, and returns what it shows and the instant of t. One without a
// monotonic reading is measured from now, since the wall clock may have been set since
// the base was read.
func (c *instants) until(t time.Time) (now, at int64) {
	read := time.Now()
	now = c.at(read)
	return now, now + int64(min(max(t.Sub(read), -origin), origin))
}
