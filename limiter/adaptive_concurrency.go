package limiter

import (
	"fmt"
	"math"
	"time"
)

// AdaptiveConcurrencyConfig bounds what an AdaptiveConcurrency may find.
type AdaptiveConcurrencyConfig struct {
	// Start is the limit to begin with. 0 means 20, or Min or Max when that is
	// out of their bounds.
	Start int

	// Min and Max bound the limit. 0 means 1 and 1000; Max is at most 1<<30.
	Min, Max int

	// Tolerance is how many times longer than usual calls may take before the
	// limit is lowered: 1 up to 100. 0 means 1.5.
	Tolerance float64

	// AskAgain is what Wait returns while too many run: when an owner that hears
	// of no Release should ask again, up to a century. 0 means 100 ms.
	AskAgain time.Duration
}

// AdaptiveConcurrency bounds how many calls run at once, and finds the bound by how
// long they take. A server that is asked for more than it does at once queues, and
// answers later. While calls take as long as usual the limit grows, by a fifth of
// its square root a round; when they take longer it falls in proportion. A round
// lasts until a call that was sent in it is answered, and has 10 calls at least. A
// refusal takes a tenth away.
//
// It is the gradient of Netflix's concurrency-limits
// (https://github.com/Netflix/concurrency-limits): Tolerance times the usual
// latency by the one in the round, cut to 0.5 up to 1; the limit goes a fifth of
// the way to limit*gradient + sqrt(limit). When no more than half of the limit ran,
// it stays: nothing was tried. What is usual is measured as BBR does (Cardwell et
// al., "BBR: Congestion-Based Congestion Control", 2016): the least that was seen,
// and every 200 rounds that of a round with a third of the limit, after one in which
// what was queued drains. A mean, as in Gradient2, takes an overload for usual when
// it lasts. What a round shows is taken to be as near to the usual as two standard
// errors of its mean allow: latencies that vary by themselves lower nothing.
//
// Latency steers it, so it is for servers of your own and others that slow down
// when they are overloaded. A vendor whose refusals are fast looks healthy to it:
// that is what an Adaptive is for. It is off unless you use it.
//
// A take is admitted while no more permits are held than the limit is then, or
// alone. Each Take needs one Release, with the permits taken or settled to, however
// the call ended; and before it Accepted or Refused, if the call succeeded or failed
// for overload. What failed otherwise is only released. Keys are ignored.
//
// A governor, a Shared and a ConcurrencyPolicy call Release. An AdaptiveConcurrency
// belongs to one owner and has no lock. Methods are O(1) and allocate nothing.
type AdaptiveConcurrency struct {
	least, most, tolerance float64
	again                  time.Duration

	limit float64
	held  int
	cut   time.Time // when the last refusal that counted was received
	usual float64   // seconds; 0: not known
	round tries

	rounds int     // until usual is measured again, and below 0 while it is
	whole  float64 // the limit before that
}

// tries is what happened since the limit was last looked at.
type tries struct {
	began time.Time
	sum   float64 // seconds
	sq    float64 // of their squares
	calls float64
	peak  int // most permits held
}

const (
	smoothing     = 0.2
	onRefusal     = 0.9
	leastGradient = 0.5
	leastCalls    = 10
	sure          = 2    // standard errors: what is less may be chance
	measureEvery  = 200  // rounds
	mayRise       = 1.25 // usual in one measurement, in case a third of the limit is too much, too
)

