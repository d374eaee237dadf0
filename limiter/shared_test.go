package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// bubble runs fn in a synctest bubble, where time is exact and nothing may be left.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

func newShared(t testing.TB, cfg SharedConfig) *Shared {
	t.Helper()
	s, err := NewShared(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.queue.len != 0 || len(s.queue.lanes) != 0 || len(s.queue.ready.heap)+len(s.queue.timed.heap) != 0 || s.queue.all.newest != nil || !s.alarm.IsZero() {
			t.Errorf("the queue is not empty after Close: %+v", s.queue)
		}
		if s.timer != nil && s.timer.Stop() {
			t.Error("the timer still runs after Close")
		}
	})
	return s
}

func wantLimited(t testing.TB, err error, why Reason, after time.Duration) {
	t.Helper()
	e, ok := errors.AsType[*LimitedError](err)
	if !ok || e.Reason != why || e.RetryAfter() != after || !errors.Is(err, ErrLimited) || !e.Refused() || e.Permanent() != (why == Impossible) {
		t.Errorf("error %#v (%v), want %v, to be retried after %v", err, err, why, after)
	}
}

// order collects what happens, with the time since the beginning.
type order struct {
	mu    sync.Mutex
	start time.Time
	log   []string
}

func (o *order) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, fmt.Sprintf("%v %s", time.Since(o.start), fmt.Sprintf(format, args...)))
}

func (o *order) want(t testing.TB, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.log, want) {
		t.Errorf("got:\n\t%s\nwant:\n\t%s", strings.Join(o.log, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func textOf(err error) string {
	if e, ok := errors.AsType[*LimitedError](err); ok {
		return e.Reason.String()
	}
	return fmt.Sprint(err)
}

// TestSharedDefault is a server's: 1000 a minute and key, no queue.
func TestSharedDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{})
		for i := range 1000 {
			if err := s.Wait(t.Context(), "alice", 1); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		time.Sleep(20 * time.Second)
		for _, err := range []error{s.Wait(t.Context(), "alice", 1), s.Allow("alice", 1), s.Reserve("alice", 1).Err()} {
			wantLimited(t, err, NoPermits, 40*time.Second)
			if want := `limiter: no permits for "alice", retry after 40s`; err.Error() != want {
				t.Errorf("%q, want %q", err, want)
			}
		}
		if err := s.Allow("bob", 1000); err != nil {
			t.Error(err)
		}
		err := s.Allow("carol", 1001)
		wantLimited(t, err, Impossible, Never)
		time.Sleep(time.Minute)
		if err := s.Allow("alice", 1000); err != nil {
			t.Error(err)
		}
	})
}

// TestSharedWaitsTenSeconds is the default MaxWait, once there is a queue.
func TestSharedWaitsTenSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newFixedWindow(t, FixedWindowConfig{Limit: 1, Period: 10*time.Second + 1})
		s := newShared(t, SharedConfig{Limiters: []Limiter{w}, MaxQueue: 5})
		if err := s.Allow("", 1); err != nil {
			t.Fatal(err)
		}
		wantLimited(t, s.Wait(t.Context(), "", 1), TooLate, 10*time.Second+1) // at once: it is hopeless
		time.Sleep(time.Nanosecond)
		start := time.Now()
		var wg sync.WaitGroup
		var errs [2]error
		for i := range errs {
			wg.Go(func() { errs[i] = s.Wait(t.Context(), "", 1) })
			synctest.Wait()
		}
		wg.Wait()
		if errs[0] != nil {
			t.Error(errs[0])
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("waited %v", d)
		}
		// It could have been admitted, had it been alone.
		wantLimited(t, errs[1], TooLate, 10*time.Second+1)
		wantLimited(t, s.Allow("", 1), NoPermits, 10*time.Second+1)
	})
}

func TestSharedServesInOrder(t *testing.T) {
	for _, newest := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			b := newBucket(t, BucketConfig{Rate: 1, Burst: 5})
			s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 4, Newest: newest, MaxWait: -1})
			o := order{start: time.Now()}
			s.Allow("k", 5)
			var wg sync.WaitGroup
			for i, n := range []int{1, 3, 1, 1, 2} {
				wg.Go(func() { o.add("%d of %d: %v", i, n, textOf(s.Wait(t.Context(), "k", n))) })
				synctest.Wait()
			}
			wg.Go(func() {
				time.Sleep(1500 * time.Millisecond)
				o.add("other: %v", s.Wait(t.Context(), "other", 5)) // not held up
			})
			wg.Wait()
			if newest {
				o.want(t, "0s 0 of 1: displaced by a newer call", "1.5s other: <nil>", "2s 4 of 2: <nil>", "3s 3 of 1: <nil>", "4s 2 of 1: <nil>", "7s 1 of 3: <nil>")
			} else {
				o.want(t, "0s 4 of 2: queue full", "1s 0 of 1: <nil>", "1.5s other: <nil>", "4s 1 of 3: <nil>", "5s 2 of 1: <nil>", "6s 3 of 1: <nil>")
			}
		})
	}
}

// TestSharedDoesNotOvertake lets a call come at the very moment for which another
// one waits, and one that needs less.
func TestSharedDoesNotOvertake(t *testing.T) {
	for range 100 {
		bubble(t, func(t *testing.T) {
			b := newBucket(t, BucketConfig{Rate: 1, Burst: 2})
			s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 4})
			s.Allow("", 2)
			r := s.Reserve("", 2)
			time.Sleep(time.Second)
			wantLimited(t, s.Allow("", 1), NoPermits, 0) // there is one, but not for this call
			time.Sleep(time.Second)
			wantLimited(t, s.Allow("", 1), NoPermits, time.Second)
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSharedWhole has a limit on all keys beside one on each. Those who have to
// wait for their own key hold up nobody; for the whole, they wait in their order, and
// one that needs much of it is not overtaken.
func TestSharedWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each := newBucket(t, BucketConfig{Rate: 0.1, Burst: 5})
		whole := newBucket(t, BucketConfig{Rate: 1, Burst: 6})
		s := newShared(t, SharedConfig{Limiters: []Limiter{each}, Whole: []Limiter{whole}, MaxQueue: 9, MaxWait: -1})
		o := order{start: time.Now()}
		s.Allow("a", 5)
		s.Allow("b", 1)
		var wg sync.WaitGroup
		for _, c := range []struct {
			key string
			n   int
		}{{"a", 1}, {"b", 4}, {"c", 1}, {"d", 1}} {
			wg.Go(func() { o.add("%s %d: %v", c.key, c.n, s.Wait(t.Context(), c.key, c.n)) })
			synctest.Wait()
		}
		wg.Wait()
		o.want(t, "4s b 4: <nil>", "5s c 1: <nil>", "6s d 1: <nil>", "10s a 1: <nil>")
		if err := s.Allow("e", 3); err != nil { // none of it was taken while they waited
			t.Error(err)
		}
		wantLimited(t, s.Allow("e", 1), NoPermits, time.Second)
	})
}

