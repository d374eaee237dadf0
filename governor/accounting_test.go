package governor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

type toggle struct {
	open atomic.Bool
	out  atomic.Int64
}

func (b *toggle) Ready(time.Time) error {
	if b.open.Load() {
		return &breaker.OpenError{}
	}
	return nil
}
func (b *toggle) Acquire(n time.Time) (breaker.Permit, error) {
	if err := b.Ready(n); err != nil || b.out.Load() > 30 {
		return 0, &breaker.OpenError{}
	}
	b.out.Add(1)
	return 0, nil
}
func (b *toggle) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) { b.out.Add(-1) }

type listed struct{ s []throttle.Signal }

func (listed) Error() string { return "limited" }

type listing struct{}

func (listing) DelayError(err error) (time.Duration, bool) { return 0, false }
func (listing) Signals(err error, _ time.Time) []throttle.Signal {
	if e, ok := errors.AsType[listed](err); ok {
		return e.s
	}
	return nil
}

// TestSoakAccounting does everything at once under every overflow rule, with a
// breaker that opens and closes, and then looks whether all books are balanced.
func TestSoakAccounting(t *testing.T) {
	for _, ov := range []Overflow{Block, Reject, DropOldest, DropLower} {
		for _, bw := range []bool{true, false} {
			t.Run(fmt.Sprint(ov, bw), func(t *testing.T) {
				b := &toggle{}
				before := runtime.NumGoroutine()
				g, err := New(Config[string, int]{Name: "x", NoPace: true, Vendor: listing{}, Workers: 6, MaxQueue: 20, Overflow: ov,
					Breaker: b, BreakerWait: bw, MinCooldown: time.Millisecond, ProbePatience: 5 * time.Millisecond, Guess: backoff.Constant(time.Millisecond),
					AttemptTimeout: 20 * time.Millisecond, LimitedAttempts: 3, CloseGrace: time.Minute,
					Retry: &retry.Config{Backoff: backoff.Constant(time.Millisecond), RetryIf: func(error) bool { return true }},
					Pool: &pool.Config[string, int]{Max: 5, MaxPerSelector: 3, OpenBackoff: backoff.Constant(time.Millisecond), Open: func(ctx context.Context, s string) (int, error) {
						if rand.IntN(4) == 0 {
							time.Sleep(time.Millisecond)
						}
						if rand.IntN(8) == 0 {
							return 0, errors.New("dial")
						}
						return 1, nil
					}}})
				if err != nil {
					t.Fatal(err)
				}
				stop := make(chan struct{})
				var wg, bg sync.WaitGroup
				bg.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
						switch rand.IntN(6) {
						case 0:
							b.open.Store(!b.open.Load())
						case 1:
							g.SetMaxQueue(1 + rand.IntN(30))
						case 2:
							g.Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Level(rand.IntN(4)), Key: fmt.Sprint(rand.IntN(3))}, Delay: time.Duration(rand.IntN(3e6))})
						case 3:
							g.Clear(throttle.Scope{Level: throttle.Level(rand.IntN(4)), Key: fmt.Sprint(rand.IntN(3))})
						case 4:
							g.Pause()
							g.Resume()
						case 5:
							g.Stats()
						}
					}
				})
				for w := range 24 {
					wg.Go(func() {
						for i := range effort.Times(20) {
							ctx, cancel := context.WithCancel(context.Background())
							if rand.IntN(3) == 0 {
								ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(5e6)))
							}
							ask := Ask{Tenant: fmt.Sprint(rand.IntN(3)), Bucket: fmt.Sprint(rand.IntN(3)), Priority: rand.IntN(3), KeepConn: rand.IntN(3) == 0, NoRetry: rand.IntN(5) == 0}
							if rand.IntN(5) == 0 {
								ask.StartBy = time.Now().Add(time.Duration(rand.IntN(5e6)))
							}
							fn := func(ctx context.Context, _ int) (int, error) {
								if rand.IntN(6) == 0 {
									rel := Hold(ctx)
									go func() { time.Sleep(time.Duration(rand.IntN(2e6))); rel(nil); rel(errors.New("x")) }()
								}
								switch rand.IntN(10) {
								case 0:
									panic("x")
								case 1:
									runtime.Goexit()
								case 2:
									return 0, errors.New("x")
								case 3:
									return 0, listed{[]throttle.Signal{{Delay: time.Duration(rand.IntN(2e6)), Scope: throttle.Scope{Level: throttle.Level(rand.IntN(5))}}}}
								case 4:
									return 0, listed{[]throttle.Signal{{Delay: throttle.Unknown, Scope: throttle.Scope{Level: throttle.Level(rand.IntN(5))}}}}
								case 5:
									time.Sleep(time.Millisecond)
								}
								return 1, nil
							}
							if rand.IntN(3) == 0 {
								done := make(chan struct{})
								go func() { // which the closure may end
									defer close(done)
									_, _ = Do(ctx, g.With(ask), fmt.Sprint(rand.IntN(4)), fn)
								}()
								select {
								case <-done:
								case <-time.After(time.Minute):
									t.Errorf("w%d i%d stuck in Do: %+v", w, i, g.Stats())
								}
								cancel()
								continue
							}
							r := Submit(ctx, g.With(ask), fmt.Sprint(rand.IntN(4)), fn)
							if rand.IntN(6) == 0 {
								r.Cancel()
							}
							select {
							case <-r.Done():
							case <-time.After(time.Minute):
								t.Errorf("w%d i%d stuck: %v %+v", w, i, r.State(), g.Stats())
								cancel()
								return
							}
							cancel()
						}
					})
				}
				done := make(chan struct{})
				go func() { wg.Wait(); close(done) }()
				<-done
				close(stop)
				bg.Wait()
				eventually(t, func() string { return unbalanced(g, b) })
				if s := g.Stats(); s.Submitted != s.Succeeded+s.Failed+s.Dropped {
					t.Errorf("submitted %d, completed %d+%d+%d", s.Submitted, s.Succeeded, s.Failed, s.Dropped)
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
				noneLeft(t, before+1)
			})
		}
	}
}

