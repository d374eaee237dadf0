package governor_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
)

// secretive is a vendor that takes rate calls a second, ten at once when nobody has
// called for a while, and tells nobody. Who asks for more has to leave it alone for 5 s,
// and who does not for twice as long. A call is with it for 20 ms.
type secretive struct {
	mu       sync.Mutex // guards what follows
	rate     float64
	tokens   float64
	last     time.Time
	until    time.Time     // closed
	wait     time.Duration // the last that it asked for
	reopened bool          // nothing has been answered well since it was closed

	accepted int
	closed   int // how often
	early    int // calls while it was closed
	first    int // calls that it accepted before one that it did was answered, after it was closed
}

func (v *secretive) call(context.Context) (int, error) {
	time.Sleep(10 * time.Millisecond)
	v.mu.Lock()
	now := time.Now()
	ok := v.arrive(now)
	wait := v.until.Sub(now)
	v.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	if !ok {
		return 0, governortest.Limited(wait)
	}
	v.mu.Lock()
	v.reopened = false
	v.mu.Unlock()
	return 1, nil
}

func (v *secretive) arrive(now time.Time) bool {
	v.tokens = min(10, v.tokens+v.rate*now.Sub(v.last).Seconds())
	v.last = now
	switch {
	case now.Before(v.until):
		v.early++
		v.wait *= 2
	case v.tokens < 1:
		v.closed++
		v.wait = 5 * time.Second
	default:
		if v.reopened {
			v.first++
		}
		v.tokens--
		v.accepted++
		return true
	}
	v.reopened = true
	v.until = now.Add(v.wait)
	return false
}

// A governor that is told nothing finds the vendor's rate, keeps below it, and finds it
// again when it has changed. After each refusal one call goes alone.
func TestWithoutAnyLimitTheRateIsLearned(t *testing.T) {
	const callers = 20
	bubble(t, func(c *governor.PlainConfig) { c.LimitedAttempts = -1 }, func(t *testing.T, g *governor.Plain) {
		v := &secretive{rate: 10, tokens: 10, last: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = governor.Do(ctx, g, "", governor.Func(v.call))
				}
			})
		}
		for _, tt := range []struct{ rate, minutes float64 }{{10, 45}, {5, 10}, {20, 10}} { // the first contact costs a pause of up to 43 minutes
			rate, long := tt.rate, time.Duration(tt.minutes)*time.Minute
			v.mu.Lock()
			v.rate = rate
			v.mu.Unlock()
			time.Sleep(long) // to learn
			v.mu.Lock()
			accepted, closed := v.accepted, v.closed
			v.mu.Unlock()
			time.Sleep(long)
			v.mu.Lock()
			part := float64(v.accepted-accepted) / (rate * long.Seconds())
			t.Logf("of %v calls/s it gets %.3f, and closed the vendor %d times in %v", rate, part, v.closed-closed, long)
			if part < 0.9 || float64(v.closed-closed) > tt.minutes {
				t.Errorf("of %v calls/s it gets %.3f, and closed the vendor %d times in %v; want 0.9 and once a minute at most", rate, part, v.closed-closed, long)
			}
			v.mu.Unlock()
		}
		cancel()
		wg.Wait()
		if t.Logf("closed %d times: %d calls came meanwhile, %d first ones", v.closed, v.early, v.first); v.early > callers || v.first > v.closed {
			t.Errorf("of %d callers %d calls came while it was closed; then %d went before one was answered, want one each of %d times", callers, v.early, v.first, v.closed)
		}
	})
}