// TestSharedForgetsWhoLeaves cancels waits: the next one waits no longer than if
// they had never been.
func TestSharedForgetsWhoLeaves(t *testing.T) {
	for _, make := range []func() (Limiter, error){
		func() (Limiter, error) { return made(NewBucket(BucketConfig{Rate: 10, Burst: 1})) },
		func() (Limiter, error) { return made(NewLeaky(LeakyConfig{Rate: 10})) },
		func() (Limiter, error) {
			return made(NewSlidingLog(SlidingLogConfig{Limit: 1, Window: 100 * time.Millisecond}))
		},
	} {
		for _, reverse := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				l, err := make()
				if err != nil {
					t.Fatal(err)
				}
				s := newShared(t, SharedConfig{Limiters: []Limiter{l}, MaxQueue: 100})
				if err := s.Allow("", 1); err != nil {
					t.Fatal(err)
				}
				var wg sync.WaitGroup
				var cancels []context.CancelCauseFunc
				why := errors.New("changed my mind")
				for range 20 {
					ctx, cancel := context.WithCancelCause(t.Context())
					cancels = append(cancels, cancel)
					wg.Go(func() {
						err := s.Wait(ctx, "", 1)
						if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, ErrLimited) || !err.(interface{ Refused() bool }).Refused() {
							t.Errorf("a cancelled wait ends with %v", err)
						}
					})
				}
				synctest.Wait()
				if reverse {
					slices.Reverse(cancels)
				}
				for _, cancel := range cancels {
					cancel(why)
				}
				wg.Wait()
				start := time.Now()
				if err := s.Wait(t.Context(), "", 1); err != nil {
					t.Error(err)
				}
				if d := time.Since(start); d > 100*time.Millisecond {
					t.Errorf("%T: after 20 cancelled waits the next is %v", l, d)
				}
			})
		}
	}
}

// TestSharedLeavingHeadLetsOthersPass cancels the first of a queue, which needs
// more than there is; the second does not.
func TestSharedLeavingHeadLetsOthersPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each := newBucket(t, BucketConfig{Rate: 1, Burst: 5})
		whole := newBucket(t, BucketConfig{Rate: 1, Burst: 5})
		for _, cfg := range []SharedConfig{{Limiters: []Limiter{each}}, {Whole: []Limiter{whole}}} {
			cfg.MaxQueue = 9
			s := newShared(t, cfg)
			s.Allow("k", 3)
			head := s.Reserve("k", 4)
			next := s.Reserve("k", 1)
			if head.Err() == nil || next.Err() == nil {
				t.Error("admitted before its turn")
			}
			head.Cancel()
			if !errors.Is(head.Err(), context.Canceled) {
				t.Errorf("head: %v", head.Err())
			}
			if next.Err() != nil {
				t.Errorf("next: %v", next.Err())
			}
			wantLimited(t, s.Allow("k", 2), NoPermits, time.Second)
		}
	})
}

func TestSharedHeedsContexts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBucket(t, BucketConfig{Rate: 1, Burst: 2})
		s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 9})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Wait(ended, "", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
		var none context.Context
		if err := s.Wait(none, "", 1); !errors.Is(err, ErrInvalid) {
			t.Errorf("no context: %v", err)
		}
		if err := s.Allow("", 2); err != nil {
			t.Errorf("they have taken something: %v", err)
		}
		// 1.5 s are not enough for 2, which it knows at once; for 1 they are.
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := s.Wait(ctx, "", 2)
		wantLimited(t, err, TooLate, 2*time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if err := s.Wait(ctx, "", 1); err != nil || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		// No deadline would have been late enough.
		unqueued := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 2})}})
		unqueued.Allow("", 2)
		for _, err := range []error{s.Wait(ctx, "", 3), unqueued.Wait(ctx, "", 1)} {
			if !errors.Is(err, ErrLimited) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a deadline: %v", err)
			}
		}
		// Here it would be, had not somebody else come first.
		r := s.Reserve("", 1)
		ctx, cancel = context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err = s.Wait(ctx, "", 1)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLimited) || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if r.Err() != nil {
			t.Error(r.Err())
		}
		waiting := s.Reserve("", 2)
		defer waiting.Cancel()
		for _, n := range []int{0, -1, math.MinInt} {
			if err := s.Allow("", n); err != nil {
				t.Errorf("%d permits, of none that are left: %v", n, err)
			}
		}
	})
}

func TestSharedReservation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBucket(t, BucketConfig{Rate: 1, Burst: 2})
		s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 9})
		now := s.Reserve("", 2)
		<-now.Done()
		if now.Err() != nil {
			t.Error(now.Err())
		}
		a, c := s.Reserve("", 2), s.Reserve("", 1)
		if err := a.Err(); err == nil || errors.Is(err, ErrLimited) {
			t.Errorf("Err = %v while it waits", err)
		}
		time.Sleep(500 * time.Millisecond)
		now.Cancel() // 1.5 of its 2 permits have not come back by themselves, and are worth one
		now.Cancel() // once
		time.Sleep(500*time.Millisecond - 1)
		if err := a.Err(); err == nil {
			t.Error("admitted too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if err := a.Err(); err != nil {
			t.Errorf("after 1 s: %v", err)
		}
		time.Sleep(2 * time.Second)
		if c.Err() != nil {
			t.Error(c.Err())
		}
		wantLimited(t, s.Reserve("", 3).Err(), Impossible, Never)
	})
}

