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
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
)

// through runs fn in a bubble with a governor all of whose calls are queued.
func through(t *testing.T, cfg Config[string, int], fn func(t *testing.T, g *Governor[string, int])) {
	t.Helper()
	direct(t, cfg, func(t *testing.T, g *Governor[string, int]) {
		g.actorOnly = true
		fn(t, g)
	})
}

func TestQueuedDoRunsOnTheCallersGoroutineEachTime(t *testing.T) {
	refused := errors.New("too many")
	through(t, Config[string, int]{Workers: 1, Vendor: pausing{refused}}, func(t *testing.T, g *Governor[string, int]) {
		for _, ask := range []Ask{{}, {KeepConn: true}} {
			n, start := 0, time.Now()
			at, err := Do(t.Context(), g.With(ask), "", func(context.Context, int) (string, error) {
				if n++; n < 3 {
					return goroutine(), refused
				}
				return goroutine(), nil
			})
			if at != goroutine() || err != nil || n != 3 || time.Since(start) != 2*time.Second {
				t.Errorf("%+v: ran on %s at %d attempts in %v, %v; want %s", ask, at, n, time.Since(start), err, goroutine())
			}
		}
	})
}

// pausing is a vendor that asks for a second when it is told its error.
type pausing struct{ err error }

func (p pausing) DelayError(err error) (time.Duration, bool) {
	return time.Second, errors.Is(err, p.err)
}

// What a closure keeps of an attempt that was over is not used for the next one.
func TestEachAttemptOfAQueuedDoHasAContextOfItsOwn(t *testing.T) {
	refused := errors.New("too many")
	through(t, Config[string, int]{Workers: 1, Vendor: pausing{refused}}, func(t *testing.T, g *Governor[string, int]) {
		var kept []context.Context
		_, err := Do(t.Context(), g, "", func(ctx context.Context, _ int) (int, error) {
			for _, old := range kept {
				if old == ctx || old.Err() == nil || retried(old) == retried(ctx) {
					t.Errorf("attempt %d: the context of attempt %d says %v", retried(ctx), retried(old), old.Err())
				}
			}
			if kept = append(kept, ctx); len(kept) < 4 {
				return 0, refused
			}
			return 0, nil
		})
		if err != nil || len(kept) != 4 {
			t.Errorf("%d attempts, %v", len(kept), err)
		}
	})
}

func retried(ctx context.Context) int {
	info, _ := retry.FromContext(ctx)
	return info.Attempt
}

func TestQueuedDoThatNeedNotWaitAllocatesOnce(t *testing.T) { allocatesOnce(t, true) }

func TestQueuedDoThatHasToWaitHasNoAttemptYet(t *testing.T) {
	through(t, Config[string, int]{Workers: 1}, func(t *testing.T, g *Governor[string, int]) {
		if newAttended(g.core, answer).task.room() == nil {
			t.Error("while a slot is free a request has no room for its attempt")
		}
		leave := make(chan struct{})
		go Do(t.Context(), g, "", func(context.Context, int) (int, error) { <-leave; return 0, nil })
		synctest.Wait()
		if newAttended(g.core, answer).task.room() != nil {
			t.Error("while no slot is free a request takes room for an attempt")
		}
		close(leave)
	})
}

func TestQueuedDoGivesEverythingBackWhenItsClosureEndsTheGoroutine(t *testing.T) {
	through(t, Config[string, int]{Workers: 1, Pool: ints(nil)}, func(t *testing.T, g *Governor[string, int]) {
		for range 3 { // with one slot, the second would hang if the first had kept it
			returned := false
			var wg sync.WaitGroup
			wg.Go(func() {
				Do(t.Context(), g, "", func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil })
				returned = true
			})
			wg.Wait()
			if returned {
				t.Error("Do returned")
			}
		}
		_, err := Do(t.Context(), g, "", func(context.Context, int) (int, error) { panic("oops") })
		if pe := (*PanicError)(nil); !errors.As(err, &pe) {
			t.Errorf("got %v, want a *PanicError", err)
		}
		if s := g.Stats(); s.InFlight != 0 || s.Pool.InUse != 0 || s.Panics != 4 {
			t.Errorf("%d slots and %d connections are in use, %d panics", s.InFlight, s.Pool.InUse, s.Panics)
		}
	})
}

func TestQueuedDoIsToldOfItsEndWithoutAGrant(t *testing.T) {
	through(t, Config[string, int]{Workers: 1}, func(t *testing.T, g *Governor[string, int]) {
		leave := make(chan struct{})
		go Do(context.Background(), g, "", func(context.Context, int) (int, error) { <-leave; return 0, nil })
		synctest.Wait()
		for range 3 { // the bell of one that was cancelled serves the next
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := Do(ctx, g, "", answer)
			if cancel(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrLate) {
				t.Errorf("got %v", err)
			}
		}
		time.AfterFunc(time.Second, func() { close(leave) })
		if v, err := Do(t.Context(), g, "", answer); v != 42 || err != nil {
			t.Errorf("after that %d, %v", v, err)
		}
	})
}

