package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flyball-go/flyball/policy"
)

var (
	_ policy.Policy = (*ConcurrencyPolicy)(nil)
	_ policy.Policy = (*ThrottlePolicy)(nil)
)

// ConcurrencyPolicy is an AdaptiveConcurrency as a layer around calls: what it has
// no room for fails at once with a *LimitedError. It serves any number of
// goroutines at once, costs a mutex twice a call, and allocates nothing for a call
// that is let through.
type ConcurrencyPolicy struct {
	overload func(error) bool

	mu   sync.Mutex // guards core
	core *AdaptiveConcurrency
}

// NewConcurrencyPolicy returns a layer with an AdaptiveConcurrency of its own.
// overload says which errors mean that the server has too much to do; nil means
// every error but those of a cancelled context. The others are neither a success
// nor a failure. The error names the field that is out of range.
func NewConcurrencyPolicy(cfg AdaptiveConcurrencyConfig, overload func(error) bool) (*ConcurrencyPolicy, error) {
	core, err := NewAdaptiveConcurrency(cfg)
	if err != nil {
		return nil, err
	}
	return &ConcurrencyPolicy{overload: orAny(overload), core: core}, nil
}

// orAny is match, or what takes its place.
func orAny(match func(error) bool) func(error) bool {
	if match != nil {
		return match
	}
	return func(err error) bool { return !errors.Is(err, context.Canceled) }
}

// Layer returns policy.BulkheadLayer.
func (p *ConcurrencyPolicy) Layer() policy.Layer { return policy.BulkheadLayer }

// String describes the layer: "adaptive concurrency(1 to 1000 at once)".
func (p *ConcurrencyPolicy) String() string {
	return fmt.Sprintf("adaptive concurrency(%v to %v at once)", p.core.least, p.core.most)
}

// Limit returns how many calls may run at once at present.
func (p *ConcurrencyPolicy) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Limit()
}

// Wrap puts the layer around next.
func (p *ConcurrencyPolicy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) (err error) {
		sent := c.Now()
		if wait := p.begin(sent); wait > 0 {
			return &LimitedError{After: wait}
		}
		returned := false // false when next panics or exits: neither success nor overload
		defer func() { p.end(c, sent, returned, err) }()
		err = next(c)
		returned = true
		return err
	}
}

func (p *ConcurrencyPolicy) begin(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.core.Wait(now, "", 1)
	if wait == 0 {
		p.core.Take(now, "", 1)
	}
	return wait
}

func (p *ConcurrencyPolicy) end(c *policy.Call, sent time.Time, returned bool, err error) {
	c.Later()
	now, overloaded := c.Now(), false
	defer func() { // whatever overload does
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case overloaded:
			p.core.Refused(now, sent, "")
		case returned && err == nil:
			p.core.Accepted(now, sent, "")
		}
		p.core.Release(now, "", 1)
	}()
	overloaded = returned && err != nil && p.overload(err)
}

// ThrottlePolicy is a Throttle as a layer around calls: a call that it rejects
// fails with a *LimitedError, whose After is a 64th of the Window: nobody knows when
// the server is well again. It serves any number of goroutines at once, costs a
// mutex twice a call, and allocates nothing for a call that is let through.
type ThrottlePolicy struct {
	rejected func(error) bool

	mu   sync.Mutex // guards core
	core *Throttle
}

// NewThrottlePolicy returns a layer with a Throttle of its own. rejected says which
// errors mean that the server did not accept the call; nil means every error but
// those of a cancelled context. A call that panics counts as accepted. The error
// names the field that is out of range.
func NewThrottlePolicy(cfg ThrottleConfig, rejected func(error) bool) (*ThrottlePolicy, error) {
	core, err := NewThrottle(cfg)
	if err != nil {
		return nil, err
	}
	return &ThrottlePolicy{rejected: orAny(rejected), core: core}, nil
}

// Layer returns policy.LimiterLayer.
func (p *ThrottlePolicy) Layer() policy.Layer { return policy.LimiterLayer }

// String describes the layer: "throttle(more than 2 calls for one accepted)".
func (p *ThrottlePolicy) String() string {
	return fmt.Sprintf("throttle(more than %v calls for one accepted)", p.core.k)
}

// Rejects returns the share of calls that is rejected at present.
func (p *ThrottlePolicy) Rejects() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Rejects(time.Now())
}

// Wrap puts the layer around next.
func (p *ThrottlePolicy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) (err error) {
		if !p.admit(c.Now()) {
			return &LimitedError{After: p.core.slice}
		}
		accepted := true
		defer func() {
			if accepted {
				c.Later()
				p.accepted(c.Now())
			}
		}()
		err = next(c)
		accepted = err == nil || !p.rejected(err)
		return err
	}
}

func (p *ThrottlePolicy) admit(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Admit(now, rand.Float64())
}

func (p *ThrottlePolicy) accepted(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.Accepted(now)
}