func TestReservationCancelledTwiceReleasesOnce(t *testing.T) {
	c, err := NewConcurrency(ConcurrencyConfig{Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := newShared(t, SharedConfig{Limiters: []Limiter{c}})
	s.Allow("", 1)
	r := s.Reserve("", 1)
	r.Cancel()
	r.Cancel()
	if got := c.Available(time.Now(), ""); got != 2 {
		t.Errorf("%d of 3 available, and one is held", got)
	}
}

func TestSharedDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		adaptive, err := NewAdaptive(AdaptiveConfig{})
		if err != nil {
			t.Fatal(err)
		}
		conc, err := NewConcurrency(ConcurrencyConfig{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		limits := []Limiter{
			newBucket(t, BucketConfig{Rate: 1, Burst: 10}), newFixedWindow(t, FixedWindowConfig{Limit: 10, Period: time.Second}), adaptive, conc,
		}
		gone := errors.New("out of quota")
		s := newShared(t, SharedConfig{
			Limiters: limits, Whole: []Limiter{newBucket(t, BucketConfig{Rate: 0.5, Burst: 20})}, MaxQueue: 1,
			DrainOn: policy.Any(
				policy.OnResult(func(v string) bool { return v == "empty" }),
				policy.OnError(func(err error) bool { return errors.Is(err, gone) }),
			),
		})
		call := func(v string, e error) func(context.Context) (string, error) {
			return func(context.Context) (string, error) { return v, e }
		}
		for _, fn := range []func(context.Context) (string, error){call("fine", nil), call("", errors.New("broken")), call("empty", nil)} {
			if _, err := Do(t.Context(), s, "k", 1, fn); errors.Is(err, ErrLimited) {
				t.Fatal(err)
			}
		}
		wantLimited(t, s.Allow("k", 1), NoPermits, 2*time.Second)
		wantLimited(t, s.Allow("other", 1), NoPermits, 2*time.Second) // the whole is drained, too
		time.Sleep(40 * time.Second)
		if v, err := Do(t.Context(), s, "k", 1, call("", gone)); v != "" || err != gone {
			t.Errorf("Do = %v, %v", v, err)
		}
		wantLimited(t, s.Allow("k", 1), NoPermits, 2*time.Second)
		if conc.Available(time.Now(), "k") != 100 {
			t.Error("a Concurrency was drained")
		}
		s.Drain("k") // of nothing
	})
}

// endless is a limit that is none.
type endless struct {
	opened
	took int
}

func (l *endless) Wait(now time.Time, key string, n int) time.Duration { return 0 }
func (l *endless) Take(now time.Time, key string, n int)               { l.took += n }

func TestSharedDrainsWhatThereIs(t *testing.T) {
	l := &endless{}
	s := newShared(t, SharedConfig{Limiters: []Limiter{l}})
	s.Drain("k")
	if l.took != 0 {
		t.Errorf("%d permits drained from a limit that has no end", l.took)
	}
	for _, burst := range []int{1, 2, 3, 1000, 1 << 20} {
		b := newBucket(t, BucketConfig{Rate: 1e-3, Burst: burst})
		s := newShared(t, SharedConfig{Limiters: []Limiter{struct{ Limiter }{b}}}) // which hides its Drain
		if burst > 2 {
			s.Allow("k", 2)
		}
		s.Drain("k")
		if err := s.Allow("k", 1); !errors.Is(err, ErrLimited) {
			t.Errorf("burst %d: after Drain: %v", burst, err)
		}
	}
}

func TestSharedConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := NewConcurrency(ConcurrencyConfig{Limit: 2, AskAgain: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		s := newShared(t, SharedConfig{Limiters: []Limiter{c}, MaxQueue: 9, MaxWait: -1})
		o := order{start: time.Now()}
		var wg sync.WaitGroup
		for i, fn := range []func(){
			func() { time.Sleep(time.Second) },
			func() { time.Sleep(2 * time.Second); runtime.Goexit() },
			func() { time.Sleep(3 * time.Second); panic("oops") },
			func() { time.Sleep(time.Second) },
		} {
			wg.Go(func() {
				defer func() { recover() }()
				Do(t.Context(), s, "k", 1, func(context.Context) (int, error) { o.add("%d", i); fn(); return 0, nil })
			})
			synctest.Wait()
		}
		err = s.Allow("k", 1)
		wantLimited(t, err, NoPermits, 0)
		if e, ok := errors.AsType[*LimitedError](err); !ok || e.After != 0 {
			t.Errorf("%v, but nobody knows when", err)
		}
		wg.Wait()
		o.want(t, "0s 0", "0s 1", "1s 2", "2s 3")
		if c.Available(time.Now(), "k") != 2 {
			t.Errorf("%d available, want 2", c.Available(time.Now(), "k"))
		}

		// What is held may be let go at any time: no deadline is too early.
		s.Allow("k", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Second/2, func() { s.Settle("k", 2, 1) })
		if err := s.Wait(ctx, "k", 1); err != nil {
			t.Error(err)
		}
		s.Release("k", 1)
		s.Release("k", 1)
		if c.Available(time.Now(), "k") != 2 {
			t.Errorf("%d available, want 2", c.Available(time.Now(), "k"))
		}
	})
}

