package limiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/internal/wall"
)

// waits starts a Wait for each of ns, in this order, and returns when each was
// over; -1 for an error.
func waits(ctx context.Context, r *Rate, ns ...int) (over []time.Duration, wait func()) {
	start := time.Now()
	over = make([]time.Duration, len(ns))
	var wg sync.WaitGroup
	for i, n := range ns {
		wg.Go(func() {
			err := r.WaitN(ctx, n)
			over[i] = time.Since(start)
			if err != nil {
				over[i] = -1
			}
		})
		synctest.Wait()
	}
	return over, wg.Wait
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func TestWaitTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 3)
		over, wait := waits(t.Context(), r, 1, 2, 1, 0, 2, 1, 3, 1)
		wait()
		if want := []time.Duration{0, 0, ms(100), 0, ms(300), ms(400), ms(700), ms(800)}; !slices.Equal(over, want) {
			t.Errorf("waits were over at %v, want %v", over, want)
		}
		time.Sleep(ms(50))
		start := time.Now()
		if err := r.Wait(t.Context()); err != nil || time.Since(start) != ms(50) {
			t.Errorf("the next one: %v after %v", err, time.Since(start))
		}
	})
}

// TestWaitIsInOrder sends newcomers when the turn changes hands, when permits
// are there for a moment.
func TestWaitIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 100, 2)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				if err := r.WaitN(t.Context(), 1+i%2); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
			time.Sleep(ms(int64(i % 12)))
		}
		wg.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestWaitDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 1)
		start := time.Now()
		until := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		late := func(timeout, after time.Duration, n int) {
			t.Helper()
			err := r.WaitN(until(timeout), n)
			var limited *LimitedError
			if !errors.As(err, &limited) || limited.After != after || time.Since(start) != 0 || errors.Is(err, context.DeadlineExceeded) != (after != Never) {
				t.Fatalf("with %v: %v after %v, want to be told to wait %v", timeout, err, time.Since(start), after)
			}
		}
		if err := r.Wait(until(ms(1))); err != nil {
			t.Fatal(err)
		}
		late(ms(100), ms(100), 1)
		late(time.Hour, Never, 2)
		over, wait := waits(until(ms(301)), r, 1, 1, 1)
		late(ms(400), ms(200), 1) // what is behind the line would not help; the first one's permit is gone
		late(ms(400), Never, 2)
		for range 20 {
			late(ms(400), ms(200), 1)
		}
		last, waitLast := waits(until(ms(401)), r, 1)
		wait()
		waitLast()
		if want := []time.Duration{ms(100), ms(200), ms(300)}; !slices.Equal(over, want) || last[0] != ms(400) {
			t.Errorf("over at %v, and %v", over, last)
		}
		years := newRate(t, 1/(6*365*24*3600.0), 2)
		years.Drain()
		_, wait = waits(until(7*365*24*time.Hour), years, 1)
		if err := years.WaitN(t.Context(), 2); err == nil || time.Since(start) != ms(400) {
			t.Errorf("to wait 18 years, after %v: %v", time.Since(start), err)
		}
		wait()
		r.Drain()
		if err := r.SetRate(1 / (11 * 365 * 24 * 3600.0)); err != nil {
			t.Fatal(err)
		}
		err := r.Wait(t.Context())
		var limited *LimitedError
		if !errors.As(err, &limited) || limited.After < 10*365*24*time.Hour || limited.After == Never {
			t.Errorf("to wait more than ten years: %v", err)
		}
	})
}

// A deadline without a monotonic reading, as time.Unix makes it, is as far away as the wall
// clock of now says, however that has been set since NewRate.
func TestWaitDeadlineHeedsNoStepOfTheWallClock(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, d := range []struct {
			rate     float64
			deadline time.Duration
			met      bool
		}{{1000, time.Minute, true}, {1.0 / 600, 200 * time.Millisecond, false}} {
			for _, bare := range []bool{false, true} {
				r := newRate(t, d.rate, 1)
				r.time.base = wall.Set(t, r.time.base, -step) // as it was read before the step
				r.Drain()
				at := time.Now().Add(d.deadline)
				if bare {
					at = at.Round(0)
				}
				ctx, cancel := context.WithDeadline(t.Context(), at)
				err := r.Wait(ctx)
				cancel()
				if _, late := errors.AsType[*LimitedError](err); late == d.met || err != nil == d.met {
					t.Errorf("step %v, %v permits a second, deadline in %v, without monotonic reading %v: %v", step, d.rate, d.deadline, bare, err)
				}
			}
		}
	}
}

func TestWaitDoneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			if err := r.Wait(ctx); !errors.Is(err, context.Canceled) || !errtree.Refused(err) {
				t.Error(err)
			}
		}
		if !r.Allow() {
			t.Error("a context that was done before took a permit")
		}
	})
}

// TestWaitCancelledLeavesNothing cancels 20 of 21, or all, in any order.
func TestWaitCancelledLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(effort.Times(6)) {
			rnd := rand.New(rand.NewPCG(seed, 6))
			r := newRate(t, 1e-3, 2)
			r.Drain()
			start := time.Now()
			var cancels []func()
			var wg sync.WaitGroup
			stays := rnd.IntN(22)
			for i := range 21 {
				ctx, cancel := context.WithCancel(t.Context())
				if i != stays {
					cancels = append(cancels, cancel)
				}
				n := 1
				if i != stays {
					n += rnd.IntN(2)
				}
				wg.Go(func() {
					defer cancel()
					err := r.WaitN(ctx, n)
					if i != stays && !errors.Is(err, context.Canceled) || i == stays && err != nil {
						t.Errorf("seed %d: wait %d, with %d to stay, ends with %v", seed, i, stays, err)
					}
				})
				synctest.Wait()
			}
			rnd.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
			time.Sleep(ms(rnd.Int64N(900)))
			for _, cancel := range cancels {
				cancel()
				if rnd.IntN(2) == 0 {
					synctest.Wait()
				}
			}
			wg.Wait()
			took := time.Since(start)
			if stays < 21 && took != 1000*time.Second {
				t.Errorf("seed %d: with all others gone, one waited %v at one in 1000 s", seed, took)
			}
			if stays == 21 {
				if v := r.Reserve(1); v.Delay() != 1000*time.Second-took {
					t.Errorf("seed %d: %v after a drain the next permit comes in %v", seed, took, v.Delay())
				}
			}
			if r.line.permits.Load() != 0 || len(r.line.turn) != 0 || len(r.undone.places) != 0 {
				t.Errorf("seed %d: something is left", seed)
			}
		}
	})
}

// TestWaitCancelledAtItsMoment cancels waits when they come to be served, and
// checks the log of those that were.
func TestWaitCancelledAtItsMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 2)
		var mu sync.Mutex
		var uses []use
		var wg sync.WaitGroup
		rnd := rand.New(rand.NewPCG(1, 7))
		gaveUp, waits := 0, effort.Times(300)
		for range waits {
			ctx, cancel := context.WithTimeout(t.Context(), ms(100*rnd.Int64N(9)))
			if rnd.IntN(2) == 0 { // no deadline that it could see before
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(ms(100*rnd.Int64N(9)), cancel)
			}
			n := 1 + rnd.IntN(2)
			wg.Go(func() {
				defer cancel()
				err := r.WaitN(ctx, n)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					uses = append(uses, use{r.time.now(), n})
				} else {
					gaveUp++
				}
			})
			time.Sleep(ms(50 * rnd.Int64N(5)))
		}
		wg.Wait()
		length := uses[len(uses)-1].at - uses[0].at
		permits := 0
		for _, u := range uses {
			permits += u.n
		}
		envelope(t, uses, int64(ms(100)), 2)
		if gaveUp < waits/30 || float64(permits) < 0.95*10*time.Duration(length).Seconds() {
			t.Errorf("%d gave up; %d permits in %v", gaveUp, permits, time.Duration(length))
		}
	})
}

