package policy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// These have a Wrap of their own, and all else is that of what they embed.
type (
	ownRetry    struct{ *retry.Retry }
	ownBreaker  struct{ *breaker.Breaker }
	ownLimiter  struct{ *limiter.RateLayer }
	ownBulkhead struct {
		*policy.Bulkhead
		_ []int // not comparable
	}
	ownByValue struct{ policy.Bulkhead }
)

func closed(policy.Handler) policy.Handler { return func(*policy.Call) error { return errDown } }

func (ownRetry) Wrap(next policy.Handler) policy.Handler    { return closed(next) }
func (ownBreaker) Wrap(next policy.Handler) policy.Handler  { return closed(next) }
func (ownLimiter) Wrap(next policy.Handler) policy.Handler  { return closed(next) }
func (ownBulkhead) Wrap(next policy.Handler) policy.Handler { return closed(next) }
func (*ownByValue) Wrap(next policy.Handler) policy.Handler { return closed(next) }

func TestAWrapOfOnesOwnIsNotPassedBy(t *testing.T) {
	again, open := must(retry.New(retry.Config{})), must(breaker.New(breaker.Config{}))
	limit := must(limiter.NewRateLayer(must(limiter.NewRate(limiter.RateConfig{Rate: 1})), limiter.RateLayerConfig{}))
	room := must(policy.NewBulkhead(policy.BulkheadConfig{}))
	for _, own := range []policy.Policy{
		ownRetry{again}, &ownRetry{again}, ownBreaker{open}, ownLimiter{limit}, ownBulkhead{Bulkhead: room}, &ownByValue{},
	} {
		for _, p := range []*policy.Pipeline{policy.Chain(own), policy.Chain(room, own), policy.Chain(own, room)} {
			err := policy.Run(t.Context(), p, func(context.Context) error { t.Errorf("%T was passed by", own); return nil })
			if !errors.Is(err, errDown) {
				t.Errorf("%T: %v", own, err)
			}
		}
	}
	if n := room.InUse(); n != 0 {
		t.Errorf("%d in use", n)
	}
}

// By the clock of a chain that was made long after its breaker, with no other layer
// that reads it.
func TestACallIsNotSlowBecauseItsChainIsYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard event.Event
		b := must(breaker.New(breaker.Config{SlowCall: time.Second, OnEvent: func(e event.Event) { heard = e }}))
		time.Sleep(time.Minute)
		p := policy.Chain(b)
		time.Sleep(time.Minute)
		for _, d := range []time.Duration{0, time.Second, 2 * time.Second} {
			if err := policy.Run(t.Context(), p, func(context.Context) error { time.Sleep(d); return nil }); err != nil {
				t.Error(err)
			}
			if got := heard.Delay; got != d {
				t.Errorf("a call of %v is heard of as one of %v", d, got)
			}
		}
		if s := b.Stats(); s.Calls != 3 || s.Slow != 1 {
			t.Errorf("%d of %d slow, want 1 of 3", s.Slow, s.Calls)
		}
	})
}