// TestSharedReleaseLetsOtherKeysPass has one call of 1 ms for each of 100 keys, and
// room for one key: each begins when the one before has ended.
func TestSharedReleaseLetsOtherKeysPass(t *testing.T) {
	adaptive := func() Limiter { return newConcurrency(t, AdaptiveConcurrencyConfig{Max: 1, AskAgain: time.Hour}) }
	one := func(keys int) Limiter {
		return newHeld(t, ConcurrencyConfig{Limit: 1, AskAgain: time.Hour, MaxKeys: keys})
	}
	refunded, err := NewSlidingLog(SlidingLogConfig{Limit: 1, Window: time.Hour, MaxKeys: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limiter Limiter
		err     error
	}{
		"AdaptiveConcurrency":         {adaptive(), nil},
		"Concurrency of one key":      {one(1), nil},
		"SlidingLog of one key":       {refunded, errtree.SaysRefused(errVendor, true)},
		"ByKey, AdaptiveConcurrency":  {newByKey(t, ByKeyConfig{Others: adaptive()}), nil},
		"ByKey, Concurrency":          {newByKey(t, ByKeyConfig{Others: one(1)}), nil},
		"a Releaser of somebody else": {foreign{one(1).(Releaser)}, nil},
	} {
		bubble(t, func(t *testing.T) {
			s := newShared(t, SharedConfig{Limiters: []Limiter{c.limiter}, MaxQueue: 100, MaxWait: -1})
			begin := time.Now()
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					_, err := Do(t.Context(), s, fmt.Sprint(i), 1, func(context.Context) (int, error) {
						time.Sleep(time.Millisecond)
						return 0, c.err
					})
					if err != c.err {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			wg.Wait()
			if d := time.Since(begin); d != 100*time.Millisecond {
				t.Errorf("%s: %v for 100 calls of 1ms, one after the other", name, d)
			}
		})
	}
}

func newHeld(t testing.TB, cfg ConcurrencyConfig) *Concurrency {
	t.Helper()
	c, err := NewConcurrency(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// foreign is a limiter of which a Shared knows no more than the interface.
type foreign struct{ Releaser }

// attentive counts how often it is asked.
type attentive struct {
	*Concurrency
	asked int
}

func (l *attentive) Wait(now time.Time, key string, n int) time.Duration {
	l.asked++
	return l.Concurrency.Wait(now, key, n)
}

// TestSharedReleaseLooksAtItsKeyAlone has 1000 keys wait, each for its own calls.
func TestSharedReleaseLooksAtItsKeyAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &attentive{Concurrency: newHeld(t, ConcurrencyConfig{Limit: 1, AskAgain: time.Hour})}
		s := newShared(t, SharedConfig{Limiters: []Limiter{l}, MaxQueue: 1000, MaxWait: -1})
		for i := range 1000 {
			s.Allow(fmt.Sprint(i), 1)
			s.Reserve(fmt.Sprint(i), 1)
		}
		l.asked = 0
		s.Release("500", 1)
		if l.asked > 2 || l.Available(time.Now(), "500") != 0 {
			t.Errorf("asked %d times for one that was admitted: %v", l.asked, l.Available(time.Now(), "500") == 0)
		}
	})
}

// TestSharedTakesALimitWithoutKeysForTheWhole: in Limiters, too, it lets its calls
// pass in the order in which they came.
func TestSharedTakesALimitWithoutKeysForTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newConcurrency(t, AdaptiveConcurrencyConfig{Start: 4, Max: 4, AskAgain: time.Hour})
		s := newShared(t, SharedConfig{Limiters: []Limiter{a}, MaxQueue: 9, MaxWait: -1})
		o := order{start: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.Allow("x", 4)
		var wg sync.WaitGroup
		for _, c := range []struct {
			key string
			n   int
		}{{"a", 3}, {"b", 1}, {"c", 2}} {
			wg.Go(func() { o.add("%s %d: %v", c.key, c.n, s.Wait(ctx, c.key, c.n)) })
			synctest.Wait()
		}
		for range 4 {
			time.Sleep(time.Second)
			s.Release("x", 1)
		}
		time.Sleep(time.Second)
		s.Release("a", 3)
		wg.Wait()
		o.want(t, "3s a 3: <nil>", "4s b 1: <nil>", "5s c 2: <nil>")
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared(t, SharedConfig{})
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, 7)
		v, err := Do(ctx, s, "", 1000, func(ctx context.Context) (any, error) { return ctx.Value(key{}), nil })
		if v != 7 || err != nil {
			t.Errorf("Do = %v, %v", v, err)
		}
		_, err = Do(ctx, s, "", 1, func(context.Context) (any, error) { panic("called") })
		wantLimited(t, err, NoPermits, time.Minute)
		if _, err := Do[int](ctx, s, "", 1, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("Do of nothing: %v", err)
		}
	})
}

// TestSharedClose closes while calls wait, for time, for a release, and for each
// other.
func TestSharedClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closed := errors.New("closed badly")
		c := &closer{Limiter: newBucket(t, BucketConfig{Rate: 1e-3, Burst: 1}), err: closed}
		s := newShared(t, SharedConfig{Limiters: []Limiter{c}, MaxQueue: 9, MaxWait: -1})
		s.Allow("", 1)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.Wait(t.Context(), "", 1); err != ErrClosed {
					t.Errorf("Wait = %v", err)
				}
			})
		}
		r := s.Reserve("", 1)
		synctest.Wait()
		if err := s.Close(); !errors.Is(err, closed) {
			t.Errorf("Close = %v", err)
		}
		wg.Wait()
		if err := s.Close(); err != nil || c.closed != 1 {
			t.Errorf("again: Close = %v, closed %d times", err, c.closed)
		}
		for _, err := range []error{r.Err(), s.Allow("", 1), s.Wait(t.Context(), "", 1), s.Reserve("", 1).Err()} {
			if err != ErrClosed {
				t.Errorf("after Close: %v", err)
			}
		}
		s.Settle("", 1, 0)
		s.Release("", 1)
		s.Drain("")
		r.Cancel()
	})
}

type closer struct {
	Limiter
	err    error
	closed int
}

func (c *closer) Close() error { c.closed++; return c.err }

// TestSharedUpdate changes limits while calls wait.
func TestSharedUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, err := NewConcurrency(ConcurrencyConfig{Limit: 3, AskAgain: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		s := newShared(t, SharedConfig{Limiters: []Limiter{c}, MaxQueue: 9, MaxWait: -1})
		s.Allow("", 2)
		two, three := s.Reserve("", 2), s.Reserve("", 3)
		s.Update(func(now time.Time) {
			if err := c.SetLimit(now, 4); err != nil {
				t.Error(err)
			}
		})
		if two.Err() != nil {
			t.Errorf("after a raise: %v", two.Err())
		}
		s.Update(func(now time.Time) { c.SetLimit(now, 2) })
		wantLimited(t, three.Err(), Impossible, Never)
	})
}

