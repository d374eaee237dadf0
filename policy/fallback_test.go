package policy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFallbackDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := must(NewFallback(FallbackConfig{With: Func(slowly(slow(time.Minute, 6)).withErr)}))
		p := Chain(f)
		for range 10 {
			go func() {
				if r, err := Do(t.Context(), p, fails); r != 6 || err != nil {
					t.Error(r, err)
				}
			}()
		}
		synctest.Wait()
		r, err := Do(t.Context(), p, fails)
		want(t, "value of the function", r, 7)
		wantErr(t, "Max", err, ErrFull, errBoom)
		e, ok := errors.AsType[*FallbackError](err)
		if !ok || e.Max != 10 || e.Err != errBoom {
			t.Errorf("%#v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		go func() { _, _ = Do(t.Context(), p, fails) }()
		synctest.Wait()
		want(t, "in use", f.seats.word.Load(), 1)
		time.Sleep(time.Minute)
	})
}

// withErr makes a function for Func of one without an error.
func (fn slowly) withErr(ctx context.Context, _ error) (int, error) { return fn(ctx) }

type slowly func(context.Context) (int, error)

func TestFallbackIf(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	isFive := OnResult(func(r int) bool { return r == 5 })
	for _, c := range []struct {
		name  string
		cond  Predicate
		ctx   context.Context
		fn    func(context.Context) (int, error)
		r     int
		fails bool
	}{
		{"success", nil, t.Context(), five, 5, false},
		{"error", nil, t.Context(), fails, 6, false},
		{"somebody else's cancellation", nil, t.Context(), func(context.Context) (int, error) { return 0, context.Canceled }, 6, false},
		{"cancelled", nil, ended, fails, 7, true},
		{"out of time", nil, late, fails, 7, true},
		{"its error", OnError(func(err error) bool { return err == errBoom }), t.Context(), fails, 6, false},
		{"its error, cancelled", OnError(func(err error) bool { return err == errBoom }), ended, fails, 6, false},
		{"another error", OnError(func(error) bool { return false }), t.Context(), fails, 7, true},
		{"result", isFive, t.Context(), five, 6, false},
		{"another result", isFive, t.Context(), func(context.Context) (int, error) { return 4, nil }, 4, false},
		{"error for a result", isFive, t.Context(), fails, 7, true},
		{"either", Any(isFive, OnError(func(error) bool { return true })), t.Context(), fails, 6, false},
	} {
		p := Chain(must(NewFallback(FallbackConfig{With: Value(6), If: c.cond})))
		r, err := Do(c.ctx, p, c.fn)
		if r != c.r || (err != nil) != c.fails {
			t.Error(c.name, r, err)
		}
	}
}

func TestFallbackFunc(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "v")
	p := Chain(must(NewFallback(FallbackConfig{With: Func(func(ctx context.Context, err error) (string, error) {
		return err.Error() + ctx.Value(key{}).(string), nil
	})})))
	r, err := Do(ctx, p, func(context.Context) (string, error) { return "", errBoom })
	want(t, "result", r, "boomv")
	wantErr(t, "error", err)
	other := errors.New("other")
	p = Chain(must(NewFallback(FallbackConfig{With: Func(func(context.Context, error) (int, error) { return 8, other })})))
	n, err := Do(ctx, p, fails)
	want(t, "its value", n, 8)
	if err != other {
		t.Error(err)
	}
}

