package governor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// Whoever has an error of the governor's finds why in Recent, at once and without a
// listener: an event that matches it, or the breaker's.
func TestEveryRefusalLeavesAnEventThatNamesTheReason(t *testing.T) {
	busy := func(t *testing.T, g *governor.Plain) { // takes the only worker
		governor.Submit(t.Context(), g, "", sleep(time.Hour))
		synctest.Wait()
	}
	queued := func(t *testing.T, g *governor.Plain) *governor.Request[int] {
		busy(t, g)
		r := governor.Submit(t.Context(), g, "", sleep(0))
		synctest.Wait()
		return r
	}
	cooling := func(g *governor.Plain, d time.Duration) { g.Learn(throttle.Signal{Delay: d, Source: "Retry-After"}) }
	result := func(t *testing.T, r *governor.Request[int]) error { _, err := r.Result(t.Context()); return err }
	do := func(ctx context.Context, g *governor.Plain) error {
		_, err := governor.Do(ctx, g, "", sleep(0))
		return err
	}
	for _, tt := range []struct {
		name string
		cfg  governor.PlainConfig
		do   func(t *testing.T, g *governor.Plain) error
		want error
		kind event.Kind
	}{
		{"full queue", governor.PlainConfig{Workers: 1, MaxQueue: 1, Overflow: governor.Reject}, func(t *testing.T, g *governor.Plain) error {
			queued(t, g)
			return do(t.Context(), g)
		}, governor.ErrQueueFull, event.Overflow},
		{"dropped", governor.PlainConfig{Workers: 1, MaxQueue: 1, Overflow: governor.DropOldest}, func(t *testing.T, g *governor.Plain) error {
			r := queued(t, g)
			governor.Submit(t.Context(), g, "", sleep(0))
			return result(t, r)
		}, governor.ErrDropped, event.Overflow},
		{"longer than MaxWait", governor.PlainConfig{MaxWait: time.Second}, func(t *testing.T, g *governor.Plain) error {
			cooling(g, time.Minute)
			return do(t.Context(), g)
		}, governor.ErrCooling, event.Refused},
		{"longer than MaxWait, in the queue", governor.PlainConfig{Workers: 1, MaxWait: time.Second}, func(t *testing.T, g *governor.Plain) error {
			r := queued(t, g)
			cooling(g, time.Minute)
			return result(t, r)
		}, governor.ErrCooling, event.Refused},
		{"late at the door", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			return do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(-time.Second)}))
		}, governor.ErrLate, event.Refused},
		{"late in the queue", governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain) error {
			busy(t, g)
			return do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}))
		}, governor.ErrLate, event.Refused},
		{"late because of a cooldown", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			cooling(g, time.Minute)
			return do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}))
		}, governor.ErrLate, event.Refused},
		{"more than a limit ever has", governor.PlainConfig{Limits: []governor.Limit{{Limiter: one(t)}}}, func(t *testing.T, g *governor.Plain) error {
			return do(t.Context(), g.With(governor.Ask{Cost: 2}))
		}, governor.ErrNeverAdmissible, event.Refused},
		{"open breaker", governor.PlainConfig{Breaker: brittle(t)}, func(t *testing.T, g *governor.Plain) error {
			governor.Do(t.Context(), g, "", answers(errDown))
			return do(t.Context(), g)
		}, breaker.ErrOpen, event.BreakerRefused},
		{"breaker that opens", governor.PlainConfig{Workers: 1, Breaker: brittle(t)}, func(t *testing.T, g *governor.Plain) error {
			governor.Submit(t.Context(), g, "", answers(errDown))
			return do(t.Context(), g)
		}, breaker.ErrOpen, event.BreakerRefused},
		{"breaker that refuses at the last moment", governor.PlainConfig{Breaker: sly{}}, func(t *testing.T, g *governor.Plain) error {
			return do(t.Context(), g)
		}, breaker.ErrOpen, event.BreakerRefused},
		{"context that has ended", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return do(ctx, g)
		}, context.Canceled, event.Cancelled},
		{"cancelled in the queue", governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain) error {
			r := queued(t, g)
			r.Cancel()
			return result(t, r)
		}, context.Canceled, event.Cancelled},
		{"cancelled between two attempts", governor.PlainConfig{Retry: retrying()}, func(t *testing.T, g *governor.Plain) error {
			r := governor.Submit(t.Context(), g, "", answers(errDown))
			time.Sleep(2 * time.Second)
			r.Cancel()
			return result(t, r)
		}, context.Canceled, event.Cancelled},
		{"closed", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			g.Close()
			return do(t.Context(), g)
		}, governor.ErrClosed, event.Closed}, // the last event there is
		{"while it drains", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			r := governor.Submit(t.Context(), g, "", sleep(time.Minute))
			synctest.Wait()
			go g.Shutdown(t.Context())
			synctest.Wait()
			err := do(t.Context(), g)
			require.NoError(t, result(t, r))
			return err
		}, governor.ErrClosed, event.Refused},
		{"closed while it waits", governor.PlainConfig{Workers: 1, CloseGrace: time.Second}, func(t *testing.T, g *governor.Plain) error {
			r := queued(t, g)
			g.Close()
			return result(t, r)
		}, governor.ErrClosed, event.Refused},
		{"closed between two attempts", governor.PlainConfig{Retry: retrying()}, func(t *testing.T, g *governor.Plain) error {
			r := governor.Submit(t.Context(), g, "", answers(errDown))
			time.Sleep(2 * time.Second)
			g.Close()
			return result(t, r)
		}, governor.ErrClosed, event.Refused},
		{"attempts ran out", governor.PlainConfig{Retry: retrying()}, func(t *testing.T, g *governor.Plain) error {
			_, err := governor.Do(t.Context(), g, "", answers(errDown, errDown))
			return err
		}, governor.ErrGaveUp, event.GaveUp},
		{"too many keys", governor.PlainConfig{Workers: 1, MaxKeys: 1}, func(t *testing.T, g *governor.Plain) error {
			queued(t, g)
			_, err := governor.Do(t.Context(), g, "another", sleep(0))
			return err
		}, governor.ErrTooManyKeys, event.Refused},
		{"invalid ask", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			return do(t.Context(), g.With(governor.Ask{Cost: -1}))
		}, governor.ErrAsk, event.Refused},
		{"nil function", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			_, err := governor.Do[string, struct{}, int](t.Context(), g, "", nil)
			return err
		}, governor.ErrNilFunc, event.Refused},
		{"nil context", governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) error {
			return do(nil, g) //nolint:staticcheck // that is what it is about
		}, governor.ErrNilContext, event.Refused},
		{"call inside a closure", governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain) (err error) {
			governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				err = do(ctx, g)
				return 0, nil
			}))
			return err
		}, governor.ErrReentrant, event.Refused},
		{"abandoned", governor.PlainConfig{CloseGrace: time.Second}, func(t *testing.T, g *governor.Plain) error {
			r := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { // deaf to its context
				time.Sleep(time.Minute)
				return 0, nil
			}))
			synctest.Wait()
			g.Close()
			time.Sleep(time.Hour)
			return result(t, r)
		}, governor.ErrAbandoned, event.Abandoned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.cfg.Name, tt.cfg.Vendor = "test", governortest.Vendor{}
				g, err := governor.New(tt.cfg)
				require.NoError(t, err)
				defer g.Close()
				err = tt.do(t, g)
				require.ErrorIs(t, err, tt.want)
				told := g.Recent()
				at := slices.IndexFunc(told, func(e event.Event) bool { return e.Kind == tt.kind })
				require.GreaterOrEqual(t, at, 0, "%v", told)
				switch e := told[at]; tt.kind {
				case event.BreakerRefused, event.Abandoned, event.Closed: // the kind is the reason
				default:
					require.ErrorIs(t, e.Err, tt.want)
				}
				others := slices.DeleteFunc(slices.Clone(told), func(e event.Event) bool {
					return e.Kind != event.Refused && e.Kind != event.Overflow && e.Kind != event.BreakerRefused && e.Kind != event.Cancelled && e.Kind != event.GaveUp
				})
				if tt.kind != event.Abandoned && tt.kind != event.Closed {
					require.Len(t, others, 1, "one event for one decision")
				}
				if tt.cfg.Breaker != nil {
					require.EqualValues(t, 1, g.Stats().Breaker.Rejected)
				}
			})
		})
	}
}