// TestSharedFlowsOnThroughEveryChange changes every setting there is, again and
// again, while calls wait: all of them are admitted nevertheless, in time.
func TestSharedFlowsOnThroughEveryChange(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		limiter Limiter
		change  func(l Limiter, now time.Time) error
	}{
		"Bucket's limit":  {newBucket(t, BucketConfig{Rate: 100, Burst: 5}), func(l Limiter, now time.Time) error { return l.(Counter).SetLimit(now, 5) }},
		"Bucket's rate":   {newBucket(t, BucketConfig{Rate: 100, Burst: 5}), func(l Limiter, now time.Time) error { return l.(*Bucket).SetRate(now, 100) }},
		"FixedWindow":     {newFixedWindow(t, FixedWindowConfig{Limit: 5, Period: 50 * ms}), func(l Limiter, now time.Time) error { return l.(Counter).SetLimit(now, 5) }},
		"FixedWindow, up": {newFixedWindow(t, FixedWindowConfig{Limit: 5, Period: 50 * ms}), func(l Limiter, now time.Time) error { return l.(Counter).SetLimit(now, 8) }},
		"Quota":           {newQuota(t, QuotaConfig{Limit: 5, Per: 50 * ms}), func(l Limiter, now time.Time) error { return l.(Counter).SetLimit(now, 5) }},
		"Quota, up":       {newQuota(t, QuotaConfig{Limit: 5, Per: 50 * ms}), func(l Limiter, now time.Time) error { return l.(Counter).SetLimit(now, 8) }},
		"SetRemaining": {newQuota(t, QuotaConfig{Limit: 5, Per: 50 * ms}), func(l Limiter, now time.Time) error {
			l.(Counter).SetRemaining(now, now, "", 4)
			return nil
		}},
	} {
		bubble(t, func(t *testing.T) {
			s := newShared(t, SharedConfig{Limiters: []Limiter{c.limiter}, MaxQueue: 100, MaxWait: -1})
			stop, begin := make(chan struct{}), time.Now()
			var changes, calls sync.WaitGroup
			changes.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(7 * ms): // Rate comes back a permit per 10 ms
						s.Update(func(now time.Time) {
							if err := c.change(c.limiter, now); err != nil {
								t.Error(err)
							}
						})
					}
				}
			})
			for range 100 {
				calls.Go(func() {
					if err := s.Wait(t.Context(), "", 1); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			calls.Wait()
			close(stop)
			changes.Wait()
			if d := time.Since(begin); d > 2*time.Second {
				t.Errorf("%s: 100 calls took %v", name, d)
			}
		})
	}
}

// opened is a limiter that opens when somebody else says so.
type opened struct {
	mu   sync.Mutex
	open bool
	fn   func()
}

func (l *opened) Wait(now time.Time, key string, n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return 0
	}
	return time.Hour
}
func (l *opened) Take(now time.Time, key string, n int)         {}
func (l *opened) Settle(now time.Time, key string, n, used int) {}
func (l *opened) Accepted(now, sent time.Time, key string)      {}
func (l *opened) Refused(now, sent time.Time, key string)       {}
func (l *opened) OnChange(fn func())                            { l.fn = fn }

func TestSharedListensToNotifiers(t *testing.T) {
	for _, whole := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			l := &opened{}
			cfg := SharedConfig{Limiters: []Limiter{l}, MaxQueue: 1}
			if whole {
				cfg.Limiters, cfg.Whole = nil, cfg.Limiters
			}
			s := newShared(t, cfg)
			time.AfterFunc(time.Second, func() {
				l.mu.Lock()
				l.open = true
				l.mu.Unlock()
				l.fn()
			})
			start := time.Now()
			if err := s.Wait(t.Context(), "", 1); err != nil || time.Since(start) != time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		})
	}
}

func TestSharedEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o order
		b := newBucket(t, BucketConfig{Rate: 1, Burst: 2})
		var s *Shared
		s = newShared(t, SharedConfig{
			Name: "api", Limiters: []Limiter{b}, MaxQueue: 1, DrainOn: policy.OnResult(func(int) bool { return true }),
			OnEvent: func(e event.Event) {
				s.Release("nobody", 1) // it may call methods
				o.add("%s %v %d %s %v %v", e.Name, e.Kind, e.Request, e.Source, e.Delay, textOf(e.Err))
				if !e.Time.Equal(time.Now()) {
					t.Errorf("event of %v at %v", e.Time, time.Now())
				}
				panic("it may do that, too")
			},
		})
		o.start = time.Now()
		Do(t.Context(), s, "k", 1, func(context.Context) (int, error) { return 0, nil })
		r := s.Reserve("k", 1)
		s.Reserve("k", 2)
		s.Allow("k", 1)
		s.Allow("k", 3)
		time.Sleep(time.Second)
		synctest.Wait()
		c := s.Reserve("k", 2)
		c.Cancel()
		s.Reserve("k", 1)
		s.Close()
		s.Drain("k") // nobody hears of it any more
		synctest.Wait()
		if r.Err() != nil {
			t.Error(r.Err())
		}
		o.want(t,
			"0s api started 1 k 0s <nil>",
			"0s api depleted 0 k 0s <nil>",
			"0s api queued 2 k 1s <nil>",
			"0s api overflow 3 k 2s queue full",
			"0s api limit refused 4 k 1s no permits",
			"0s api limit refused 5 k 0s more permits than the limit ever holds",
			"1s api started 2 k 1s <nil>",
			"1s api depleted 2 k 0s <nil>",
			"1s api queued 6 k 2s <nil>",
			"1s api cancelled 6 k 0s limiter: no permit: context canceled",
			"1s api queued 7 k 1s <nil>",
			"1s api limit refused 7 k 0s limiter: closed",
		)
	})
}

// TestSharedListenersHarmNobody has one that never returns.
func TestSharedListenersHarmNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := newShared(t, SharedConfig{OnEvent: func(event.Event) { <-stuck }})
		for range 5000 {
			s.Allow("k", 1)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		close(stuck)
	})
}

