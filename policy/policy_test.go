package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func BenchmarkDo(b *testing.B) {
	p := Chain(pass("a"), pass("b"), pass("c"), pass("d"), pass("e"))
	ctx := context.Background()
	fn := func(context.Context) (int, error) { return 1, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Do(ctx, p, fn); err != nil {
			b.Fatal(err)
		}
	}
}

func TestHealthyCallAllocatesNothing(t *testing.T) {
	p := Chain(pass("a"), pass("b"))
	allocs(t, "two layers", 0, func() { _, _ = Do(t.Context(), p, five) })
	wrapped := Wrap(p, five)
	allocs(t, "Wrap", 0, func() { _, _ = wrapped(t.Context()) })
	one := Wrap1(p, func(context.Context, string) (int, error) { return 1, nil })
	allocs(t, "Wrap1", 1, func() { _, _ = one(t.Context(), "a") })
	two := Wrap2(p, func(context.Context, string, int) (int, error) { return 1, nil })
	allocs(t, "Wrap2", 1, func() { _, _ = two(t.Context(), "a", 1) })
	allocs(t, "Run", 1, func() { _ = Run(t.Context(), p, func(context.Context) error { return nil }) })
}

func TestLayersRunInTheOrderGiven(t *testing.T) {
	var order []string
	note := func(name string) layer {
		l := around(func(c *Call, next Handler) error {
			order = append(order, name)
			err := next(c)
			order = append(order, "/"+name)
			return err
		})
		l.name = name
		return l
	}
	p := Chain(note("a"), note("b"), note("c"))
	if r, err := Do(t.Context(), p, five); r != 5 || err != nil {
		t.Error(r, err)
	}
	want(t, "order", strings.Join(order, " "), "a b c /c /b /a")
	want(t, "Describe", strings.Join(Describe(p), ","), "a,b,c")
	want(t, "String", p.String(), "a > b > c")
}

func TestStackSortsLayersAndKeepsTheOrderWithin(t *testing.T) {
	at := func(name string, at Layer) Policy { l := pass(name); l.at = at; return l }
	given := []Policy{
		at("chaos", ChaosLayer), at("timeout 1", TimeoutLayer), at("bulkhead", BulkheadLayer), at("limiter", LimiterLayer), at("breaker", BreakerLayer),
		at("timeout 2", TimeoutLayer), at("hedge", HedgeLayer), at("retry", RetryLayer), at("fallback", FallbackLayer), at("cache", CacheLayer),
	}
	p := Stack(given...)
	want(t, "order", p.String(), "cache > fallback > retry > hedge > breaker > limiter > bulkhead > timeout 1 > timeout 2 > chaos")
	want(t, "given", given[0].String(), "chaos") // is left alone
	given[0] = nil
	want(t, "later", len(Describe(p)), 10)
}

func TestOwnPoliciesHaveTheirPlaceInAStack(t *testing.T) {
	p := Stack(
		must(NewTimeout(TimeoutConfig{})), must(NewBulkhead(BulkheadConfig{})), must(NewHedge(HedgeConfig{})),
		must(NewFallback(FallbackConfig{With: Value(1)})), must(NewCache(CacheConfig[int, int]{})),
	)
	want(t, "stack", p.String(), "cache(1m0s) > fallback(10 at once) > hedge(1 more after 2s) > bulkhead(25 at once) > timeout(1s)")
}

func TestNilLayersPanicWhenTheChainIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		make func()
		want string
	}{
		"Chain":              {func() { Chain(pass("a"), nil) }, "policy: nil policy in a chain"},
		"Stack":              {func() { Stack(pass("a"), nil, pass("b")) }, "policy: nil policy in a chain"},
		"nil handler":        {func() { Chain(layer{name: "x", wrap: func(Handler) Handler { return nil }}) }, "policy: x makes a nil handler"},
		"nil within":         {func() { Chain(pass("a"), layer{name: "x", wrap: func(Handler) Handler { return nil }}) }, "policy: x makes a nil handler"},
		"OnError":            {func() { OnError(nil) }, "policy: OnError of a nil function"},
		"OnResult":           {func() { OnResult[int](nil) }, "policy: OnResult of a nil func(int) bool"},
		"Any":                {func() { Any(OnError(func(error) bool { return true }), nil) }, "policy: Any of a nil predicate, the one at 1"},
		"typed nil":          {func() { Chain((*Timeout)(nil)) }, "policy: nil *policy.Timeout in a chain"},
		"typed nil, stacked": {func() { Stack((*Cache[int, int])(nil)) }, "policy: nil *policy.Cache[int,int] in a chain"},
		"typed nil budget":   {func() { Chain(must(NewHedge(HedgeConfig{Budget: nil}))) }, ""}, // no limit
	} {
		h := see(func() error { c.make(); return nil })
		got := ""
		if h.panics != nil {
			got = fmt.Sprint(h.panics)
		}
		want(t, name, got, c.want)
	}
}

