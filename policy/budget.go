package policy

import (
	"fmt"
	"math"
	"sync/atomic"
)

// BudgetConfig says how much may be repeated.
type BudgetConfig struct {
	// Ratio is how many repetitions may be in flight for each call that is, at
	// most 100. 0 means 0.2, less than 0 none but Min.
	Ratio float64

	// Min is how many may be in flight however few calls are. 0 means 3, less
	// than 0 none but those of Ratio.
	Min int
}

// Budget bounds repetitions of calls, retries and hedges, to a share of the
// traffic in flight. When everything fails, repetitions add no more than that to
// it; while little fails, they are not in the way. It never holds back the first
// attempt of a call.
//
// One Budget may serve many policies, and should serve all that call the same
// vendor. A call that passes several of them counts once; but if there is one with
// another Budget between them, it counts anew. A nil *Budget has no limit.
//
// A call costs two atomic additions, a repetition two atomic swaps.
type Budget struct {
	ratio float64
	min   uint64

	// word counts the repetitions in flight in its upper half, the calls in its
	// lower half.
	word atomic.Uint64
}

// BudgetState is what a Budget counts.
type BudgetState struct {
	Calls       int // in flight
	Repetitions int // in flight
	Most        int // how many repetitions may be, with so many calls
}

const oneMore = 1 << 32 // repetition, in Budget.word

// NewBudget returns a Budget. The error names a field that is out of range.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	if cfg.Ratio == 0 {
		cfg.Ratio = 0.2
	}
	if cfg.Min == 0 {
		cfg.Min = 3
	}
	if !(cfg.Ratio <= 100) { // nor NaN
		return nil, outOfRange("BudgetConfig.Ratio", cfg.Ratio, "100 or less")
	}
	if cfg.Min > math.MaxInt32 {
		return nil, outOfRange("BudgetConfig.Min", cfg.Min, fmt.Sprintf("%d or less", math.MaxInt32))
	}
	return &Budget{ratio: max(0, cfg.Ratio), min: uint64(max(0, cfg.Min))}, nil
}

// Around returns a handler that counts calls on their way through next, unless the
// innermost Budget that counts them already is b. A policy that repeats calls puts
// it around itself.
func (b *Budget) Around(next Handler) Handler {
	if b == nil {
		return next
	}
	return func(c *Call) error {
		outer := c.budget
		if outer == b {
			return next(c)
		}
		c.budget = b
		b.Begin()
		defer func() {
			c.budget = outer
			b.End()
		}()
		return next(c)
	}
}

// Begin counts a call, until End, where there is no handler for Around.
func (b *Budget) Begin() {
	if b != nil {
		b.word.Add(1)
	}
}

// End says that a call has ended. One that did not begin is ignored.
func (b *Budget) End() {
	if b != nil {
		b.less(1, oneMore-1)
	}
}

// Take asks for one repetition, until GiveBack. It reports false when as many
// are in flight as may be; then there is nothing to give back.
func (b *Budget) Take() bool {
	for b != nil {
		w := b.word.Load()
		if w/oneMore >= b.most(w%oneMore) {
			return false
		}
		if b.word.CompareAndSwap(w, w+oneMore) {
			break
		}
	}
	return true
}

// GiveBack says that a repetition has ended. One that was not taken is ignored.
func (b *Budget) GiveBack() {
	if b != nil {
		b.less(oneMore, math.MaxUint64&^(oneMore-1))
	}
}

// less subtracts one from the half of word that has the given mask.
func (b *Budget) less(one, half uint64) {
	for {
		w := b.word.Load()
		if w&half == 0 || b.word.CompareAndSwap(w, w-one) {
			return
		}
	}
}

func (b *Budget) most(calls uint64) uint64 {
	const rounding = 1e-9 // 0.29 times 100 is a little less than 29
	return max(b.min, uint64(b.ratio*float64(calls)+rounding))
}

// State returns what is in flight.
func (b *Budget) State() BudgetState {
	if b == nil {
		return BudgetState{Most: math.MaxInt}
	}
	w := b.word.Load()
	return BudgetState{Calls: int(w % oneMore), Repetitions: int(w / oneMore), Most: int(b.most(w % oneMore))}
}

// String says what may be in flight: "20% of calls, at least 3".
func (b *Budget) String() string {
	if b == nil {
		return "any number"
	}
	return fmt.Sprintf("%.4g%% of calls, at least %d", b.ratio*100, b.min)
}
