package breaker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
)

// A trial call that ends in any way makes room for another, or is counted.
func TestNoPlaceOfATrialCallIsLost(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	cancelled := func(b *breaker.Breaker) {
		ctx, cancel := context.WithCancel(context.Background())
		_ = do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, errDown })
	}
	for name, tt := range map[string]struct {
		end     func(*breaker.Breaker)
		counted int
	}{
		"success":   {func(b *breaker.Breaker) { _ = do(context.Background(), b, returns(nil)) }, 1},
		"failure":   {func(b *breaker.Breaker) { _ = do(context.Background(), b, returns(errDown)) }, 1},
		"panic":     {func(b *breaker.Breaker) { _ = do(context.Background(), b, panics) }, 1},
		"Goexit":    {func(b *breaker.Breaker) { _ = do(context.Background(), b, exits) }, 1},
		"ignored":   {func(b *breaker.Breaker) { _ = do(context.Background(), b, returns(errIgnore)) }, 0},
		"refused":   {func(b *breaker.Breaker) { _ = do(context.Background(), b, returns(&breaker.OpenError{})) }, 0},
		"cancelled": {cancelled, 0},
		"too late":  {func(b *breaker.Breaker) { _ = do(ended, b, returns(nil)) }, 0},
		"neutral": {func(b *breaker.Breaker) {
			p, _ := b.Acquire(time.Now())
			b.Report(p, time.Now(), breaker.Neutral, 0)
		}, 0},
		"no such outcome": {func(b *breaker.Breaker) {
			p, _ := b.Acquire(time.Now())
			b.Report(p, time.Now(), 99, 0)
		}, 0},
		"reported twice": {func(b *breaker.Breaker) {
			p, _ := b.Acquire(time.Now())
			b.Report(p, time.Now(), breaker.Success, 0)
			b.Report(p, time.Now(), breaker.Failure, 0)
			b.Report(p, time.Now(), breaker.Neutral, 0)
		}, 1},
		"done twice": {func(b *breaker.Breaker) {
			done, _ := b.Allow()
			done(nil)
			done(errDown)
		}, 1},
		"no permit": {func(b *breaker.Breaker) {
			b.Report(0, time.Now(), breaker.Failure, 0)
			b.Report(12345, time.Now(), breaker.Neutral, 0)
		}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{HalfOpenCalls: 5, Initial: breaker.HalfOpen,
				Ignore: func(err error) bool { return errors.Is(err, errIgnore) }})
			first, _ := b.Allow() // so that a cancelled one is not alone
			tt.end(b)
			tt.end(b)
			if s := b.Stats(); s.State != breaker.HalfOpen || s.Calls != 2*tt.counted || s.Trials != 1 {
				t.Errorf("%s: %+v", name, s)
			}
			if n := admitted(b, 10); n != 4-2*tt.counted {
				t.Errorf("%s: %d more admitted", name, n)
			}
			first(nil)
		})
	}
}

// The next trial may come at once after one that was cancelled, and what the
// breaker was open for is still there.
func TestCancelledTrialRestoresOpenWithItsOldDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Consecutive: 2, OpenFor: doubling, HalfOpenCalls: 2, HalfOpenWait: time.Minute})
		calls(t, b, 2, breaker.Failure, 0)
		admitted(b, 3)
		opened := b.Stats()
		time.Sleep(5 * time.Second)
		var trying breaker.Stats
		ctx, cancel := context.WithCancel(t.Context())
		_, err := breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
			trying = b.Stats()
			cancel()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s := b.Stats()
		if trying.State != breaker.HalfOpen || trying.Generation <= opened.Generation || s.Generation <= trying.Generation {
			t.Errorf("meanwhile %+v, then %+v", trying, s)
		}
		if s.Generation = opened.Generation; s != opened {
			t.Errorf("%+v, was %+v", s, opened)
		}

		// With Allow, too; and in vain as often as it may be.
		for range 3 {
			done, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			done(context.Canceled)
			if s := b.Stats(); s.State != breaker.Open || !s.Until.Equal(opened.Until) || s.Opens != 1 {
				t.Errorf("%+v", s)
			}
		}

		// One that is cancelled while another is out, or after one was counted,
		// gives its place back and no more.
		first, _ := b.Allow()
		second, _ := b.Allow()
		first(context.Canceled)
		inState(t, b, breaker.HalfOpen)
		third, _ := b.Allow()
		second(nil)
		third(context.Canceled)
		if s := b.Stats(); s.State != breaker.HalfOpen || s.Calls != 1 {
			t.Errorf("%+v", s)
		}

		// What was not open before is not open after.
		transition(t, b, breaker.HalfOpen)
		done, _ := b.Allow()
		done(context.Canceled)
		inState(t, b, breaker.HalfOpen)
	})
}

