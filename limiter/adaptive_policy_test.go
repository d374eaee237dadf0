package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// fixedAt is a configuration whose limit does not move.
func fixedAt(n int) AdaptiveConcurrencyConfig { return AdaptiveConcurrencyConfig{Min: n, Max: n} }

func newConcurrencyPolicy(t testing.TB, cfg ConcurrencyPolicyConfig) *ConcurrencyPolicy {
	t.Helper()
	p, err := NewConcurrencyPolicy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConcurrencyPolicyLetsCallsInInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newConcurrencyPolicy(t, ConcurrencyPolicyConfig{Concurrency: fixedAt(2), MaxWait: -1})
		chain := policy.Chain(p)
		var o order
		o.start = time.Now()
		for i := range 6 {
			go func() {
				err := policy.Run(t.Context(), chain, func(context.Context) error {
					o.add("%d", i)
					time.Sleep(time.Second)
					return nil
				})
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		if n := p.Waiting(); n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
		err := policy.Run(t.Context(), chain, func(context.Context) error { t.Error("called"); return nil })
		wantLimited(t, err, QueueFull, 0) // twice the limit wait already
		time.Sleep(5 * time.Second)
		synctest.Wait()
		o.want(t, "0s 0", "10ms 1", "1s 2", "1.01s 3", "2s 4", "2.01s 5")
		if p.Waiting() != 0 || p.core.Held() != 0 {
			t.Errorf("%d wait and %d run at the end", p.Waiting(), p.core.Held())
		}
	})
}

func TestConcurrencyPolicyWaitsNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []event.Event
		p := newConcurrencyPolicy(t, ConcurrencyPolicyConfig{
			Concurrency: fixedAt(1), MaxWait: 3 * time.Second, Queue: 5, OnEvent: func(e event.Event) { heard = append(heard, e) },
		})
		chain := policy.Chain(p)
		run := func(ctx context.Context, d time.Duration) error {
			return policy.Run(ctx, chain, func(context.Context) error { time.Sleep(d); return nil })
		}
		go run(t.Context(), 10*time.Second)
		synctest.Wait()
		began := time.Now()
		wantLimited(t, run(t.Context(), 0), TooLate, 0)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("after %v", d)
		}
		if len(heard) != 1 || heard[0].Kind != event.LimitRefused {
			t.Errorf("heard %v", heard)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBusy)
		defer cancel()
		if err := run(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBusy) || !errtree.Refused(err) {
			t.Errorf("its context ended: %v", err)
		}
		if p.Waiting() != 0 || len(heard) != 1 {
			t.Errorf("%d wait; heard %v", p.Waiting(), heard)
		}
		time.Sleep(4 * time.Second)
		if err := run(t.Context(), 0); err != nil { // is let in after 2 s
			t.Error(err)
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("let in after %v", d)
		}
	})
}

// A call that is let in when its context ends does not run, and the next one does.
func TestConcurrencyPolicyPassesOnTheRoomOfWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newConcurrencyPolicy(t, ConcurrencyPolicyConfig{Concurrency: fixedAt(1), MaxWait: -1})
		chain := policy.Chain(p)
		ctx, cancel := context.WithCancel(t.Context())
		go policy.Run(t.Context(), chain, func(context.Context) error { time.Sleep(time.Second); cancel(); return nil })
		synctest.Wait()
		go func() {
			err := policy.Run(ctx, chain, func(context.Context) error { t.Error("called"); return nil })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		}()
		synctest.Wait()
		began := time.Now()
		err := policy.Run(t.Context(), chain, func(context.Context) error { return nil })
		if d := time.Since(began); err != nil || d != time.Second {
			t.Errorf("the next one after %v: %v", d, err)
		}
		if p.core.Held() != 0 {
			t.Errorf("%d held", p.core.Held())
		}
	})
}

func TestConcurrencyPolicyDoesNotCountTheWaitAsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newConcurrencyPolicy(t, ConcurrencyPolicyConfig{Concurrency: fixedAt(2), MaxWait: -1, Queue: 1000})
		chain := policy.Chain(p)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_ = policy.Run(t.Context(), chain, func(context.Context) error { time.Sleep(time.Second); return nil })
			})
		}
		wg.Wait()
		if p.core.usual != 1 {
			t.Errorf("usual latency %v s, want 1", p.core.usual)
		}
	})
}

// TestConcurrencyPolicyLosesNoRoom does at random what callers do: calls of all
// lengths and ends, contexts that end at any time.
func TestConcurrencyPolicyLosesNoRoom(t *testing.T) {
	for seed := range uint64(effort.Times(3)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 21))
			limit := 1 + r.IntN(4)
			p := newConcurrencyPolicy(t, ConcurrencyPolicyConfig{
				Concurrency: fixedAt(limit), MaxWait: time.Duration(r.IntN(3)-1) * 20 * time.Millisecond,
			})
			chain := policy.Chain(p)
			var mu sync.Mutex
			running, most := 0, 0
			var wg sync.WaitGroup
			for range 200 {
				time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
				patience, length, end := time.Duration(r.IntN(30))*time.Millisecond, time.Duration(r.IntN(10))*time.Millisecond, r.IntN(4)
				wg.Go(func() {
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					_ = policy.Run(ctx, chain, func(context.Context) error {
						mu.Lock()
						running++
						most = max(most, running)
						mu.Unlock()
						defer func() { mu.Lock(); running--; mu.Unlock() }()
						time.Sleep(length)
						switch end {
						case 0:
							panic("broken")
						case 1:
							return errBusy
						}
						return nil
					})
				})
			}
			wg.Wait()
			if most > limit {
				t.Errorf("seed %d: %d ran at once, want %d at most", seed, most, limit)
			}
			if p.Waiting() != 0 || p.core.Held() != 0 {
				t.Errorf("seed %d: %d wait and %d run at the end", seed, p.Waiting(), p.core.Held())
			}
		})
	}
}

func TestConcurrencyPolicyQueueConfig(t *testing.T) {
	for want, cfg := range map[string]ConcurrencyPolicyConfig{
		"ConcurrencyPolicyConfig.Queue is -1, want":            {Queue: -1, MaxWait: 1},
		"ConcurrencyPolicyConfig.Queue is NaN, want":           {Queue: math.NaN(), MaxWait: 1},
		"ConcurrencyPolicyConfig.Queue is 1001, want":          {Queue: 1001, MaxWait: 1},
		"ConcurrencyPolicyConfig.Queue is 3 without a MaxWait": {Queue: 3},
	} {
		if p, err := NewConcurrencyPolicy(cfg); p != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "at once)", -1: "at once, waits)", time.Second: "at once, waits 1s)"} {
		if s := fmt.Sprint(newConcurrencyPolicy(t, ConcurrencyPolicyConfig{MaxWait: d})); !strings.HasSuffix(s, want) {
			t.Errorf("%q, want ...%q", s, want)
		}
	}
}
