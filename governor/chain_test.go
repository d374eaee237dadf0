package governor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/policy"
)

var errDown, errBadCall = errors.New("down"), errors.New("bad call")

// made returns the value of a constructor of the test's own policies.
func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A caller's policies do the same around a governor as around the bare call.
func TestPoliciesAroundAGovernor(t *testing.T) {
	type function = func(context.Context) (int, error)
	for name, through := range map[string]func(g *governor.Plain, fn function) function{
		"without": func(_ *governor.Plain, fn function) function { return fn },
		"with": func(g *governor.Plain, fn function) function {
			return func(ctx context.Context) (int, error) { return governor.Do(ctx, g, "", governor.Func(fn)) }
		},
	} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			var told []event.Kind
			hear := func(e event.Event) { told = append(told, e.Kind) }
			chain := policy.Stack(
				made(policy.NewTimeout(policy.TimeoutConfig{After: time.Second, OnEvent: hear, StuckAfter: -1})),
				made(policy.NewFallback(policy.FallbackConfig{
					If:   policy.OnError(func(err error) bool { return errors.Is(err, errDown) || errors.Is(err, policy.ErrTimeout) }),
					With: policy.Value(-1), OnEvent: hear,
				})),
				made(policy.NewCache(policy.CacheConfig[string, int]{
					TTL: time.Minute, StaleIfError: time.Hour, If: func(n int) bool { return n > 0 }, OnEvent: hear,
				})),
			)
			calls := 0
			answers := func(n int, err error) function {
				return func(context.Context) (int, error) { calls++; return n, err }
			}
			hangs := func(ctx context.Context) (int, error) { calls++; <-ctx.Done(); return 0, context.Cause(ctx) }
			soon := func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(100*time.Millisecond, cancel)
				return ctx
			}
			for _, step := range []struct {
				what  string
				after time.Duration
				key   string
				fn    function
				ctx   func(context.Context) context.Context
				n     int
				err   error
				calls int
				took  time.Duration
				told  []event.Kind
			}{
				{"stored", 0, "a", answers(7, nil), nil, 7, nil, 1, 0, []event.Kind{event.CacheMiss}},
				{"found", time.Second, "a", answers(8, nil), nil, 7, nil, 0, 0, []event.Kind{event.CacheHit}},
				{"replaced", 0, "b", answers(0, errDown), nil, -1, nil, 1, 0, []event.Kind{event.FellBack, event.CacheMiss}},
				{"too slow", 0, "b", hangs, nil, -1, nil, 1, time.Second, []event.Kind{event.TimedOut, event.FellBack, event.CacheMiss}},
				{"old, not replaced", time.Hour, "a", answers(0, errBadCall), nil, 7, nil, 1, 0, []event.Kind{event.CacheStale, event.CacheMiss}},
				{"an error of another kind", 0, "b", answers(3, errBadCall), nil, 3, errBadCall, 1, 0, []event.Kind{event.CacheMiss}},
				{"cancelled", 0, "b", hangs, soon, 0, context.Canceled, 1, 100 * time.Millisecond, []event.Kind{event.CacheMiss}},
				{"stored at last", 0, "b", answers(9, nil), nil, 9, nil, 1, 0, []event.Kind{event.CacheMiss}},
			} {
				time.Sleep(step.after)
				ctx, start := policy.WithKey(t.Context(), step.key), time.Now()
				if step.ctx != nil {
					ctx = step.ctx(ctx)
				}
				calls, told = 0, nil
				n, err := policy.Do(ctx, chain, through(g, step.fn))
				if n != step.n || !errors.Is(err, step.err) || calls != step.calls || time.Since(start) != step.took {
					t.Errorf("%s a governor, %s: %v, %v, after %d calls and %v", name, step.what, n, err, calls, time.Since(start))
				}
				if len(told) != len(step.told) {
					t.Errorf("%s a governor, %s: told %v, want %v", name, step.what, told, step.told)
					continue
				}
				for i, k := range step.told {
					if told[i] != k {
						t.Errorf("%s a governor, %s: told %v, want %v", name, step.what, told, step.told)
					}
				}
			}
			synctest.Wait()
			if s := g.Stats(); s.InFlight != 0 || s.Queued != 0 {
				t.Errorf("%s a governor: %+v is left", name, s)
			}
		})
	}
}

// A refusal is the governor's to wait out, and a wait that cannot end in the chain's
// time is not begun.
func TestPoliciesAroundAGovernorThatWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		fellBack := 0
		chain := policy.Stack(
			made(policy.NewFallback(policy.FallbackConfig{With: policy.Value(-1), OnEvent: func(event.Event) { fellBack++ }})),
			made(policy.NewTimeout(policy.TimeoutConfig{After: time.Minute})),
		)
		for _, c := range []struct {
			asked, waited time.Duration
			n, fellBack   int
		}{{15 * time.Second, 15 * time.Second, 2, 0}, {10 * time.Minute, 0, -1, 1}} {
			fellBack = 0
			s, start := governortest.NewScript(governortest.Limited(c.asked)), time.Now()
			n, err := policy.Do(t.Context(), chain, func(ctx context.Context) (int, error) { return governor.Do(ctx, g, "", s.Call) })
			if n != c.n || err != nil || time.Since(start) != c.waited || fellBack != c.fellBack {
				t.Errorf("a refusal for %v: %v, %v after %v, fell back %d times", c.asked, n, err, time.Since(start), fellBack)
			}
			time.Sleep(time.Hour)
		}
	})
}
