package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// ConcurrencyPolicyConfig says how an AdaptiveConcurrency guards the calls of a chain.
type ConcurrencyPolicyConfig struct {
	// Name appears in events and in the layer's String.
	Name string

	// Concurrency bounds what the layer may find.
	Concurrency AdaptiveConcurrencyConfig

	// Overload says which errors mean that the server has too much to do. The
	// others are neither a success nor a failure. What panics in it passes through
	// to the caller. nil: every error but those that match context.Canceled.
	Overload func(error) bool

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of LimitRefused (Delay: RetryAfter of Err). It is called under
	// no lock, and waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// ConcurrencyPolicy is an AdaptiveConcurrency as a layer around calls: what it has
// no room for fails at once with a *LimitedError, and what comes with a context that
// has ended, with an error that matches ctx.Err() and context.Cause(ctx).
//
// A call counts neither as a success nor as a failure when it fails and its context
// has ended, when its error says, by a method Refused() bool, that the server was
// not called, and when it panics.
//
// It serves any number of goroutines at once, costs a mutex twice a call, and
// allocates nothing for a call that is let through.
type ConcurrencyPolicy struct {
	cfg ConcurrencyPolicyConfig

	mu   sync.Mutex // guards core
	core *AdaptiveConcurrency
}

var _ policy.Policy = (*ConcurrencyPolicy)(nil)

// NewConcurrencyPolicy returns a layer with an AdaptiveConcurrency of its own. The
// error names the field of cfg.Concurrency that is out of range.
func NewConcurrencyPolicy(cfg ConcurrencyPolicyConfig) (*ConcurrencyPolicy, error) {
	core, err := NewAdaptiveConcurrency(cfg.Concurrency)
	if err != nil {
		return nil, err
	}
	cfg.Overload = orAny(cfg.Overload)
	return &ConcurrencyPolicy{cfg: cfg, core: core}, nil
}

// Layer returns policy.BulkheadLayer.
func (p *ConcurrencyPolicy) Layer() policy.Layer { return policy.BulkheadLayer }

// String describes the layer: "adaptive concurrency(1 to 1000 at once)".
func (p *ConcurrencyPolicy) String() string {
	return named("adaptive concurrency", p.cfg.Name) + fmt.Sprintf("(%v to %v at once)", p.core.least, p.core.most)
}

// Limit returns how many calls may run at once at present.
func (p *ConcurrencyPolicy) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Limit()
}

// Wrap puts the layer around next.
func (p *ConcurrencyPolicy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return mapped(p.pass(c, next), p.cfg.OnError) }
}

func (p *ConcurrencyPolicy) pass(c *policy.Call, next policy.Handler) (err error) {
	ctx, sent := c.Context(), c.Now()
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	if wait := p.begin(sent); wait > 0 {
		return tellRefused(p.cfg.OnEvent, p.cfg.Name, wait)
	}
	var v verdict // neutral when next or Overload panics or exits
	defer func() { p.end(c, sent, v) }()
	err = next(c)
	v = judge(ctx, err, p.cfg.Overload)
	return err
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

func (p *ConcurrencyPolicy) end(c *policy.Call, sent time.Time, v verdict) {
	c.Later()
	now := c.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch v {
	case bad:
		p.core.Refused(now, sent, "")
	case good:
		p.core.Accepted(now, sent, "")
	}
	p.core.Release(now, "", 1)
}

// verdict is what an outcome says about the server.
type verdict uint8

const (
	neutral verdict = iota
	good
	bad
	other // an error that is not one of those asked for
)

// judge says what err, the outcome of a call with ctx, says about the server.
func judge(ctx context.Context, err error, match func(error) bool) verdict {
	switch {
	case err == nil:
		return good
	case ctx.Err() != nil || errtree.Refused(err):
		return neutral
	case match(err):
		return bad
	}
	return other
}

// orAny is match, or what takes its place.
func orAny(match func(error) bool) func(error) bool {
	if match != nil {
		return match
	}
	return func(err error) bool { return !errors.Is(err, context.Canceled) }
}

// named is kind with the name, if there is one.
func named(kind, name string) string { return strings.TrimSpace(kind + " " + name) }

// mapped is what onError makes of err.
func mapped(err error, onError func(error) error) error {
	if err != nil && onError != nil {
		return onError(err)
	}
	return err
}

// tellRefused returns the error of a call for which there is nothing before wait,
// once onEvent has heard of it.
func tellRefused(onEvent func(event.Event), name string, wait time.Duration) error {
	err := refuse(NoPermits, wait, "")
	event.Tell(onEvent, event.Event{Kind: event.LimitRefused, Name: name, Delay: err.After, Err: err})
	return err
}
