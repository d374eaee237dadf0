package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/policy"
)

// layer is how a fuzz test makes any layer, and what has no Config of its own, from a few
// numbers. The name is that of the Config that the numbers are in.
func layer(which uint8, n, m, limit int, d, e time.Duration, x, y float64) (name string, l policy.Policy, err error) {
	switch which % 5 {
	case 0:
		l, err = NewThrottlePolicy(ThrottlePolicyConfig{Throttle: ThrottleConfig{Window: d, K: x, Most: y}})
		return "ThrottleConfig", l, err
	case 1:
		l, err = NewConcurrencyPolicy(ConcurrencyPolicyConfig{
			Concurrency: AdaptiveConcurrencyConfig{Start: limit, Min: n, Max: m, Tolerance: x, AskAgain: d}, MaxWait: e, Queue: y,
		})
		if err != nil && strings.Contains(err.Error(), "PolicyConfig") {
			return "ConcurrencyPolicyConfig", l, err
		}
		return "AdaptiveConcurrencyConfig", l, err
	case 2:
		l, err = NewShared(SharedConfig{MaxQueue: n, MaxWait: e, Newest: m > 0})
		return "SharedConfig", l, err
	case 3:
		var r *Rate
		if r, err = NewRate(RateConfig{Rate: x, Burst: n}); err == nil {
			l, err = NewRateLayer(r, RateLayerConfig{MaxWait: e})
		}
		return "RateConfig", l, err
	}
	var spread *Spread
	if spread, err = NewSpread(SpreadConfig{MaxKeys: n}); err == nil {
		l, err = NewShared(SharedConfig{Limiters: []Limiter{spread}, MaxWait: e})
	}
	return "SpreadConfig", l, err
}

// FuzzLayerConfig makes layers of any numbers: there is an error that names a field and
// matches ErrInvalid, or the first call passes, and the next does as well or is refused.
func FuzzLayerConfig(f *testing.F) {
	for which := range uint8(5) {
		f.Add(which, 0, 0, 0, int64(0), int64(0), 0.0, 0.0)
		f.Add(which, 1, 5, 3, int64(time.Second), int64(time.Millisecond), 10.0, 0.5)
		f.Add(which, -1, 1<<31, 1<<40, int64(math.MaxInt64), int64(math.MinInt64), math.NaN(), math.Inf(1))
	}
	f.Fuzz(func(t *testing.T, which uint8, n, m, limit int, d, e int64, x, y float64) {
		wait := min(time.Duration(e), time.Millisecond) // how long a call may take here
		name, l, err := layer(which, n, m, limit, time.Duration(d), wait, x, y)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "limiter: "+name+".") || !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if s := fmt.Sprint(l); s == "" {
			t.Fatalf("%s: no description", name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		call := func() error { return policy.Run(ctx, policy.Chain(l), func(context.Context) error { return nil }) }
		if err := call(); err != nil {
			t.Fatalf("%s: the first call: %v", name, err)
		}
		if wait >= 0 { // else it may wait for a century
			if err := call(); err != nil && !errors.Is(err, ErrLimited) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}
