package policy

import (
	"context"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
)

// oneByOne makes attempts after failures only, on the goroutine of the call.
func (h *Hedge) oneByOne(c *Call, next Handler) error {
	var begun time.Time
	if h.recent != nil || h.cfg.OnEvent != nil {
		begun = time.Now()
	}
	err := next(c)
	if h.good(c, err, begun) {
		return err
	}
	kept, failed := c.Fork(c.ctx), err
	kept.Adopt(c)
	for n := 2; n <= 1+h.cfg.Max && c.ctx.Err() == nil && h.afford(n); n++ {
		err := h.again(c, next, n, begun)
		if h.good(c, err, begun) {
			return errtree.Made(err, !errtree.Refused(failed))
		}
		if errtree.Refused(failed) && !errtree.Refused(err) {
			kept.Adopt(c)
			failed = err
		}
	}
	c.Adopt(kept)
	return failed
}

func (h *Hedge) again(c *Call, next Handler, n int, begun time.Time) error {
	defer h.cfg.Budget.GiveBack()
	h.hedged(n, begun)
	return c.WithContext(context.WithValue(c.ctx, attemptKey{}, n), next)
}

// good judges an outcome, and learns from how long a good one took.
func (h *Hedge) good(c *Call, err error, begun time.Time) bool {
	good := h.cfg.Good(c, err)
	if good && h.recent != nil {
		h.recent.add(time.Since(begun))
	}
	return good
}

// afford takes the budget for a further attempt.
func (h *Hedge) afford(n int) bool {
	if h.cfg.Budget.Take() {
		return true
	}
	report(h.cfg.OnEvent, event.Event{Kind: event.BudgetSpent, Name: h.cfg.Name, Attempt: n})
	return false
}

func (h *Hedge) hedged(n int, begun time.Time) {
	if h.cfg.OnEvent != nil {
		report(h.cfg.OnEvent, event.Event{Kind: event.Hedged, Name: h.cfg.Name, Attempt: n, Delay: time.Since(begun)})
	}
}

// attemptKey finds the number of an attempt in its context.
type attemptKey struct{}

// HedgeAttempt returns which attempt of a Hedge ctx, or an ancestor of it, was
// made for; 1 without a Hedge. An attempt may, by its number, go elsewhere than
// those before it.
func HedgeAttempt(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}