// What is neither success nor failure leaves a breaker half-open: the service
// may have answered.
func TestIgnoredTrialRemainsHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Ignore: func(error) bool { return true }})
		transition(t, b, breaker.Open)
		time.Sleep(time.Minute)
		_, _ = breaker.Do(t.Context(), b, returns(errIgnore))
		inState(t, b, breaker.HalfOpen)
	})
}

func TestLostTrialFreesItsPlaceAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 3, Lease: 10 * time.Second, Initial: breaker.HalfOpen})
		lost, _ := b.Acquire(time.Now())
		time.Sleep(4 * time.Second)
		late, _ := b.Acquire(time.Now())
		time.Sleep(6*time.Second - 1)
		if s := b.Stats(); s.Trials != 2 || admitted(b, 9) != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Nanosecond) // the first lease ends
		if s := b.Stats(); s.Trials != 2 || admitted(b, 9) != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour) // all end
		if s := b.Stats(); s.Trials != 0 {
			t.Errorf("%+v", s)
		}

		// One that comes back late still counts, once, and one more is admitted
		// for each that does not.
		b.Report(late, time.Now(), breaker.Failure, time.Hour)
		b.Report(late, time.Now(), breaker.Failure, time.Hour)
		if s := b.Stats(); s.Calls != 1 || s.Failed != 1 || s.Slow != 1 || admitted(b, 9) != 2 {
			t.Errorf("%+v", s)
		}
		b.Report(lost, time.Now(), breaker.Failure, time.Hour)
		if s := b.Stats(); s.Calls != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A breaker whose trial calls never come back keeps a short list of them.
func TestLostTrialsAreForgottenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 2, Initial: breaker.HalfOpen})
		var permits []breaker.Permit
		for range 100 {
			for range 2 {
				p, err := b.Acquire(time.Now())
				if err != nil {
					t.Fatal(err)
				}
				permits = append(permits, p)
			}
			time.Sleep(time.Minute)
		}
		known := len(permits) - 102 // the 100 last that are overdue and the 2 that were not
		b.Report(permits[known-1], time.Now(), breaker.Success, 0)
		if s := b.Stats(); s.Calls != 0 {
			t.Errorf("%+v", s)
		}
		b.Report(permits[known], time.Now(), breaker.Success, 0)
		if s := b.Stats(); s.Calls != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Calls that are always slower than their lease are found out nevertheless.
func TestTrialsSlowerThanTheirLeaseAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenCalls: 1, Lease: time.Second, SlowCall: 2 * time.Second, Initial: breaker.HalfOpen})
		for range 3 {
			go func() {
				_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { time.Sleep(3500 * time.Millisecond); return 0, nil })
			}()
			time.Sleep(time.Second)
		}
		inState(t, b, breaker.HalfOpen)
		time.Sleep(time.Second)
		inState(t, b, breaker.Open)
		time.Sleep(time.Minute) // for the others, who come too late
		synctest.Wait()
		inState(t, b, breaker.Open)
	})
}

func TestHalfOpenWaitOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{HalfOpenWait: 10 * time.Second, OpenFor: doubling})
		transition(t, b, breaker.Open)
		time.Sleep(time.Second)
		stale, _ := b.Acquire(time.Now())
		end := time.Now().Add(10 * time.Second)
		if s := b.Stats(); s.State != breaker.HalfOpen || !s.Until.Equal(end) {
			t.Errorf("%+v", s)
		}
		time.Sleep(10*time.Second - 1)
		inState(t, b, breaker.HalfOpen)
		time.Sleep(time.Nanosecond)
		b.Report(stale, time.Now(), breaker.Success, 0)
		if s := b.Stats(); s.State != breaker.Open || !s.Until.Equal(end.Add(2*time.Second)) || s.Opens != 2 {
			t.Errorf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		admitted(b, 1)
		time.Sleep(time.Hour) // and has been open again meanwhile, for as long as it should
		if s := b.Stats(); s.State != breaker.Open || !s.Until.Before(time.Now()) || s.Opens != 3 {
			t.Errorf("%+v", s)
		}
		if b.Ready(time.Now()) != nil {
			t.Error("not ready")
		}
	})
}

// The rule for everything that can go wrong: from wherever it has come to,
// healthy calls pass in the end and close the breaker. Calls that hang do so to
// the very end.
func TestHealthyCallsPassInTheEndAndCloseIt(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			cfg := randomConfig(r)
			cfg.Initial = breaker.State(r.IntN(states))
			b := newBreaker(t, cfg)
			for range 100 {
				somethingHappens(t, r, b)
			}
			if s := b.State(); s == breaker.ForcedOpen {
				transition(t, b, breaker.Open)
			}
			start := time.Now()
			passed := 0
			for b.State() == breaker.Open || b.State() == breaker.HalfOpen {
				if _, err := breaker.Do(t.Context(), b, returns(nil)); err == nil {
					passed++
				} else if time.Sleep(time.Second); time.Since(start) > time.Minute {
					t.Fatalf("seed %d: %d passed, still %+v\n%+v", seed, passed, b.Stats(), cfg)
				}
			}
			if passed > 2*cfg.HalfOpenCalls { // those before may have made it open once more
				t.Errorf("seed %d: closed after %d trials", seed, passed)
			}
			if _, err := breaker.Do(t.Context(), b, returns(nil)); err != nil {
				t.Error(err)
			}
			transition(t, b, breaker.HalfOpen)
			if n := admitted(b, 20); n != cfg.HalfOpenCalls {
				t.Errorf("seed %d: %d of %d places", seed, n, cfg.HalfOpenCalls)
			}
		})
	}
}

// somethingHappens makes a call that ends in some way or other, or lets time pass,
// or changes the state.
func somethingHappens(t *testing.T, r *rand.Rand, b *breaker.Breaker) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch r.IntN(16) {
	case 0, 1, 2, 3:
		_ = do(ctx, b, returns(errDown))
	case 4, 5:
		_ = do(ctx, b, returns(nil))
	case 6:
		_ = do(ctx, b, returns(errIgnore))
	case 7:
		_ = do(ctx, b, func(context.Context) (int, error) { cancel(); return 0, context.Canceled })
	case 8:
		_ = do(ctx, b, panics)
	case 9:
		_ = do(ctx, b, exits)
	case 10:
		_ = do(ctx, b, returns(&breaker.OpenError{}))
	case 11:
		end := t.Context()
		go func() { _ = do(end, b, func(context.Context) (int, error) { <-end.Done(); return 0, nil }) }()
		synctest.Wait()
	case 12:
		_, _ = b.Allow() // never done
	case 13:
		time.Sleep(time.Duration(r.IntN(4)) * time.Second)
	case 14:
		if r.IntN(4) == 0 {
			transition(t, b, breaker.State(r.IntN(states)))
		}
	case 15:
		_ = do(ctx, b, returns(hint{time.Duration(r.IntN(9)) * time.Second}))
	}
}
