package limiter

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
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

	// MaxWait is how long a call that there is no room for waits for others to end:
	// 0 means not at all; less than 0: as long as its context lasts.
	MaxWait time.Duration

	// Queue is how many calls may wait at once, as a multiple of the limit in force,
	// rounded up: more than 0 and up to 1000. It needs MaxWait. 0 means 2.
	Queue float64

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of LimitRefused, without a Delay: nobody knows when calls end. It is
	// called under no lock, and waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// ConcurrencyPolicy is an AdaptiveConcurrency as a layer around calls: what it has
// no room for fails with a *LimitedError, at once or when it has waited for as long
// as it may. Calls that wait are let in in the order in which they came; one that
// leaves, leaves no trace. None begins whose context has ended: its error matches
// ctx.Err() and context.Cause(ctx). To the server's latency a wait does not count.
//
// A call counts neither as a success nor as a failure when it fails and its context
// has ended, when its error says, by a method Refused() bool, that the server was
// not called, and when it panics.
//
// It serves any number of goroutines at once, costs a mutex twice a call, and
// allocates nothing for a call that is let through at once.
type ConcurrencyPolicy struct {
	cfg ConcurrencyPolicyConfig

	mu    sync.Mutex // guards core and queue; held for moments
	core  *AdaptiveConcurrency
	queue list.List // of *waiter, the one that came first in front
}

// waiter is a call that waits.
type waiter struct {
	place    *list.Element // nil when it was admitted; guarded by mu
	admitted chan struct{} // closed then
}

var _ policy.Policy = (*ConcurrencyPolicy)(nil)

// NewConcurrencyPolicy returns a layer with an AdaptiveConcurrency of its own. The
// error names the field that is out of range.
func NewConcurrencyPolicy(cfg ConcurrencyPolicyConfig) (*ConcurrencyPolicy, error) {
	core, err := NewAdaptiveConcurrency(cfg.Concurrency)
	if err != nil {
		return nil, err
	}
	switch {
	case !(cfg.Queue >= 0 && cfg.Queue <= 1000): // nor NaN
		return nil, invalidf("ConcurrencyPolicyConfig.Queue is %v, want 0 up to 1000", cfg.Queue)
	case cfg.Queue > 0 && cfg.MaxWait == 0:
		return nil, invalidf("ConcurrencyPolicyConfig.Queue is %v without a MaxWait", cfg.Queue)
	case cfg.Queue == 0:
		cfg.Queue = 2
	}
	cfg.Overload = orAny(cfg.Overload)
	return &ConcurrencyPolicy{cfg: cfg, core: core}, nil
}

// Layer returns policy.BulkheadLayer.
func (p *ConcurrencyPolicy) Layer() policy.Layer { return policy.BulkheadLayer }

// String describes the layer: "adaptive concurrency(1 to 1000 at once, waits 1s)".
func (p *ConcurrencyPolicy) String() string {
	settings := fmt.Sprintf("%v to %v at once", p.core.least, p.core.most)
	switch {
	case p.cfg.MaxWait > 0:
		settings += fmt.Sprintf(", waits %v", p.cfg.MaxWait)
	case p.cfg.MaxWait < 0:
		settings += ", waits"
	}
	return named("adaptive concurrency", p.cfg.Name) + "(" + settings + ")"
}

// Limit returns how many calls may run at once at present.
func (p *ConcurrencyPolicy) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Limit()
}

// Waiting returns how many calls wait at present.
func (p *ConcurrencyPolicy) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// Wrap puts the layer around next.
func (p *ConcurrencyPolicy) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return mapped(pass(p, c, next, p.cfg.Overload), p.cfg.OnError) }
}

func (p *ConcurrencyPolicy) enter(c *policy.Call) error {
	w, err := p.ask(c.Now())
	if err != nil {
		return tellRefused(p.cfg.OnEvent, p.cfg.Name, err)
	}
	if w == nil {
		return nil
	}
	defer c.Later()
	return p.stand(c.Context(), w)
}

// ask admits a call at once, or puts it into the queue, or refuses it.
func (p *ConcurrencyPolicy) ask(now time.Time) (*waiter, *LimitedError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.core.Wait(now, "", 1) == 0: // then nobody waits: room is given away as soon as there is some
		p.core.Take(now, "", 1)
		return nil, nil
	case p.cfg.MaxWait == 0:
		return nil, refuse(NoPermits, 0, "") // nobody knows when calls end
	case float64(p.queue.Len()) >= p.cfg.Queue*p.core.limit:
		return nil, refuse(QueueFull, 0, "")
	}
	w := &waiter{admitted: make(chan struct{})}
	w.place = p.queue.PushBack(w)
	return w, nil
}

// stand waits until w is admitted.
func (p *ConcurrencyPolicy) stand(ctx context.Context, w *waiter) error {
	var over <-chan time.Time
	if p.cfg.MaxWait > 0 {
		timer := time.NewTimer(p.cfg.MaxWait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-w.admitted:
	case <-ctx.Done():
	case <-over:
	}
	// Several may be ready, and select takes any: ctx has the last word, and to be
	// admitted is better than to be too late.
	ended := ctx.Err() != nil
	switch admitted := p.leaveQueue(w, ended); {
	case ended:
		return endOf(ctx)
	case !admitted:
		return tellRefused(p.cfg.OnEvent, p.cfg.Name, refuse(TooLate, 0, ""))
	}
	return nil
}

// leaveQueue takes w out of the queue, or reports that it was admitted, which it
// undoes when w's context has ended.
func (p *ConcurrencyPolicy) leaveQueue(w *waiter, ended bool) (admitted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.place != nil {
		p.queue.Remove(w.place)
		return false
	}
	if ended {
		now := time.Now()
		p.core.Release(now, "", 1)
		p.admitWaiting(now)
	}
	return true
}

// admitWaiting admits those who wait, as far as there is room. It is called under mu
// after each Release: the limit changes with none but those.
func (p *ConcurrencyPolicy) admitWaiting(now time.Time) {
	for p.queue.Len() > 0 && p.core.Wait(now, "", 1) == 0 {
		p.core.Take(now, "", 1)
		w := p.queue.Remove(p.queue.Front()).(*waiter)
		w.place = nil
		close(w.admitted)
	}
}

func (p *ConcurrencyPolicy) leave(c *policy.Call, sent time.Time, v verdict) {
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
	p.admitWaiting(now)
}