// NewAdaptiveConcurrency returns an AdaptiveConcurrency under which nothing runs.
// The error names the field that is out of range.
func NewAdaptiveConcurrency(cfg AdaptiveConcurrencyConfig) (*AdaptiveConcurrency, error) {
	bad := func(field string, value any, want string) error {
		return invalidf("AdaptiveConcurrencyConfig.%s is %v, want %s", field, value, want)
	}
	if cfg.Min == 0 {
		cfg.Min = 1
	}
	if cfg.Max == 0 {
		cfg.Max = max(1000, cfg.Min)
	}
	if cfg.Start == 0 {
		cfg.Start = min(max(20, cfg.Min), cfg.Max)
	}
	if cfg.Tolerance == 0 {
		cfg.Tolerance = 1.5
	}
	if cfg.AskAgain == 0 {
		cfg.AskAgain = 100 * time.Millisecond
	}
	switch {
	case cfg.Min < 1 || cfg.Min > 1<<30:
		return nil, bad("Min", cfg.Min, "0 up to 1<<30")
	case cfg.Max < 1 || cfg.Max > 1<<30:
		return nil, bad("Max", cfg.Max, "0 up to 1<<30")
	case cfg.Min > cfg.Max:
		return nil, bad("Min", cfg.Min, fmt.Sprintf("0 up to Max, %d", cfg.Max))
	case cfg.Start < cfg.Min || cfg.Start > cfg.Max:
		return nil, bad("Start", cfg.Start, fmt.Sprintf("0, or Min, %d, up to Max, %d", cfg.Min, cfg.Max))
	case !(cfg.Tolerance >= 1 && cfg.Tolerance <= 100): // nor NaN
		return nil, bad("Tolerance", cfg.Tolerance, "0, or 1 up to 100")
	case cfg.AskAgain < 0 || cfg.AskAgain > century:
		return nil, bad("AskAgain", cfg.AskAgain, "0 up to a century")
	}
	return &AdaptiveConcurrency{
		least: float64(cfg.Min), most: float64(cfg.Max), tolerance: cfg.Tolerance, again: cfg.AskAgain,
		limit: float64(cfg.Start), rounds: measureEvery,
	}, nil
}

// Limit returns how many permits may be held at once at present.
func (c *AdaptiveConcurrency) Limit() int { return int(c.limit) }

// Held returns how many permits are held.
func (c *AdaptiveConcurrency) Held() int { return c.held }

// Wait returns 0 when n permits can be taken, Never when n is more than Max, and
// AskAgain else. Nothing held admits any n up to Max.
func (c *AdaptiveConcurrency) Wait(now time.Time, key string, n int) time.Duration {
	switch {
	case n < 1:
		return 0
	case float64(n) > c.most:
		return Never
	case c.held > 0 && n > int(c.limit)-c.held:
		return c.again
	}
	return 0
}

// Take takes n permits.
func (c *AdaptiveConcurrency) Take(now time.Time, key string, n int) {
	if n >= 1 {
		c.held += min(n, 1<<30)
		c.round.peak = max(c.round.peak, c.held)
	}
}

// Release gives n permits back, at most those that are held.
func (c *AdaptiveConcurrency) Release(now time.Time, key string, n int) {
	c.held -= min(max(0, n), c.held)
}

// Settle corrects the permits that a call holds from n to used. The call releases
// used.
func (c *AdaptiveConcurrency) Settle(now time.Time, key string, n, used int) {
	c.Release(now, key, n)
	c.Take(now, key, used)
}

// Accepted is told that a call has succeeded. It is to be called before Release.
func (c *AdaptiveConcurrency) Accepted(now, sent time.Time, key string) {
	took := now.Sub(sent).Seconds()
	if took <= 0 {
		return
	}
	r := &c.round
	r.sum += took
	r.sq += took * took
	r.calls++
	if r.calls < leastCalls || sent.Before(r.began) {
		return
	}
	latest, busy := r.sum/r.calls, float64(r.peak) > c.limit/2
	// Half of all means are less than what they estimate, and the least of many is by far.
	chance := sure * math.Sqrt(max(0, r.sq/r.calls-latest*latest)/r.calls)
	*r = tries{began: now, peak: c.held}
	if c.usual == 0 || latest+chance < c.usual {
		c.usual = latest + chance
	}
	switch c.rounds--; {
	case c.rounds == -1:
		c.whole = c.limit
		c.set(c.limit / 3)
	case c.rounds == -2: // what was on its way has been answered
	case c.rounds <= -3:
		c.usual, c.rounds = min(latest+chance, mayRise*c.usual), measureEvery
		c.set(c.whole)
	case busy:
		gradient := min(max(leastGradient, c.tolerance*c.usual/max(latest-chance, c.usual/2)), 1)
		c.set(c.limit + smoothing*(c.limit*gradient+math.Sqrt(c.limit)-c.limit))
	}
}

// Refused is told that a call has failed because the server is overloaded. One
// refusal counts for all the calls that were sent before it was received.
func (c *AdaptiveConcurrency) Refused(now, sent time.Time, key string) {
	if sent.After(c.cut) {
		c.cut = now
		c.whole *= onRefusal
		c.set(c.limit * onRefusal)
	}
}

func (c *AdaptiveConcurrency) set(limit float64) { c.limit = min(max(limit, c.least), c.most) }