// sly is a breaker that seems closed.
type sly struct{}

func (sly) Ready(time.Time) error                                            { return nil }
func (sly) Acquire(time.Time) (breaker.Permit, error)                        { return 0, &breaker.OpenError{} }
func (sly) Report(breaker.Permit, time.Time, breaker.Outcome, time.Duration) {}

// brittle is a breaker that the first failure opens.
func brittle(t *testing.T) breaker.Circuit {
	b, err := breaker.New(breaker.Config{Failures: 1, OpenFor: backoff.Constant(time.Minute)})
	require.NoError(t, err)
	return b
}

// retrying repeats once, after 10 s.
func retrying() *retry.Config {
	return &retry.Config{Attempts: 2, Backoff: backoff.Constant(10 * time.Second)}
}

func one(t *testing.T) limiter.Limiter {
	l, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	return l
}

// A request that Close has given up ends once: what comes of its closure afterwards is
// no refusal.
func TestWhatWasAbandonedIsNotRefusedLater(t *testing.T) {
	for name, late := range map[string]error{"limited": governortest.Limited(time.Second), "failed": errors.New("failed"), "again": governor.Again(time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{
					Name: "x", Vendor: governortest.Vendor{}, CloseGrace: -1, Retry: &retry.Config{Backoff: backoff.Constant(time.Second)},
				})
				if err != nil {
					t.Fatal(err)
				}
				r := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, late
				}))
				synctest.Wait()
				_ = g.Close()
				if _, err := r.Result(t.Context()); err != governor.ErrAbandoned {
					t.Errorf("got %v", err)
				}
				time.Sleep(time.Minute)
				for _, e := range g.Recent() {
					if e.Kind == event.Refused {
						t.Errorf("there is an event of a refusal: %v", e.Err)
					}
				}
			})
		})
	}
}