func TestFallbackMapsResultsAndErrors(t *testing.T) {
	always := func(*Call, error) bool { return true }
	for name, c := range map[string]struct {
		cond Predicate
		fn   func(context.Context) (int, error)
		give error // of the mapper
		r    int
	}{
		"error":                 {nil, fails, nil, 70},
		"error, mapped":         {nil, fails, errSecond, 70},
		"success":               {nil, five, nil, 5}, // is not asked about
		"result":                {OnResult(func(r int) bool { return r == 5 }), five, nil, 50},
		"result, made an error": {OnResult(func(r int) bool { return r == 5 }), five, errSecond, 50},
		"another result":        {OnResult(func(r int) bool { return r == 4 }), five, nil, 5},
		"success, of all calls": {always, five, nil, 50},
		"refused, so no result": {always, nil, nil, 0},
		"refused, mapped":       {always, nil, errSecond, 0},
	} {
		asked := false
		layers := []Policy{must(NewFallback(FallbackConfig{If: c.cond, With: Map(func(ctx context.Context, r int, err error) (int, error) {
			if asked = true; ctx == nil || (err == nil) != (r == 5) {
				t.Errorf("%s: asked about %v, %v", name, r, err)
			}
			return 10 * r, c.give
		})}))}
		fn := c.fn
		if fn == nil {
			layers, fn = append(layers, refuse(&fake{true})), five
		}
		p := Chain(layers...)
		for range 2 { // the second call finds nothing of the first
			r, err := Do(t.Context(), p, fn)
			want(t, name, r, c.r)
			if asked {
				wantErr(t, name, err, map[bool][]error{true: {c.give}}[c.give != nil]...)
			} else {
				wantErr(t, name, err)
			}
			want(t, name+", asked", asked, c.r != 5)
		}
	}
}

// Each call is served by the fallback for its type, and left alone by the others.
func TestFallbackByType(t *testing.T) {
	var l log
	p := Chain(
		must(NewFallback(FallbackConfig{Name: "int", With: Value(6), OnEvent: l.hear})),
		must(NewFallback(FallbackConfig{Name: "string", With: Func(func(context.Context, error) (string, error) { return "six", nil }), OnEvent: l.hear})),
	)
	n, err := Do(t.Context(), p, fails)
	want(t, "int", n, 6)
	wantErr(t, "int", err)
	s, err := Do(t.Context(), p, func(context.Context) (string, error) { return "", errBoom })
	want(t, "string", s, "six")
	wantErr(t, "string", err)
	f, err := Do(t.Context(), p, func(context.Context) (float64, error) { return 1.5, errBoom })
	want(t, "float64", f, 1.5)
	if err != errBoom {
		t.Error(err)
	}
	if got := len(l.events); got != 2 {
		t.Error(l.events)
	}
}

// A call that was made is not refused because its substitute was.
func TestFallbackThatIsRefusedAfterACallThatWasMade(t *testing.T) {
	for name, c := range map[string]struct {
		err        error // of the call
		unwanted   bool
		refused    bool
		substitute error
	}{
		"made":           {errBoom, false, false, errRefused},
		"made, a result": {nil, true, false, errRefused},
		"refused":        {&FullError{}, false, true, errRefused},
		"substituted":    {&FullError{}, false, false, errSecond},
	} {
		cfg := FallbackConfig{With: Func(func(context.Context, error) (int, error) { return 0, c.substitute })}
		if c.unwanted {
			cfg.If = OnResult(func(int) bool { return true })
		}
		_, err := Do(t.Context(), Chain(must(NewFallback(cfg))), func(context.Context) (int, error) { return 1, c.err })
		wantErr(t, name, err, c.substitute)
		want(t, name, refused(err), c.refused)
	}
}

// What it could not have served takes no place, and needs none.
func TestFallbackIsNeverFullForAnotherType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ints := must(NewFallback(FallbackConfig{Name: "ints", Max: 1, With: Func(func(ctx context.Context, err error) (int, error) {
			return 1, sleep(time.Hour)(ctx)
		})}))
		p := Chain(ints)
		go func() { _, _ = Do(t.Context(), p, fails) }()
		synctest.Wait()
		_, err := Do(t.Context(), p, func(context.Context) (string, error) { return "", errBoom })
		want(t, "error", err, errBoom)
		time.Sleep(2 * time.Hour)
	})
}