func TestNoLayers(t *testing.T) {
	for name, p := range map[string]*Pipeline{"nil": nil, "zero": {}, "empty chain": Chain(), "empty stack": Stack()} {
		if r, err := Do(t.Context(), p, five); r != 5 || err != nil {
			t.Error(name, r, err)
		}
		if len(Describe(p)) != 0 || p.String() != "" {
			t.Error(name, Describe(p), p)
		}
	}
}

func TestNilContextOrFunctionIsAnError(t *testing.T) {
	var none context.Context
	called := Chain(around(func(*Call, Handler) error { t.Error("a layer was reached"); return nil }))
	for _, p := range []*Pipeline{nil, called} {
		_, err := Do(none, p, five)
		wantErr(t, "nil context", err, ErrInvalid)
		_, err = Do[int](t.Context(), p, nil)
		wantErr(t, "nil function", err, ErrInvalid)
		wantErr(t, "Run", Run(t.Context(), p, nil), ErrInvalid)
		_, err = Wrap[int](p, nil)(t.Context())
		wantErr(t, "Wrap", err, ErrInvalid)
		_, err = Wrap1[int, int](p, nil)(t.Context(), 1)
		wantErr(t, "Wrap1", err, ErrInvalid)
		_, err = Wrap2[int, int, int](p, nil)(t.Context(), 1, 2)
		wantErr(t, "Wrap2", err, ErrInvalid)
	}
}

func TestWrapsHandArgumentsOn(t *testing.T) {
	p := Chain(pass("a"))
	one := Wrap1(p, func(_ context.Context, a string) (string, error) { return a + "!", errBoom })
	r, err := one(t.Context(), "x")
	want(t, "Wrap1", r, "x!") // the value of a function that failed
	wantErr(t, "Wrap1", err, errBoom)
	two := Wrap2(p, func(_ context.Context, a string, b int) (string, error) { return fmt.Sprint(a, b), nil })
	r, err = two(t.Context(), "x", 2)
	want(t, "Wrap2", r, "x2")
	wantErr(t, "Wrap2", err)
	wantErr(t, "Run", Run(t.Context(), p, func(context.Context) error { return errBoom }), errBoom)
}

func TestPanicAndGoexitPassThroughAfterDefers(t *testing.T) {
	back := 0
	p := Chain(around(func(c *Call, next Handler) error {
		defer func() { back++ }()
		return c.WithContext(context.WithValue(c.Context(), t, 1), next)
	}), around(func(c *Call, next Handler) error {
		defer func() { back++ }()
		return next(c)
	}))
	if h := see(func() error { _, err := Do(t.Context(), p, panics); return err }); h.panics != errBoom {
		t.Errorf("%+v", h)
	}
	if h := see(func() error { _, err := Do(t.Context(), p, goexit); return err }); !h.goexit {
		t.Errorf("%+v", h)
	}
	want(t, "given back", back, 4)
}

func TestWithContextIsRestored(t *testing.T) {
	type key struct{}
	for name, end := range map[string]func(context.Context) (int, error){"ok": five, "fails": fails, "panics": panics} {
		p := Chain(around(func(c *Call, next Handler) error {
			outer := c.Context()
			defer func() {
				if c.Context() != outer {
					t.Errorf("%s: the context is not restored", name)
				}
				_ = recover()
			}()
			return c.WithContext(context.WithValue(outer, key{}, "inner"), next)
		}))
		var seen any
		_, _ = Do(t.Context(), p, func(ctx context.Context) (int, error) {
			seen = ctx.Value(key{})
			return end(ctx)
		})
		want(t, name, seen, any("inner"))
	}
}

// looks is a context that counts how often it is asked whether it has ended.
type looks struct {
	context.Context
	n *int
}

