package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

func chain(t testing.TB, cfg Config) *policy.Pipeline {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Chain(r)
}

func TestPolicyAndDoWithRepeatAsDoDoes(t *testing.T) {
	below3 := policy.OnResult(func(n int) bool { return n < 3 })
	none, err := policy.NewBudget(policy.BudgetConfig{Ratio: -1, Min: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		fail int
		err  error
		at   []time.Duration
	}{
		{"success", Config{}, 0, errBoom, []time.Duration{0}},
		{"after two", Config{}, 2, errBoom, []time.Duration{0, 500 * ms, 1500 * ms}},
		{"given up", Config{Attempts: 2}, 9, errBoom, []time.Duration{0, 500 * ms}},
		{"permanent", Config{}, 9, Permanent(errBoom), []time.Duration{0}},
		{"hint", Config{Attempts: 2}, 9, After(time.Hour, errBoom), []time.Duration{0, time.Hour}},
		{"time", Config{Attempts: -1, MaxElapsed: time.Second, Backoff: backoff.Constant(400 * ms)}, 9, errBoom, []time.Duration{0, 400 * ms, 800 * ms}},
		{"result", Config{RetryOnResult: below3}, 0, errBoom, []time.Duration{0, 500 * ms, 1500 * ms}},
		{"no budget", Config{Budget: none}, 2, errBoom, []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			one, two, three := newScript(tt.fail, tt.err), newScript(tt.fail, tt.err), newScript(tt.fail, tt.err)
			v, err := Do(t.Context(), tt.cfg, one.run)
			two.start = time.Now()
			w, again := policy.Do(t.Context(), chain(t, tt.cfg), two.run)
			one.ran(t, tt.at...)
			two.ran(t, tt.at...)
			if v != w || (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
				t.Errorf("%s: Do gives %v, %v; the policy %v, %v", tt.name, v, err, w, again)
			}
			r, _ := New(tt.cfg)
			three.start = time.Now()
			w, again = DoWith(t.Context(), r, three.run)
			three.ran(t, tt.at...)
			if v != w || (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
				t.Errorf("%s: Do gives %v, %v; DoWith %v, %v", tt.name, v, err, w, again)
			}
		})
	}
}

func TestResultsAreRepeatedAndTheLastIsReturned(t *testing.T) {
	negative := policy.OnResult(func(n int) bool { return n < 0 })
	for _, tt := range []struct {
		name string
		cfg  Config
		good int // which attempt has a good result
		want int
		err  error
	}{
		{"second", Config{RetryOnResult: negative}, 2, 2, nil},
		{"never", Config{RetryOnResult: negative}, 9, -3, nil},
		{"never, an error", Config{RetryOnResult: negative, FailOnResult: true}, 9, -3, ErrResult},
		{"of another type", Config{RetryOnResult: policy.OnResult(func(string) bool { return true })}, 9, -1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			fn := func(context.Context) (int, error) {
				if n++; n == tt.good {
					return n, nil
				}
				return -n, nil
			}
			v, err := policy.Do(t.Context(), chain(t, tt.cfg), fn)
			if v != tt.want || !errors.Is(err, tt.err) || tt.err != nil && !errors.Is(err, ErrExhausted) {
				t.Errorf("%s: %v, %v", tt.name, v, err)
			}
			n = 0
			if w, also := Do(t.Context(), tt.cfg, fn); w != v || !errors.Is(also, tt.err) {
				t.Errorf("%s: Do gives %v, %v", tt.name, w, also)
			}
		})
	}
}

func TestEventsTellWhatHappens(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail int
		err  error
		want []event.Kind
	}{
		{"success at once", 0, errBoom, nil},
		{"success after one repetition", 1, errBoom, []event.Kind{event.Retry, event.Recovered}},
		{"success after all", 2, errBoom, []event.Kind{event.Retry, event.Retry, event.Recovered}},
		{"given up", 9, errBoom, []event.Kind{event.Retry, event.Retry, event.GaveUp}},
		{"not repeated", 9, Permanent(errBoom), []event.Kind{event.Ignored}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var heard []event.Kind
			cfg := Config{Name: "x", OnEvent: func(e event.Event) {
				if heard = append(heard, e.Kind); e.Name != "x" || e.Time.IsZero() {
					t.Errorf("%+v", e)
				}
				panic("a listener's")
			}}
			_, _ = policy.Do(t.Context(), chain(t, cfg), newScript(tt.fail, tt.err).run)
			if !slices.Equal(heard, tt.want) {
				t.Errorf("%s: heard %v, want %v", tt.name, heard, tt.want)
			}
		})
	}
}

func TestEndOfTheContextBetweenAttemptsIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		end     func(context.Context) (context.Context, context.CancelFunc)
		retries int // told of
	}{
		"deadline, before which there is no time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 700*ms)
		}, 1},
		"cancelled, in the second wait": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(700*ms, cancel)
			return ctx, cancel
		}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := tt.end(t.Context())
			defer cancel()
			var heard []event.Event
			_, err := Do(ctx, Config{OnEvent: func(e event.Event) { heard = append(heard, e) }}, newScript(9, errBoom).run)
			retries := slices.IndexFunc(heard, func(e event.Event) bool { return e.Kind != event.Retry })
			if retries != tt.retries || len(heard) != retries+1 {
				t.Fatalf("%s: heard %+v", name, heard)
			}
			if e := heard[retries]; e.Kind != event.GaveUp || e.Attempt != 2 || e.Err.Error() != err.Error() || !errors.Is(e.Err, errBoom) {
				t.Errorf("%s: %v: heard %+v", name, err, e)
			}
		})
	}
}

func TestRetryIsToldWhenItIsScheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		start := time.Now()
		_, _ = Do(t.Context(), Config{OnEvent: func(e event.Event) {
			if e.Kind == event.Retry {
				told = append(told, fmt.Sprintf("%d at %v for %v: %v", e.Attempt, time.Since(start), e.Delay, e.Err))
			}
		}}, newScript(2, errBoom).run)
		if want := []string{"1 at 0s for 500ms: boom", "2 at 500ms for 1s: boom"}; !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
	})
}

func TestLongHintsAreClampedAndThatIsTold(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, time.Minute: time.Minute} {
		for hint, clamped := range map[time.Duration]bool{want: false, want + 1: true, 100 * 365 * 24 * time.Hour: true} {
			synctest.Test(t, func(t *testing.T) {
				var heard []event.Event
				start, err := time.Now(), After(hint, errBoom)
				_, _ = Do(t.Context(), Config{Attempts: 2, MaxRetryAfter: limit, OnEvent: func(e event.Event) {
					if e.Kind == event.Clamped {
						heard = append(heard, e)
					}
				}}, func(context.Context) (int, error) { return 0, err })
				if got := time.Since(start); got != want {
					t.Errorf("%v of %v: waited %v", hint, limit, got)
				}
				if len(heard) > 0 != clamped || clamped && (len(heard) != 1 || heard[0].Delay != want || heard[0].Err != err || heard[0].Source != "RetryAfter") {
					t.Errorf("%v of %v: heard %+v", hint, limit, heard)
				}
			})
		}
	}
}

// punctual is a layer that compares the time it is told with the clock.
type punctual struct{ t *testing.T }

func (p punctual) Layer() policy.Layer { return policy.RetryLayer }
func (p punctual) String() string      { return "punctual" }
func (p punctual) Wrap(next policy.Handler) policy.Handler {
	check := func(c *policy.Call) {
		if late := time.Since(c.Now()); late != 0 {
			p.t.Errorf("told a time that is %v old", late)
		}
	}
	return func(c *policy.Call) error {
		check(c)
		defer check(c)
		return next(c)
	}
}

func TestRepetitionsSayThatTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		refuses := &layer{err: errBoom} // before the function, which takes time of itself
		_, _ = policy.Do(t.Context(), policy.Chain(punctual{t}, r, punctual{t}, refuses), newScript(0, nil).run)
		if refuses.n != 3 {
			t.Errorf("%d attempts", refuses.n)
		}
	})
}

// layer lets nothing through.
type layer struct {
	n   int
	err error
}

func (l *layer) Layer() policy.Layer { return policy.ChaosLayer }
func (l *layer) String() string      { return "layer" }
func (l *layer) Wrap(policy.Handler) policy.Handler {
	return func(*policy.Call) error { l.n++; return l.err }
}

func TestBudgetBoundsWhatIsRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, err := policy.NewBudget(policy.BudgetConfig{Min: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := chain(t, Config{Budget: budget, Backoff: backoff.Constant(time.Minute)})
		first := make(chan error)
		go func() {
			n := 0
			_, err := policy.Do(t.Context(), p, func(context.Context) (int, error) {
				if n++; n == 1 {
					return 0, errBoom
				}
				time.Sleep(time.Minute)
				return 1, nil
			})
			first <- err
		}()
		time.Sleep(90 * sec) // its repetition runs
		start := time.Now()
		_, err = policy.Do(t.Context(), p, newScript(1, errBoom).run)
		e, ok := errors.AsType[*ExhaustedError](err)
		if !ok || e.Reason != OutOfBudget || e.Attempts != 1 || !errors.Is(err, errBoom) || time.Since(start) > 0 {
			t.Errorf("beyond the budget: %v after %v", err, time.Since(start))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if s := budget.State(); s.Calls != 0 || s.Repetitions != 0 {
			t.Errorf("%+v is left", s)
		}
		if _, err := policy.Do(t.Context(), p, newScript(1, errBoom).run); err != nil {
			t.Errorf("within it again: %v", err)
		}
		func() { // a repetition that panics gives back what it took
			defer func() { _ = recover() }()
			n := 0
			_, _ = policy.Do(t.Context(), p, func(context.Context) (int, error) {
				if n++; n == 2 {
					panic("x")
				}
				return 0, errBoom
			})
		}()
		if s := budget.State(); s.Calls != 0 || s.Repetitions != 0 {
			t.Errorf("%+v is left after a panic", s)
		}
	})
}

// TestBudgetIsNotHeldByWhoWaits: a wait adds nothing to the load.
func TestBudgetIsNotHeldByWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := newBudget(t)
		p := chain(t, Config{Budget: budget})
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if _, err := policy.Do(t.Context(), p, newScript(1, After(time.Hour, errBoom)).run); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := budget.State(); s.Calls != 3 || s.Repetitions != 0 {
			t.Errorf("%+v while all wait", s)
		}
		if _, err := policy.Do(t.Context(), p, newScript(1, errBoom).run); err != nil {
			t.Errorf("a hiccup while others wait: %v", err)
		}
		waiting.Wait()
	})
}

// TestBudgetCountsAtTheEndOfTheWait has others take it meanwhile.
func TestBudgetCountsAtTheEndOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := newBudget(t)
		for range 2 {
			budget.Take()
		}
		time.AfterFunc(100*ms, func() { budget.Take() })
		start, s := time.Now(), newScript(9, errBoom)
		_, err := policy.Do(t.Context(), chain(t, Config{Budget: budget}), s.run)
		e, ok := errors.AsType[*ExhaustedError](err)
		if !ok || e.Reason != OutOfBudget || e.Attempts != 1 || time.Since(start) != 500*ms {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if n := budget.State().Repetitions; n != 3 {
			t.Errorf("%d repetitions, want the 3 of others", n)
		}
	})
}

func TestBudgetIsWholeAgainAfterSeveralRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := newBudget(t)
		p := chain(t, Config{Attempts: 6, Budget: budget})
		for range 5 {
			s := newScript(9, errBoom)
			_, _ = policy.Do(t.Context(), p, s.run)
			if left := budget.State(); left.Repetitions != 0 || left.Calls != 0 || len(s.at) != 6 {
				t.Fatalf("%+v is left after %d attempts", left, len(s.at))
			}
		}
	})
}

func TestBudgetIsAShareOfTheCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := chain(t, Config{Attempts: 2, Budget: newBudget(t)})
		var attempts atomic.Int32
		for range 100 {
			go func() {
				_, _ = policy.Do(t.Context(), p, func(context.Context) (int, error) {
					attempts.Add(1)
					time.Sleep(sec)
					return 0, errBoom
				})
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if n := attempts.Load(); n != 120 {
			t.Errorf("%d attempts of 100 calls at once with a budget of 20 %%", n)
		}
	})
}

func TestHooksOfARepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed []int
		var waited []time.Duration
		cfg := Config{
			RetryOnResult: policy.OnResult(func(n int) bool { return n < 3 }),
			BeforeRetry: func(c *policy.Call) {
				n, _ := policy.Result[int](c)
				info, ok := FromContext(c.Context())
				if !ok || info.Attempt != n+1 || info.Last != ErrResult {
					t.Errorf("before attempt %d: %+v, %v", n+1, info, ok)
				}
				closed = append(closed, n)
			},
			Wait: func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil },
		}
		start, n := time.Now(), 0
		v, err := policy.Do(t.Context(), chain(t, cfg), func(context.Context) (int, error) { n++; return n, nil })
		if v != 3 || err != nil || !slices.Equal(closed, []int{1, 2}) || !slices.Equal(waited, []time.Duration{500 * ms, sec}) || time.Since(start) != 0 {
			t.Errorf("%v, %v, closed %v, waited %v in %v", v, err, closed, waited, time.Since(start))
		}
		cfg = Config{Wait: func(context.Context, time.Duration) error { return errors.New("no time") }, OnError: func(err error) error { return errors.Join(errors.New("mapped"), err) }}
		_, err = policy.Do(t.Context(), chain(t, cfg), newScript(9, errBoom).run)
		if !errors.Is(err, errBoom) || err.Error() != "mapped\nretry: wait after attempt 1: no time\nboom" {
			t.Errorf("%v", err)
		}
	})
}

func TestCancellationEndsTheWaitOfThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*ms, cancel)
		s := newScript(9, errBoom)
		_, err := policy.Do(ctx, chain(t, Config{}), s.run)
		s.ran(t, 0)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errBoom) || time.Since(s.start) != 100*ms {
			t.Errorf("%v after %v", err, time.Since(s.start))
		}
	})
}

func TestRepeatGoesOnWhileItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(0, nil)
		v, err := Repeat(t.Context(), backoff.And(backoff.Times(2), backoff.Constant(sec)), s.run)
		s.ran(t, 0, sec, 2*sec)
		if v != 3 || err != nil {
			t.Error(v, err)
		}
		n := 0
		if _, err := Repeat(t.Context(), backoff.Constant(sec), func(context.Context) (int, error) {
			if n++; n == 2 {
				return 0, errBoom
			}
			return n, nil
		}); err != errBoom || n != 2 {
			t.Error(n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*ms)
		defer cancel()
		s = newScript(0, nil)
		if v, err := Repeat(ctx, backoff.Constant(sec), s.run); v != 2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(v, err)
		}
		for _, bad := range []backoff.Schedule{nil, backoff.Times(-1)} {
			if _, err := Repeat(t.Context(), bad, s.run); !errors.Is(err, backoff.ErrInvalid) {
				t.Error(err)
			}
		}
		if _, err := Repeat[int](t.Context(), backoff.None, nil); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
		var none context.Context
		if _, err := Repeat(none, backoff.None, s.run); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	})
}

func TestHealthyCallThroughThePolicyAllocatesNothing(t *testing.T) {
	p, ctx := chain(t, Config{}), t.Context()
	fn := func(context.Context) (int, error) { return 1, nil }
	if n := testing.AllocsPerRun(100, func() { _, _ = policy.Do(ctx, p, fn) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPolicyDescribesItself(t *testing.T) {
	budget, _ := policy.NewBudget(policy.BudgetConfig{})
	for want, cfg := range map[string]Config{
		"retry(3 attempts, exponential 500ms x2 up to 1m0s)":                         {},
		"retry(3 attempts, full jitter(1s))":                                         {Backoff: backoff.FullJitter{Of: backoff.Constant(sec)}},
		"retry(3 attempts, retry.negative)":                                          {Backoff: negative{}},
		"retry x(any number of attempts, 1s, within 1m0s, 20% of calls, at least 3)": {Name: "x", Attempts: -1, Backoff: backoff.Constant(sec), MaxElapsed: time.Minute, Budget: budget},
	} {
		r, err := New(cfg)
		if err != nil || r.String() != want || r.Layer() != policy.RetryLayer {
			t.Errorf("%v, %v, want %s", r, err, want)
		}
	}
	if r, err := New(Config{MaxElapsed: -1}); r != nil || !errors.Is(err, ErrInvalid) {
		t.Error(r, err)
	}
}
