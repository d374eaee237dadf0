package limiter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/policy"
)

// nothing is a call that does nothing.
func nothing(context.Context) error { return nil }

// once is a Rate of one permit a second, and a chain with it, made so much later.
func once(t *testing.T, later time.Duration, cfg RateLayerConfig) (*Rate, *policy.Pipeline) {
	t.Helper()
	r := newRate(t, 1, 1)
	time.Sleep(later)
	return r, policy.Chain(newRateLayer(t, r, cfg))
}

func TestAChainMadeLongAfterItsRateAdmitsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, p := once(t, 10*time.Second, RateLayerConfig{})
		for range 3 {
			if err := policy.Run(t.Context(), p, nothing); err != nil {
				t.Error("first call of a second:", err)
			}
			err := policy.Run(t.Context(), p, nothing)
			if e, ok := errors.AsType[*LimitedError](err); !ok || e.After != time.Second {
				t.Errorf("second call: %v, want to come back after 1s", err)
			}
			time.Sleep(time.Second)
		}
	})
}

// The two changes leave tat as it was after the take, which is how a permit that may
// be given back is known.
func TestAPermitFromBeforeAChangeOfTheRateDoesNotComeBack(t *testing.T) {
	for _, change := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r, p := once(t, time.Second, RateLayerConfig{})
			err := policy.Run(t.Context(), p, func(context.Context) error {
				if change {
					for _, rate := range []float64{2, 1} {
						if err := r.SetRate(rate); err != nil {
							t.Error(err)
						}
					}
				}
				return fullError{}
			})
			if err != (fullError{}) {
				t.Error(err)
			}
			if got := r.Allow(); got == change {
				t.Errorf("changed: %v; a permit came back: %v", change, got)
			}
		})
	}
}

// Between two in line who have the turn there may be a permit, which is the second
// one's.
func TestACallDoesNotOvertakeThoseInLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, p := once(t, 0, RateLayerConfig{MaxWait: -1})
		r.line.permits.Add(1)
		r.line.turn <- struct{}{}
		var wg sync.WaitGroup
		began := false
		wg.Go(func() {
			_ = policy.Run(t.Context(), p, func(context.Context) error { began = true; return nil })
		})
		synctest.Wait()
		if began {
			t.Error("began before one who came earlier")
		}
		r.line.permits.Add(-1)
		<-r.line.turn
		wg.Wait()
		if !began {
			t.Error("did not begin when its turn came")
		}
	})
}

func TestACallTakesAsManyPermitsAsItSays(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T) {
		r := newRate(t, 1, 10)
		permits := func(ctx context.Context) int { return ctx.Value(key{}).(int) }
		p := policy.Chain(newRateLayer(t, r, RateLayerConfig{Permits: permits}))
		for _, tt := range []struct{ takes, left int }{{3, 7}, {0, 7}, {7, 0}} {
			if err := policy.Run(context.WithValue(t.Context(), key{}, tt.takes), p, nothing); err != nil {
				t.Error(err)
			}
			if got := r.Tokens(); got != float64(tt.left) {
				t.Errorf("%v left after a call that takes %d, want %d", got, tt.takes, tt.left)
			}
		}
	})
}
