package retry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/internal/direct"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// Retry is a Config as a policy.Policy: it repeats what is further in.
//
// It serves any number of goroutines at once. A call that succeeds at once costs
// no allocation and, unless MaxElapsed or a schedule that may look at the time
// needs it, no look at the clock.
type Retry struct {
	cfg   Config
	timed bool             // the beginning of the first attempt matters
	chain *policy.Pipeline // of this layer alone, for DoWith; nil when it can do without
}

// New returns a Retry, or an error that names the field that is out of range.
func New(cfg Config) (*Retry, error) {
	if err := cfg.invalid(); err != nil {
		return nil, err
	}
	return newRetry(cfg), nil
}

func newRetry(cfg Config) *Retry {
	r := &Retry{cfg: cfg, timed: cfg.timed()}
	if cfg.layered() {
		r.chain = policy.Chain(r)
	}
	return r
}

// layered reports whether there is something that needs a policy's call.
func (c *Config) layered() bool {
	return c.RetryOnResult != nil || c.BeforeRetry != nil || c.Budget != nil
}

// Layer returns policy.RetryLayer.
func (r *Retry) Layer() policy.Layer { return policy.RetryLayer }

// String describes the policy: "retry(3 attempts, exponential 500ms x2 up to 1m0s)".
func (r *Retry) String() string {
	attempts := r.cfg.Attempts
	if attempts == 0 {
		attempts = defaultAttempts
	}
	what := []string{fmt.Sprintf("%d attempts", attempts)}
	if attempts < 0 {
		what[0] = "any number of attempts"
	}
	schedule := r.cfg.Backoff
	if schedule == nil {
		schedule = defaultBackoff
	}
	if s, ok := schedule.(fmt.Stringer); ok {
		what = append(what, s.String())
	} else {
		what = append(what, fmt.Sprintf("%T", schedule))
	}
	if r.cfg.MaxElapsed > 0 {
		what = append(what, "within "+r.cfg.MaxElapsed.String())
	}
	if r.cfg.Budget != nil {
		what = append(what, r.cfg.Budget.String())
	}
	name := "retry"
	if r.cfg.Name != "" {
		name += " " + r.cfg.Name
	}
	return name + "(" + strings.Join(what, ", ") + ")"
}

// Direct is for policy.Chain, and not for users: its types are internal. There is
// nothing to do for a call that succeeds at once, unless its result or a Budget wants
// to be looked at.
func (r *Retry) Direct(of any, _ time.Time) (route direct.Route, ok bool) {
	if of != any(r) || r.cfg.Budget != nil || r.cfg.RetryOnResult != nil {
		return route, false
	}
	return direct.Route{Clock: r.timed}, true
}

// Wrap puts the repetitions around next.
func (r *Retry) Wrap(next policy.Handler) policy.Handler {
	return r.cfg.Budget.Around(func(c *policy.Call) error {
		if c.Err() != nil {
			return r.cfg.mapped(notBegun(c.Context()))
		}
		var start time.Time
		if r.timed {
			start = c.Now()
		}
		err := next(c)
		if err == nil && (r.cfg.RetryOnResult == nil || !r.cfg.RetryOnResult(c, nil)) {
			return nil
		}
		return r.repeat(c, next, start, err)
	})
}

// repeat goes on with a call whose first attempt has failed.
func (r *Retry) repeat(c *policy.Call, next policy.Handler, start time.Time, err error) error {
	n := run{cfg: &r.cfg, start: start}
	defer n.giveBack() // also after a panic
	for {
		if err == nil {
			err = ErrResult
		}
		again, final := n.failed(c.Context(), err)
		c.Later()
		if !again {
			return final
		}
		err = c.WithContext(n.context(c.Context()), func(c *policy.Call) error {
			if r.cfg.BeforeRetry != nil {
				r.cfg.BeforeRetry(c)
			}
			return next(c)
		})
		if err == nil && (r.cfg.RetryOnResult == nil || !r.cfg.RetryOnResult(c, nil)) {
			n.succeeded()
			return nil
		}
	}
}

// Repeat calls fn again and again, as long as it succeeds and schedule says so,
// with schedule's delay in between, and returns the last result: with an error
// when fn failed, or when ctx ended, which it does at once. Step.Attempt is how
// many calls were made, Step.Err nil. A nil schedule, and an invalid one, are
// refused with an error that matches backoff.ErrInvalid, a nil ctx or fn with
// ErrInvalid.
func Repeat[R any](ctx context.Context, schedule backoff.Schedule, fn func(context.Context) (R, error)) (R, error) {
	var result R
	if ctx == nil || fn == nil {
		return result, errCall
	}
	if err := backoff.Validate(schedule); err != nil {
		return result, err
	}
	if ctx.Err() != nil {
		return result, notBegun(ctx)
	}
	r := run{cfg: new(Config), start: time.Now()}
	for {
		result, err := fn(ctx)
		if err != nil {
			return result, errtree.Made(err, r.step.Attempt > 0)
		}
		r.step.Attempt++
		r.step.Elapsed = time.Since(r.start)
		wait, again := schedule.Next(r.step)
		if !again {
			return result, nil
		}
		r.step.Prev = max(0, wait)
		if err := r.wait(ctx, r.step.Prev); err != nil {
			return result, errtree.SaysRefused(err, false)
		}
	}
}