func TestSharedConfig(t *testing.T) {
	a, b, other := newAdaptive(t, AdaptiveConfig{}), newBucket(t, BucketConfig{Rate: 1}), newBucket(t, BucketConfig{Rate: 1})
	for _, c := range []struct {
		cfg  SharedConfig
		want string
	}{
		{SharedConfig{MaxQueue: -1}, "SharedConfig.MaxQueue is -1, want 0 up to 1<<30"},
		{SharedConfig{MaxQueue: 1<<30 + 1}, "SharedConfig.MaxQueue is 1073741825,"},
		{SharedConfig{Limiters: []Limiter{b, nil}}, "SharedConfig.Limiters[1] is nil"},
		{SharedConfig{Limiters: []Limiter{other, b, b}}, "SharedConfig.Limiters[2] is Limiters[1], want each once"},
		{SharedConfig{Limiters: []Limiter{b}, Whole: []Limiter{other, other}}, "SharedConfig.Whole[1] is Whole[0], want each once"},
		{SharedConfig{Limiters: []Limiter{b}, Whole: []Limiter{nil}}, "SharedConfig.Whole[0] is nil"},
		{SharedConfig{Limiters: []Limiter{(*Bucket)(nil)}}, "SharedConfig.Limiters[0] is a nil *limiter.Bucket"},
		{SharedConfig{Whole: []Limiter{b, (*ByKey)(nil)}}, "SharedConfig.Whole[1] is a nil *limiter.ByKey"},
		{SharedConfig{Limiters: []Limiter{b, a}, Whole: []Limiter{a}}, "SharedConfig.Whole[0] is Limiters[1], want each once"},
	} {
		if s, err := NewShared(c.cfg); s != nil || err == nil || !strings.HasPrefix(err.Error(), "limiter: "+c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if Reason(77).String() != "invalid" {
		t.Error("Reason(77) has a name")
	}
}

// TestSharedAllocations counts them exactly.
func TestSharedAllocations(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1e9, Burst: 1e9})
	s := newShared(t, SharedConfig{Limiters: []Limiter{b}, MaxQueue: 1 << 20})
	ctx := t.Context()
	s.Allow("k", 1)
	fn := func(context.Context) (int, error) { return 1, nil }
	for name, c := range map[string]struct {
		want float64
		fn   func()
	}{
		"Allow": {0, func() { s.Allow("k", 1) }},
		"Wait":  {0, func() { s.Wait(ctx, "k", 1) }},
		"Do":    {0, func() { Do(ctx, s, "k", 1, fn) }},
	} {
		if n := testing.AllocsPerRun(1000, c.fn); n != c.want {
			t.Errorf("%s: %v allocations, want %v", name, n, c.want)
		}
	}
	s.Allow("k", 1e9/2)
	slow := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1e-3, Burst: 1})}, MaxQueue: 1 << 20, MaxWait: -1})
	slow.Allow("k", 1)
	slow.Reserve("k", 1) // the lane and the timer
	if n := testing.AllocsPerRun(1000, func() { slow.Reserve("k", 1) }); n != 2 {
		t.Errorf("%v allocations for a call that waits, want 2", n)
	}
}

// pupil is a limiter that writes down what it is told.
type pupil struct {
	opened
	held int
	log  []string
}

func (p *pupil) note(what string, now, sent time.Time, key string) {
	p.log = append(p.log, fmt.Sprintf("%s %q after %v, held %d", what, key, now.Sub(sent), p.held))
}
func (p *pupil) Take(now time.Time, key string, n int)    { p.held += n }
func (p *pupil) Release(now time.Time, key string, n int) { p.held -= n }
func (p *pupil) Settle(now time.Time, key string, n, used int) {
	p.held += used - n
}
func (p *pupil) Accepted(now, sent time.Time, key string) { p.note("accepted", now, sent, key) }
func (p *pupil) Refused(now, sent time.Time, key string)  { p.note("refused", now, sent, key) }

func TestSharedTellsItsLimitersWhatBecameOfACall(t *testing.T) {
	errTooMany := errors.New("too many")
	tooMany := policy.Any(
		policy.OnError(func(err error) bool { return errors.Is(err, errTooMany) }),
		policy.OnResult(func(status int) bool { return status == 429 }),
	)
	notMade := errtree.SaysRefused(errTooMany, true)
	for name, c := range map[string]struct {
		predicate policy.Predicate
		n, result int
		err       error
		want      string
	}{
		"success":                     {tooMany, 1, 200, nil, "accepted"},
		"refusal by error":            {tooMany, 1, 0, errTooMany, "refused"},
		"refusal by result":           {tooMany, 1, 429, nil, "refused"},
		"another error":               {tooMany, 1, 0, errVendor, ""},
		"not made":                    {tooMany, 1, 0, notMade, ""},
		"no permits":                  {tooMany, 0, 0, errTooMany, ""},
		"success without a predicate": {nil, 1, 429, nil, "accepted"},
		"error without a predicate":   {nil, 1, 0, errTooMany, ""},
	} {
		for _, chain := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				each, whole := &pupil{}, &pupil{}
				each.open, whole.open = true, true
				s := newShared(t, SharedConfig{
					Limiters: []Limiter{each}, Whole: []Limiter{whole}, RefusedOn: c.predicate,
					Key: func(context.Context) string { return "k" }, Permits: func(context.Context) int { return c.n },
				})
				fn := func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return c.result, c.err
				}
				if chain {
					time.Sleep(time.Second)
					policy.Do(t.Context(), policy.Chain(s), fn)
				} else {
					Do(t.Context(), s, "k", c.n, fn)
				}
				for key, p := range map[string]*pupil{"k": each, "": whole} {
					var want []string
					if c.want != "" {
						want = []string{fmt.Sprintf("%s %q after 1s, held 1", c.want, key)}
					}
					if !slices.Equal(p.log, want) || p.held != 0 {
						t.Errorf("%s, chain %v: %q, held %d, want %q", name, chain, p.log, p.held, want)
					}
				}
			})
		}
	}
}

func TestSharedTellsOfNoCallThatPanicked(t *testing.T) {
	p := &pupil{}
	p.open = true
	s := newShared(t, SharedConfig{Limiters: []Limiter{p}})
	func() {
		defer func() { _ = recover() }()
		Do(t.Context(), s, "", 1, func(context.Context) (int, error) { panic("broken") })
	}()
	if len(p.log) > 0 || p.held != 0 {
		t.Errorf("%q, held %d", p.log, p.held)
	}
}

// The time of sending is that after the wait.
func TestSharedTellsWhenACallWasSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &pupil{}
		p.open = true
		s := newShared(t, SharedConfig{Limiters: []Limiter{p, newBucket(t, BucketConfig{Rate: 1})}, MaxQueue: 1})
		fn := func(context.Context) (int, error) { time.Sleep(10 * time.Millisecond); return 0, nil }
		for range 2 {
			policy.Do(t.Context(), policy.Chain(s), fn)
			Do(t.Context(), s, "", 1, fn)
		}
		for _, told := range p.log {
			if told != `accepted "" after 10ms, held 1` {
				t.Error(told)
			}
		}
	})
}

func TestSharedIsToldWhatBecameOfAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each, whole := &pupil{}, &pupil{}
		each.open, whole.open = true, true
		s := newShared(t, SharedConfig{Limiters: []Limiter{each}, Whole: []Limiter{whole}})
		sent := time.Now()
		s.Allow("k", 1)
		time.Sleep(time.Second)
		s.Accepted("k", sent)
		s.Refused("k", sent)
		s.Release("k", 1)
		for key, p := range map[string]*pupil{"k": each, "": whole} {
			if want := []string{fmt.Sprintf("accepted %q after 1s, held 1", key), fmt.Sprintf("refused %q after 1s, held 1", key)}; !slices.Equal(p.log, want) {
				t.Errorf("%q, want %q", p.log, want)
			}
		}
	})
}

func TestAnAdaptiveInASharedLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := NewAdaptive(AdaptiveConfig{Start: 100, Min: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		s := newShared(t, SharedConfig{
			Whole: []Limiter{a}, MaxQueue: 10, MaxWait: -1,
			RefusedOn: policy.OnError(func(err error) bool { return errors.Is(err, errVendor) }),
		})
		chain := policy.Chain(s)
		for i := range 200 {
			_, _ = policy.Do(t.Context(), chain, func(context.Context) (int, error) {
				time.Sleep(time.Millisecond)
				if i >= 20 {
					return 0, errVendor
				}
				return 1, nil
			})
		}
		var rate float64
		s.Update(func(now time.Time) { rate = a.Rate(now, "") })
		if rate >= 50 {
			t.Errorf("after 180 refusals the rate is %v, want less than half of the 100 it was", rate)
		}
	})
}

