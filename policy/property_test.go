package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
)

// rig is one policy of a kind, and what says that it holds nothing.
type rig struct {
	policy Policy
	idle   func() error
}

// rigs make a policy of each kind with the given hooks.
func rigs(onError func(error) error, onEvent func(event.Event)) map[string]rig {
	is := func(what string, n ...int) error {
		if slices.ContainsFunc(n, func(n int) bool { return n != 0 }) {
			return fmt.Errorf("%s: %v", what, n)
		}
		return nil
	}
	timeout := must(NewTimeout(TimeoutConfig{Name: "p", OnError: onError, OnEvent: onEvent}))
	abandon := must(NewTimeout(TimeoutConfig{Name: "p", OnError: onError, OnEvent: onEvent, Abandon: true}))
	bulkhead := must(NewBulkhead(BulkheadConfig{Name: "p", OnError: onError, OnEvent: onEvent, Max: 2}))
	waits := must(NewBulkhead(BulkheadConfig{Name: "p", OnError: onError, OnEvent: onEvent, Max: 2, MaxWait: 2 * time.Second, MaxQueue: 3}))
	fallback := must(NewFallback(FallbackConfig{Name: "p", OnError: onError, OnEvent: onEvent, Max: 1, With: Func(func(ctx context.Context, err error) (int, error) {
		_ = sleep(100 * time.Millisecond)(ctx)
		return 0, err
	})}))
	budget := must(NewBudget(BudgetConfig{Min: 2}))
	hedge := must(NewHedge(HedgeConfig{Name: "p", OnError: onError, OnEvent: onEvent, Delay: time.Second, Max: 2, Budget: budget}))
	inTurn := must(NewHedge(HedgeConfig{Name: "p", OnError: onError, OnEvent: onEvent, Delay: -1, Budget: budget}))
	delays := must(NewHedge(HedgeConfig{Name: "p", OnError: onError, OnEvent: onEvent, Max: 3, Budget: budget, DelayOf: func(_ context.Context, attempt int) time.Duration {
		return time.Duration(attempt-3) * time.Second // after a failure, at once, after a second
	}}))
	cache := must(NewCache(CacheConfig[string, int]{Name: "p", OnError: onError, OnEvent: onEvent, TTL: time.Second}))
	seats := func(s *seats) error {
		if s.first != nil || s.last != nil {
			return errors.New("somebody is in the queue")
		}
		return is("permits", int(s.word.Load()))
	}
	spent := func() error { s := budget.State(); return is("budget", s.Calls, s.Repetitions) }
	return map[string]rig{
		"timeout":  {timeout, func() error { return is("abandoned", timeout.Abandoned()) }},
		"abandon":  {abandon, func() error { return is("abandoned", abandon.Abandoned()) }},
		"bulkhead": {bulkhead, func() error { return seats(&bulkhead.seats) }},
		"waits":    {waits, func() error { return seats(&waits.seats) }},
		"fallback": {fallback, func() error { return seats(&fallback.seats) }},
		"hedge":    {hedge, spent},
		"in turn":  {inTurn, spent},
		"delays":   {delays, spent},
		"cache":    {cache, func() error { return is("flights", len(cache.flights)) }},
	}
}

// misdeed is one way in which a call goes wrong, or does not.
type misdeed int

const (
	succeeds misdeed = iota
	errs
	panicsNow
	exits
	isSlow
	isDeaf
	panicsLate
	isRefused
	misdeeds
)

var errRefused = &fake{true}

func (m misdeed) run(ctx context.Context, d time.Duration) (int, error) {
	switch m {
	case succeeds:
		return 5, nil
	case errs:
		return 0, errBoom
	case panicsNow:
		panic(errBoom)
	case exits:
		return goexit(ctx)
	case isSlow:
		return 5, sleep(d)(ctx)
	case isDeaf:
		time.Sleep(d)
		return 5, nil
	case panicsLate:
		time.Sleep(d)
		panic(errBoom)
	}
	return 0, errRefused
}

// misdeedKey finds the misdeed of a call; a layer further in refuses those that are
// to be refused.
type misdeedKey struct{}

