package limiter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

// overloadLayer is a layer under test, and a number that falls with what is bad for
// the server and rises with what is good.
type overloadLayer struct {
	policy.Policy
	health func() float64
}

// overloadLayers are the two layers for overload, with the same settings.
func overloadLayers(t *testing.T, name string, onError func(error) error, onEvent func(event.Event)) map[string]overloadLayer {
	t.Helper()
	c, err := NewConcurrencyPolicy(ConcurrencyPolicyConfig{
		Name: name, Concurrency: AdaptiveConcurrencyConfig{Start: 1, Max: 50}, OnError: onError, OnEvent: onEvent,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewThrottlePolicy(ThrottlePolicyConfig{Name: name, Throttle: ThrottleConfig{Most: 1}, OnError: onError, OnEvent: onEvent})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]overloadLayer{
		"concurrency": {c, func() float64 { return c.core.limit - float64(c.core.cut.Unix()) + c.core.round.calls }},
		"throttle":    {h, func() float64 { return h.core.sum.accepts - h.core.sum.requests }},
	}
}

func TestOverloadLayersRefuseAnEndedContext(t *testing.T) {
	cause := errors.New("the user left")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	past, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for name, l := range overloadLayers(t, "", nil, nil) {
		before := l.health()
		for _, ctx := range []context.Context{cancelled, past} {
			err := policy.Run(ctx, policy.Chain(l), func(context.Context) error {
				t.Errorf("%s: called under a context that has ended", name)
				return nil
			})
			if !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)) || !errtree.Refused(err) {
				t.Errorf("%s: %v, which says Refused %v", name, err, errtree.Refused(err))
			}
		}
		if l.health() != before {
			t.Errorf("%s: it counts", name)
		}
	}
}

func TestOverloadLayersCountOnlyWhatTheServerDid(t *testing.T) {
	for what, c := range map[string]struct {
		ends  bool // the caller's context, while the call runs
		panic bool
		err   error
		want  int // sign of the change
	}{
		"success":                          {want: 1},
		"failure":                          {err: errBusy, want: -1},
		"late success":                     {ends: true, want: 1},
		"the caller's deadline":            {ends: true, err: context.DeadlineExceeded},
		"a failure after it":               {ends: true, err: errBusy},
		"refused further in":               {err: &policy.FullError{}},
		"a panic":                          {panic: true},
		"a deadline that is not its own":   {err: context.DeadlineExceeded, want: -1},
		"refused further in, by an ending": {ends: true, err: &policy.FullError{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			for name, l := range overloadLayers(t, "", nil, nil) {
				before := l.health()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				func() {
					defer func() { _ = recover() }()
					_ = policy.Run(ctx, policy.Chain(l), func(context.Context) error {
						time.Sleep(time.Second)
						if c.ends {
							cancel()
						}
						if c.panic {
							panic("broken")
						}
						return c.err
					})
				}()
				cancel()
				d := l.health() - before
				if name == "throttle" && c.want == 1 { // a request, accepted
					d++
				}
				if sign(d) != c.want {
					t.Errorf("%s: %s moved it by %v, want sign %d", name, what, d, c.want)
				}
			}
		})
	}
}

func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func TestOverloadLayersTellOfRefusalsAndMapErrors(t *testing.T) {
	var heard []event.Event
	own := errors.New("own")
	layers := overloadLayers(t, "acme", func(err error) error {
		if errors.Is(err, errBusy) {
			return nil
		}
		return errors.Join(own, err)
	}, func(e event.Event) { heard = append(heard, e); panic("dropped") })
	for name, l := range layers {
		heard = nil
		if s := l.Policy.String(); !strings.Contains(s, " acme(") {
			t.Errorf("%s describes itself as %q", name, s)
		}
		chain := policy.Chain(l)
		run := func(fn func(context.Context) error) error { return policy.Run(t.Context(), chain, fn) }
		if err := run(func(context.Context) error { return errBusy }); err != nil {
			t.Errorf("%s: %v, want what OnError made of it", name, err)
		}
		var err error
		for range 1000 { // a throttle decides by chance
			if name == "throttle" {
				err = run(func(context.Context) error { return errors.New("down") })
			} else {
				err = run(func(context.Context) error { return run(func(context.Context) error { return nil }) })
			}
			if len(heard) > 0 {
				break
			}
		}
		e, ok := errors.AsType[*LimitedError](err)
		if !ok || !errors.Is(err, own) || e.Reason != NoPermits || (e.After > 0) != (name == "throttle") {
			t.Fatalf("%s: %v", name, err)
		}
		if len(heard) != 1 || heard[0].Kind != event.LimitRefused || heard[0].Name != "acme" || heard[0].Err != error(e) || heard[0].Delay != e.After {
			t.Errorf("%s: heard %v of %v", name, heard, e)
		}
	}
}

// A call that is forgotten is gone from the part of the window in which it came, and
// does not leave twice.
func TestThrottleForgetsACall(t *testing.T) {
	h, err := NewThrottle(ThrottleConfig{Window: 64 * time.Second, Most: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	for s := range 10 {
		h.Admit(at(s), 1)
	}
	h.Forget(at(20), at(3))
	h.Forget(at(20), at(3)) // there was one only
	h.Forget(at(20), at(15))
	h.Forget(at(20), at(-5))
	h.Forget(at(20), at(21))
	if h.sum.requests != 9 {
		t.Errorf("%v requests, want 9", h.sum.requests)
	}
	if h.Rejects(at(72)); h.sum.requests != 1 {
		t.Errorf("%v requests are left of the last 64 s, want 1", h.sum.requests)
	}
	h.Admit(at(72), 1)
	if h.Forget(at(72), at(72-64)); h.sum.requests != 2 { // is gone, and the one of now is another
		t.Errorf("%v requests, want 2", h.sum.requests)
	}
	if h.Rejects(at(200)); h.sum != (counted{}) {
		t.Errorf("%v are left of nothing", h.sum)
	}
}