// refunders are limiters that give permits back to an owner that knows when it took
// them, while older calls run: 10 permits, and as many again a little later.
func refunders(t *testing.T) map[string]Limiter {
	log, err := NewSlidingLog(SlidingLogConfig{Limit: 10, Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Limiter{
		"SlidingLog":  log,
		"FixedWindow": newFixedWindow(t, FixedWindowConfig{Limit: 10, Period: time.Second}),
		"Calendar":    newCalendar(t, CalendarConfig{Limit: 10}),
		"ByKey":       newByKey(t, ByKeyConfig{Others: newCalendar(t, CalendarConfig{Limit: 10})}),
	}
}

// TestSharedGivesBackWhatWasNotSent has ten slow calls run beyond the end of their
// window; then ten others take permits that they do not use.
func TestSharedGivesBackWhatWasNotSent(t *testing.T) {
	notSent := errtree.SaysRefused(errVendor, true)
	for _, way := range []string{"Do", "chain", "Reserve", "Wait, then Do", "claim"} {
		for name, l := range refunders(t) {
			bubble(t, func(t *testing.T) {
				time.Sleep(24*time.Hour - time.Second) // a second before midnight
				cfg := SharedConfig{Limiters: []Limiter{l}, MaxQueue: 10}
				other := &contested{endless: &endless{}}
				if way == "claim" {
					cfg.Limiters = []Limiter{newByKey(t, ByKeyConfig{Others: l}), other} // which claims, too
				}
				s := newShared(t, cfg)
				chain := policy.Chain(s)
				var slow sync.WaitGroup
				for range 10 {
					slow.Go(func() {
						Do(t.Context(), s, "", 1, func(context.Context) (int, error) { time.Sleep(time.Minute); return 0, nil })
					})
				}
				if way == "Wait, then Do" { // taken when the window begins, by who waited for it
					synctest.Wait()
				} else {
					time.Sleep(2 * time.Second)
				}
				for range 10 {
					time.Sleep(time.Millisecond)
					switch way {
					case "Reserve":
						s.Reserve("", 1).Cancel()
					case "claim":
						s.Update(func(time.Time) { other.late = true })
						if s.Allow("", 1) == nil {
							t.Error("a permit of which another owner was faster")
						}
						s.Update(func(time.Time) { other.late = false })
					case "chain":
						policy.Do(t.Context(), chain, func(context.Context) (int, error) { return 0, notSent })
					default:
						Do(t.Context(), s, "", 1, func(context.Context) (int, error) { return 0, notSent })
					}
				}
				if err := s.Allow("", 10); err != nil {
					t.Errorf("%s of a %s: nothing was sent, and %v", way, name, err)
				}
				slow.Wait()
			})
		}
	}
}

// contested is a Claimer of which another owner is faster now and then.
type contested struct {
	*endless
	late, taken bool
}

func (c *contested) Wait(time.Time, string, int) time.Duration {
	if c.taken {
		c.taken = false
		return time.Hour
	}
	return 0
}

func (c *contested) Claim(time.Time, string, int) time.Duration {
	if c.taken = c.late; c.taken {
		return time.Hour
	}
	return 0
}

// newAPI is a vendor that takes 50 calls a second, 10 at once.
func newAPI(t *testing.T) *Rate {
	r, err := NewRate(RateConfig{Rate: 50, Burst: 10})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnAdaptiveInASharedKeepsToAVendor has 30 workers that always have something to
// do, and send what was refused again at once.
func TestAnAdaptiveInASharedKeepsToAVendor(t *testing.T) {
	errTooMany := errors.New("too many")
	for _, cfg := range []AdaptiveConfig{{}, {Start: 20}} {
		for _, byKey := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				var l Limiter = newAdaptive(t, cfg)
				if byKey {
					l = newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"k": l}})
				}
				s := newShared(t, SharedConfig{
					Limiters: []Limiter{l}, MaxQueue: 100, MaxWait: -1,
					RefusedOn: policy.OnError(func(err error) bool { return err == errTooMany }),
				})
				vendor, begin := newAPI(t), time.Now()
				var good, bad [4]int // by minute
				var mu sync.Mutex
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
				defer cancel()
				var wg sync.WaitGroup
				for range 30 {
					wg.Go(func() {
						for ctx.Err() == nil {
							_, err := Do(ctx, s, "k", 1, func(context.Context) (int, error) {
								time.Sleep(30 * time.Millisecond)
								if !vendor.Allow() {
									return 0, errTooMany
								}
								return 1, nil
							})
							minute := min(3, int(time.Since(begin)/time.Minute))
							mu.Lock()
							switch err {
							case nil:
								good[minute]++
							case errTooMany:
								bad[minute]++
							default:
								cancel() // it is too late for another
							}
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				for minute := 2; minute < 4; minute++ {
					if good[minute] < 2700 || bad[minute] > 4 {
						t.Errorf("%+v: of 3000 a minute %v were accepted, and %v refused", cfg, good, bad)
						break
					}
				}
			})
		}
	}
}

// TestSharedPausesAfterARefusal looks at when the next call may be made.
func TestSharedPausesAfterARefusal(t *testing.T) {
	errTooMany := errors.New("too many")
	const sec = time.Second
	type call struct {
		asks time.Duration // of a refusal; less than 0: the call is accepted
		n    int           // such calls, one after the other
		want time.Duration // until the next
	}
	for name, c := range map[string]struct {
		cfg   AdaptiveConfig
		calls []call
	}{
		"guesses double":            {AdaptiveConfig{}, []call{{0, 1, sec}, {0, 1, 2 * sec}, {0, 1, 4 * sec}}},
		"up to a minute":            {AdaptiveConfig{}, []call{{0, 6, 32 * sec}, {0, 1, time.Minute}, {0, 1, time.Minute}}},
		"nine do not reassure":      {AdaptiveConfig{}, []call{{0, 2, 2 * sec}, {-1, 9, 0}, {0, 1, 4 * sec}}},
		"ten do":                    {AdaptiveConfig{}, []call{{0, 2, 2 * sec}, {-1, 10, -1}, {0, 1, sec}}},
		"what is asked for":         {AdaptiveConfig{}, []call{{15 * sec, 1, 15 * sec}, {0, 1, sec}}},
		"a century is a day":        {AdaptiveConfig{}, []call{{century, 1, 24 * time.Hour}}},
		"what is asked of a window": {AdaptiveConfig{Window: time.Minute, Start: 100}, []call{{-1, 1, -1}, {7 * sec, 1, 7 * sec}}},
	} {
		bubble(t, func(t *testing.T) {
			a := newAdaptive(t, c.cfg)
			s := newShared(t, SharedConfig{Whole: []Limiter{a}, RefusedOn: policy.OnError(func(err error) bool { return errors.Is(err, errTooMany) })})
			for i, x := range c.calls {
				var wait time.Duration
				for range x.n {
					_, err := Do(t.Context(), s, "k", 1, func(context.Context) (int, error) {
						time.Sleep(time.Millisecond)
						switch {
						case x.asks < 0:
							return 1, nil
						case x.asks == 0:
							return 0, errTooMany
						}
						return 0, asking{errTooMany, x.asks}
					})
					if errors.Is(err, ErrLimited) {
						t.Fatalf("%s: step %d: %v", name, i, err)
					}
					s.Update(func(now time.Time) { wait = a.Wait(now, "k", 1) })
					time.Sleep(wait)
				}
				if want := x.want; want >= 0 && wait != want || want < 0 && wait >= sec {
					t.Errorf("%s: step %d: the next call in %v, want %v", name, i, wait, want)
				}
			}
		})
	}
}

// TestSharedTellsOfAPauseThatItClamps: once for a call, whichever of its limiters pause.
func TestSharedTellsOfAPauseThatItClamps(t *testing.T) {
	const day = 24 * time.Hour
	bubble(t, func(t *testing.T) {
		a, b := newAdaptive(t, AdaptiveConfig{}), newAdaptive(t, AdaptiveConfig{Window: time.Minute, Start: 100})
		var heard []event.Event
		s := newShared(t, SharedConfig{
			Name: "acme", Whole: []Limiter{a, b}, OnEvent: func(e event.Event) { heard = append(heard, e) },
			RefusedOn: policy.OnError(func(err error) bool { return errors.Is(err, errVendor) }),
		})
		for _, asks := range []time.Duration{time.Hour, day, day + 1, century, math.MaxInt64} {
			heard = nil
			err := asking{errVendor, asks}
			Do(t.Context(), s, "k", 1, func(context.Context) (int, error) { return 0, err })
			now := time.Now()
			synctest.Wait()
			var clamped []event.Event
			for _, e := range heard {
				if e.Kind == event.Clamped {
					clamped = append(clamped, e)
				}
			}
			want := event.Event{Time: now, Kind: event.Clamped, Name: "acme", Source: "k", Delay: day, Err: err}
			if asks <= day && len(clamped) != 0 || asks > day && (len(clamped) != 1 || clamped[0] != want) {
				t.Errorf("asked for %v: %v", asks, clamped)
			}
			time.Sleep(2 * day)
		}
		s.Close()
	})
}

// With a Window an Adaptive counts what it was refused, and needs no guess.
func TestSharedDoesNotPauseAWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAdaptive(t, AdaptiveConfig{Window: 10 * time.Second, Start: 100})
		s := newShared(t, SharedConfig{Whole: []Limiter{a}, MaxQueue: 1000, MaxWait: -1})
		for range 500 {
			if err := s.Wait(t.Context(), "", 1); err != nil {
				t.Fatal(err)
			}
			s.Accepted("", time.Now())
		}
		s.Refused("", time.Now())
		if a.pause.until != 0 {
			t.Errorf("it pauses until %v", a.pause.until)
		}
	})
}

// asking is an error that says when to come again.
type asking struct {
	error
	d time.Duration
}

func (e asking) RetryAfter() time.Duration { return e.d }
func (e asking) Unwrap() error             { return e.error }

// TestSharedPausesOnceForAnEpisode: what was on its way prolongs a pause, but is no
// refusal of its own; and of a ByKey no other key pauses.
func TestSharedPausesOnceForAnEpisode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newAdaptive(t, AdaptiveConfig{}), newAdaptive(t, AdaptiveConfig{})
		s := newShared(t, SharedConfig{Limiters: []Limiter{newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"a": a, "b": b}})}})
		sent := time.Now()
		for range 30 {
			if err := s.Allow("a", 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Millisecond)
		for range 30 {
			s.Refused("a", sent)
		}
		wantLimited(t, s.Allow("a", 1), NoPermits, time.Second)
		if err := s.Allow("b", 1); err != nil {
			t.Error(err)
		}
		time.Sleep(900 * time.Millisecond)
		s.Refused("a", sent) // late
		wantLimited(t, s.Allow("a", 1), NoPermits, 100*time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		if err := s.Allow("a", 1); err != nil {
			t.Error(err)
		}
	})
}
