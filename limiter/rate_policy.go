package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// RateLayerConfig says how a Rate guards the calls of a chain.
type RateLayerConfig struct {
	// Name appears in events and in the layer's String.
	Name string

	// MaxWait is how long a call may wait for its permits. One that would have to
	// wait longer is turned away at once. 0: not at all; less than 0: as long as
	// its context lasts.
	MaxWait time.Duration

	// Permits says of a call, by its context, how many permits it takes; below 1
	// it takes none. nil: 1. A panic in it passes through to the caller.
	Permits func(context.Context) int

	// OnError replaces the error that leaves the layer, its own or one from
	// further in; nil as a replacement is success. nil: errors stay as they are.
	OnError func(error) error

	// OnEvent hears of LimitRefused (Delay: RetryAfter of Err, 0 for Never). It is
	// called under no lock, and waited for. A panic in it is dropped. nil: nobody does.
	OnEvent func(event.Event)
}

// RateLayer is a Rate as a policy.Policy. It may be part of any number of chains,
// and several may have the same Rate.
//
// A call that was let pass gives its permits back, as RateReservation.Cancel does,
// when its error says, by a method Refused() bool, that the vendor was not called:
// a layer further in had no room. After any other end of it, they are used.
//
// Where there are permits, the layer costs no more than Rate.AllowAt: it takes no
// lock, and allocates nothing.
type RateLayer struct {
	rate *Rate
	cfg  RateLayerConfig
}

var _ policy.Policy = (*RateLayer)(nil)

// NewRateLayer returns r as a layer. It is an error, which matches ErrInvalid, that
// r is nil, or was not made by NewRate.
func NewRateLayer(r *Rate, cfg RateLayerConfig) (*RateLayer, error) {
	if r == nil {
		return nil, invalidf("NewRateLayer: the Rate is nil")
	}
	if r.cur.Load() == nil {
		return nil, invalidf("NewRateLayer: the Rate is the zero value, want one of NewRate")
	}
	return &RateLayer{r, cfg}, nil
}

// Layer returns policy.LimiterLayer.
func (l *RateLayer) Layer() policy.Layer { return policy.LimiterLayer }

// String describes the layer by the limits in force: "limiter(10/s, 20 at once,
// waits 1s)".
func (l *RateLayer) String() string {
	rate, burst := l.rate.Limits()
	settings := fmt.Sprintf("%v/s, %d at once", rate, burst)
	switch {
	case l.cfg.MaxWait > 0:
		settings += fmt.Sprintf(", waits %v", l.cfg.MaxWait)
	case l.cfg.MaxWait < 0:
		settings += ", waits"
	}
	return named("limiter", l.cfg.Name) + "(" + settings + ")"
}

// Wrap puts the layer around next.
func (l *RateLayer) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		v, err := l.admit(c)
		if err == nil {
			if err = next(c); err != nil && errtree.Refused(err) {
				v.Cancel()
			}
		}
		return mapped(err, l.cfg.OnError)
	}
}

// admit takes the permits of c, for which it waits as configured.
func (l *RateLayer) admit(c *policy.Call) (v RateReservation, err error) {
	if pass, ok := c.Entered(); ok {
		return l.took(pass), nil
	}
	ctx, n := c.Context(), 1
	if c.Err() != nil {
		return v, endOf(ctx)
	}
	if l.cfg.Permits != nil {
		n = l.cfg.Permits(ctx)
	}
	if l.cfg.MaxWait == 0 || l.rate.line.permits.Load() == 0 {
		s, after, wait := l.rate.take(l.rate.time.after(c.Since(l.rate.time.base)), n, 0)
		if wait == 0 {
			return RateReservation{state: s, after: after, n: n}, nil
		}
		if l.cfg.MaxWait == 0 {
			return v, l.refused(refuse(NoPermits, time.Duration(wait), ""))
		}
	}
	v, err = l.stand(ctx, n)
	c.Later()
	if e, ok := errors.AsType[*LimitedError](err); ok {
		return v, l.refused(e)
	}
	return v, err
}

// stand waits in the Rate's line, no longer than MaxWait. A deadline is the Rate's
// way of being told: it turns a call away at once that would not meet it.
func (l *RateLayer) stand(ctx context.Context, n int) (v RateReservation, err error) {
	if l.cfg.MaxWait < 0 {
		return l.rate.stand(ctx, n)
	}
	// A nanosecond more: to be in time is to be before the deadline.
	bounded, cancel := context.WithTimeout(ctx, min(l.cfg.MaxWait, math.MaxInt64-1)+1)
	defer cancel()
	v, err = l.rate.stand(bounded, n)
	own, _ := bounded.Deadline()
	if outer, ok := ctx.Deadline(); err == nil || ctx.Err() != nil || ok && !outer.After(own) {
		return v, err
	}
	e, ok := errors.AsType[*LimitedError](err)
	if !ok { // others in front took longer than they were to
		alone, _ := l.rate.ahead(l.rate.time.now(), n, 0)
		e = refuse(TooLate, time.Duration(alone), "")
	}
	e.deadline = false
	return v, e
}

func (l *RateLayer) refused(err *LimitedError) error {
	return tellRefused(l.cfg.OnEvent, l.cfg.Name, err)
}