func (l looks) Err() error { *l.n++; return l.Context.Err() }

func TestErrIsLookedAtOnceUntilLater(t *testing.T) {
	n := 0
	ctx, cancel := context.WithCancel(t.Context())
	look := func(c *Call, more int, what string) {
		t.Helper()
		before := n
		if err := c.Err(); err != c.Context().Err() {
			t.Errorf("%s: %v", what, err)
		}
		if got := n - before - 1; got != more {
			t.Errorf("%s: looked %d times, want %d", what, got, more)
		}
	}
	asks := func(what string, more int) layer {
		return around(func(c *Call, next Handler) error { look(c, more, what); return next(c) })
	}
	p := Chain(asks("first", 1), asks("second", 0),
		around(func(c *Call, next Handler) error { c.Later(); return next(c) }), asks("after Later", 1),
		around(func(c *Call, next Handler) error {
			err := c.WithContext(looks{ctx, &n}, next)
			look(c, 1, "after WithContext")
			look(c, 0, "after WithContext, again")
			look(c.Fork(looks{ctx, &n}), 1, "a fork")
			return err
		}),
		asks("within WithContext", 1), asks("within WithContext, again", 0),
		around(func(c *Call, next Handler) error { err := next(c); look(c, 1, "after the function"); return err }),
	)
	_, _ = Do(looks{context.Background(), &n}, p, five)
	_, _ = Do(looks{context.Background(), &n}, Chain(asks("another call", 1)), five)
	p = Chain(asks("one that is refused", 1), refuse(errBoom))
	for range 3 { // what is seen is not kept for the next call
		_, _ = Do(looks{context.Background(), &n}, p, five)
	}
	cancel()
	p = Chain(around(func(c *Call, next Handler) error {
		look(c, 1, "an ended one")
		look(c, 1, "an ended one, again")
		return next(c)
	}))
	_, _ = Do(looks{ctx, &n}, p, five)
}

func TestNowIsReadOnceUntilLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var first, second, third time.Duration
		p := Chain(around(func(c *Call, next Handler) error {
			time.Sleep(time.Second)
			first = c.Now().Sub(begin)
			time.Sleep(time.Second)
			return next(c)
		}), around(func(c *Call, next Handler) error {
			second = c.Since(begin)
			c.Later()
			third = c.Now().Sub(begin)
			return next(c)
		}))
		for range 2 { // a reading is not kept for the next call
			_, _ = Do(t.Context(), p, five)
			if first != time.Since(begin)-time.Second || second != first || third != time.Since(begin) {
				t.Error(first, second, third)
			}
		}
	})
}

// punctual is a layer that compares the time it is told with the clock.
func punctual(t *testing.T, where string) layer {
	return around(func(c *Call, next Handler) error {
		check := func(way string) {
			if late := time.Since(c.Now()); late != 0 {
				t.Errorf("%s, on the way %s: told a time that is %v old", where, way, late)
			}
		}
		check("in")
		err := next(c)
		check("out")
		return err
	})
}

func TestLayersSayThatTimeHasPassed(t *testing.T) {
	s := time.Second
	type make struct {
		policy Policy
		before func(do func(context.Context)) // makes the call that follows wait
	}
	for name, c := range map[string]struct {
		make func() make
		fn   func(context.Context) (int, error)
	}{
		"function": {func() make { return make{pass(""), nil} }, slow(s, 1)},
		"bulkhead that waits": {func() make {
			b := must(NewBulkhead(BulkheadConfig{Max: 1, MaxWait: -1}))
			_ = b.Acquire(t.Context())
			return make{b, func(func(context.Context)) { time.AfterFunc(s, b.Release) }}
		}, five},
		"cache that shares a result": {func() make {
			return make{must(NewCache(CacheConfig[string, int]{})), func(do func(context.Context)) { go do(context.Background()) }}
		}, slow(s, 1)},
		"cache that makes a call after all": {func() make {
			return make{must(NewCache(CacheConfig[string, int]{})), func(do func(context.Context)) {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), s)
					defer cancel()
					do(ctx)
				}()
			}}
		}, slow(s+1, 1)},
		"fallback": {func() make {
			return make{must(NewFallback(FallbackConfig{With: Func(func(ctx context.Context, _ error) (int, error) { return 1, sleep(s)(ctx) })})), nil}
		}, fails},
		"hedge":           {func() make { return make{must(NewHedge(HedgeConfig{Delay: s})), nil} }, slow(3*s, 1)},
		"hedge in turn":   {func() make { return make{must(NewHedge(HedgeConfig{Delay: -1})), nil} }, bad(s, 1, errFirst)},
		"timeout":         {func() make { return make{must(NewTimeout(TimeoutConfig{After: s})), nil} }, deaf(3*s, 1)},
		"timeout, leaves": {func() make { return make{must(NewTimeout(TimeoutConfig{After: s, Abandon: true})), nil} }, deaf(3*s, 1)},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := c.make()
			p := Chain(punctual(t, name+": outside"), m.policy, punctual(t, name+": inside"))
			do := func(ctx context.Context) { _, _ = Do(WithKey(ctx, "k"), p, c.fn) }
			if m.before != nil {
				m.before(do)
				synctest.Wait()
			}
			do(t.Context())
			time.Sleep(time.Hour)
		})
	}
}