// eventually waits until nothing is wrong any more: what was let go goes on by itself for
// a moment, and on a slow machine for longer.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	for range 12_000 {
		if wrong() == "" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error(wrong())
}

// noneLeft waits until there are no more goroutines than before.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	eventually(t, func() string {
		if n := runtime.NumGoroutine(); n > before {
			buf := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, %d before\n%s", n, before, buf[:runtime.Stack(buf, true)])
		}
		return ""
	})
}

// unbalanced says which books of a governor at rest are not.
func unbalanced(g *Governor[string, int], b *toggle) (wrong string) {
	g.core.ask(func() {
		c := g.core
		c.door.mu.Lock()
		defer c.door.mu.Unlock()
		if c.door.waiting != 0 || c.gate.word.queued() != 0 || c.taken() != 0 || len(c.gate.opening) != 0 || c.queue.Len() != 0 || c.backoffs != 0 ||
			c.queue.lanes.len() != 0 || len(c.watches) != 0 || c.timers.Len() != 0 || c.attempts.len() != 0 || b.out.Load() != 0 || !c.door.blocked.empty() || c.queue.NextTimed() != forever {
			wrong = fmt.Sprintf("waiting %d queued %d used %d opening %d n %d backoffs %d lanes %d watches %d timers %d running %d permits %d",
				c.door.waiting, c.gate.word.queued(), c.taken(), len(c.gate.opening), c.queue.Len(), c.backoffs, c.queue.lanes.len(), len(c.watches), c.timers.Len(), c.attempts.len(), b.out.Load())
		}
		for k, s := range g.names.m {
			if n := s.refs.Load(); n != 0 {
				wrong += fmt.Sprintf(" selector %v has %d refs", k, n)
			}
		}
	})
	return wrong
}