// From any state, after any mix of calls that fail, panic, exit, hang, are
// cancelled, and are refused further in, and through any layers: each call ends,
// the next healthy one passes, and no layer holds anything.
func TestEveryLayerGivesBack(t *testing.T) {
	for seed := range uint64(effort.Times(15)) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			all := rigs(nil, func(event.Event) {
				if r := rand.IntN(50); r == 0 {
					panic("listener")
				}
			})
			var names []string
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			names = names[:1+r.IntN(len(names))]
			var layers []Policy
			for _, name := range names {
				layers = append(layers, all[name].policy)
			}
			inner := around(func(c *Call, next Handler) error {
				if c.Context().Value(misdeedKey{}) == isRefused {
					return errRefused
				}
				return next(c)
			})
			p := Chain(append(layers, inner)...)
			what := fmt.Sprintf("seed %d, %s", seed, p)

			var wg sync.WaitGroup
			for range 5 + r.IntN(20) {
				m, d := misdeed(r.IntN(int(misdeeds))), time.Duration(r.IntN(5000))*time.Millisecond
				ctx := context.WithValue(t.Context(), misdeedKey{}, m)
				cancel := func() {}
				switch r.IntN(3) {
				case 0:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
				case 1:
					ctx = WithKey(ctx, fmt.Sprint(r.IntN(3)))
				}
				wg.Go(func() {
					defer cancel()
					see(func() error {
						_, err := Do(ctx, p, func(ctx context.Context) (int, error) { return m.run(ctx, d) })
						return err
					})
				})
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			}
			wg.Wait()
			time.Sleep(time.Hour) // what was abandoned ends, what was stored is old
			synctest.Wait()
			for _, name := range names {
				if err := all[name].idle(); err != nil {
					t.Errorf("%s: %s: %v", what, name, err)
				}
			}
			if n, err := Do(WithKey(t.Context(), "healthy"), p, five); n != 5 || err != nil {
				t.Errorf("%s: a healthy call: %v, %v", what, n, err)
			}
		})
	}
}

// Each layer, alone, with one misdeed: the same, and the outcome reaches the caller
// in the way that it would without the layer, or as is said of the layer.
func TestEveryLayerPassesOutcomesOn(t *testing.T) {
	for name := range rigs(nil, nil) {
		for m := range misdeeds {
			synctest.Test(t, func(t *testing.T) {
				g := rigs(nil, nil)[name]
				h := see(func() error {
					_, err := Do(WithKey(t.Context(), "k"), Chain(g.policy), func(ctx context.Context) (int, error) { return m.run(ctx, time.Millisecond) })
					return err
				})
				forks := name == "hedge" || name == "delays" || name == "abandon"
				ok := false
				switch m {
				case succeeds, isSlow, isDeaf:
					ok = h == how{}
				case errs:
					ok = h == how{err: errBoom}
				case isRefused:
					ok = h == how{err: errRefused}
				case panicsNow, panicsLate:
					if e, is := h.panics.(*PanicError); is {
						ok = forks && e.Value == errBoom
					} else {
						ok = !forks && h.panics == errBoom
					}
				case exits:
					ok = forks && h.err == ErrGoexit || !forks && h.goexit
				}
				if !ok {
					t.Errorf("%s, %d: %+v", name, m, h)
				}
				synctest.Wait()
				if err := g.idle(); err != nil {
					t.Error(name, err)
				}
			})
		}
	}
}

func TestOnErrorMapsWhateverLeavesALayer(t *testing.T) {
	mapped := errors.New("mapped")
	for name := range rigs(nil, nil) {
		for _, c := range []struct {
			onError func(error) error
			fn      func(context.Context) (int, error)
			want    how
		}{
			{func(error) error { return mapped }, fails, how{err: mapped}},
			{func(err error) error { return err }, fails, how{err: errBoom}},
			{func(error) error { return nil }, fails, how{}},
			{func(error) error { panic(errSecond) }, fails, how{panics: errSecond}},
			{func(error) error { t.Error("called"); return nil }, five, how{}},
		} {
			synctest.Test(t, func(t *testing.T) {
				g := rigs(c.onError, nil)[name]
				want(t, name, see(func() error {
					_, err := Do(WithKey(t.Context(), "k"), Chain(g.policy), c.fn)
					return err
				}), c.want)
				if err := g.idle(); err != nil {
					t.Error(name, err)
				}
			})
		}
	}
	b := must(NewBulkhead(BulkheadConfig{Max: 1, OnError: func(error) error { return mapped }}))
	wantErr(t, "room", b.Acquire(t.Context()))
	want(t, "its own", b.Acquire(t.Context()), mapped)
}

