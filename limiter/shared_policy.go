package limiter

import (
	"fmt"
	"time"

	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

var _ policy.Policy = (*Shared)(nil)

// Layer returns policy.LimiterLayer.
func (s *Shared) Layer() policy.Layer { return policy.LimiterLayer }

// String describes the limiter: "limiter(2 limits, queue 50, waits 10s)".
func (s *Shared) String() string {
	settings := fmt.Sprintf("%d limits", len(s.limiters)+len(s.whole))
	if len(s.limiters)+len(s.whole) == 1 {
		settings = "1 limit"
	}
	switch {
	case s.queue.max > 0 && s.maxWait < 0:
		settings += fmt.Sprintf(", queue %d, waits", s.queue.max)
	case s.queue.max > 0:
		settings += fmt.Sprintf(", queue %d, waits %v", s.queue.max, s.maxWait)
	}
	return named("limiter", s.name) + "(" + settings + ")"
}

// Wrap makes a Shared a policy.Policy: calls pass it as they do Do, with the key
// and the permits that SharedConfig.Key and Permits find in their contexts. Where
// nothing has to wait, that allocates nothing.
func (s *Shared) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		key, n := "", 1
		if s.key != nil {
			key = s.key(c.Context())
		}
		if s.permits != nil {
			n = s.permits(c.Context())
		}
		return mapped(s.pass(c, key, n, next), s.onError)
	}
}

func (s *Shared) pass(c *policy.Call, key string, n int, next policy.Handler) error {
	taken, waited, err := s.wait(c.Context(), key, n)
	if waited {
		c.Later()
	}
	if err != nil {
		return err
	}
	o := ending{taken: taken, sent: time.Now(), used: n}
	defer func() { s.ended(key, n, o) }()
	err = next(c)
	if s.refusedOn != nil && !errtree.Refused(err) {
		if o.refused = s.refusedOn(c, err); o.refused { // may panic; then nothing is known
			o.asked, _ = errtree.RetryAfter(err)
			o.err = err
		}
	}
	o.of(err)
	if s.drainOn != nil && s.drainOn(c, err) {
		s.Drain(key)
	}
	return err
}

// sharedCall is a Shared as the layer around one call.
type sharedCall struct {
	*Shared
	key string
	n   int
}

func (l *sharedCall) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return mapped(l.pass(c, l.key, l.n, next), l.onError) }
}
