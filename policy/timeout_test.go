package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

func TestTimeoutDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Chain(must(NewTimeout(TimeoutConfig{})))
		got := took(func() {
			err := Run(t.Context(), p, sleep(time.Hour))
			wantErr(t, "error", err, ErrTimeout, context.DeadlineExceeded)
		})
		want(t, "After", got, time.Second)
	})
}

func TestTimeoutEndsTheContextWithACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := Chain(must(NewTimeout(TimeoutConfig{Name: "t", After: 3 * time.Second, OnEvent: l.hear})))
		begin := time.Now()
		_, err := Do(t.Context(), p, func(ctx context.Context) (int, error) {
			deadline, ok := ctx.Deadline()
			if !ok || deadline.Sub(begin) != 3*time.Second {
				t.Error("deadline", deadline, ok)
			}
			<-ctx.Done()
			wantErr(t, "ctx", ctx.Err(), context.DeadlineExceeded)
			wantErr(t, "cause", context.Cause(ctx), ErrTimeout)
			return 7, fmt.Errorf("gave up: %w", context.Cause(ctx))
		})
		e, ok := errors.AsType[*TimeoutError](err)
		if !ok || e.After != 3*time.Second || e.Name != "t" || e.Ignored || e.Err == nil || !e.Timeout() {
			t.Errorf("%#v", err)
		}
		const text = "policy: t: timeout after 3s: gave up: policy: t: timeout after 3s"
		want(t, "error", err.Error(), text)
		want(t, "events", l.take(), "[timed out t 3s "+text+"]")
	})
}

func TestTimeoutKeepsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Chain(must(NewTimeout(TimeoutConfig{})))
		late := func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		wantErr(t, "late", Run(t.Context(), p, late), ErrTimeout, errBoom)
		if err := Run(t.Context(), p, func(context.Context) error { return errBoom }); err != errBoom {
			t.Error("in time", err)
		}
		for _, yes := range []bool{true, false} {
			inner := Chain(must(NewTimeout(TimeoutConfig{})), around(func(c *Call, _ Handler) error { <-c.Context().Done(); return &fake{yes} }))
			want(t, "refused", refused(Run(t.Context(), inner, sleep(0))), yes)
		}
	})
}

func TestTimeoutLetsASuccessWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []TimeoutConfig{{}, {Abandon: true, Grace: time.Hour}} {
			var l log
			cfg.OnEvent, cfg.StuckAfter = l.hear, -1
			p := Chain(must(NewTimeout(cfg)))
			got := took(func() {
				r, err := Do(t.Context(), p, func(context.Context) (int, error) { time.Sleep(time.Minute); return 5, nil })
				want(t, "result", r, 5)
				wantErr(t, "error", err)
			})
			want(t, "time", got, time.Minute)
			want(t, "events", l.take(), "")
		}
	})
}

// What ends the caller's context is no timeout, nor is the timeout of a layer
// further out that of one further in, even if both are the same policy.
func TestTimeoutIsNotTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, abandon := range []bool{false, true} {
			var l log
			p := Chain(must(NewTimeout(TimeoutConfig{After: time.Minute, Abandon: abandon, OnEvent: l.hear})))
			deadline, cancel := context.WithTimeout(t.Context(), time.Second)
			err := Run(deadline, p, sleep(time.Hour))
			if err != context.DeadlineExceeded {
				t.Error("deadline", err)
			}
			cancel()
			cancelled, cancelNow := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancelNow(errBoom) })
			if err := Run(cancelled, p, sleep(time.Hour)); err != errBoom {
				t.Error("cancel", err)
			}
			want(t, "events", l.take(), "")
		}
		same := must(NewTimeout(TimeoutConfig{AfterFor: func(ctx context.Context) time.Duration {
			if _, inner := ctx.Deadline(); inner {
				return time.Hour
			}
			return time.Second
		}}))
		var inner error
		p := Chain(same, around(func(c *Call, next Handler) error { inner = next(c); return inner }), same)
		err := Run(t.Context(), p, func(ctx context.Context) error { <-ctx.Done(); return errBoom })
		if inner != errBoom {
			t.Error("inner", inner)
		}
		wantErr(t, "outer", err, ErrTimeout)
	})
}

func TestTimeoutByCall(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		p := Chain(must(NewTimeout(TimeoutConfig{After: 2 * time.Second, AfterFor: func(ctx context.Context) time.Duration {
			d, _ := ctx.Value(key{}).(time.Duration)
			return d
		}})))
		for d, after := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 2 * time.Second, -1: 2 * time.Second} {
			ctx := context.WithValue(t.Context(), key{}, d)
			want(t, "time", took(func() { _ = Run(ctx, p, sleep(time.Hour)) }), after)
		}
	})
}