func TestConfigurationErrorsMatchErrInvalid(t *testing.T) {
	for name, err := range map[string]error{
		"timeout":  second(NewTimeout(TimeoutConfig{After: -1})),
		"bulkhead": second(NewBulkhead(BulkheadConfig{Max: -1})),
		"fallback": second(NewFallback(FallbackConfig{})),
		"hedge":    second(NewHedge(HedgeConfig{Max: -1})),
		"cache":    second(NewCache(CacheConfig[int, int]{TTL: -1})),
		"collapse": second(NewCollapse(CollapseConfig[int, int]{})),
		"saga":     second(NewSaga(SagaConfig{UndoTimeout: -1})),
		"budget":   second(NewBudget(BudgetConfig{Ratio: 101})),
		"SetMax":   must(NewBulkhead(BulkheadConfig{})).SetMax(0),
	} {
		wantErr(t, name, err, ErrInvalid)
		want(t, name+": permanent", permanent(err), true)
	}
}

func second[T any](_ T, err error) error { return err }

func TestResultsAreOfTheCallsType(t *testing.T) {
	var isInt, isString, set bool
	p := Chain(around(func(c *Call, next Handler) error {
		err := next(c)
		_, isInt = Result[int](c)
		_, isString = Result[string](c)
		set = SetResult(c, 6)
		return err
	}))
	r, _ := Do(t.Context(), p, five)
	if r != 6 || !isInt || isString || !set {
		t.Error(r, isInt, isString, set)
	}
	s, _ := Do(t.Context(), p, func(context.Context) (string, error) { return "five", nil })
	if s != "five" || isInt || !isString || set {
		t.Error(s, isInt, isString, set)
	}
}

func TestAnEarlierAttemptLeavesNoResult(t *testing.T) {
	p := Chain(around(func(c *Call, next Handler) error {
		_ = next(c)
		defer func() { _ = recover() }()
		return next(c)
	}))
	n := 0
	r, err := Do(t.Context(), p, func(context.Context) (int, error) {
		if n++; n == 2 {
			panic("second")
		}
		return 5, nil
	})
	if r != 0 || err != nil {
		t.Error(r, err)
	}
}

func TestForkHasAResultOfItsOwn(t *testing.T) {
	type key struct{}
	p := Chain(around(func(c *Call, next Handler) error {
		fork := c.Fork(context.WithValue(c.Context(), key{}, "fork"))
		done := make(chan error)
		go func() { done <- next(fork) }()
		err := next(c)
		wantErr(t, "fork", <-done)
		mine, _ := Result[string](c)
		others, _ := Result[string](fork)
		want(t, "results", mine+" "+others, "none fork")
		c.Adopt(fork)
		return err
	}), pass("inner"))
	r, err := Do(t.Context(), p, func(ctx context.Context) (string, error) {
		if v, ok := ctx.Value(key{}).(string); ok {
			return v, nil
		}
		return "none", nil
	})
	want(t, "result", r, "fork")
	wantErr(t, "call", err)
}

