package httpx

import (
	"errors"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
)

// newBreaker makes the breaker of a host.
func newBreaker(cfg breaker.Config, host string) (*breaker.Breaker, error) {
	if cfg.Name == "" {
		cfg.Name = host
	}
	if cfg.OpenFor == nil {
		cfg.OpenFor = backoff.Exponential{Initial: 30 * time.Second, Multiplier: 2, Max: 10 * time.Minute}
	}
	return breaker.New(cfg)
}

// judge is a circuit that goes by what RecordFailure said.
type judge struct{ breaker.Circuit }

// judging is the same of a breaker, which the governor asks for more than that.
type judging struct{ *breaker.Breaker }

// judged has c go by what RecordFailure said.
func judged(c breaker.Circuit) breaker.Circuit {
	if b, ok := c.(*breaker.Breaker); ok {
		return judging{b}
	}
	return judge{c}
}

// Judge implements governor.Judge.
func (judging) Judge(err error) breaker.Outcome { return judge{}.Judge(err) }

// Judge implements governor.Judge.
func (judge) Judge(err error) breaker.Outcome {
	if f, ok := errors.AsType[*failure](err); ok && !f.blamed {
		return breaker.Success
	}
	return breaker.Failure
}
