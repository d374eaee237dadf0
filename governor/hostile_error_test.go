package governor_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
)

// Errors of which one method panics, as that of a typed nil easily does, or ends the
// goroutine.
type (
	badText       struct{ bad func() }
	badRefused    struct{ bad func() }
	badIs         struct{ bad func() }
	badAs         struct{ bad func() }
	badUnwrap     struct{ bad func() }
	badRetryAfter struct{ bad func() }
	badPermanent  struct{ bad func() }
)

func (e badText) Error() string       { e.bad(); return "" }
func (e badRefused) Error() string    { return "e" }
func (e badIs) Error() string         { return "e" }
func (e badAs) Error() string         { return "e" }
func (e badUnwrap) Error() string     { return "e" }
func (e badRetryAfter) Error() string { return "e" }
func (e badPermanent) Error() string  { return "e" }

func (e badRefused) Refused() bool                { e.bad(); return true }
func (e badIs) Is(error) bool                     { e.bad(); return true }
func (e badAs) As(any) bool                       { e.bad(); return true }
func (e badUnwrap) Unwrap() error                 { e.bad(); return nil }
func (e badRetryAfter) RetryAfter() time.Duration { e.bad(); return 0 }
func (e badPermanent) Permanent() bool            { e.bad(); return true }

// asking is a breaker that asks each error, and counts the permits that are out.
type asking struct{ out atomic.Int64 }

func (b *asking) Ready(time.Time) error                     { return nil }
func (b *asking) Acquire(time.Time) (breaker.Permit, error) { b.out.Add(1); return 0, nil }
func (b *asking) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {
	b.out.Add(-1)
}

func (b *asking) Judge(err error) breaker.Outcome {
	_ = err.Error()
	_ = errors.Is(err, context.Canceled)
	return breaker.Failure
}

// apart calls fn on a goroutine that it may end, and reports what it panicked with.
func apart(fn func()) (panicked any) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { panicked = recover() }()
		fn()
	})
	wg.Wait()
	return panicked
}

func TestErrorsWhoseMethodsPanicOrExitLoseNothing(t *testing.T) {
	ways := map[string]func(g *connected, err error){
		"Do": func(g *connected, err error) {
			apart(func() { _, _ = governor.Do(context.Background(), g, "a", use(0, err)) })
		},
		"Submit": func(g *connected, err error) { <-governor.Submit(context.Background(), g, "a", use(0, err)).Done() },
		"Hold": func(g *connected, err error) {
			var release func(error)
			_, _ = governor.Do(context.Background(), g, "a", func(ctx context.Context, _ *conn) (int, error) {
				release = governor.Hold(ctx)
				return 0, nil
			})
			apart(func() { release(err) })
		},
		"Open": func(g *connected, err error) { <-governor.Submit(context.Background(), g, "refusing", use(0)).Done() },
	}
	layers := map[string]func(c *governor.Config[string, *conn]){
		"nothing": func(*governor.Config[string, *conn]) {},
		"retry":   func(c *governor.Config[string, *conn]) { c.Retry = &retry.Config{Attempts: 2} },
		"breaker": func(c *governor.Config[string, *conn]) {
			c.Breaker, _ = breaker.New(breaker.Config{Consecutive: 1})
		},
		"judge": func(c *governor.Config[string, *conn]) { c.Breaker = new(asking) },
	}
	for how, bad := range map[string]func(){"panic": func() { panic("method") }, "Goexit": runtime.Goexit} {
		for method, err := range map[string]error{
			"Error": badText{bad}, "Refused": badRefused{bad}, "Is": badIs{bad}, "As": badAs{bad}, "Unwrap": badUnwrap{bad},
			"RetryAfter": badRetryAfter{bad}, "Permanent": badPermanent{bad},
		} {
			for way, call := range ways {
				for layer, set := range layers {
					t.Run(strings.Join([]string{method, how, way, layer}, " "), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							cfg := governor.Config[string, *conn]{Name: "x", Workers: 2, CloseGrace: time.Second, Pool: &pool.Config[string, *conn]{
								Open: func(_ context.Context, sel string) (*conn, error) {
									if sel == "refusing" {
										return nil, err
									}
									return new(conn), nil
								},
							}}
							set(&cfg)
							g, e := governor.New(cfg)
							if e != nil {
								t.Fatal(e)
							}
							call(g, err)
							synctest.Wait()
							var s governor.Stats
							if p := apart(func() { s = g.Stats() }); p != nil {
								t.Errorf("Stats panicked: %v", p)
							}
							if s.InFlight != 0 || s.Queued != 0 {
								t.Errorf("%d in flight, %d queued", s.InFlight, s.Queued)
							}
							if b, ok := cfg.Breaker.(*asking); ok && b.out.Load() != 0 {
								t.Errorf("%d permits are out", b.out.Load())
							}
							if err := g.Close(); err != nil {
								t.Errorf("Close: %v", err)
							}
						})
					})
				}
			}
		}
	}
}

// A breaker in front of the dial is not the governor's, and says nothing about it.
func TestDialThatABreakerRefusedIsNotRefusedByTheGovernors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config[string, *conn]{Name: "x", Breaker: new(asking), Pool: &pool.Config[string, *conn]{
			Open: func(context.Context, string) (*conn, error) { return nil, breaker.ErrOpen },
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if _, err := governor.Do(t.Context(), g, "a", use(0)); !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("got %v", err)
		}
		for _, e := range g.Recent() {
			if e.Kind == event.BreakerRefused {
				t.Errorf("there is an event %v", e.Kind)
			}
		}
		if n := g.Stats().Breaker.Rejected; n != 0 {
			t.Errorf("%d rejected", n)
		}
	})
}