func TestPredicates(t *testing.T) {
	isBoom := OnError(func(err error) bool { return errors.Is(err, errBoom) })
	isFive := OnResult(func(r int) bool { return r == 5 })
	for _, c := range []struct {
		name string
		pred Predicate
		fn   func(context.Context) (int, error)
		want bool
	}{
		{"error", isBoom, fails, true},
		{"other error", isBoom, func(context.Context) (int, error) { return 0, context.Canceled }, false},
		{"no error", OnError(func(error) bool { return true }), five, false},
		{"result", isFive, five, true},
		{"other result", isFive, func(context.Context) (int, error) { return 6, nil }, false},
		{"result of a failed call", OnResult(func(int) bool { return true }), fails, false},
		{"result of another type", OnResult(func(string) bool { return true }), five, false},
		{"any, first", Any(isBoom, isFive), fails, true},
		{"any, last", Any(isBoom, isFive), five, true},
		{"any, none", Any(isBoom, isFive), slow(0, 1), false},
		{"any of none", Any(), fails, false},
	} {
		got := !c.want
		p := Chain(around(func(c2 *Call, next Handler) error {
			err := next(c2)
			got = c.pred(c2, err)
			return err
		}))
		_, _ = Do(t.Context(), p, c.fn)
		want(t, c.name, got, c.want)
	}
	p := Chain(around(func(c *Call, next Handler) error { err := next(c); isFive(c, err); return err }))
	allocs(t, "OnResult", 0, func() { _, _ = Do(t.Context(), p, five) })
}

// Whatever happens to the calls before it, a call finds nothing of theirs.
func TestPooledCallsForgetEverything(t *testing.T) {
	type key struct{}
	clean := true
	p := Chain(around(func(c *Call, next Handler) error {
		s, _ := Result[[]string](c)
		if s != nil || c.now != 0 || c.budget != nil || c.Context() == nil {
			clean = false
		}
		_ = c.Now()
		return next(c)
	}))
	for _, fn := range []func(context.Context) ([]string, error){
		func(context.Context) ([]string, error) { return []string{"secret"}, nil },
		func(context.Context) ([]string, error) { return []string{"secret"}, errBoom },
		func(context.Context) ([]string, error) { panic("secret") },
		func(ctx context.Context) ([]string, error) { _, err := goexit(ctx); return []string{"secret"}, err },
	} {
		for range 100 {
			see(func() error { _, err := Do(context.WithValue(t.Context(), key{}, 1), p, fn); return err })
			if c, ok := p.calls.Get().(*typed[[]string]); ok {
				if c.ctx != nil || c.fn != nil || c.val != nil || c.now != 0 || c.op != operation(c) {
					t.Fatalf("the pool has %+v", c)
				}
				p.calls.Put(c)
			}
			see(func() error { _, err := Do(t.Context(), p, slow(0, []string(nil))); return err })
		}
	}
	want(t, "clean", clean, true)
}

// A call in a panic may still be used, by a fork for example, and is not pooled.
func TestAPanickedCallIsNotUsedAgain(t *testing.T) {
	var kept []*Call
	p := Chain(around(func(c *Call, next Handler) error {
		if slices.Contains(kept, c) {
			t.Error("a call that panicked is used again")
		}
		defer func() {
			if v := recover(); v != nil {
				kept = append(kept, c)
				panic(v)
			}
		}()
		return next(c)
	}))
	for range 100 {
		see(func() error { _, err := Do(t.Context(), p, panics); return err })
		_, _ = Do(t.Context(), p, five)
	}
	want(t, "panics", len(kept), 100)
}

// One chain, many goroutines, results of several types, each call its own.
func TestCallsDoNotMix(t *testing.T) {
	p := Chain(pass("a"), around(func(c *Call, next Handler) error {
		if _, ok := Result[int](c); ok && c.Now().UnixNano()%3 == 0 {
			fork := c.Fork(c.Context())
			err := next(fork)
			c.Adopt(fork)
			return err
		}
		return next(c)
	}), must(NewBulkhead(BulkheadConfig{Max: 3, MaxWait: -1})))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := g*1000 + i
				if r, err := Do(t.Context(), p, slow(0, n)); r != n || err != nil {
					t.Error(r, err, n)
				}
				if r, err := Do(t.Context(), p, slow(0, fmt.Sprint(n))); r != fmt.Sprint(n) || err != nil {
					t.Error(r, err, n)
				}
				if i%10 == 0 {
					see(func() error { _, err := Do(t.Context(), p, panics); return err })
				}
			}
		})
	}
	wg.Wait()
}
