package breaker_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/effort"
)

// together runs fn on n goroutines that begin at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-gate; fn(i) })
	}
	close(gate)
	wg.Wait()
}

func TestNoMoreTrialsThanPermittedRunAtOnce(t *testing.T) {
	for range effort.Times(20) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 3})
		transition(t, b, breaker.Open)
		later := time.Now().Add(time.Minute)
		var n atomic.Int32
		together(16, func(int) {
			if b.Ready(later) != nil {
				return
			}
			if _, err := b.Acquire(later); err == nil {
				n.Add(1)
			}
		})
		if n.Load() != 3 {
			t.Fatalf("%d of 3", n.Load())
		}
	}
}

// Counting without the lock loses nothing, and neither does reading meanwhile.
func TestCallsAtOnceAreAllCounted(t *testing.T) {
	each := 100 * effort.Times(5)
	for name, tt := range map[string]struct {
		cfg                 breaker.Config
		failures            int // of a hundred calls
		calls, failed, slow int
	}{
		"seconds":         {breaker.Config{WindowTime: 24 * time.Hour}, 0, 8 * each, 0, 0},
		"calls":           {breaker.Config{Window: 1 << 20}, 0, 8 * each, 0, 0},
		"last calls":      {breaker.Config{Window: 100}, 0, 100, 0, 0},
		"with failures":   {breaker.Config{Window: 1 << 20}, 10, 8 * each, 8 * each / 10, 8 * each / 10},
		"only failures":   {breaker.Config{WindowTime: 24 * time.Hour, Initial: breaker.MetricsOnly}, 100, 8 * each, 8 * each, 8 * each},
		"in a row":        {breaker.Config{Consecutive: 1 << 30}, 100, 8 * each, 8 * each, 0},
		"none in a row":   {breaker.Config{Consecutive: 1}, 0, 0, 0, 0},
		"disabled":        {breaker.Config{Initial: breaker.Disabled}, 50, 0, 0, 0},
		"trials of a lot": {breaker.Config{Initial: breaker.HalfOpen, HalfOpenCalls: 1 << 16, MinCalls: 1 << 20}, 10, 8 * each, 8 * each / 10, 8 * each / 10},
	} {
		b := newBreaker(t, tt.cfg)
		together(8, func(g int) {
			for i := range each {
				now := time.Now()
				p, err := b.Acquire(now)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if i%100 >= 100-tt.failures { // the last of them, so that no rate is ever high
					b.Report(p, now, breaker.Failure, time.Hour)
				} else {
					b.Report(p, now, breaker.Success, 0)
				}
				if g == 0 && i%50 == 0 {
					if s := b.Stats(); s.Calls > tt.calls {
						t.Errorf("%s: %+v", name, s)
					}
				}
			}
		})
		if s := b.Stats(); s.Calls != tt.calls || s.Failed != tt.failed || s.Slow != tt.slow {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Who loses the race for the counter tries again: in so many calls there are losers.
func TestWhoLosesTheRaceForTheCounterIsCounted(t *testing.T) {
	each := effort.Times(1 << 15)
	now := time.Now()
	b := newBreaker(t, breaker.Config{WindowTime: time.Hour})
	together(3, func(int) {
		for range each {
			p, _ := b.Acquire(now)
			b.Report(p, now, breaker.Success, 0)
		}
	})
	if s := b.Stats(); s.Calls != 3*each {
		t.Errorf("%d of %d calls are counted", s.Calls, 3*each)
	}
}

// While the state changes all the time, a call counts in the one in which it
// began, or not at all.
func TestCallsOfOlderStatesNeverCount(t *testing.T) {
	for _, cfg := range []breaker.Config{{Window: 1000}, {WindowTime: time.Hour}} {
		b := newBreaker(t, cfg)
		for range effort.Times(15) {
			var reported sync.Map // breaker.Permit -> *atomic.Int64
			together(5, func(g int) {
				if g == 0 {
					for range 20 {
						_ = b.Transition(breaker.Closed)
					}
					return
				}
				for range 100 {
					now := time.Now()
					p, _ := b.Acquire(now)
					n, _ := reported.LoadOrStore(p, new(atomic.Int64))
					b.Report(p, now, breaker.Success, 0)
					n.(*atomic.Int64).Add(1)
				}
			})
			p, _ := b.Acquire(time.Now())
			want := int64(0)
			if n, ok := reported.Load(p); ok {
				want = n.(*atomic.Int64).Load()
			}
			if s := b.Stats(); int64(s.Calls) != want {
				t.Fatalf("%d calls counted, %d reported", s.Calls, want)
			}
		}
	}
}

// Everything at once, from many goroutines; then nothing is missing.
func TestRandomActionsAtOnce(t *testing.T) {
	for seed := range uint64(effort.Times(4)) {
		synctest.Test(t, func(t *testing.T) {
			cfg := randomConfig(rand.New(rand.NewPCG(seed, 3)))
			var r recorder
			if seed%2 == 0 {
				cfg.OnEvent = r.hear
			}
			b := newBreaker(t, cfg)
			together(12, func(g int) {
				rnd := rand.New(rand.NewPCG(seed, uint64(g)))
				for range 60 {
					somethingElseHappens(t, rnd, b)
					s := b.Stats()
					if s.Trials > cfg.HalfOpenCalls || s.Calls < s.Failed || s.Calls < s.Slow || s.Failed < 0 || s.Slow < 0 || s.State >= states {
						t.Errorf("seed %d: %+v", seed, s)
					}
				}
			})
			transition(t, b, breaker.HalfOpen)
			if n := admitted(b, 20); n != cfg.HalfOpenCalls {
				t.Errorf("seed %d: %d of %d places", seed, n, cfg.HalfOpenCalls)
			}
			b.Reset()
			if n := admitted(b, 20); n != 20 {
				t.Errorf("seed %d: %d admitted", seed, n)
			}
		})
	}
}

// somethingElseHappens is somethingHappens for a goroutine that is not alone.
func somethingElseHappens(t *testing.T, r *rand.Rand, b *breaker.Breaker) {
	switch r.IntN(12) {
	case 0:
		time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
	case 1:
		if r.IntN(3) == 0 {
			_ = b.Transition(breaker.State(r.IntN(states)))
		}
	case 2:
		if r.IntN(6) == 0 {
			b.Reset()
		}
	case 3:
		_, _ = b.Allow()
	default:
		done, err := b.Allow()
		if err != nil {
			return
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
		kind := kind(r.IntN(int(cancelled) + 1))
		if r.IntN(2) == 0 {
			kind = ok
		}
		done(kind.err())
		done(errDown)
	}
}
