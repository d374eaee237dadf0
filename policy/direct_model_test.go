package policy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

// through is a layer that does nothing, and that nobody passes but through its
// handler: no chain with it is gone through directly.
type through struct{}

func (through) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error { return next(c) }
}
func (through) Layer() policy.Layer { return policy.CacheLayer }
func (through) String() string      { return "through" }

// guarded is a chain of the policies that have a short way, and all that can be
// seen of them.
type guarded struct {
	chain   *policy.Pipeline
	layers  []policy.Policy
	breaker *breaker.Breaker
	rate    *limiter.Rate
	room    *policy.Bulkhead
	events  string
}

func newGuarded(seed uint64) *guarded {
	g, rng := new(guarded), rand.New(rand.NewPCG(seed, 1))
	hear := func(e event.Event) {
		g.events += fmt.Sprintf("[%v %v #%d %v %v]", e.Kind, e.Source, e.Attempt, e.Delay, e.Err)
		if rng.IntN(8) == 0 {
			panic("a listener's")
		}
	}
	var onError func(error) error
	if rng.IntN(4) == 0 {
		onError = func(err error) error {
			g.events += fmt.Sprintf("(%v)", err)
			switch rng.IntN(6) {
			case 0:
				return nil
			case 1:
				return errUnsent
			case 2:
				panic("a hook's")
			}
			return err
		}
	}
	cfg := breaker.Config{Consecutive: 3, OnEvent: hear}
	switch rng.IntN(4) {
	case 0:
		cfg = breaker.Config{Window: 6, MinCalls: 4, SlowCall: 20 * time.Millisecond, SlowRate: 0.5, OnEvent: hear}
	case 1:
		cfg = breaker.Config{WindowTime: 10 * time.Second, MinCalls: 4, SlowCall: 20 * time.Millisecond}
	case 2:
		cfg.OnEvent = nil
	}
	cfg.OnError = onError
	again := retry.Config{OnEvent: hear, OnError: onError}
	if rng.IntN(2) == 0 {
		again.MaxElapsed = 520 * time.Millisecond
	}
	g.breaker = must(breaker.New(cfg))
	g.rate = must(limiter.NewRate(limiter.RateConfig{Rate: 20, Burst: 4}))
	g.room = must(policy.NewBulkhead(policy.BulkheadConfig{Max: 2, MaxWait: time.Duration(rng.IntN(2)) * time.Second, OnEvent: hear, OnError: onError}))
	limit := must(limiter.NewRateLayer(g.rate, limiter.RateLayerConfig{MaxWait: time.Duration(rng.IntN(3)-1) * 100 * time.Millisecond, OnEvent: hear, OnError: onError}))
	layers := []policy.Policy{must(retry.New(again)), g.breaker, limit, g.room}
	if rng.IntN(4) == 0 {
		layers = append(layers, layers[rng.IntN(4)]) // one of them twice
	}
	rng.Shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
	g.layers = layers
	return g
}

// seen is what g shows of itself.
func (g *guarded) seen() string {
	s := g.breaker.Stats()
	s.Until = time.Time{}
	return fmt.Sprintf("%+v, %.4f permits, %d in use, %s", s, g.rate.Tokens(), g.room.InUse(), g.events)
}

var errUnsent = &breaker.OpenError{Name: "of another"} // says that there was no call

// change is what another does to the layers of g.
func (g *guarded) change(what, n int) {
	switch what {
	case 0:
		g.rate.AllowN(3)
	case 1:
		_ = g.rate.SetRate(10 + float64(n))
	case 2:
		_ = g.breaker.Transition(breaker.State(n % 6))
	case 3: // and back
		_ = g.rate.SetBurst(3)
		_ = g.rate.SetBurst(4)
	case 4:
		_ = g.room.SetMax(1 + n%3)
	}
}

// ending is what a function does when it is called for the nth time.
func (g *guarded) ending(rng *rand.Rand, cancel context.CancelFunc) func(context.Context) (int, error) {
	kinds, n := [3]int{rng.IntN(14), rng.IntN(14), rng.IntN(14)}, 0
	meanwhile, to := rng.IntN(15), rng.IntN(20)
	lasts := time.Duration(rng.IntN(2)*rng.IntN(50)) * time.Millisecond
	return func(context.Context) (int, error) {
		kind := kinds[n%3]
		n++
		time.Sleep(lasts)
		g.change(meanwhile, to)
		switch kind {
		case 0:
			panic("boom")
		case 1:
			runtime.Goexit()
		case 2:
			cancel()
			return n, context.Canceled
		case 3:
			cancel()
			return n, nil
		case 4:
			return n, errUnsent
		case 5:
			return n, retry.Permanent(errDown)
		case 6, 7:
			return n, errDown
		}
		return n, nil
	}
}

// outcome is how a call of g ends, whose function is made by seed.
func (g *guarded) outcome(seed uint64) (s string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rng := rand.New(rand.NewPCG(seed, 2))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				s = fmt.Sprint("panic ", v)
			}
		}()
		s = "goexit"
		if rng.IntN(20) == 0 {
			cancel()
		}
		r, err := policy.Do(ctx, g.chain, g.ending(rng, cancel))
		s = fmt.Sprint(r, " ", err, errors.Is(err, errDown), errors.Is(err, context.Canceled))
	}()
	<-done
	return s
}

func TestDirectlyAndThroughTheHandlersTheSameHappens(t *testing.T) {
	for seed := range uint64(effort.Times(20)) {
		synctest.Test(t, func(t *testing.T) {
			short, long := newGuarded(seed), newGuarded(seed)
			time.Sleep(5300 * time.Millisecond) // the clocks of the layers are not the chain's
			short.chain, long.chain = policy.Chain(short.layers...), policy.Chain(append(long.layers, through{})...)
			rng := rand.New(rand.NewPCG(seed, 3))
			for i := range 40 {
				// What is in the way of the next call: others inside, permits taken, a
				// limit that changes, a state set by hand.
				inside, change := rng.IntN(3)*rng.IntN(2), rng.IntN(15)
				for _, g := range []*guarded{short, long} {
					for range inside {
						g.room.TryAcquire()
					}
					g.change(change, i)
				}
				call, pause := rng.Uint64(), time.Duration(rng.IntN(2000))*time.Millisecond
				var was [2]string
				var wg sync.WaitGroup
				for k, g := range []*guarded{short, long} {
					wg.Go(func() { was[k] = g.outcome(call) + "; " + g.seen() })
				}
				wg.Wait()
				if was[0] != was[1] {
					t.Fatalf("seed %d, call %d of %v:\ndirectly %s\nthrough  %s", seed, i, short.chain, was[0], was[1])
				}
				for range inside {
					short.room.Release()
					long.room.Release()
				}
				time.Sleep(pause)
			}
		})
	}
}
