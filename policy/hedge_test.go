package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
)

// script is a function whose attempts take so long and end so; further ones like
// the last.
type script struct {
	steps []func(ctx context.Context) (int, error)
	n     atomic.Int32 // attempts begun
	live  atomic.Int32 // attempts running
	begun []time.Duration
	mu    sync.Mutex
	start time.Time
}

func attempts(steps ...func(ctx context.Context) (int, error)) *script {
	return &script{steps: steps, start: time.Now()}
}

func (s *script) run(ctx context.Context) (int, error) {
	n := int(s.n.Add(1))
	s.live.Add(1)
	defer s.live.Add(-1)
	s.mu.Lock()
	s.begun = append(s.begun, time.Since(s.start))
	s.mu.Unlock()
	return s.steps[min(n, len(s.steps))-1](ctx)
}

func (s *script) times() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.begun)
}

// bad is a function that fails with err after d.
func bad(d time.Duration, r int, err error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if sleep(d)(ctx) != nil {
			return r, ctx.Err()
		}
		return r, err
	}
}

// deaf is one that succeeds after d, whatever becomes of its context.
func deaf(d time.Duration, r int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { time.Sleep(d); return r, nil }
}

var errFirst, errSecond = errors.New("first"), errors.New("second")

func TestHedgeOutcomes(t *testing.T) {
	s := time.Second
	notFive := func(c *Call, err error) bool { r, _ := Result[int](c); return err == nil && r != 5 }
	for name, c := range map[string]struct {
		cfg   HedgeConfig
		steps []func(context.Context) (int, error)
		r     int
		err   error
		took  time.Duration
		begun string
	}{
		"first is good":                {HedgeConfig{}, s1(slow(s, 1)), 1, nil, s, "[0s]"},
		"default delay and Max":        {HedgeConfig{}, s1(slow(time.Hour, 1), slow(30*s, 2)), 2, nil, 32 * s, "[0s 2s]"},
		"second is faster":             {HedgeConfig{Delay: s}, s1(slow(10*s, 1), slow(s, 2)), 2, nil, 2 * s, "[0s 1s]"},
		"first wins after all":         {HedgeConfig{Delay: s}, s1(slow(3*s, 1), slow(10*s, 2)), 1, nil, 3 * s, "[0s 1s]"},
		"failure begins the next":      {HedgeConfig{Delay: 10 * s}, s1(bad(s, 1, errFirst), slow(s, 2)), 2, nil, 2 * s, "[0s 1s]"},
		"delay counts from the last":   {HedgeConfig{Delay: 10 * s, Max: 2}, s1(bad(s, 1, errFirst), slow(time.Hour, 2), slow(s, 3)), 3, nil, 12 * s, "[0s 1s 11s]"},
		"up to Max":                    {HedgeConfig{Delay: s, Max: 3}, s1(slow(time.Hour, 1), slow(time.Hour, 2), slow(time.Hour, 3), slow(s, 4)), 4, nil, 4 * s, "[0s 1s 2s 3s]"},
		"all fail":                     {HedgeConfig{Delay: s}, s1(bad(3*s, 1, errFirst), bad(s, 2, errSecond)), 1, errFirst, 3 * s, "[0s 1s]"},
		"all fail, the last ends late": {HedgeConfig{Delay: s}, s1(bad(2*s, 1, errFirst), bad(9*s, 2, errSecond)), 1, errFirst, 10 * s, "[0s 1s]"},
		"failure, then good":           {HedgeConfig{Delay: s}, s1(bad(2*s, 1, errFirst), slow(9*s, 2)), 2, nil, 10 * s, "[0s 1s]"},
		"good is what Good says":       {HedgeConfig{Delay: s, Good: notFive}, s1(slow(0, 5), slow(s, 6)), 6, nil, s, "[0s 0s]"},
		"nothing is good":              {HedgeConfig{Delay: s, Good: notFive}, s1(slow(0, 5), bad(s, 2, errSecond)), 5, nil, s, "[0s 0s]"},
		"good error": {HedgeConfig{Delay: s, Good: Any(OnResult(func(int) bool { return true }), OnError(func(err error) bool { return err == errFirst }))},
			s1(bad(s/2, 1, errFirst)), 1, errFirst, s / 2, "[0s]"},
		"parallel":                {HedgeConfig{Parallel: true, Max: 2}, s1(slow(3*s, 1), slow(2*s, 2), bad(s, 3, errFirst)), 2, nil, 2 * s, "[0s 0s 0s]"},
		"in turn":                 {HedgeConfig{Delay: -1, Max: 3}, s1(bad(9*s, 1, errFirst), bad(s, 2, errSecond), slow(s, 3)), 3, nil, 11 * s, "[0s 9s 10s]"},
		"in turn, good":           {HedgeConfig{Delay: -1}, s1(slow(time.Hour, 1)), 1, nil, time.Hour, "[0s]"},
		"in turn, none":           {HedgeConfig{Delay: -1}, s1(bad(s, 1, errFirst), bad(s, 2, errSecond)), 1, errFirst, 2 * s, "[0s 1s]"},
		"in turn, nothing good":   {HedgeConfig{Delay: -1, Good: notFive}, s1(slow(s, 5), bad(s, 2, errSecond)), 5, nil, 2 * s, "[0s 1s]"},
		"deaf losers do not hold": {HedgeConfig{Delay: s}, s1(deaf(time.Hour, 1), slow(s, 2)), 2, nil, 2 * s, "[0s 1s]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sc := attempts(c.steps...)
			p := Chain(must(NewHedge(c.cfg)))
			got := took(func() {
				r, err := Do(t.Context(), p, sc.run)
				if r != c.r || err != c.err {
					t.Errorf("%s: got %v, %v, want %v, %v", name, r, err, c.r, c.err)
				}
			})
			want(t, name, got, c.took)
			if c.begun != "" {
				want(t, name, sc.times(), c.begun)
			}
			if !strings.HasPrefix(name, "deaf") {
				synctest.Wait()
				want(t, name+": running", sc.live.Load(), 0) // losers are cancelled
			}
			time.Sleep(2 * time.Hour)
			want(t, name+": attempts", int(sc.n.Load()) <= 1+max(1, c.cfg.Max), true)
		})
	}
}