func TestFallbackGivesItsPlaceBack(t *testing.T) {
	bad := true
	f := must(NewFallback(FallbackConfig{Max: 1, With: Func(func(ctx context.Context, err error) (int, error) {
		if bad {
			return panics(ctx)
		}
		return 6, nil
	})}))
	ends := must(NewFallback(FallbackConfig{Max: 1, With: Func(func(ctx context.Context, err error) (int, error) { return goexit(ctx) })}))
	if h := see(func() error { _, err := Do(t.Context(), Chain(f), fails); return err }); h.panics != errBoom {
		t.Errorf("%+v", h)
	}
	if h := see(func() error { _, err := Do(t.Context(), Chain(ends), fails); return err }); !h.goexit {
		t.Errorf("%+v", h)
	}
	want(t, "in use", f.seats.word.Load()+ends.seats.word.Load(), 0)
	bad = false
	r, err := Do(t.Context(), Chain(f), fails)
	want(t, "result", r, 6)
	wantErr(t, "error", err)
	if h := see(func() error { _, err := Do(t.Context(), Chain(f), panics); return err }); h.panics != errBoom {
		t.Errorf("a panic is no failure: %+v", h)
	}
}

func TestFallbackErrorSaysWhatFailed(t *testing.T) {
	var l log
	full := must(NewFallback(FallbackConfig{Name: "f", Max: 1, OnEvent: l.hear, If: func(*Call, error) bool { return true }, With: Value(6)}))
	full.seats.take()
	for text, fn := range map[string]func(context.Context) (int, error){
		"policy: f: no fallback (1 at once): boom":            fails,
		"policy: f: no fallback (1 at once): unwanted result": five,
	} {
		_, err := Do(t.Context(), Chain(full), fn)
		want(t, "error", err.Error(), text)
		want(t, "refused", refused(err), false)
	}
	for _, yes := range []bool{true, false} {
		_, err := Do(t.Context(), Chain(full, refuse(&fake{yes})), five)
		want(t, "refused", refused(err), yes)
	}
	want(t, "events", len(l.events), 4)
}

func TestFallbackEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		p := Chain(must(NewFallback(FallbackConfig{Name: "f", OnEvent: l.hear, With: Value(6), If: func(c *Call, err error) bool { return true }})))
		_, _ = Do(t.Context(), p, fails)
		want(t, "error", l.take(), "[fell back f boom]")
		_, _ = Do(t.Context(), p, five)
		want(t, "result", l.take(), "[fell back f]")
		p = Chain(must(NewFallback(FallbackConfig{OnEvent: l.hear, With: Func(func(context.Context, error) (int, error) { return 0, errSecond })})))
		_, _ = Do(t.Context(), p, fails)
		want(t, "failed", l.take(), "[fallback failed  second]")
		_, _ = Do(t.Context(), p, five)
		_, _ = Do(t.Context(), p, func(context.Context) (string, error) { return "", errBoom }) // another type
		want(t, "not asked", l.take(), "")
	})
}

func TestFallbackAllocations(t *testing.T) {
	p := Chain(must(NewFallback(FallbackConfig{With: Value(6), OnEvent: new(log).hear})))
	allocs(t, "success", 0, func() { _, _ = Do(t.Context(), p, five) })
	p = Chain(must(NewFallback(FallbackConfig{With: Value(6)})))
	allocs(t, "value", 0, func() { _, _ = Do(t.Context(), p, fails) })
}

func TestFallbackConfig(t *testing.T) {
	for want, cfg := range map[string]FallbackConfig{
		"policy: invalid: FallbackConfig.With is nil, want Value, Func or Map":    {},
		"policy: invalid: FallbackConfig.Max is 2147483648, want 0 to 2147483647": {With: Value(1), Max: 1 << 31},
	} {
		if _, err := NewFallback(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, err := NewFallback(FallbackConfig{With: Func[int](nil)}); err == nil {
		t.Error("a nil Func")
	}
	if _, err := NewFallback(FallbackConfig{With: Map[int](nil)}); err == nil {
		t.Error("a nil Map")
	}
	f := must(NewFallback(FallbackConfig{Name: "f", With: Value(6), Max: -1}))
	want(t, "String", f.String(), "fallback f(any number at once)")
	f.seats.max.Store(0)
	r, _ := Do(t.Context(), Chain(f), fails)
	want(t, "without a limit", r, 6)
}