// A listener may use what it hears of, block for a while, and panic.
func TestListenersAreCalledUnderNoLock(t *testing.T) {
	for name := range rigs(nil, nil) {
		synctest.Test(t, func(t *testing.T) {
			var g rig
			var p *Pipeline
			depth, heard := 0, 0
			var mu sync.Mutex
			g = rigs(nil, func(e event.Event) {
				mu.Lock()
				heard++
				depth++
				inner := depth
				mu.Unlock()
				if e.Name != "p" || e.Time.IsZero() || e.Kind == event.None {
					t.Errorf("%s: %+v", name, e)
				}
				if inner < 3 {
					_, _ = Do(WithKey(t.Context(), strings.Repeat("k", inner)), p, five)
					_ = g.policy.String()
					switch x := g.policy.(type) {
					case *Bulkhead:
						_, _ = x.InUse(), x.SetMax(x.Max())
					case *Cache[string, int]:
						x.Invalidate("k")
					case *Timeout:
						_ = x.Abandoned()
					}
				}
				mu.Lock()
				depth--
				mu.Unlock()
				panic("listener")
			})[name]
			p = Chain(g.policy)
			for _, m := range []misdeed{isDeaf, errs, succeeds, succeeds} {
				for range 4 {
					go func() {
						_, err := Do(WithKey(t.Context(), "k"), p, func(ctx context.Context) (int, error) { return m.run(ctx, time.Minute) })
						if errors.Is(err, errSecond) {
							t.Error(err)
						}
					}()
				}
				time.Sleep(time.Hour)
			}
			synctest.Wait()
			if name != "fallback" {
				want(t, name+" was heard", heard > 0, true)
			}
			if err := g.idle(); err != nil {
				t.Error(name, err)
			}
		})
	}
}

// Nor does one that ends the goroutine of its caller make a layer keep anything.
func TestListenersThatExit(t *testing.T) {
	for name := range rigs(nil, nil) {
		synctest.Test(t, func(t *testing.T) {
			g := rigs(nil, func(event.Event) { runtime.Goexit() })[name]
			for m := range misdeeds {
				for range 3 {
					go see(func() error {
						_, err := Do(WithKey(t.Context(), fmt.Sprint("k", m)), Chain(g.policy), func(ctx context.Context) (int, error) { return m.run(ctx, time.Minute) })
						return err
					})
				}
				time.Sleep(time.Hour)
			}
			synctest.Wait()
			if err := g.idle(); err != nil {
				t.Error(name, err)
			}
		})
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(0, 0, int64(0), int64(0), 0.0, false)
	f.Add(-1, 10, int64(-1), int64(1), 0.5, true)
	f.Add(1<<31, 1<<40, int64(1)<<62, int64(-1)<<63, -1.0, true)
	f.Add(0, 0, int64(0), int64(0), math.NaN(), false)
	f.Fuzz(func(t *testing.T, n, k int, a, b int64, q float64, yes bool) {
		d, e := time.Duration(a), time.Duration(b)
		valid := func(err error) bool {
			if err != nil && (!errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "policy: ") || !strings.Contains(err.Error(), "Config.")) {
				t.Errorf("%v", err)
			}
			return err == nil
		}
		try := func(p Policy, err error) {
			if !valid(err) {
				return
			}
			ctx := WithKey(t.Context(), 1)
			if r, err := Do(ctx, Chain(p), five); r != 5 || err != nil && !errors.Is(err, ErrTimeout) {
				t.Errorf("%v: %v, %v", p, r, err)
			}
		}
		try(NewTimeout(TimeoutConfig{After: max(d, -1), StuckAfter: e, Grace: e, Abandon: false}))
		try(NewBulkhead(BulkheadConfig{Max: n, MaxQueue: k, MaxWait: d}))
		try(NewFallback(FallbackConfig{With: Value(1), Max: n}))
		budget, err := NewBudget(BudgetConfig{Ratio: q, Min: n})
		if valid(err) {
			budget.Begin()
			if budget.Take() {
				budget.GiveBack()
			}
			_ = budget.String()
		}
		try(NewHedge(HedgeConfig{Delay: d, Quantile: q, Parallel: yes, Max: k, Budget: budget}))
		if k < 1000 || k > 1<<31 {
			try(NewCache(CacheConfig[int, int]{TTL: d, StaleIfError: e, MaxEntries: k}))
		}
		if x, err := NewCollapse(CollapseConfig[int, int]{Batch: new(batches).run, Window: d % time.Millisecond, MaxBatch: n}); valid(err) {
			if r, err := x.Do(t.Context(), 2); r != 4 || err != nil {
				t.Error(r, err)
			}
		}
		if s, err := NewSaga(SagaConfig{UndoTimeout: d}); valid(err) {
			if err := s.Run(t.Context(), func(context.Context, *Steps) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	})
}