func s1(steps ...func(context.Context) (int, error)) []func(context.Context) (int, error) {
	return steps
}

func TestHedgeCancelsLosersWithACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		sc := attempts(func(ctx context.Context) (int, error) { <-ctx.Done(); cause = context.Cause(ctx); return 1, nil }, slow(time.Second, 2))
		r, err := Do(t.Context(), Chain(must(NewHedge(HedgeConfig{Parallel: true}))), sc.run)
		synctest.Wait()
		want(t, "result", r, 2) // that of a loser is dropped, even if it is good
		wantErr(t, "error", err)
		if cause != errLost {
			t.Error(cause)
		}
	})
}

// Even when the first is good before another could begin.
func TestHedgeParallelBeginsAllAtOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			sc := attempts(five)
			_, err := Do(t.Context(), Chain(must(NewHedge(HedgeConfig{Parallel: true, Max: 10}))), sc.run)
			wantErr(t, "error", err)
			synctest.Wait()
			want(t, "attempts", sc.n.Load(), 11)
		})
	}
}

// An end of the context while attempts are being begun, here by who hears of the first.
func TestHedgeParallelEndsWhenTheContextDoes(t *testing.T) {
	for name, cfg := range map[string]HedgeConfig{
		"parallel": {Parallel: true, Max: 3},
		"at once":  {DelayOf: func(context.Context, int) time.Duration { return 0 }, Max: 3},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cfg.OnEvent = func(event.Event) { cancel() }
			ended := make(chan error)
			go func() {
				_, err := Do(ctx, Chain(must(NewHedge(cfg))), slow(time.Hour, 5))
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the call does not end")
			}
		})
	}
}

func TestHedgeTellsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []HedgeConfig{{Parallel: true, Max: 2}, {Delay: -1, Max: 2}} {
			var mu sync.Mutex
			sum := 0
			_, _ = Do(t.Context(), Chain(must(NewHedge(cfg))), func(ctx context.Context) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				sum = sum*10 + HedgeAttempt(context.WithoutCancel(ctx))
				return 0, errBoom
			})
			if cfg.Parallel {
				want(t, "digits", sum/100+sum/10%10+sum%10, 6)
			} else {
				want(t, "attempts", sum, 123)
			}
		}
		want(t, "without a hedge", HedgeAttempt(t.Context()), 1)
	})
}

func TestHedgeEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			steps []func(context.Context) (int, error)
			want  error
			r     int
		}{
			"heeds":            {s1(slow(time.Hour, 0)), errBoom, 0},
			"deaf":             {s1(deaf(time.Minute, 1)), errBoom, 0},
			"first has failed": {s1(bad(time.Second, 7, errFirst), deaf(time.Minute, 1)), errFirst, 7},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(5*time.Second, func() { cancel(errBoom) })
			sc := attempts(c.steps...)
			got := took(func() {
				r, err := Do(ctx, Chain(must(NewHedge(HedgeConfig{Max: 5}))), sc.run)
				wantErr(t, name, err, c.want)
				want(t, name+": refused", refused(err), false)
				want(t, name, r, c.r)
			})
			want(t, name, got, 5*time.Second)
			time.Sleep(time.Hour)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h := must(NewHedge(HedgeConfig{}))
		err := Run(ctx, Chain(h), func(context.Context) error { t.Error("called"); return nil })
		wantErr(t, "before", err, context.Canceled)
		want(t, "refused", refused(err), true)
		// In turn, no attempt follows.
		sc := attempts(fails)
		r, err := Do(ctx, Chain(must(NewHedge(HedgeConfig{Delay: -1}))), sc.run)
		want(t, "in turn", r, 7)
		wantErr(t, "in turn", err, errBoom)
		want(t, "in turn", sc.n.Load(), 1)
	})
}

// A good outcome that is there when the context ends counts.
func TestHedgeStopHearsOfWhatHasEnded(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := Do(ctx, Chain(must(NewHedge(HedgeConfig{}))), func(context.Context) (int, error) { cancel(); return 5, nil })
			if r == 5 && err == nil {
				return
			}
			wantErr(t, "left before", err, context.Canceled)
		})
	}
}

