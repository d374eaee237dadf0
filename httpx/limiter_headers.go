package httpx

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
)

// tell sets the headers that say what key has left. Those of the handlers around this
// one stay: of X-RateLimit, which knows one limit only, that with the least left.
func (l *Limiter) tell(h http.Header, key string) {
	type left struct {
		n     int
		reset time.Duration // until more are there; 0: all are
	}
	now, found := time.Time{}, make([]left, len(l.cfg.Limits))
	l.shared.Update(func(at time.Time) {
		now = at
		for i, limit := range l.cfg.Limits {
			found[i].n = -1
			if c, ok := limit.Limiter.(limiter.Counter); ok {
				key := key
				if limit.Whole {
					key = ""
				}
				n := max(0, c.Available(at, key))
				found[i] = left{n, c.Wait(at, key, n+1)}
			}
		}
	})
	for i, limit := range l.cfg.Limits {
		if f := found[i]; f.n >= 0 {
			if f.reset == limiter.Never { // all permits are there
				f.reset = 0
			}
			limit.tell(h, now, f.n, f.reset)
		}
	}
}

// tell adds one limit, of which n permits are left.
func (l *Limit) tell(h http.Header, now time.Time, n int, reset time.Duration) {
	policy, state := fmt.Sprintf("%q", l.Name), fmt.Sprintf("%q;r=%d", l.Name, n)
	if l.Limit > 0 {
		policy += fmt.Sprintf(";q=%d", l.Limit)
		if l.Window > 0 {
			policy += fmt.Sprintf(";w=%d", seconds(l.Window))
		}
		h.Add("Ratelimit-Policy", policy)
	}
	if reset > 0 {
		state += fmt.Sprintf(";t=%d", seconds(reset))
	}
	h.Add("Ratelimit", state)

	if least, err := strconv.Atoi(h.Get("X-Ratelimit-Remaining")); err == nil && least <= n {
		return
	}
	h.Del("X-Ratelimit-Limit")
	if l.Limit > 0 {
		h.Set("X-Ratelimit-Limit", strconv.Itoa(l.Limit))
	}
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(n))
	at := now.Add(reset)
	epoch := at.Unix()
	if at.Nanosecond() > 0 {
		epoch++
	}
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(epoch, 10))
}

// retryAfter sets Retry-After if err says when to come again.
func retryAfter(h http.Header, err error) {
	if after, ok := retry.RetryAfter(err); ok && after > 0 && after < limiter.Never {
		h.Set("Retry-After", strconv.FormatInt(seconds(after), 10))
	}
}

// seconds rounds up: not a moment early.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
