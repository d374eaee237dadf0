package governor_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// calling is an adapter that does something.
type calling struct{ do func() }

func (v calling) DelayError(error) (time.Duration, bool) { v.do(); return 0, false }

// Whatever is done to a governor from inside whatever of the user's it calls, every
// request completes and nothing is left.
func TestEverythingMayBeDoneFromAnywhere(t *testing.T) {
	acts := map[string]func(g *governor.Plain){
		"close": func(g *governor.Plain) { g.Close() },
		"shutdown": func(g *governor.Plain) {
			ctx, c := context.WithTimeout(context.Background(), time.Second)
			g.Shutdown(ctx)
			c()
		},
		"pause":  func(g *governor.Plain) { g.Pause(); time.AfterFunc(time.Second, g.Resume) },
		"resume": func(g *governor.Plain) { g.Resume() },
		"stats":  func(g *governor.Plain) { g.Stats(); g.Export(); g.SetMaxQueue(5); g.Clear(throttle.Scope{}) },
		"learn":  func(g *governor.Plain) { g.Learn(throttle.Signal{Delay: time.Second}) },
	}
	for _, where := range []string{"closure", "listener", "weight", "adapter", "retry", "budgetpred", "guess", "stream body", "stream seq", "map body", "map seq", "map ask", "hold", "isbad", "open", "connclose", "cancel"} {
		for name, act := range acts {
			t.Run(where+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var g *governor.Plain
					armed := atomic.Bool{}
					do := func() {
						if armed.CompareAndSwap(true, false) {
							act(g)
						}
					}
					cfg := governor.PlainConfig{Name: "x", Workers: 2, NoPace: true, CloseGrace: 2 * time.Second}
					cfg.Vendor = governortest.Vendor{}
					switch where {
					case "weight":
						cfg.Weight = func(string) int { do(); return 1 }
					case "adapter":
						cfg.Vendor = calling{do}
					case "retry":
						cfg.Retry = &retry.Config{Backoff: backoff.Constant(time.Second), RetryIf: func(error) bool { do(); return true }}
					case "guess":
						cfg.Guess = backoff.Func(func(backoff.Step) (time.Duration, bool) { do(); return time.Second, true })
					case "isbad", "open", "connclose":
						p := &pool.Config[string, struct{}]{Max: 2, Open: func(context.Context, string) (struct{}, error) {
							if where == "open" {
								do()
							}
							return struct{}{}, nil
						}, Close: func(string, struct{}) {
							if where == "connclose" {
								do()
							}
						}}
						p.IsBad = func(error) bool {
							if where == "isbad" {
								do()
							}
							return where == "connclose"
						}
						cfg.Pool = p
					}
					var err error
					g, err = governor.New(cfg)
					if err != nil {
						t.Fatal(err)
					}
					if where == "listener" {
						g.Listen(func(event.Event) { do() })
					}
					armed.Store(true)
					ctx := t.Context()
					view := g.With(governor.Ask{Tenant: "t"})
					rs := []*governor.Request[int]{}
					for i := range 4 {
						n := 0
						rs = append(rs, governor.Submit(ctx, view, "", governor.Func(func(ctx context.Context) (int, error) {
							if where == "closure" {
								do()
							}
							if n++; n == 1 && i == 1 {
								if where == "guess" {
									return 0, governortest.Limited(throttle.Unknown)
								}
								return 0, errors.New("bad")
							}
							if where == "hold" && i == 2 {
								rel := governor.Hold(ctx)
								time.AfterFunc(time.Second, func() { do(); rel(errors.New("x")) })
							}
							time.Sleep(100 * time.Millisecond)
							return 1, nil
						})))
					}
					switch where {
					case "stream body", "stream seq":
						for range governor.Stream(ctx, view, "", func(context.Context, struct{}) iter.Seq2[int, error] {
							return func(yield func(int, error) bool) {
								if where == "stream seq" {
									do()
								}
								yield(1, nil)
							}
						}) {
							if where == "stream body" {
								do()
							}
						}
					case "map body", "map seq", "map ask":
						c := &governor.MapConfig[string, int]{Ask: func(int) governor.Ask {
							if where == "map ask" {
								do()
							}
							return governor.Ask{}
						}}
						for range governor.Map(ctx, g, "", func(yield func(int) bool) {
							for i := range 5 {
								if where == "map seq" && i == 2 {
									do()
								}
								if !yield(i) {
									return
								}
							}
						}, func(context.Context, struct{}, int) (int, error) { return 1, nil }, c) {
							if where == "map body" {
								do()
							}
						}
					case "cancel":
						do()
						rs[3].Cancel()
					}
					time.Sleep(time.Minute)
					for i, r := range rs {
						if r.State() != governor.Done {
							t.Errorf("request %d is %v", i, r.State())
						}
					}
					if err := g.Close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
