package policy

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/event"
)

// HedgeConfig says when further attempts of a call begin beside the first.
type HedgeConfig struct {
	// Name appears in events.
	Name string

	// Delay is how long after an attempt the next one begins, when none has
	// been good by then; after a failure it begins at once. 0 means 2 s, less
	// than 0: only after a failure.
	Delay time.Duration

	// Quantile, above 0 and below 1, makes the delay that quantile of how long
	// calls took that came to a good end: exactly, of the latest 128, computed
	// anew with every 16th. Delay applies before the first 16. 0: Delay always.
	Quantile float64

	// DelayOf, when there is one, says the delay for each further attempt instead:
	// by the call's context and the attempt's number, from 2. It is asked when the
	// attempt before begins, or has failed. What panics in it passes through to the
	// caller. It excludes Quantile. nil: Delay.
	DelayOf func(ctx context.Context, attempt int) time.Duration

	// Parallel makes all attempts begin at once. It excludes the other three.
	Parallel bool

	// Max is how many further attempts there are at most, up to 10. 0 means 1.
	Max int

	// Budget bounds the further attempts of all calls. nil: nothing does.
	Budget *Budget

	// Good says which outcomes end the call. nil means those without an error.
	Good Predicate

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. What panics in it passes
	// through to the caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of Hedged and BudgetSpent, and of AttemptEnded with the
	// panic of an attempt that did not decide the outcome, on that attempt's
	// goroutine if it was late. It is called under no lock, and waited for. A
	// panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// Hedge makes further attempts of a call that takes long or fails, and takes the
// first good outcome. The others are cancelled, not waited for, and their results
// dropped. When no outcome is good, the call has that of its first attempt; if that
// was refused further in and another was not, that of the first one that was not.
// Its error says Refused only if all attempts were.
//
// Attempts run at the same time, each on a goroutine of its own, so the function
// and the layers further in must bear that. There are never more goroutines than
// attempts, and each ends when its attempt does. A panic that decides the outcome
// reaches the caller as a panic with a *PanicError, runtime.Goexit as ErrGoexit.
// Neither is followed by a further attempt. When the caller's context ends, so do
// those of all attempts, and the call is over.
//
// With a Delay below 0 and neither Quantile nor DelayOf, attempts follow each other on the
// goroutine of the call, and one that is good at once costs no allocation. Else a
// call costs a context, a channel, and for each attempt a copy and a goroutine.
// Results must not depend on the context, which ends when the call returns.
type Hedge struct {
	cfg    HedgeConfig
	recent *recent // nil without Quantile
}

// NewHedge returns a Hedge. The error names a field that is out of range.
func NewHedge(cfg HedgeConfig) (*Hedge, error) {
	if cfg.Max < 0 || cfg.Max > 10 {
		return nil, outOfRange("HedgeConfig.Max", cfg.Max, "0 to 10")
	}
	if !(cfg.Quantile >= 0 && cfg.Quantile < 1) { // nor NaN
		return nil, outOfRange("HedgeConfig.Quantile", cfg.Quantile, "0, or more than 0 and less than 1")
	}
	if cfg.Parallel && cfg.Delay != 0 {
		return nil, outOfRange("HedgeConfig.Delay", cfg.Delay, "0 with Parallel")
	}
	if cfg.DelayOf != nil && (cfg.Parallel || cfg.Quantile != 0) {
		return nil, outOfRange("HedgeConfig.DelayOf", "a function", "nil with Parallel or Quantile")
	}
	if cfg.Parallel && cfg.Quantile != 0 {
		return nil, outOfRange("HedgeConfig.Quantile", cfg.Quantile, "0 with Parallel")
	}
	if cfg.Max == 0 {
		cfg.Max = 1
	}
	if cfg.Delay == 0 {
		cfg.Delay = 2 * time.Second
	}
	if cfg.Good == nil {
		cfg.Good = func(_ *Call, err error) bool { return err == nil }
	}
	h := &Hedge{cfg: cfg}
	if cfg.Quantile > 0 {
		h.recent = &recent{q: cfg.Quantile}
	}
	return h, nil
}

// Layer returns HedgeLayer.
func (h *Hedge) Layer() Layer { return HedgeLayer }

// String describes the hedge: "hedge(1 more after 2s)".
func (h *Hedge) String() string {
	s := strconv.Itoa(h.cfg.Max) + " more "
	switch {
	case h.cfg.Parallel:
		s += "at once"
	case h.cfg.Quantile > 0:
		s += fmt.Sprintf("after the %v quantile", h.cfg.Quantile)
	case h.cfg.DelayOf != nil:
		s += "after delays of their own"
	case h.cfg.Delay < 0:
		s += "after failures"
	default:
		s += "after " + h.cfg.Delay.String()
	}
	if h.cfg.Budget != nil {
		return describe("hedge", h.cfg.Name, s, h.cfg.Budget.String())
	}
	return describe("hedge", h.cfg.Name, s)
}

// Wrap puts the hedge around next.
func (h *Hedge) Wrap(next Handler) Handler {
	return mapped(h.cfg.Budget.Around(func(c *Call) error {
		if h.cfg.DelayOf != nil {
			return h.race(c, next, 0)
		}
		if delay := h.delay(); delay >= 0 {
			return h.race(c, next, delay)
		}
		return h.oneByOne(c, next)
	}), h.cfg.OnError)
}

// delay is when the next attempt begins, less than 0: only after a failure.
func (h *Hedge) delay() time.Duration {
	if h.cfg.Parallel {
		return 0
	}
	if h.recent != nil {
		if d, ok := h.recent.value(); ok {
			return d
		}
	}
	return h.cfg.Delay
}
