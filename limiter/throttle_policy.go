package limiter

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// ThrottlePolicyConfig says how a Throttle guards the calls of a chain.
type ThrottlePolicyConfig struct {
	// Name appears in events and in the layer's String.
	Name string

	// Throttle says when calls are rejected.
	Throttle ThrottleConfig

	// Rejected says which errors mean that the server did not accept the call. With
	// the others it did. What panics in it passes through to the caller. nil: every
	// error but those that match context.Canceled.
	Rejected func(error) bool

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of LimitRefused (Delay: RetryAfter of Err). It is called under
	// no lock, and waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// ThrottlePolicy is a Throttle as a layer around calls: a call that it rejects
// fails with a *LimitedError, whose After is a 64th of the Window: nobody knows when
// the server is well again. One that comes with a context that has ended fails at
// once with an error that matches ctx.Err() and context.Cause(ctx).
//
// A call counts as if it had not come when it fails and its context has ended, when
// its error says, by a method Refused() bool, that the server was not called, and
// when it panics.
//
// It serves any number of goroutines at once, costs a mutex twice a call, and
// allocates nothing for a call that is let through.
type ThrottlePolicy struct {
	cfg ThrottlePolicyConfig

	mu   sync.Mutex // guards core
	core *Throttle
}

var _ policy.Policy = (*ThrottlePolicy)(nil)

// NewThrottlePolicy returns a layer with a Throttle of its own. The error names the
// field of cfg.Throttle that is out of range.
func NewThrottlePolicy(cfg ThrottlePolicyConfig) (*ThrottlePolicy, error) {
	core, err := NewThrottle(cfg.Throttle)
	if err != nil {
		return nil, err
	}
	cfg.Rejected = orAny(cfg.Rejected)
	return &ThrottlePolicy{cfg: cfg, core: core}, nil
}

// Layer returns policy.LimiterLayer.
func (p *ThrottlePolicy) Layer() policy.Layer { return policy.LimiterLayer }

// String describes the layer: "throttle(more than 2 calls for one accepted)".
func (p *ThrottlePolicy) String() string {
	return named("throttle", p.cfg.Name) + fmt.Sprintf("(more than %v calls for one accepted)", p.core.k)
}

// Rejects returns the share of calls that is rejected at present.
func (p *ThrottlePolicy) Rejects() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Rejects(time.Now())
}

// Wrap puts the layer around next.
func (p *ThrottlePolicy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return mapped(pass(p, c, next, p.cfg.Rejected), p.cfg.OnError) }
}

func (p *ThrottlePolicy) enter(c *policy.Call) error {
	p.mu.Lock()
	ok := p.core.Admit(c.Now(), rand.Float64())
	p.mu.Unlock()
	if !ok {
		return tellRefused(p.cfg.OnEvent, p.cfg.Name, refuse(NoPermits, p.core.slice, ""))
	}
	return nil
}

func (p *ThrottlePolicy) leave(c *policy.Call, sent time.Time, v verdict) {
	if v == bad {
		return
	}
	c.Later()
	now := c.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if v == neutral {
		p.core.Forget(now, sent)
	} else {
		p.core.Accepted(now)
	}
}
