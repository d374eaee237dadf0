package breaker

import (
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/policy"
)

var _ policy.Policy = (*Breaker)(nil)

// Layer returns policy.BreakerLayer.
func (b *Breaker) Layer() policy.Layer { return policy.BreakerLayer }

// String describes the breaker: "breaker(0.5 of 100 calls)".
func (b *Breaker) String() string {
	cfg := &b.core.cfg
	var what string
	switch {
	case cfg.Consecutive > 0:
		what = fmt.Sprintf("%d failures in a row", cfg.Consecutive)
	case cfg.Failures > 0 && cfg.WindowTime > 0:
		what = fmt.Sprintf("%d failures in %v", cfg.Failures, cfg.WindowTime)
	case cfg.Failures > 0:
		what = fmt.Sprintf("%d failures of %d calls", cfg.Failures, cfg.Window)
	case cfg.WindowTime > 0:
		what = fmt.Sprintf("%v of calls in %v", cfg.FailureRate, cfg.WindowTime)
	default:
		what = fmt.Sprintf("%v of %d calls", cfg.FailureRate, cfg.Window)
	}
	return strings.TrimSpace("breaker "+cfg.Name) + "(" + what + ")"
}

// Wrap makes a Breaker a policy.Policy: calls pass it as they do Do. Beside Judge,
// Config.IgnoreOnResult and FailureOnResult say what calls without an error are.
// What leaves the layer goes through Config.OnError.
func (b *Breaker) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return b.mapped(b.pass(c, next)) }
}

func (b *Breaker) pass(c *policy.Call, next policy.Handler) error {
	p, began, err := b.admitCall(c)
	if err != nil {
		return err
	}
	judged := false
	defer func() {
		if !judged {
			b.settle(p, began, result{outcome: Failure})
		}
	}()
	err = next(c)
	var r result
	switch cfg := &b.core.cfg; {
	case err != nil && c.Context().Err() != nil:
		r = result{outcome: Neutral, cancelled: true}
	case err != nil:
		r = b.classified(b.Judge(err), err)
	case cfg.IgnoreOnResult != nil && cfg.IgnoreOnResult(c, nil):
		r = b.classified(Neutral, nil)
	case cfg.FailureOnResult != nil && cfg.FailureOnResult(c, nil):
		r.outcome = Failure
	default:
		judged = true
		if !b.unmoved(p) {
			b.succeed(p, began)
		}
		return nil
	}
	judged = true
	b.settle(p, began, r)
	return err
}

// admitCall acquires a permit for c, unless it has one. It returns when c began, too,
// 0 when that is not needed.
func (b *Breaker) admitCall(c *policy.Call) (p Permit, began time.Duration, err error) {
	if has, ok := c.Entered(); ok {
		return Permit(has.A), time.Duration(has.B), nil
	}
	if c.Err() != nil {
		return 0, 0, ended(c.Context())
	}
	if id := b.id.Load(); passes(id) {
		p = Permit(id)
	} else if p, err = b.Acquire(c.Now()); err != nil {
		return 0, 0, err
	}
	if b.readsStart {
		began = c.Since(b.core.begin)
	}
	return p, began, nil
}
