package registry

import (
	"iter"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// Config says how much a Registry keeps. The zero value is ready.
type Config struct {
	// Max is how many governors there may be, and instances of each other kind. 0
	// means 10,000.
	Max int
}

// Registry keeps a program's governors by name, and instances of what else guards its
// calls. Make one with New; a program needs one, a library should take one.
//
// It may be used by any number of goroutines at once. It owns what its Sets make, not
// the governors: to take one out does not close it.
type Registry struct {
	// Breakers are replaced when they are changed: the new one is open, up to its
	// Config.MaxRetryAfter, or in a state that was set by hand, as long as the old one
	// is, half-open where a trial call would come next, and has counted nothing. Trial
	// calls that are out hold their places in it until Config.Lease is over.
	Breakers *Set[breaker.Config, *breaker.Breaker]

	// Bulkheads change Max and MaxWait while they run: more lets waiting calls in at
	// once, less counts for those to come. Other changes are refused with ErrNotLive.
	Bulkheads *Set[policy.BulkheadConfig, *policy.Bulkhead]

	// Limiters change their limits and rates while they run, as the SetLimit and SetRate
	// of each type say: a lower limit counts at once, a higher one when a window is
	// over; of a FixedWindow, either. Other changes are refused with ErrNotLive.
	Limiters *Set[LimiterConfig, *Limiter]

	// Retries and Timeouts are replaced when they are changed: they have no state.
	Retries  *Set[retry.Config, *retry.Retry]
	Timeouts *Set[policy.TimeoutConfig, *policy.Timeout]

	governors *Set[struct{}, governor.Handle]
	bus       event.Bus
}

// New returns an empty Registry. The error names the field that is out of range.
func New(cfg Config) (*Registry, error) {
	if cfg.Max < 0 {
		return nil, invalidf("Config.Max is %d, want 0 or more", cfg.Max)
	}
	r := &Registry{}
	r.governors = mustSet(r, cfg, SetConfig[struct{}, governor.Handle]{Kind: "governor", New: noGovernor})
	r.Breakers = mustSet(r, cfg, SetConfig[breaker.Config, *breaker.Breaker]{Kind: "breaker", New: newBreaker, Replace: replaceBreaker})
	r.Bulkheads = mustSet(r, cfg, SetConfig[policy.BulkheadConfig, *policy.Bulkhead]{Kind: "bulkhead", New: newBulkhead, Change: changeBulkhead})
	r.Limiters = mustSet(r, cfg, SetConfig[LimiterConfig, *Limiter]{Kind: "limiter", New: NewLimiter, Change: changeLimiter})
	r.Bulkheads.check, r.Limiters.check = checkBulkhead, checkLimiter
	r.Retries = mustSet(r, cfg, SetConfig[retry.Config, *retry.Retry]{Kind: "retry", New: newRetry})
	r.Timeouts = mustSet(r, cfg, SetConfig[policy.TimeoutConfig, *policy.Timeout]{Kind: "timeout", New: newTimeout})
	return r, nil
}

// mustSet makes one of r's Sets, of which nothing can be wrong.
func mustSet[C, T any](r *Registry, cfg Config, of SetConfig[C, T]) *Set[C, T] {
	of.Max = cfg.Max
	s, err := newSet(of, &r.bus)
	if err != nil {
		panic(err)
	}
	return s
}

// Listen calls fn for each governor and instance that was added, replaced, changed in
// place or removed: an event.Changed each, in their order within a kind, until stop is
// called; and for what a Follower tells. See event.Bus for what fn may do, which is
// anything.
func (r *Registry) Listen(fn func(event.Event)) (stop func()) { return r.bus.Listen(fn) }

// Register adds a governor by its name, until Unregister, or until it is closed. The
// error matches ErrInvalid when g is nil or its name is empty or of more than 256
// bytes, ErrExists when there is one of that name, ErrTooMany when there are as many as
// may be, and ErrClosed when g is closed.
func (r *Registry) Register(g governor.Handle) error {
	if g == nil {
		return invalidf("Register of a nil governor")
	}
	name := g.Name()
	e, err := r.governors.put(name, g, false)
	if err != nil {
		return err
	}
	// A governor tells once that it is closed, and its listeners end with it.
	g.Listen(func(event.Event) { r.governors.remove(name, e) }, event.Closed)
	if g.Stats().Closed { // perhaps before Listen
		r.governors.remove(name, e)
		return r.governors.failed(name, ErrClosed)
	}
	return nil
}

// Unregister takes a governor out; false when there is none. It does not close it.
func (r *Registry) Unregister(name string) bool { return r.governors.Remove(name) }

// Governor returns a governor by its name.
func (r *Registry) Governor(name string) (g governor.Handle, ok bool) {
	return r.governors.Lookup(name)
}

// Governors returns the governors there are now, by name.
func (r *Registry) Governors() iter.Seq2[string, governor.Handle] { return r.governors.All() }

func noGovernor(string, struct{}) (governor.Handle, error) {
	return nil, invalidf("governors are registered, not made")
}

func newBreaker(name string, cfg breaker.Config) (*breaker.Breaker, error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	return breaker.New(cfg)
}

// replaceBreaker makes a breaker that keeps back what the old one does.
func replaceBreaker(name string, old *breaker.Breaker, cfg breaker.Config) (*breaker.Breaker, error) {
	b, err := newBreaker(name, cfg)
	if err != nil {
		return nil, err
	}
	switch was := old.Stats(); was.State {
	case breaker.Open:
		if was.Until.After(time.Now()) {
			b.OpenUntil(was.Until)
		} else { // who asks next makes it that
			err = b.Transition(breaker.HalfOpen)
		}
	case breaker.HalfOpen, breaker.Disabled, breaker.ForcedOpen, breaker.MetricsOnly:
		err = b.Transition(was.State)
		// Trial calls that are out report to the old one. Each has a place in the new one
		// as long as its lease may last; there may be fewer places.
		for range was.Trials {
			_, _ = b.Acquire(time.Now())
		}
	}
	return b, err
}

func newBulkhead(name string, cfg policy.BulkheadConfig) (*policy.Bulkhead, error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	return policy.NewBulkhead(cfg)
}

// checkBulkhead returns why a Bulkhead that runs cannot be changed so.
func checkBulkhead(from, to policy.BulkheadConfig) error {
	_, err := policy.NewBulkhead(to)
	if err == nil {
		err = sameBut("BulkheadConfig", from, to, "Max", "MaxWait")
	}
	return err
}

func changeBulkhead(b *policy.Bulkhead, from, to policy.BulkheadConfig) error {
	err := checkBulkhead(from, to) // before anything changes
	if err != nil {
		return err
	}
	fresh, err := policy.NewBulkhead(to) // with the default of Max
	if err != nil {
		return err
	}
	b.SetMaxWait(to.MaxWait)
	return b.SetMax(fresh.Max())
}

func newRetry(name string, cfg retry.Config) (*retry.Retry, error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	return retry.New(cfg)
}

func newTimeout(name string, cfg policy.TimeoutConfig) (*policy.Timeout, error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	return policy.NewTimeout(cfg)
}