// TestWaitChargesNobodyForLateTimers lets the one who has the turn, which was to be
// over after 100 ms, pass it on too late: a little, as timers do, or because the
// process stood still. Then those in line do not pass at once.
func TestWaitChargesNobodyForLateTimers(t *testing.T) {
	for _, tt := range []struct {
		free time.Duration // when the turn is
		over []time.Duration
	}{
		{ms(108), []time.Duration{ms(108), ms(200), ms(300)}},
		{ms(250), []time.Duration{ms(250), ms(340), ms(440)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRate(t, 10, 1)
			r.Allow()
			r.line.turn <- struct{}{}
			over, wait := waits(t.Context(), r, 1, 1, 1)
			time.Sleep(tt.free)
			<-r.line.turn
			wait()
			if !slices.Equal(over, tt.over) {
				t.Errorf("free at %v: over at %v, want %v", tt.free, over, tt.over)
			}
		})
	}
}

// TestWaitBehindOneThatGaveUp has the first in line give up after 12 s. What was
// reserved before it was cancelled too, so that the bucket is full since 4 s.
func TestWaitBehindOneThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 5)
		r.AllowN(4)
		v := r.Reserve(5)
		last := r.Reserve(5)
		ctx, cancel := context.WithCancel(t.Context())
		_, wait := waits(ctx, r, 5)
		over, wait1 := waits(t.Context(), r, 1)
		last.Cancel()
		v.Cancel()
		time.Sleep(12 * time.Second)
		cancel()
		wait()
		wait1()
		if over[0] != 12*time.Second {
			t.Errorf("over at %v", over)
		}
		if got := r.Tokens(); got > 4 {
			t.Errorf("of 5 permits one was used, and there are still %v", got)
		}
	})
}

// TestWaitLooksAgain has a Reserve come before a Wait that has not had its turn.
func TestWaitLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 10, 1)
		r.Allow()
		over, wait := waits(t.Context(), r, 1)
		ctx, cancel := context.WithTimeout(t.Context(), ms(400))
		defer cancel()
		start := time.Now()
		errs := make(chan error)
		go func() { errs <- r.Wait(ctx) }()
		synctest.Wait()
		if err := r.WaitN(t.Context(), 2); err == nil || time.Since(start) != 0 {
			t.Errorf("2 of a bucket of 1 waited for %v in line: %v", time.Since(start), err)
		}
		r.Reserve(1)
		r.Reserve(1)
		wait()
		err := <-errs
		var limited *LimitedError
		if !errors.As(err, &limited) || limited.After != ms(300) || limited.Reason != TooLate || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) != ms(100) || over[0] != ms(100) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if d := r.Reserve(1).Delay(); d != ms(300) {
			t.Errorf("what it did not get comes in %v", d)
		}
	})
}

func TestWaitGoesOnWhenTheLimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 2)
		over, wait := waits(t.Context(), r, 2, 1, 1, 2, 1, 1)
		for _, err := range []error{r.SetRate(10), r.SetBurst(5), r.SetRate(2), r.SetBurst(1)} {
			if err != nil {
				t.Error(err)
			}
		}
		wait()
		if want := []time.Duration{0, ms(1000), ms(1500), -1, ms(2000), ms(2500)}; !slices.Equal(over, want) {
			t.Errorf("over at %v, want %v", over, want)
		}
	})
}

// The one who has the turn is held up for 50 s (a process that is stopped, a
// machine that sleeps); 100 wait behind it. Never more than Burst + Rate*d.
func TestWaitersDoNotPassAtOnceWhenTheFirstWasHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, 1, 1)
		r.Allow()
		r.line.turn <- struct{}{} // the first: it was to be over at 0
		r.line.free = r.time.now()
		passed := make(chan struct{}, 100)
		for range 100 {
			go func() {
				if r.Wait(t.Context()) == nil {
					passed <- struct{}{}
				}
			}()
		}
		synctest.Wait()
		time.Sleep(50 * time.Second)
		<-r.line.turn
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := len(passed); n > 2 {
			t.Errorf("%d permits used within a millisecond, with a burst of 1 and 1 a second", n)
		}
		time.Sleep(time.Hour)
	})
}
