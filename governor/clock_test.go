package governor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// A time without a monotonic reading, as it comes from a file or a header, means
// what the wall clock shows now, not what it would show had it not been set.
func TestTimeWithoutMonotonicReadingIsReadByTheWallClockOfNow(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		g := &gate{base: stepped(time.Now(), -step)} // since then the clock was set by step
		soon := time.Now().Add(time.Minute)
		for name, at := range map[string]time.Time{"with": soon, "without": soon.Round(0)} {
			if d := time.Duration(g.ns(at)) - time.Since(g.base); (d - time.Minute).Abs() > 30*time.Second {
				t.Errorf("clock set by %v: a minute from now, %s monotonic reading, is in %v", step, name, d)
			}
		}
	}
}

// Of StartBy and the context's deadline the earlier counts, though one may have been read
// before the wall clock was set and the other have no monotonic reading.
func TestTheEarlierOfStartByAndTheContextsDeadlineCountsWhateverTheWallClockShows(t *testing.T) {
	g, err := New(PlainConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		for name, first := range map[string]bool{"the context's deadline": true, "StartBy": false} {
			soon, late := time.Now().Add(time.Minute), time.Now().Add(2*time.Minute)
			by, end := soon, late
			if first {
				by, end = late, soon
			}
			for i, both := range [][2]time.Time{
				{by.Round(0), stepped(end, -step)},
				{stepped(by, -step), end.Round(0)},
			} {
				r := &request{ctx: until{t.Context(), both[1]}}
				r.wish(g.core, &Ask{StartBy: both[0]})
				if r.flags&dated == 0 || r.flags&ctxDeadline != 0 != first {
					t.Errorf("clock set by %v: %s, which is earlier, does not count (%d)", step, name, i)
				}
			}
		}
	}
}

// after returns a governor since whose New the wall clock was set by step.
func after[S comparable, C any](t *testing.T, step time.Duration, cfg Config[S, C]) *Governor[S, C] {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	g.core.ask(func() { g.core.gate.base = stepped(g.core.gate.base, -step) })
	return g
}

// What a governor tells of times is by the wall clock of now, beside which it is read.
func TestTimesThatAreToldAreByTheWallClockOfNow(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		hourly, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: 10, Period: 2 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		quick, err := breaker.New(breaker.Config{MinCalls: 1, SlowCall: 1, OpenFor: backoff.Constant(2 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		g := after(t, step, PlainConfig{Name: "x", Breaker: quick, BreakerWait: true, Limits: []Limit{{Limiter: hourly}}, MaxWait: time.Minute})
		is := func(what string, at time.Time, in time.Duration) {
			t.Helper()
			if off := at.Round(0).Sub(time.Now().Round(0)) - in; off.Abs() > 30*time.Second {
				t.Errorf("clock set by %v: %s is shown %v late", step, what, off)
			}
		}
		slow := Func(func(context.Context) (int, error) { return 0, nil }) // by the breaker's measure
		_, _ = Do(t.Context(), g, "", slow)
		g.Learn(throttle.Signal{Delay: 2 * time.Hour})
		_, err = Do(t.Context(), g.With(Ask{StartBy: time.Now().Add(time.Hour)}), "", slow)
		if late, ok := errors.AsType[*LateError](err); ok {
			is("LateError.By", late.By, time.Hour)
			is("LateError.Could", late.Could, 2*time.Hour)
		} else {
			t.Error(err)
		}
		_, err = Do(t.Context(), g, "", slow)
		if cools, ok := errors.AsType[*CooldownError](err); ok {
			is("CooldownError.Until", cools.Until, 2*time.Hour)
		} else {
			t.Error(err)
		}
		s := g.Stats()
		is("Stats.Time", s.Time, 0)
		is("the end of a cooldown in Stats", s.Cooldowns[0].Until, 2*time.Hour)
		is("the end of a window in Stats", s.Limits[0].Quota.Reset, 2*time.Hour)
		is("the end of the breaker's pause in Stats", s.Breaker.Until, 2*time.Hour)
		is("the end of a cooldown in Export", g.Export().Cooldowns[0].Until, 2*time.Hour)
		for _, e := range g.Recent() {
			is("the time of the event "+e.Kind.String(), e.Time, 0)
			if !e.Until.IsZero() {
				is("the end in the event "+e.Kind.String(), e.Until, 2*time.Hour)
			}
		}
	}
}

// The earlier of the attempt's timeout and the context's deadline ends a closure's context,
// though the one was made before the wall clock was set and the other has no monotonic
// reading.
func TestAClosuresContextEndsInTimeWhateverTheWallClockShows(t *testing.T) {
	const soon, late = 200 * time.Millisecond, 4 * time.Second
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, d := range []struct{ timeout, deadline time.Duration }{{soon, late}, {late, soon}} {
			for _, ask := range []Ask{{}, {KeepConn: true}} { // the latter has an attempt from the beginning
				t.Run(fmt.Sprint(step, d, ask.KeepConn), func(t *testing.T) {
					t.Parallel()
					g := after(t, step, PlainConfig{Name: "x", AttemptTimeout: d.timeout})
					ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(d.deadline).Round(0))
					defer cancel()
					began := time.Now()
					_, err := Submit(ctx, g.With(ask), "", Func(func(ctx context.Context) (int, error) {
						if at, _ := ctx.Deadline(); at.Sub(began) > late/2 {
							t.Errorf("the context says that it ends in %v", at.Sub(began))
						}
						<-ctx.Done()
						return 0, nil
					})).Result(t.Context())
					if took := time.Since(began); err != nil || took < soon/2 || took > late/2 {
						t.Errorf("the context ended after %v (%v)", took, err)
					}
				})
			}
		}
	}
}

// A latest start before the context's deadline ends the wait for a connection, too.
func TestALatestStartEndsAnOpenWhateverTheWallClockShows(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 0, time.Hour} {
		g := after(t, step, Config[string, int]{Name: "x", Pool: &pool.Config[string, int]{Max: 1, Open: func(ctx context.Context, _ string) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}}})
		began := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), began.Add(2*time.Second).Round(0))
		_, err := Do(ctx, g.With(Ask{StartBy: began.Add(20 * time.Millisecond)}), "", func(context.Context, int) (int, error) { return 0, nil })
		if took := time.Since(began); !errors.Is(err, ErrLate) || took > time.Second {
			t.Errorf("clock set by %v: %v after %v", step, err, took)
		}
		cancel()
	}
}

// until is a context with another deadline.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, true }

// stepped returns t as it would have been read had the wall clock shown d more.
func stepped(t time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // its seconds are above 30 bits of nanoseconds
	*wall += uint64(int64(d/time.Second)) << 30
	return t
}
