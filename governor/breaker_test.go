package governor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/throttle"
)

// fuse opens for a minute at the first failure, and then admits one call.
type fuse struct {
	mu       sync.Mutex
	until    time.Time
	trial    bool
	permits  int
	outcomes map[breaker.Outcome]int
	took     time.Duration

	onAcquire func() // called last
}

func (f *fuse) Ready(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready(now)
}

func (f *fuse) ready(now time.Time) error {
	if now.Before(f.until) || f.trial {
		return &breaker.OpenError{Until: f.until}
	}
	return nil
}

func (f *fuse) Acquire(now time.Time) (breaker.Permit, error) {
	if f.onAcquire != nil {
		defer f.onAcquire()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.ready(now); err != nil {
		return 0, err
	}
	f.trial = !f.until.IsZero()
	f.permits++
	return 7, nil
}

func (f *fuse) Report(p breaker.Permit, now time.Time, o breaker.Outcome, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p != 7 {
		panic("a permit that was not issued")
	}
	f.permits--
	if f.outcomes == nil {
		f.outcomes = make(map[breaker.Outcome]int)
	}
	f.outcomes[o]++
	f.took, f.trial = took, false
	switch o {
	case breaker.Failure:
		f.until = now.Add(time.Minute)
	case breaker.Success:
		f.until = time.Time{}
	}
}

func TestOpenBreakerFailsQueuedAndNewRequestsAtOnce(t *testing.T) {
	f := &fuse{}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker, c.Workers = f, 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		fails := governortest.NewScript(errors.New("down"))
		fails.Latency = time.Second
		governor.Submit(t.Context(), g, "", fails.Call)
		queued := governor.Submit(t.Context(), g, "", sleep(0))
		_, err := queued.Result(t.Context())
		since(t, "the queued one failed", start, time.Now(), time.Second)
		oe, ok := errors.AsType[*breaker.OpenError](err)
		if !ok || !governor.IsRefused(err) || !oe.Until.Equal(start.Add(61*time.Second)) {
			t.Errorf("queued: %v, want a *breaker.OpenError until a minute later", err)
		}
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("new: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := governor.Do(t.Context(), g, "", sleep(0)); err != nil {
			t.Errorf("trial: %v", err)
		}
	})
}

// Also one that is opened by hand, or by others that have it: there is no call whose end
// would make the governor look.
func TestABreakerThatIsOpenedByHandFailsWhatWaitsAtOnce(t *testing.T) {
	for name, waits := range map[string]func(t *testing.T, g *governor.Plain){
		"for a pause": func(_ *testing.T, g *governor.Plain) { g.Learn(throttle.Signal{Delay: 10 * time.Minute}) },
		"for a slot":  func(t *testing.T, g *governor.Plain) { governor.Submit(t.Context(), g, "", sleep(10*time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			b, err := breaker.New(breaker.Config{})
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(c *governor.PlainConfig) { c.Breaker, c.Workers = b, 1 }, func(t *testing.T, g *governor.Plain) {
				waits(t, g)
				r := governor.Submit(t.Context(), g, "", sleep(0))
				synctest.Wait()
				if r.State() == governor.Done {
					t.Fatal("it does not wait")
				}
				start := time.Now()
				if err := b.Transition(breaker.ForcedOpen); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Result(t.Context()); !errors.Is(err, breaker.ErrOpen) {
					t.Error(err)
				}
				since(t, "it was refused", start, time.Now(), 0)
			})
		})
	}
}

func TestBreakerWaitMakesRequestsWait(t *testing.T) {
	f := &fuse{}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker, c.BreakerWait = f, true }, func(t *testing.T, g *governor.Plain) {
		_, _ = governor.Do(t.Context(), g, "", governortest.NewScript(errors.New("down")).Call)
		start := time.Now()
		var at time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&at)).Done()
		since(t, "start", start, at, time.Minute)
	})
}

func TestBreakerHearsEachAttemptOnceWithItsOutcome(t *testing.T) {
	f := &fuse{}
	bubble(t, func(c *governor.PlainConfig) { c.Breaker, c.Workers = f, 1 }, func(t *testing.T, g *governor.Plain) {
		for _, tt := range []struct {
			name string
			fn   func(context.Context, struct{}) (int, error)
			want breaker.Outcome
		}{
			{"success", sleep(time.Second), breaker.Success},
			{"refusal without a signal", governortest.NewScript(&governortest.Refusal{}).Call, breaker.Failure},
			{"error", governortest.NewScript(errors.New("down")).Call, breaker.Failure},
			{"panic", governor.Func(func(context.Context) (int, error) { panic("x") }), breaker.Failure},
			{"Goexit", governor.Func(func(context.Context) (int, error) { return 0, goexit() }), breaker.Failure},
		} {
			before := f.outcomes[tt.want]
			_, _ = do(t.Context(), g, "", tt.fn)
			synctest.Wait()
			if f.outcomes[tt.want] != before+1 || f.permits != 0 {
				t.Errorf("%s: outcomes %v, %d permits out", tt.name, f.outcomes, f.permits)
			}
			time.Sleep(2 * time.Minute)
		}

		// Waiting is not slowness; a rate limit and a cancellation are neutral.
		limited := governortest.NewScript(governortest.Limited(time.Hour / 10))
		limited.Latency = time.Second
		if _, err := governor.Do(t.Context(), g, "", limited.Call); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if f.outcomes[breaker.Neutral] != 1 || f.took != time.Second {
			t.Errorf("after a rate limit: outcomes %v, the call took %v", f.outcomes, f.took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = governor.Do(ctx, g, "", sleep(time.Minute))
		synctest.Wait()
		if f.outcomes[breaker.Neutral] != 2 || f.permits != 0 {
			t.Errorf("after a cancellation: outcomes %v, %d permits out", f.outcomes, f.permits)
		}
	})
}

// The breaker is asked last before the start: what happens meanwhile is as late as
// anything can be and still prevent it.
func TestNothingStartsThatMayNoMore(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile func(cancel func())
		want      error
	}{
		{"its context has ended", func(cancel func()) { cancel() }, context.Canceled},
		{"its latest start has passed", func(func()) { time.Sleep(time.Second + 1) }, governor.ErrLate},
	} {
		f := &fuse{}
		bubble(t, func(c *governor.PlainConfig) { c.Breaker = f }, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.onAcquire = func() { tt.meanwhile(cancel) }
			ran := false
			late := g.With(governor.Ask{StartBy: time.Now().Add(time.Second)})
			_, err := governor.Do(ctx, late, "", governor.Func(func(context.Context) (int, error) { ran = true; return 0, nil }))
			if ran || !errors.Is(err, tt.want) || !governor.IsRefused(err) {
				t.Errorf("%s: ran is %v, got %v", tt.name, ran, err)
			}
			synctest.Wait()
			if f.permits != 0 || f.outcomes[breaker.Neutral] != 1 {
				t.Errorf("%s: %d permits out, outcomes %v", tt.name, f.permits, f.outcomes)
			}
		})
	}
}