func TestHedgePanics(t *testing.T) {
	boom := func(d time.Duration) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { time.Sleep(d); panic(errBoom) }
	}
	exit := func(d time.Duration) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { time.Sleep(d); runtime.Goexit(); return 0, nil }
	}
	s := time.Second
	for name, c := range map[string]struct {
		steps  []func(context.Context) (int, error)
		panics bool
		err    error
		took   time.Duration
		n      int32
		events string
	}{
		"first":               {s1(boom(s)), true, nil, s, 1, ""},
		"first, then good":    {s1(boom(3*s), slow(9*s, 2)), false, nil, 11 * s, 2, "[hedged  #2 2s][attempt ended  #1 11s policy: function panicked: boom]"},
		"first, then bad":     {s1(boom(3*s), bad(9*s, 2, errSecond)), true, nil, 11 * s, 2, "[hedged  #2 2s]"},
		"second, then good":   {s1(slow(9*s, 1), boom(s)), false, nil, 9 * s, 2, "[hedged  #2 2s][attempt ended  #2 3s policy: function panicked: boom]"},
		"second, then bad":    {s1(bad(9*s, 1, errFirst), boom(s)), false, errFirst, 9 * s, 2, "[hedged  #2 2s][attempt ended  #2 3s policy: function panicked: boom]"},
		"both":                {s1(boom(9*s), boom(s)), true, nil, 9 * s, 2, "[hedged  #2 2s][attempt ended  #2 3s policy: function panicked: boom]"},
		"exit of the first":   {s1(exit(s)), false, ErrGoexit, s, 1, ""},
		"exit of the second":  {s1(slow(9*s, 1), exit(s)), false, nil, 9 * s, 2, "[hedged  #2 2s]"},
		"exit, then a panic":  {s1(exit(9*s), boom(s)), false, ErrGoexit, 9 * s, 2, "[hedged  #2 2s][attempt ended  #2 3s policy: function panicked: boom]"},
		"exit of both":        {s1(exit(9*s), exit(s)), false, ErrGoexit, 9 * s, 2, "[hedged  #2 2s]"},
		"panic of a late one": {s1(boom(time.Minute), slow(s, 2)), false, nil, 3 * s, 2, "[hedged  #2 2s][attempt ended  #1 1m0s policy: function panicked: boom]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l log
			sc := attempts(c.steps...)
			p := Chain(must(NewHedge(HedgeConfig{Max: 1, OnEvent: l.hear})))
			var h how
			want(t, name, took(func() { h = see(func() error { _, err := Do(t.Context(), p, sc.run); return err }) }), c.took)
			e, is := h.panics.(*PanicError)
			if is != c.panics || h.err != c.err || h.goexit {
				t.Errorf("%s: %+v", name, h)
			}
			if is && (e.Value != errBoom || !strings.Contains(e.Error(), "hedge_test.go")) {
				t.Errorf("%s: %v", name, e)
			}
			time.Sleep(time.Hour)
			want(t, name, sc.n.Load(), c.n)
			want(t, name, l.take(), c.events)
		})
	}
}

// A panic that is in the channel when the call is decided is told of, too.
func TestHedgeTellsOfPanicsItDidNotHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		h := must(NewHedge(HedgeConfig{OnEvent: l.hear}))
		r := &race{h: h, c: new(Call), begun: time.Now(), ended: make(chan attempt, 2)}
		r.end(attempt{n: 2, ending: ending{crash: caught(errBoom)}})
		r.end(attempt{n: 1})
		r.finish()
		want(t, "events", l.take(), "[attempt ended  #2 policy: function panicked: boom]")
	})
}

// A panic, or Goexit, is followed by no further attempt, though more might begin.
func TestHedgeDoesNotRepeatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []func(context.Context) (int, error){panics, goexit} {
			sc := attempts(slow(time.Minute, 1), end)
			_, err := Do(t.Context(), Chain(must(NewHedge(HedgeConfig{Max: 9}))), sc.run)
			wantErr(t, "error", err)
			want(t, "attempts", sc.n.Load(), 2)
		}
	})
}

func TestHedgeInTurnPanicsAsTheFunctionDoes(t *testing.T) {
	b := must(NewBudget(BudgetConfig{}))
	p := Chain(must(NewHedge(HedgeConfig{Delay: -1, Budget: b})))
	for _, first := range []func(context.Context) (int, error){panics, fails} {
		h := see(func() error { _, err := Do(t.Context(), p, attempts(first, panics).run); return err })
		if h.panics != errBoom {
			t.Errorf("%+v", h)
		}
		h = see(func() error { _, err := Do(t.Context(), p, attempts(first, goexit).run); return err })
		if !h.goexit && h.panics != errBoom {
			t.Errorf("%+v", h)
		}
	}
	want(t, "budget", b.State(), BudgetState{Most: 3})
}

func TestHedgeBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		b := must(NewBudget(BudgetConfig{Min: 2, Ratio: -1}))
		h := must(NewHedge(HedgeConfig{Name: "h", Max: 3, Delay: time.Second, Budget: b, OnEvent: l.hear}))
		sc := attempts(slow(time.Minute, 1), deaf(2*time.Minute, 2))
		r, _ := Do(t.Context(), Chain(h), sc.run)
		want(t, "result", r, 1) // the budget holds nothing back but repetitions
		want(t, "attempts", sc.n.Load(), 3)
		want(t, "events", l.take(), "[hedged h #2 1s][hedged h #3 2s][budget spent h #4]")
		want(t, "losers still run", b.State(), BudgetState{Calls: 0, Repetitions: 2, Most: 2})
		for _, cfg := range []HedgeConfig{{Budget: b}, {Budget: b, Parallel: true}, {Budget: b, Delay: -1}} {
			cfg.OnEvent = l.hear
			sc := attempts(bad(time.Second, 1, errFirst))
			_, err := Do(t.Context(), Chain(must(NewHedge(cfg))), sc.run)
			wantErr(t, "error", err, errFirst)
			want(t, "attempts", sc.n.Load(), 1)
			want(t, "events", l.take(), "[budget spent  #2]")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want(t, "budget", b.State(), BudgetState{Most: 2})
		// And what a listener does takes nothing.
		h = must(NewHedge(HedgeConfig{Parallel: true, Budget: b, OnEvent: func(event.Event) { runtime.Goexit() }}))
		see(func() error { return Run(t.Context(), Chain(h), sleep(time.Second)) })
		h = must(NewHedge(HedgeConfig{Delay: -1, Budget: b, OnEvent: func(event.Event) { runtime.Goexit() }}))
		see(func() error { _, err := Do(t.Context(), Chain(h), fails); return err })
		time.Sleep(time.Hour)
		synctest.Wait()
		want(t, "budget", b.State(), BudgetState{Most: 2})
	})
}

// A hedged call that is refused further in, or whose hedge is, has its own outcome.
func TestHedgeOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(NewBulkhead(BulkheadConfig{Max: 1}))
		p := Chain(must(NewHedge(HedgeConfig{})), b)
		r, err := Do(t.Context(), p, slow(time.Minute, 1))
		want(t, "result", r, 1)
		wantErr(t, "hedge refused", err)
		_ = b.Acquire(t.Context())
		_, err = Do(t.Context(), p, five)
		wantErr(t, "all refused", err, ErrFull)
		want(t, "refused", refused(err), true)
	})
}

// A hedged call is refused when all its attempts were. Else the outcome is that of
// one that was made.
func TestHedgedCallThatWasMadeIsNotRefused(t *testing.T) {
	refuse := func(context.Context) (int, error) { return 0, errRefused }
	refusal := OnError(func(err error) bool { return err == errRefused })
	panicky := func(context.Context) (int, error) { time.Sleep(time.Second); panic(errBoom) }
	for name, c := range map[string]struct {
		cfg     HedgeConfig
		steps   []func(context.Context) (int, error)
		leaves  time.Duration // when the caller's context ends
		r       int
		err     error
		refused bool
	}{
		"in turn":                           {HedgeConfig{Delay: -1, Max: 2}, s1(refuse, bad(0, 2, errSecond), bad(0, 3, errBoom)), 0, 2, errSecond, false},
		"in turn, last":                     {HedgeConfig{Delay: -1, Max: 2}, s1(refuse, refuse, bad(0, 3, errBoom)), 0, 3, errBoom, false},
		"in turn, none":                     {HedgeConfig{Delay: -1, Max: 2}, s1(refuse), 0, 0, errRefused, true},
		"in turn, a refusal is good":        {HedgeConfig{Delay: -1, Good: refusal}, s1(bad(0, 1, errFirst), refuse), 0, 0, errRefused, false},
		"race":                              {HedgeConfig{Max: 2}, s1(refuse, bad(9*time.Second, 2, errSecond), bad(0, 3, errBoom)), 0, 2, errSecond, false},
		"race, last":                        {HedgeConfig{Max: 2}, s1(refuse, refuse, bad(time.Second, 3, errBoom)), 0, 3, errBoom, false},
		"race, none":                        {HedgeConfig{Max: 2}, s1(refuse), 0, 0, errRefused, true},
		"race, first after the second":      {HedgeConfig{}, s1(bad(9*time.Second, 1, errFirst), refuse), 0, 1, errFirst, false},
		"race, a refusal is good":           {HedgeConfig{Good: refusal}, s1(bad(0, 1, errFirst), refuse), 0, 0, errRefused, false},
		"race, a good refusal, others run":  {HedgeConfig{Good: refusal}, s1(slow(time.Hour, 1), refuse), 0, 0, errRefused, false},
		"race, left while the second runs":  {HedgeConfig{}, s1(refuse, deaf(time.Hour, 2)), time.Minute, 0, errRefused, false},
		"race, left when the second failed": {HedgeConfig{Max: 2}, s1(refuse, bad(0, 2, errSecond), deaf(time.Hour, 3)), time.Minute, 0, context.DeadlineExceeded, false},
		"race, the second panics":           {HedgeConfig{}, s1(refuse, panicky), 0, 0, errRefused, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.leaves > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.leaves)
				defer cancel()
			}
			r, err := Do(ctx, Chain(must(NewHedge(c.cfg))), attempts(c.steps...).run)
			wantErr(t, name, err, c.err)
			want(t, name, r, c.r)
			want(t, name+": refused", refused(err), c.refused)
			time.Sleep(2 * time.Hour)
		})
	}
}

