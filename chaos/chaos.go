package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// Config says which calls something happens to.
type Config struct {
	// Name appears in events.
	Name string

	// Rate is the share of calls that are hit, 0 to 1, which is all of them. 0
	// means 0.001; for none at all use Enabled.
	Rate float64

	// RateOf, when it is not nil, is asked for each call instead of Rate. A share
	// below 0, or NaN, counts as 0.
	RateOf func(ctx context.Context) float64

	// Enabled is asked for each call before the dice are thrown: by the hour, the
	// tenant, a switch. nil means always.
	Enabled func(ctx context.Context) bool

	// Rand is a source of numbers from 0 to 1, safe for as many goroutines as use
	// the policy. nil means math/rand/v2.
	Rand func() float64

	// OnError replaces the error that leaves the layer, injected or from further
	// in; nil as a replacement is success. What panics in it passes through to the
	// caller. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of Injected, when something is about to be done to a call; not
	// of calls that are hit and yet pass untouched. It is called under no lock, and
	// waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// ErrInvalid is matched by the errors of this package's constructors, which say
// what is invalid, and its value.
var ErrInvalid = errors.New("chaos: invalid configuration")

// Chaos does something to some calls. As a policy.Policy it belongs innermost.
// What it does not hit it lets pass, at the cost of a random number and without
// an allocation.
type Chaos struct {
	cfg  Config
	what string
	hit  effect
}

// effect is what happens to a call that is hit. It calls tell when it is about to.
type effect func(c *policy.Call, next policy.Handler, tell func()) error

// newChaos checks cfg, and that the function arg of a constructor is given.
func newChaos(cfg Config, what, arg string, given bool, hit effect) (*Chaos, error) {
	if !(cfg.Rate >= 0 && cfg.Rate <= 1) { // nor NaN
		return nil, fmt.Errorf("%w: Config.Rate is %v, want 0 to 1", ErrInvalid, cfg.Rate)
	}
	if !given {
		return nil, fmt.Errorf("%w: %s is nil, want a function", ErrInvalid, arg)
	}
	if cfg.Rate == 0 {
		cfg.Rate = 0.001
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	return &Chaos{cfg, what, hit}, nil
}

// Fault makes calls fail with what fault returns, without being made. A nil error
// lets the call pass.
func Fault(cfg Config, fault func(ctx context.Context) error) (*Chaos, error) {
	return newChaos(cfg, "fault", "fault", fault != nil, func(c *policy.Call, next policy.Handler, tell func()) error {
		err := fault(c.Context())
		c.Later() // it may have taken its time
		if err != nil {
			tell()
			return err
		}
		return next(c)
	})
}

// Latency makes calls wait before they are made, as long as delay says. A wait
// ends with the call's context, with an error that matches the context's and its
// cause. delay may be a constant; see Constant.
func Latency(cfg Config, delay func(ctx context.Context) time.Duration) (*Chaos, error) {
	return newChaos(cfg, "latency", "delay", delay != nil, func(c *policy.Call, next policy.Handler, tell func()) error {
		d := delay(c.Context())
		if d > 0 {
			tell()
			wait(c.Context(), d)
		}
		c.Later()
		if err := c.Context().Err(); d > 0 && err != nil {
			return ended(err, context.Cause(c.Context()))
		}
		return next(c)
	})
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ended is the error for a context that ended a wait. It is that of a slow vendor:
// it does not say that there was no call.
func ended(err, cause error) error {
	if cause == err {
		return fmt.Errorf("chaos: %w in an injected delay", err)
	}
	return fmt.Errorf("chaos: %w in an injected delay: %w", err, cause)
}

// Constant is a delay for Latency that is always the same.
func Constant(d time.Duration) func(context.Context) time.Duration {
	return func(context.Context) time.Duration { return d }
}

// Outcome gives calls a result without making them: what outcome returns. Calls
// with a result of another type pass.
func Outcome[R any](cfg Config, outcome func(ctx context.Context) (R, error)) (*Chaos, error) {
	return newChaos(cfg, "outcome", "outcome", outcome != nil, func(c *policy.Call, next policy.Handler, tell func()) error {
		if _, ok := policy.Result[R](c); !ok {
			return next(c)
		}
		tell()
		r, err := outcome(c.Context())
		c.Later()
		policy.SetResult(c, r)
		return err
	})
}

// Behaviour calls do before a call is made: to break a connection, to panic, to
// fill a disk. Its error, when there is one, is the call's, which is then not
// made.
func Behaviour(cfg Config, do func(ctx context.Context) error) (*Chaos, error) {
	return newChaos(cfg, "behaviour", "do", do != nil, func(c *policy.Call, next policy.Handler, tell func()) error {
		tell()
		err := do(c.Context())
		c.Later()
		if err != nil {
			return err
		}
		return next(c)
	})
}

// Wrap makes a Chaos a policy.Policy.
func (x *Chaos) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		var err error
		if x.strikes(c.Context()) {
			err = x.hit(c, next, x.tell)
		} else {
			err = next(c)
		}
		if err != nil && x.cfg.OnError != nil {
			err = x.cfg.OnError(err)
		}
		return err
	}
}

func (x *Chaos) tell() {
	event.Tell(x.cfg.OnEvent, event.Event{Kind: event.Injected, Name: x.cfg.Name, Source: x.what})
}

func (x *Chaos) strikes(ctx context.Context) bool {
	if x.cfg.Enabled != nil && !x.cfg.Enabled(ctx) {
		return false
	}
	rate := x.cfg.Rate
	if x.cfg.RateOf != nil {
		rate = x.cfg.RateOf(ctx)
	}
	return rate >= 1 || x.cfg.Rand() < rate // 1 is one of the numbers that Rand may return
}

// Layer returns policy.ChaosLayer.
func (x *Chaos) Layer() policy.Layer { return policy.ChaosLayer }

// String tells what happens to which share of calls.
func (x *Chaos) String() string {
	if x.cfg.RateOf != nil {
		return fmt.Sprintf("chaos(%s)", x.what)
	}
	return fmt.Sprintf("chaos(%s, %v)", x.what, x.cfg.Rate)
}