func TestTimeoutTellsOfStuckFunctions(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    TimeoutConfig
		cancel time.Duration // of the caller
		takes  time.Duration
		want   string
	}{
		"as long again":   {TimeoutConfig{After: 3 * time.Second}, 0, time.Minute, "[stuck  6s policy: timeout after 3s]"},
		"not yet":         {TimeoutConfig{After: 3 * time.Second}, 0, 6*time.Second - 1, ""},
		"configured":      {TimeoutConfig{StuckAfter: 5 * time.Second}, 0, time.Minute, "[stuck  6s policy: timeout after 1s]"},
		"off":             {TimeoutConfig{StuckAfter: -1}, 0, time.Minute, ""},
		"caller has left": {TimeoutConfig{After: 30 * time.Second, StuckAfter: time.Second}, 2 * time.Second, time.Minute, "[stuck  3s context canceled]"},
		"heeds":           {TimeoutConfig{}, 0, time.Second, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l log
			c.cfg.OnEvent = l.hear
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel > 0 {
				time.AfterFunc(c.cancel, cancel)
			}
			_ = Run(ctx, Chain(must(NewTimeout(c.cfg))), func(context.Context) error { time.Sleep(c.takes); return nil })
			time.Sleep(time.Hour) // after the function has returned, it is not stuck
			want(t, name, l.take(), c.want)
		})
	}
}

// A listener that blocks is not the function.
func TestTimeoutIsNotStuckForItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := Chain(must(NewTimeout(TimeoutConfig{OnEvent: func(e event.Event) { l.hear(e); time.Sleep(time.Hour) }})))
		_ = Run(t.Context(), p, sleep(time.Minute))
		want(t, "events", l.take(), "[timed out  1s policy: timeout after 1s: policy: timeout after 1s]")
	})
}

func TestTimeoutAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := must(NewTimeout(TimeoutConfig{Name: "t", Abandon: true, OnEvent: l.hear}))
		chain := Chain(p)
		deaf := func(context.Context) (int, error) { time.Sleep(time.Minute); return 5, nil }
		var r int
		var err error
		got := took(func() { r, err = Do(t.Context(), chain, deaf) })
		want(t, "time", got, time.Second+10*time.Millisecond) // with a grace of a hundredth
		want(t, "result", r, 0)
		wantErr(t, "error", err, ErrTimeout, context.DeadlineExceeded)
		e, ok := errors.AsType[*TimeoutError](err)
		if !ok || !e.Ignored || e.Err != nil || e.After != time.Second {
			t.Errorf("%#v", err)
		}
		const text = "policy: t: timeout after 1s, ignored by the function"
		want(t, "events", l.take(), "[timed out t 1s "+text+"][abandoned t 1.01s "+text+"]")
		go func() { _, _ = Do(t.Context(), chain, deaf) }()
		want(t, "abandoned", p.Abandoned(), 1)
		time.Sleep(2 * time.Second)
		want(t, "both abandoned", p.Abandoned(), 2)
		time.Sleep(57*time.Second - 10*time.Millisecond) // the first returns
		synctest.Wait()
		want(t, "one is left", p.Abandoned(), 1)
		time.Sleep(time.Minute)
		want(t, "none is left", p.Abandoned(), 0)
		l.take()
	})
}

func TestTimeoutGivesGraceToWhoHeeds(t *testing.T) {
	for name, c := range map[string]struct {
		grace, takes, want time.Duration
		ignored            bool
	}{
		"at once":         {0, 0, time.Second, false},
		"in grace":        {0, 9 * time.Millisecond, 1009 * time.Millisecond, false},
		"after it":        {0, 11 * time.Millisecond, 1010 * time.Millisecond, true},
		"configured":      {time.Second, 900 * time.Millisecond, 1900 * time.Millisecond, false},
		"none":            {-1, time.Millisecond, time.Second, true},
		"configured, too": {time.Second, 2 * time.Second, 2 * time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := Chain(must(NewTimeout(TimeoutConfig{Abandon: true, Grace: c.grace})))
			got := took(func() {
				r, err := Do(t.Context(), p, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					time.Sleep(c.takes)
					return 7, ctx.Err()
				})
				e, _ := errors.AsType[*TimeoutError](err)
				want(t, name, e.Ignored, c.ignored)
				want(t, name, r == 7, !c.ignored) // the value of a function that failed
			})
			want(t, name, got, c.want)
			time.Sleep(time.Hour)
		})
	}
}

func TestTimeoutAbandonsForTheCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := must(NewTimeout(TimeoutConfig{Abandon: true, After: 10 * time.Second, OnEvent: l.hear}))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		got := took(func() {
			err := Run(ctx, Chain(p), func(context.Context) error { time.Sleep(time.Minute); return nil })
			wantErr(t, "error", err, context.Canceled, errBoom)
			if errors.Is(err, ErrTimeout) || refused(err) {
				t.Error(err)
			}
		})
		want(t, "time", got, 1100*time.Millisecond)
		want(t, "events", l.take(), "[abandoned  1.1s policy: call abandoned: boom]")
		want(t, "abandoned", p.Abandoned(), 1)
		err := Run(ctx, Chain(p), func(context.Context) error { t.Error("called"); return nil })
		wantErr(t, "again", err, context.Canceled, errBoom)
		want(t, "refused", refused(err), true)
		time.Sleep(time.Hour)
	})
}

func TestTimeoutBringsPanicAndGoexitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := must(NewTimeout(TimeoutConfig{Abandon: true, OnEvent: l.hear}))
		h := see(func() error { _, err := Do(t.Context(), Chain(p), panics); return err })
		e, ok := h.panics.(*PanicError)
		if !ok || e.Value != errBoom || len(e.Stack) == 0 || !errors.Is(e, errBoom) {
			t.Fatalf("%+v", h)
		}
		h = see(func() error { _, err := Do(t.Context(), Chain(p), goexit); return err })
		if h.err != ErrGoexit {
			t.Errorf("%+v", h)
		}
		_ = Run(t.Context(), Chain(p), func(context.Context) error { time.Sleep(time.Minute); panic(errBoom) })
		l.take()
		time.Sleep(time.Hour) // the late panic is nobody's
		want(t, "events", l.take(), "[abandoned  1m0s policy: function panicked: boom]")
		_ = Run(t.Context(), Chain(p), func(context.Context) error { time.Sleep(time.Minute); runtime.Goexit(); return nil })
		want(t, "abandoned", p.Abandoned(), 1)
		time.Sleep(time.Hour)
		want(t, "abandoned", p.Abandoned(), 0)
	})
}

func TestTimeoutLeavesNoGoroutineAndNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble fails if one is left
		var l log
		p := Chain(must(NewTimeout(TimeoutConfig{OnEvent: l.hear})), must(NewTimeout(TimeoutConfig{Abandon: true})))
		ctx := t.Context()
		for _, fn := range []func(context.Context) (int, error){five, fails, panics, goexit} {
			see(func() error { _, err := Do(ctx, p, fn); return err })
		}
		want(t, "time", took(func() { synctest.Wait() }), 0)
	})
}

// As the comment of Timeout says.
func TestTimeoutAllocations(t *testing.T) {
	waits := func(ctx context.Context) (int, error) {
		select {
		case <-ctx.Done():
		default:
		}
		return 5, ctx.Err()
	}
	for _, c := range []struct {
		cfg  TimeoutConfig
		fn   func(context.Context) (int, error)
		want float64
	}{
		{TimeoutConfig{}, five, 1},
		{TimeoutConfig{}, waits, 6},
		{TimeoutConfig{OnEvent: new(log).hear, StuckAfter: -1}, five, 1},
		{TimeoutConfig{OnEvent: new(log).hear}, waits, 13},
		{TimeoutConfig{OnEvent: new(log).hear, Abandon: true}, waits, 13},
	} {
		p := Chain(must(NewTimeout(c.cfg)))
		allocs(t, p.String(), c.want, func() { _, _ = Do(t.Context(), p, c.fn) })
	}
	early, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	p := Chain(must(NewTimeout(TimeoutConfig{After: 2 * time.Hour})))
	allocs(t, "a deadline before", 0, func() { _, _ = Do(early, p, waits) })
}

// A function is given the caller's context where that ends before the time is over,
// and no later.
func TestTimeoutThatCannotComeIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, c := range map[string]struct {
			deadline time.Duration // of the caller
			cfg      TimeoutConfig
			same     bool
			timeout  bool
		}{
			"before":          {deadline: time.Second - 1, same: true},
			"at once":         {deadline: time.Second}, // either may be first
			"after":           {deadline: time.Second + 1, timeout: true},
			"after, by call":  {deadline: time.Second - 1, cfg: TimeoutConfig{AfterFor: func(context.Context) time.Duration { return time.Millisecond }}, timeout: true},
			"before, watched": {deadline: time.Second - 1, cfg: TimeoutConfig{OnEvent: new(log).hear}},
			"before, not":     {deadline: time.Second - 1, cfg: TimeoutConfig{OnEvent: new(log).hear, StuckAfter: -1}, same: true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			p := Chain(must(NewTimeout(c.cfg)))
			_, err := Do(ctx, p, func(inner context.Context) (int, error) {
				if (inner == ctx) != c.same {
					t.Errorf("%s: the caller's context %v, want %v", what, inner == ctx, c.same)
				}
				<-inner.Done()
				return 0, inner.Err()
			})
			if _, ok := errors.AsType[*TimeoutError](err); ok != c.timeout && what != "at once" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want a timeout: %v", what, err, c.timeout)
			}
			cancel()
		}
	})
}

func TestTimeoutConfig(t *testing.T) {
	_, err := NewTimeout(TimeoutConfig{After: -time.Second})
	want(t, "After", err.Error(), "policy: invalid: TimeoutConfig.After is -1s, want 0 or more")
	want(t, "String", must(NewTimeout(TimeoutConfig{Name: "t", AfterFor: func(context.Context) time.Duration { return 0 }, Abandon: true})).String(),
		"timeout t(1s, by call, abandons)")
}
