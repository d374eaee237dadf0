package registry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
)

// guard is what a key guards its resource with.
type guard interface {
	// acquire waits for n permits, as long as the metadata allows. release gives them
	// back, with how the call ended; it is called once. nil: there is nothing to give
	// back.
	acquire(ctx context.Context, n int) (release func(error), err error)

	// change makes it what other metadata says; the caller makes one change at a time.
	change(m Metadata, version uint64) error

	// idle reports whether nobody could tell it from a new one, when nobody uses it.
	idle() bool

	close()
}

// maxWaiting bounds how many acquires wait for one key.
const maxWaiting = 10_000

// limited is a guard that a limiter.Shared is.
type limited struct {
	*limiter.Shared
	timeout atomic.Int64 // how long an acquire waits; less than 0: not at all
	holds   bool         // permits come back by a release
	settles bool         // the limiter wants to hear what a take has cost
	set     func(m Metadata, version uint64) error
	isIdle  func(now time.Time) bool // nil: as far as is known here
	closes  func()
}

func newLimited(name string, cfg PermitsConfig, l limiter.Limiter) (*limited, error) {
	s, err := limiter.NewShared(limiter.SharedConfig{
		Name: name, Whole: []limiter.Limiter{l}, MaxQueue: maxWaiting, MaxWait: -1, OnEvent: cfg.OnEvent,
	})
	return &limited{Shared: s, closes: func() {}}, err
}

// wait sets how long acquires wait that begin from now on.
func (l *limited) wait(d time.Duration) { l.timeout.Store(int64(d)) }

func (l *limited) acquire(ctx context.Context, n int) (release func(error), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d := time.Duration(l.timeout.Load()); d < 0 {
		err = l.Allow("", n)
	} else {
		err = l.waitFor(ctx, d, n)
	}
	if err == nil && l.settles {
		l.Settle("", n, n)
	}
	if err != nil || !l.holds {
		return nil, err
	}
	return func(error) { l.Release("", n) }, nil
}

// waitFor waits up to d. An error that is due to d, and not to the end of ctx, does not
// match that of a context.
func (l *limited) waitFor(ctx context.Context, d time.Duration, n int) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return l.Wait(ctx, "", n)
	}
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := l.Wait(within, "", n)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	late := &limiter.LimitedError{Reason: limiter.TooLate}
	if e, ok := errors.AsType[*limiter.LimitedError](err); ok {
		late.Reason, late.After = e.Reason, e.After
	}
	return late
}

func (l *limited) change(m Metadata, version uint64) error { return l.set(m.filled(), version) }

func (l *limited) idle() bool {
	idle := true
	if l.isIdle != nil {
		l.Update(func(now time.Time) { idle = l.isIdle(now) })
	}
	return idle
}

func (l *limited) close() {
	l.Shared.Close()
	l.closes()
}

// newRateLimiter makes a bucket of this process, or of all.
func newRateLimiter(key string, cfg PermitsConfig, m Metadata, version uint64) (guard, error) {
	m = m.filled()
	if cfg.Store == nil {
		p, err := newPaced(time.Now(), m.pace())
		if err != nil {
			return nil, err
		}
		l, err := newLimited(key, cfg, p)
		if err != nil {
			return nil, err
		}
		l.wait(m.Timeout)
		l.isIdle = p.Idle
		l.set = func(m Metadata, _ uint64) error {
			l.wait(m.Timeout)
			l.Update(func(now time.Time) { p.change(now, m.pace()) })
			return nil
		}
		return l, nil
	}
	share, err := cfg.Store.Share(sharedPace(key, m, version))
	if err != nil {
		return nil, err
	}
	l, err := newLimited(key, cfg, share)
	if err != nil {
		share.Close()
		return nil, err
	}
	l.wait(m.Timeout)
	l.closes, l.settles = share.Close, true
	l.set = func(m Metadata, version uint64) error {
		// Those of one name in a process are one, which a larger version changes.
		next, err := cfg.Store.Share(sharedPace(key, m, version))
		if err == nil {
			next.Close()
			l.wait(m.Timeout)
		}
		return err
	}
	return l, nil
}

func sharedPace(key string, m Metadata, version uint64) store.ShareConfig {
	return store.ShareConfig{Name: key, Limits: []store.Limit{m.pace().shared()}, Version: version}
}

// newSlots makes slots of this process, or of all.
func newSlots(key string, cfg PermitsConfig, m Metadata) (guard, error) {
	m = m.filled()
	var core limiter.Limiter
	var setMax func(now time.Time, max int) error
	closes := func() {}
	if cfg.Store == nil {
		c, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: m.MaxConcurrentCalls, MaxKeys: 1})
		if err != nil {
			return nil, err
		}
		core, setMax = c, c.SetLimit
	} else {
		s, err := cfg.Store.Slots(store.SlotsConfig{Name: key, Max: m.MaxConcurrentCalls})
		if err != nil {
			return nil, err
		}
		core, closes, setMax = s, s.Close, func(_ time.Time, max int) error { return s.SetMax(max) }
	}
	l, err := newLimited(key, cfg, core)
	if err != nil {
		closes()
		return nil, err
	}
	l.holds, l.closes = true, closes
	l.wait(m.MaxWaitDuration)
	l.set = func(m Metadata, _ uint64) (err error) {
		l.wait(m.MaxWaitDuration)
		l.Update(func(now time.Time) { err = setMax(now, m.MaxConcurrentCalls) })
		return err
	}
	return l, nil
}

// circuit is a guard that a breaker is.
type circuit struct {
	name string
	cfg  PermitsConfig
	b    atomic.Pointer[breaker.Breaker]
}

func newCircuit(key string, cfg PermitsConfig, m Metadata) (guard, error) {
	c := &circuit{name: key, cfg: cfg}
	b, err := newBreaker(key, c.config(m))
	c.b.Store(b)
	return c, err
}

func (c *circuit) config(m Metadata) breaker.Config {
	cfg := m.breaker()
	cfg.OnEvent = c.cfg.OnEvent
	return cfg
}

func (c *circuit) acquire(ctx context.Context, n int) (release func(error), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c.b.Load().Allow()
}

func (c *circuit) change(m Metadata, _ uint64) error {
	b, err := replaceBreaker(c.name, c.b.Load(), c.config(m))
	if err == nil {
		c.b.Store(b)
	}
	return err
}

func (c *circuit) idle() bool {
	s := c.b.Load().Stats()
	return s.State == breaker.Closed && s.Failed == 0 && s.Slow == 0
}

func (c *circuit) close() {}

// codeOf is that of a permit which was not acquired.
func codeOf(ctx context.Context, err error) Code {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return InterruptedWhileAcquiringPermit
	}
	return FailedToAcquirePermit
}
