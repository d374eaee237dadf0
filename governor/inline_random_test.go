package governor_test

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

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// leases is a circuit that counts the permits that are out.
type leases struct {
	mu      sync.Mutex
	out     map[breaker.Permit]bool
	last    breaker.Permit
	refuses func() bool
}

func (l *leases) Ready(time.Time) error { return nil }

func (l *leases) Acquire(time.Time) (breaker.Permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses() {
		return 0, &breaker.OpenError{}
	}
	l.last++
	l.out[l.last] = true
	return l.last, nil
}

func (l *leases) Report(p breaker.Permit, _ time.Time, _ breaker.Outcome, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.out[p] {
		panic("a permit that is not out")
	}
	delete(l.out, p)
}

// Whatever becomes of a call, on whichever path: slot, connection, permits and budget
// are there again, and everything is counted once.
func TestRandomCallsGiveEverythingBack(t *testing.T) {
	for seed := range uint64(effort.Times(6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { giveBack(t, seed) })
		})
	}
}

func giveBack(t *testing.T, seed uint64) {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 11))
	n := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
	ms := func(most int) time.Duration { return time.Duration(n(most)) * time.Millisecond }
	atOnce, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	budget := newBudget(t, -1, 3)
	circuit := &leases{out: map[breaker.Permit]bool{}, refuses: func() bool { return n(10) == 0 }}
	cfg := governor.Config[string, int]{
		Name: "random", Vendor: governortest.Vendor{}, Workers: 4, MaxWait: -1, LimitedAttempts: 3,
		Breaker: circuit, BreakerWait: seed%2 == 0, CloseGrace: time.Minute,
		Retry:  &retry.Config{Attempts: 2, Backoff: backoff.Constant(time.Millisecond), Budget: budget},
		Weight: func(tenant string) int { return 1 + len(tenant) },
		Limits: []governor.Limit{{Limiter: atOnce}},
	}
	if seed%3 == 0 {
		cfg.AttemptTimeout = 20 * time.Millisecond
	}
	if seed%4 < 2 {
		cfg.Pool = &pool.Config[string, int]{Max: 3, Open: func(context.Context, string) (int, error) { return 1, nil }}
	}
	cfg.Observe = seed%7 == 3
	g, err := governor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if seed%5 == 4 {
		defer g.Listen(func(event.Event) {})()
	}
	attempts := uint64(0)
	closure := func(ctx context.Context, _ int) (int, error) {
		mu.Lock()
		attempts++
		mu.Unlock()
		if n(2) == 0 {
			time.Sleep(ms(30))
		}
		if n(8) == 0 {
			_ = governor.Settle(ctx, n(4))
		}
		if n(8) == 0 {
			release := governor.Hold(ctx)
			switch n(3) {
			case 0:
				release(nil)
			case 1:
				time.AfterFunc(ms(40), func() { release(nil) })
			case 2:
				time.AfterFunc(ms(40), func() { _ = governor.Settle(ctx, 2); release(governortest.Limited(time.Millisecond)) })
			}
		}
		switch n(40) {
		case 0, 1:
			return 0, governortest.Limited(ms(10), throttle.Scope{Level: throttle.Level(n(4))})
		case 2, 3:
			return 0, errors.New("failed")
		case 4:
			panic("failed")
		case 5:
			runtime.Goexit()
		case 6, 7:
			return 0, governor.Again(ms(20))
		case 8:
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			return 0, ctx.Err()
		case 9:
			child, cancel := context.WithTimeout(ctx, ms(10))
			defer cancel()
			_, err := governor.Do(child, g, "", func(context.Context, int) (int, error) { mu.Lock(); attempts++; mu.Unlock(); return 0, nil })
			return 0, err
		case 10:
			g.Learn(throttle.Signal{Delay: ms(5), Scope: throttle.Scope{Level: throttle.Level(n(2))}})
		case 11:
			_ = governor.Report(ctx, within(0, ms(10)))
		}
		return 0, nil
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 60 {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if n(4) == 0 {
					ctx, cancel = context.WithTimeout(ctx, ms(40))
				}
				h := g.With(governor.Ask{Tenant: []string{"", "a", "bb"}[n(3)], Cost: n(4), NoRetry: n(5) == 0})
				inner := make(chan struct{})
				go func() { // Goexit ends it
					defer close(inner)
					if n(3) == 0 {
						<-governor.Submit(ctx, h, []string{"", "x"}[n(2)], closure).Done()
						return
					}
					_, _ = governor.Do(ctx, h, []string{"", "x"}[n(2)], closure)
				}()
				<-inner
				cancel()
				switch n(30) {
				case 0:
					g.Pause()
					time.Sleep(ms(5))
					g.Resume()
				case 1:
					_ = g.SetMaxQueue(1 + n(50))
				case 2:
					g.Stats()
				default:
					time.Sleep(ms(8))
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Minute) // holds end
	synctest.Wait()
	s := g.Stats()
	if s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("%d in flight, %d queued", s.InFlight, s.Queued)
	}
	if s.Submitted != s.Succeeded+s.Failed+s.Dropped {
		t.Errorf("%d submitted, %d succeeded, %d failed, %d dropped", s.Submitted, s.Succeeded, s.Failed, s.Dropped)
	}
	if s.Started != attempts {
		t.Errorf("%d started, want %d", s.Started, attempts)
	}
	if s.HookPanics != 0 { // see leases
		t.Errorf("%d panics in hooks", s.HookPanics)
	}
	if b := budget.State(); b.Calls != 0 {
		t.Errorf("budget %+v", b)
	}
	if n := len(circuit.out); n != 0 {
		t.Errorf("%d permits of the breaker are out", n)
	}
	if n := atOnce.Available(time.Now(), ""); n != 5 {
		t.Errorf("%d of 5 available", n)
	}
	if cfg.Pool != nil && s.Pool.InUse != 0 {
		t.Errorf("pool %+v", s.Pool)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