func TestHedgeQuantile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		h := must(NewHedge(HedgeConfig{Quantile: 0.9, Delay: time.Minute, OnEvent: l.hear}))
		p := Chain(h)
		delay := func() string {
			_, _ = Do(t.Context(), p, attempts(bad(time.Hour, 1, errFirst), bad(0, 1, errFirst)).run) // fails, and is not learned from
			return l.take()
		}
		want(t, "before", delay(), "[hedged  #2 1m0s]")
		for i := range 15 {
			_, _ = Do(t.Context(), p, slow(time.Duration(i+1)*time.Second, 1))
		}
		want(t, "with 15", delay(), "[hedged  #2 1m0s]")
		_, _ = Do(t.Context(), p, slow(16*time.Second, 1))
		want(t, "with 16", delay(), "[hedged  #2 15s]") // rank 14.4 of 16
		for range 128 {
			_, _ = Do(t.Context(), p, slow(time.Second, 1))
		}
		l.take()
		want(t, "afterwards", delay(), "[hedged  #2 1s]")
		// In turn until known.
		h = must(NewHedge(HedgeConfig{Quantile: 0.5, Delay: -1, OnEvent: l.hear}))
		p = Chain(h)
		for range 16 {
			_, _ = Do(t.Context(), p, slow(5*time.Second, 1))
		}
		want(t, "in turn", l.take(), "")
		want(t, "then", delay(), "[hedged  #2 5s]")
	})
}

func TestRecentMatchesASort(t *testing.T) {
	for _, q := range []float64{0.001, 0.5, 0.9, 0.95, 0.999} {
		r := recent{q: q}
		if _, ok := r.value(); ok {
			t.Error("an estimate of nothing")
		}
		var all []time.Duration
		for i := range 1000 {
			d := time.Duration(i*7919%1000+1) * time.Millisecond
			r.add(d)
			if all = append(all, d); len(all)%16 != 0 {
				continue
			}
			last := all[max(0, len(all)-128):]
			got, ok := r.value()
			below, upTo := 0, 0
			for _, d := range last {
				if d < got {
					below++
				}
				if d <= got {
					upTo++
				}
			}
			if rank := q * float64(len(last)); !ok || float64(upTo) < rank || float64(below) >= math.Ceil(rank) {
				t.Fatalf("q %v of %d: %v has %d below, %d up to it", q, len(last), got, below, upTo)
			}
		}
	}
}

func noDelay(context.Context, int) time.Duration { return 0 }

func TestHedgeDelayOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		delays := map[int]time.Duration{2: 3 * time.Second, 3: 0, 4: -1, 5: time.Second}
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "ours")
		p := Chain(must(NewHedge(HedgeConfig{Max: 4, DelayOf: func(ctx context.Context, attempt int) time.Duration {
			asked = append(asked, attempt)
			want(t, "context", ctx.Value(key{}), "ours")
			return delays[attempt]
		}})))
		sc := attempts(slow(time.Hour, 1), slow(time.Hour, 2), bad(10*time.Second, 3, errFirst), slow(time.Hour, 4), slow(0, 5))
		r, err := Do(ctx, p, sc.run)
		want(t, "result", r, 5)
		wantErr(t, "error", err)
		want(t, "begun", sc.times(), "[0s 3s 3s 13s 14s]") // the fourth after the third had failed
		want(t, "asked", fmt.Sprint(asked), "[2 3 4 5]")

		_, err = Do(t.Context(), Chain(must(NewHedge(HedgeConfig{DelayOf: func(context.Context, int) time.Duration { return -1 }}))), five)
		wantErr(t, "never", err)
		how := see(func() error {
			_, err := Do(t.Context(), Chain(must(NewHedge(HedgeConfig{DelayOf: func(context.Context, int) time.Duration { panic("no") }}))), slow(time.Hour, 1))
			return err
		})
		want(t, "panic", how.panics, any("no"))
	})
}

func TestHedgeAllocations(t *testing.T) {
	inTurn := Chain(must(NewHedge(HedgeConfig{Delay: -1, OnEvent: new(log).hear, Budget: must(NewBudget(BudgetConfig{}))})))
	allocs(t, "in turn", 0, func() { _, _ = Do(t.Context(), inTurn, five) })
	race := Chain(must(NewHedge(HedgeConfig{})))
	allocs(t, "race", 14, func() { _, _ = Do(t.Context(), race, five) })
}

func TestHedgeConfig(t *testing.T) {
	for want, cfg := range map[string]HedgeConfig{
		"policy: invalid: HedgeConfig.Max is -1, want 0 to 10":                                   {Max: -1},
		"policy: invalid: HedgeConfig.Max is 11, want 0 to 10":                                   {Max: 11},
		"policy: invalid: HedgeConfig.Quantile is NaN, want 0, or more than 0 and less than 1":   {Quantile: math.NaN()},
		"policy: invalid: HedgeConfig.Quantile is 1, want 0, or more than 0 and less than 1":     {Quantile: 1},
		"policy: invalid: HedgeConfig.Quantile is -0.5, want 0, or more than 0 and less than 1":  {Quantile: -0.5},
		"policy: invalid: HedgeConfig.Delay is 1s, want 0 with Parallel":                         {Delay: time.Second, Parallel: true},
		"policy: invalid: HedgeConfig.Quantile is 0.5, want 0 with Parallel":                     {Quantile: 0.5, Parallel: true},
		"policy: invalid: HedgeConfig.DelayOf is a function, want nil with Parallel or Quantile": {DelayOf: noDelay, Parallel: true},
	} {
		if _, err := NewHedge(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for want, cfg := range map[string]HedgeConfig{
		"hedge(1 more after 2s)":                           {},
		"hedge h(3 more at once)":                          {Name: "h", Parallel: true, Max: 3},
		"hedge(1 more after the 0.95 quantile)":            {Quantile: 0.95},
		"hedge(1 more after failures)":                     {Delay: -1},
		"hedge(1 more after delays of their own)":          {Delay: -1, DelayOf: noDelay},
		"hedge(1 more after 1s, 20% of calls, at least 3)": {Delay: time.Second, Budget: must(NewBudget(BudgetConfig{}))},
	} {
		if got := must(NewHedge(cfg)).String(); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func BenchmarkHedge(b *testing.B) {
	for name, cfg := range map[string]HedgeConfig{"race": {}, "in turn": {Delay: -1}} {
		b.Run(name, func(b *testing.B) {
			p := Chain(must(NewHedge(cfg)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Do(context.Background(), p, five); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