func TestAttemptIsAContextLikeAnyOther(t *testing.T) {
	type key struct{}
	through(t, Config[string, int]{Workers: 2, AttemptTimeout: time.Second}, func(t *testing.T, g *Governor[string, int]) {
		var kept context.Context
		ctx := context.WithValue(t.Context(), key{}, "v")
		Do(ctx, g, "", func(ctx context.Context, _ int) (int, error) {
			kept = ctx
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second || ctx.Value(key{}) != "v" || ctx.Err() != nil {
				t.Errorf("deadline %v %v, value %v, %v", at, ok, ctx.Value(key{}), ctx.Err())
			}
			time.Sleep(2 * time.Second)
			if ctx.Err() != context.DeadlineExceeded { // before anybody asked for Done
				t.Errorf("after the timeout Err is %v", ctx.Err())
			}
			<-ctx.Done()
			return 0, nil
		})
		Do(ctx, g, "", func(ctx context.Context, _ int) (int, error) {
			kept = ctx
			return 0, nil
		})
		child, cancel := context.WithCancel(kept)
		defer cancel()
		if kept.Err() != context.Canceled || child.Err() != context.Canceled {
			t.Errorf("after the attempt Err is %v, a child's %v", kept.Err(), child.Err())
		}
		r := Submit(ctx, g, "", func(ctx context.Context, _ int) (int, error) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			return 0, context.Cause(child)
		})
		synctest.Wait()
		r.Cancel()
		if _, err := r.Result(t.Context()); err != context.Canceled {
			t.Errorf("cancelled, a child's cause is %v", err)
		}
	})
}

func TestResultWithSeveralWhoWait(t *testing.T) {
	through(t, Config[string, int]{Workers: 1}, func(t *testing.T, g *Governor[string, int]) {
		for i := range 20 {
			leave := make(chan struct{})
			r := Submit(t.Context(), g, "", func(context.Context, int) (int, error) { <-leave; return i, nil })
			var wg sync.WaitGroup
			for j := range 4 {
				wg.Go(func() {
					time.Sleep(time.Duration(j*i%3) * time.Second)
					if j == 0 && i%2 == 0 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						if _, err := r.Result(ctx); err != context.DeadlineExceeded {
							t.Errorf("who does not wait any longer gets %v", err)
						}
						return
					}
					if j == 3 {
						<-r.Done()
					}
					if v, err := r.Result(t.Context()); v != i || err != nil {
						t.Errorf("got %d, %v; want %d", v, err, i)
					}
				})
			}
			time.Sleep(10 * time.Second)
			close(leave)
			wg.Wait()
		}
	})
}

// Random calls of every kind, on both cores, against a slot or two: every call ends
// once, in the right number of closures, nothing starts in a pause, and nothing is left.
func TestWhoeverHasTheTurnServesEverybody(t *testing.T) {
	refused := errors.New("too many")
	for seed := range uint64(effort.Times(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			slots := 1 + int(seed%4)
			g, err := New(Config[string, int]{
				Name: "test", Workers: slots, Vendor: brief{refused}, MinCooldown: time.Microsecond, MaxQueue: 8, LimitedAttempts: -1,
				Pool: ints(&pool.Config[string, int]{Max: slots}),
			})
			if err != nil {
				t.Fatal(err)
			}
			var running, ran, ok, gone atomic.Int64
			var wg sync.WaitGroup
			for w := range 8 {
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				wg.Go(func() {
					for range 100 {
						ctx, cancel := context.WithCancel(context.Background())
						v := g.With(Ask{Tenant: fmt.Sprint(rng.IntN(3)), Priority: rng.IntN(2), KeepConn: rng.IntN(4) == 0})
						fails, exits := rng.IntN(40) == 0, rng.IntN(40) == 0
						fn := func(ctx context.Context, c int) (int, error) {
							if n := running.Add(1); n > int64(slots) || c != 1 {
								t.Errorf("%d run, connection %d", n, c)
							}
							defer running.Add(-1)
							if fails {
								fails = false
								return 0, refused
							}
							ran.Add(1)
							if exits {
								panic("oops")
							}
							return 7, nil
						}
						if rng.IntN(8) == 0 {
							go cancel()
						}
						var got int
						var err error
						if rng.IntN(2) == 0 {
							got, err = Do(ctx, v, "", fn)
						} else {
							got, err = Submit(ctx, v, "", fn).Result(context.Background())
						}
						switch pe := (*PanicError)(nil); {
						case err == nil && got == 7, errors.As(err, &pe):
							ok.Add(1)
						case ctx.Err() != nil:
							gone.Add(1)
						default:
							t.Errorf("got %d, %v", got, err)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 || s.Pool.InUse != 0 || ran.Load() < ok.Load() || ok.Load()+gone.Load() != 8*100 {
				t.Errorf("%d in flight, %d queued, %d connections; %d ran, %d were told so, %d left", s.InFlight, s.Queued, s.Pool.InUse, ran.Load(), ok.Load(), gone.Load())
			}
			if err := g.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			for left := int32(1); left > 0; runtime.Gosched() { // workers end by themselves
				left = 0
				for i := range g.crews {
					w := &g.crews[i]
					w.mu.Lock()
					left += w.free + w.queued
					w.mu.Unlock()
				}
			}
		})
	}
}

// brief is a vendor that asks for hardly any time.
type brief struct{ err error }

func (b brief) DelayError(err error) (time.Duration, bool) {
	return time.Millisecond, errors.Is(err, b.err)
}
