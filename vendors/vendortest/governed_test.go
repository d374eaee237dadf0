package vendortest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/vendors/vendortest"
)

// refused is what a client of the engine returns.
type refused struct{ delay time.Duration }

func (e *refused) Error() string { return fmt.Sprintf("refused for %v", e.delay) }

type punisher struct{}

func (punisher) DelayError(err error) (time.Duration, bool) {
	if e, ok := errors.AsType[*refused](err); ok {
		return e.delay, true
	}
	return 0, false
}

// call is one call to the engine: half a millisecond there, twenty milliseconds
// of work, half a millisecond back, each more or less.
func call(e *vendortest.Engine) error {
	half := func() { time.Sleep(time.Duration(300+rand.IntN(400)) * time.Microsecond) }
	half()
	v := e.Admit(time.Now())
	if v.Accepted {
		time.Sleep(time.Duration(12+rand.IntN(16)) * time.Millisecond)
	}
	half()
	if !v.Accepted {
		return &refused{v.Delay}
	}
	return nil
}

// punishing asks for 15 s and goes up to 15 min for those who call meanwhile, at
// a hundredth of the time.
var punishing = vendortest.Quota{Rate: 250, Burst: 20, Pause: 150 * time.Millisecond, MaxPause: 9 * time.Second, Grace: 10 * time.Millisecond}

// The vendor that the governor is for; its quota is unknown.
func TestGovernedClientsNeverMakeAPunishingVendorEscalate(t *testing.T) {
	for _, workers := range []int{8, 64} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := vendortest.NewEngine(punishing)
				if err != nil {
					t.Fatal(err)
				}
				pace, err := limiter.NewAdaptive(limiter.AdaptiveConfig{Start: 100})
				if err != nil {
					t.Fatal(err)
				}
				g, err := governor.New(governor.PlainConfig{Name: "punisher", Vendor: punisher{}, Workers: workers, Limits: []governor.Limit{{Limiter: pace}}})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				const n = 3000
				start := time.Now()
				var reqs []*governor.Request[int]
				for range n {
					reqs = append(reqs, governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, call(e) })))
				}
				for _, r := range reqs {
					if _, err := r.Result(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				got := e.Totals()
				share := float64(n) / (punishing.Rate * time.Since(start).Seconds())
				if got.Escalations != 0 || got.Accepted != n || got.Refused > n/100 || share < 0.85 {
					t.Errorf("%+v, %.0f %% of the quota; want every call accepted, no escalation, 1 %% refused at most", got, 100*share)
				}
			})
		})
	}
}

// The same vendor without a governor, so that the test above means something.
func TestClientsThatObeyEachForItselfEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := vendortest.NewEngine(punishing)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		var done atomic.Int64
		for range 16 {
			go func() {
				for ctx.Err() == nil {
					err := call(e)
					if r, ok := errors.AsType[*refused](err); ok {
						select {
						case <-time.After(r.delay):
						case <-ctx.Done():
						}
						continue
					}
					done.Add(1)
				}
			}()
		}
		<-ctx.Done()
		synctest.Wait()
		if got := e.Totals(); got.Escalations == 0 || done.Load() > 3000/10 {
			t.Errorf("%+v, %d calls done; want escalations, and next to nothing done", got, done.Load())
		}
	})
}
