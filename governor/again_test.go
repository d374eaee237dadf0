package governor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// job is a vendor's job that is ready after some calls, and notes what it saw.
func job(polls int, every time.Duration, at *[]time.Time, infos ...*[]retry.Info) func(context.Context, struct{}) (int, error) {
	n := 0
	return governor.Func(func(ctx context.Context) (int, error) {
		*at = append(*at, time.Now())
		for _, list := range infos {
			info, _ := retry.FromContext(ctx)
			*list = append(*list, info)
		}
		if n++; n <= polls {
			return -1, fmt.Errorf("not yet: %w", governor.Again(every))
		}
		return n, nil
	})
}

func offsets(start time.Time, at []time.Time) string {
	var ds []time.Duration
	for _, t := range at {
		ds = append(ds, t.Sub(start))
	}
	return fmt.Sprint(ds)
}

func TestAgainGivesEverythingBackAndReturnsAfterItsTime(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *governor.Plain, func(context.Context, struct{}) (int, error)) (int, error){
		"Do": func(t *testing.T, g *governor.Plain, fn func(context.Context, struct{}) (int, error)) (int, error) {
			return governor.Do(t.Context(), g, "", fn)
		},
		"Submit": func(t *testing.T, g *governor.Plain, fn func(context.Context, struct{}) (int, error)) (int, error) {
			return governor.Submit(t.Context(), g, "", fn).Result(t.Context())
		},
		"NoRetry": func(t *testing.T, g *governor.Plain, fn func(context.Context, struct{}) (int, error)) (int, error) {
			return governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", fn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				rec := governortest.Record(g, event.Again, event.AttemptEnded, event.Recovered, event.Clamped)
				var at []time.Time
				var infos []retry.Info
				var other time.Time
				go func() {
					time.Sleep(time.Second) // while the job waits, its slot is another's
					if s := g.Stats(); s.InFlight != 0 || s.Queued != 1 {
						t.Errorf("%d in flight, %d queued, want 0, 1", s.InFlight, s.Queued)
					}
					governor.Do(t.Context(), g, "", stamp(&other))
				}()
				v, err := run(t, g, job(3, 10*time.Second, &at, &infos))
				if v != 4 || err != nil {
					t.Errorf("%v, %v, want 4 and no error", v, err)
				}
				if got := offsets(start, at); got != "[0s 10s 20s 30s]" {
					t.Errorf("called at %v", got)
				}
				since(t, "another's call", start, other, time.Second)
				for i, info := range infos {
					if info.Attempt != 1 || errors.Is(info.Last, governor.ErrAgain) != (i > 0) {
						t.Errorf("call %d is told %+v", i, info)
					}
				}
				if s := g.Stats(); s.Again != 3 || s.Retried != 0 || s.Succeeded != 2 || s.Started != 5 || s.Limited != 0 {
					t.Errorf("%+v", s)
				}
				synctest.Wait()
				if rec.Count(event.Again) != 3 || rec.Count(event.Recovered) != 0 || rec.Count(event.Clamped) != 0 {
					t.Errorf("events %v", rec.Kinds())
				}
				for _, e := range rec.Events() {
					if e.Kind == event.Again && (e.Delay != 10*time.Second || e.Attempt != 1 || e.Request != 1) {
						t.Errorf("%+v", e)
					} else if e.Err != nil {
						t.Errorf("an attempt that asked for the next ended with %v", e.Err)
					}
				}
			})
		})
	}
}

// What is counted about a call begins anew: it was another call that succeeded.
func TestAgainIsNotCounted(t *testing.T) {
	limited, failed := governortest.Limited(time.Second, throttle.Scope{Level: throttle.Request}), errors.New("failed")
	var steps []error
	for range 5 {
		steps = append(steps, limited, failed, governor.Again(time.Second))
	}
	bubble(t, func(c *governor.PlainConfig) {
		c.LimitedAttempts = 2
		c.Retry = &retry.Config{Attempts: 2}
	}, func(t *testing.T, g *governor.Plain) {
		s := governortest.NewScript(steps...)
		if n, err := governor.Do(t.Context(), g, "", s.Call); err != nil || n != 16 {
			t.Errorf("%d calls, %v", n, err)
		}
		if s := g.Stats(); s.Retried != 5 || s.Limited != 5 || s.Again != 5 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAgainIsBoundedByTheLatestStartAndMaxWait(t *testing.T) {
	for name, c := range map[string]struct {
		maxWait time.Duration
		ask     time.Duration // latest start from now
		ctx     time.Duration // deadline
		every   time.Duration
		want    string // called at
		end     time.Duration
		reason  error
	}{
		"latest start": {ask: 25 * time.Second, every: 10 * time.Second, want: "[0s 10s 20s]", end: 20 * time.Second, reason: governor.ErrLate},
		"deadline":     {ctx: 25 * time.Second, every: 10 * time.Second, want: "[0s 10s 20s]", end: 20 * time.Second, reason: governor.ErrLate},
		"MaxWait":      {every: 16 * time.Minute, want: "[0s]", reason: governor.ErrCooling},
		"the longest":  {every: math.MaxInt64, want: "[0s]", reason: governor.ErrCooling},
		"without a MaxWait": {maxWait: -1, ctx: time.Hour, every: 40 * time.Minute, want: "[0s 40m0s]", end: 40 * time.Minute,
			reason: governor.ErrLate},
		"for ever": {maxWait: -1, ask: time.Hour, every: math.MaxInt64, want: "[0s]", reason: governor.ErrLate},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(cfg *governor.PlainConfig) { cfg.MaxWait = c.maxWait }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				ctx, ask := t.Context(), governor.Ask{}
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				if c.ask > 0 {
					ask.StartBy = start.Add(c.ask)
				}
				var at []time.Time
				v, err := governor.Do(ctx, g.With(ask), "", job(1000, c.every, &at))
				gave, ok := errors.AsType[*governor.GaveUpError](err)
				if !ok || !errors.Is(gave.Reason, c.reason) || !errors.Is(err, governor.ErrAgain) || v != 0 {
					t.Errorf("%v, %v", v, err)
				}
				if governor.IsRefused(err) {
					t.Errorf("%v: the vendor was called", err)
				}
				since(t, "the end", start, time.Now(), c.end)
				if got := offsets(start, at); got != c.want {
					t.Errorf("called at %s, want %s", got, c.want)
				}
			})
		})
	}
}

// It did not wait for anything, and is no older than what comes with it.
func TestTheTimeOfAnAgainIsNoWait(t *testing.T) {
	const pause = 10 * time.Minute
	bubble(t, func(c *governor.PlainConfig) { c.NoPace, c.Workers = true, 1 }, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		var polls, urgent atomic.Int64
		governor.Submit(ctx, g.With(governor.Ask{Priority: -10}), "", governor.Func(func(context.Context) (int, error) {
			polls.Add(1)
			return 0, governor.Again(pause)
		}))
		time.Sleep(10*pause + time.Second)
		if polls.Load() != 11 || g.Stats().Wait.Max > time.Millisecond {
			t.Errorf("%d polls, with nothing in their way, waited for up to %v", polls.Load(), g.Stats().Wait.Max)
		}
		polls.Store(0)
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					_, _ = governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) {
						urgent.Add(1)
						time.Sleep(time.Second)
						return 0, nil
					}))
				}
			}()
		}
		time.Sleep(pause + 2*time.Minute)
		if polls.Load() != 0 || urgent.Load() < 700 { // it is five minutes younger than that
			t.Errorf("%d polls and %d calls of a higher priority in 12 minutes", polls.Load(), urgent.Load())
		}
		time.Sleep(5 * time.Minute)
		if polls.Load() == 0 {
			t.Error("it does not age")
		}
		cancel()
		synctest.Wait()
	})
}

// Time passes between the answer and the look at how long it is, but in a bubble.
func TestAgainMayTakeAsLongAsMaxWait(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "test", MaxWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var polls []*governor.Request[int]
	for range 100 {
		polls = append(polls, governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			return 0, governor.Again(time.Hour)
		})))
	}
	for _, r := range polls {
		for r.State() < governor.Waiting {
			time.Sleep(time.Millisecond)
		}
	}
	g.Stats() // the actor has seen them all
	for _, r := range polls {
		if r.State() == governor.Done {
			_, err := r.Result(t.Context())
			t.Fatal(err)
		}
	}
}

func TestAgainAtOnceWaitsForTheShortestPause(t *testing.T) {
	for _, d := range []time.Duration{0, 1, -1, math.MinInt64} {
		bubble(t, nil, func(t *testing.T, g *governor.Plain) {
			start := time.Now()
			rec := governortest.Record(g, event.Clamped)
			var at []time.Time
			if _, err := governor.Do(t.Context(), g, "", job(2, d, &at)); err != nil {
				t.Error(err)
			}
			if got := offsets(start, at); got != "[0s 100ms 200ms]" {
				t.Errorf("Again(%d): called at %s", d, got)
			}
			synctest.Wait()
			want := 0
			if d < 0 {
				want = 2
			}
			if got := rec.Count(event.Clamped); got != want || int(g.Stats().Clamped) != want {
				t.Errorf("Again(%d): %d clamped, want %d", d, got, want)
			}
		})
	}
}

// A call that answers Again succeeded, as far as anybody counts the vendor's.
func TestAgainIsASuccessForLimitsAndBreaker(t *testing.T) {
	b, err := breaker.New(breaker.Config{Failures: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := &tally{}
	bubble(t, func(c *governor.PlainConfig) {
		c.Breaker = b
		c.Limits = []governor.Limit{{Limiter: l}}
	}, func(t *testing.T, g *governor.Plain) {
		var at []time.Time
		if _, err := governor.Do(t.Context(), g, "", job(2, time.Second, &at)); err != nil {
			t.Error(err)
		}
		if s := b.Stats(); s.Failed != 0 || s.Calls != 3 {
			t.Errorf("%+v", s)
		}
		if l.taken != 3 || l.accepted != 3 || l.refused != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// tally is a limit that counts. Its governor calls it under a mutex.
type tally struct{ taken, accepted, refused int }

func (l *tally) Wait(time.Time, string, int) time.Duration { return 0 }
func (l *tally) Take(_ time.Time, _ string, n int)         { l.taken += n }
func (l *tally) Settle(time.Time, string, int, int)        {}
func (l *tally) Accepted(time.Time, time.Time, string)     { l.accepted++ }
func (l *tally) Refused(time.Time, time.Time, string)      { l.refused++ }

var _ limiter.Limiter = (*tally)(nil)

// A probe that answers Again has shown that the vendor accepts calls again.
func TestAgainEndsAProbe(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		s := governortest.NewScript(governortest.Limited(10*time.Second), governor.Again(time.Minute))
		first := governor.Submit(t.Context(), g, "", s.Call)
		synctest.Wait()
		var next time.Time
		<-governor.Submit(t.Context(), g, "", stamp(&next)).Done()
		since(t, "the next", start, next, 10*time.Second)
		if _, err := first.Result(t.Context()); err != nil {
			t.Error(err)
		}
		since(t, "the end", start, time.Now(), 70*time.Second)
	})
}

func TestAgainKeepsTheConnectionOnlyUnderKeepConn(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opened := 0
			g, err := governor.New(governor.Config[string, int]{Name: "test", Pool: &pool.Config[string, int]{
				Max: 1, Open: func(context.Context, string) (int, error) { opened++; return opened, nil },
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			start, n := time.Now(), 0
			first := governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: keep}), "a", func(_ context.Context, conn int) (int, error) {
				if n++; n < 3 {
					return 0, governor.Again(10 * time.Second)
				}
				return conn, nil
			})
			synctest.Wait()
			if got := g.Stats().InFlight; got != map[bool]int{false: 0, true: 1}[keep] {
				t.Errorf("KeepConn %v: %d in flight", keep, got)
			}
			var other time.Time
			governor.Do(t.Context(), g, "b", func(context.Context, int) (int, error) { other = time.Now(); return 0, nil })
			conn, err := first.Result(t.Context())
			switch {
			case err != nil:
				t.Error(err)
			case keep:
				since(t, "another", start, other, 20*time.Second)
				if conn != 1 {
					t.Errorf("connection %d, want the first", conn)
				}
			default:
				since(t, "another", start, other, 0)
				if conn != 3 {
					t.Errorf("connection %d, want the third: the other selector's took its place", conn)
				}
			}
		})
	}
}

func TestAgainInAStream(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		n := 0
		rows := func(context.Context, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				if n++; n < 3 {
					yield(0, governor.Again(10*time.Second))
					return
				}
				if yield(1, nil) {
					yield(0, governor.Again(10*time.Second))
				}
			}
		}
		for _, ask := range []governor.Ask{{}, {NoRetry: true}} {
			n = 0
			start, got := time.Now(), ""
			for v, err := range governor.Stream(t.Context(), g.With(ask), "", rows) {
				got += fmt.Sprint(v, errors.Is(err, governor.ErrAgain), " ")
			}
			if got != "1 false 0 true " {
				t.Errorf("got %q", got)
			}
			since(t, "the end", start, time.Now(), 20*time.Second)
		}
	})
}

// An error that a request ends with is no Again for whoever passes it on.
func TestAgainOfAnotherGovernorIsAnError(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
		other, err := governor.New(governor.PlainConfig{Name: "other"})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		calls := 0
		_, err = governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
			calls++
			var at []time.Time
			return governor.Do(ctx, other, "", job(9, time.Hour, &at)) // more than MaxWait
		}))
		if calls != 1 || !errors.Is(err, governor.ErrGaveUp) {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

func TestAgainEndsWithTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(g *governor.Plain, r *governor.Request[int])
		want error
	}{
		"Cancel": {func(_ *governor.Plain, r *governor.Request[int]) { r.Cancel() }, context.Canceled},
		"Close":  {func(g *governor.Plain, _ *governor.Request[int]) { g.Close() }, governor.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				var at []time.Time
				r := governor.Submit(t.Context(), g, "", job(1000, time.Minute, &at))
				time.Sleep(90 * time.Second)
				if r.State() != governor.Waiting {
					t.Errorf("state %v", r.State())
				}
				c.end(g, r)
				v, err := r.Result(t.Context())
				if !errors.Is(err, c.want) || !errors.Is(err, governor.ErrAgain) || governor.IsRefused(err) || v != 0 {
					t.Errorf("%v, %v", v, err)
				}
				if err != nil && err.Error() == "" {
					t.Error("no text")
				}
			})
		})
	}
}

func TestShutdownWaitsForAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var at []time.Time
		r := governor.Submit(t.Context(), g, "", job(2, time.Minute, &at))
		if err := g.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if v, err := r.Result(t.Context()); v != 3 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		since(t, "the end", start, time.Now(), 2*time.Minute)
	})
}

func TestThoseThatPollInALaneTakeTurns(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, per := range []throttle.Level{throttle.Host, throttle.Tenant} {
			bubble(t, func(c *governor.PlainConfig) {
				c.Workers, c.NoPace = 8, true
				c.Limits = []governor.Limit{{Per: per, Limiter: newBucket(t, 1, 1)}}
			}, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithCancel(t.Context())
				var polls [4]atomic.Int64
				for i := range polls {
					governor.Submit(ctx, g.With(governor.Ask{KeepConn: keep}), "", governor.Func(func(context.Context) (int, error) {
						polls[i].Add(1)
						return 0, governor.Again(100 * time.Millisecond)
					}))
				}
				time.Sleep(400 * time.Second)
				for i := range polls {
					if n := polls[i].Load(); n < 90 {
						t.Errorf("KeepConn %t, a limit of the %v: the %d. of four polled %d times of 400", keep, per, i, n)
					}
				}
				cancel()
				time.Sleep(time.Second)
			})
		}
	}
}

// It comes before all others but the first of them each fifth time.
func TestWhatPollsKeepsItsPlaceButForOneEachFifthTime(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers, c.NoPace = 1, true }, func(t *testing.T, g *governor.Plain) {
		var mu sync.Mutex
		var order strings.Builder
		starts := func(who string) (n int) {
			mu.Lock()
			defer mu.Unlock()
			order.WriteString(who)
			return strings.Count(order.String(), who)
		}
		polls := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			if starts("p") == 12 {
				return 0, nil
			}
			time.Sleep(time.Second)
			return 0, governor.Again(100 * time.Millisecond)
		}))
		var last *governor.Request[int]
		for range 50 {
			last = governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
				starts("o")
				time.Sleep(time.Second)
				return 0, nil
			}))
		}
		<-polls.Done()
		<-last.Done()
		// Each time one of the others has begun when it is back.
		if got := order.String(); !strings.HasPrefix(got, "popopopopo"+"o"+"popopopopo"+"o"+"pop") {
			t.Errorf("they started in the order %s", got)
		}
	})
}

// With as many as there are slots, one of them is always there first.
func TestWhatPollsLetsOthersOfItsLaneThrough(t *testing.T) {
	for _, slots := range []int{1, 4} {
		bubble(t, func(c *governor.PlainConfig) { c.Workers, c.NoPace = slots, true }, func(t *testing.T, g *governor.Plain) {
			ctx, cancel := context.WithCancel(t.Context())
			for range 2 * slots {
				governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, governor.Again(100 * time.Millisecond)
				}))
			}
			start := time.Now()
			late, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			var at time.Time
			_, err := governor.Submit(late, g, "", stamp(&at)).Result(t.Context())
			if d := at.Sub(start); err != nil || d > 10*time.Second {
				t.Errorf("%d slots: who came later started after %v: %v; want that they poll five times each at most", slots, d, err)
			}
			cancel()
		})
	}
}

// It takes its place by submission order when it comes back.
// However often they have polled while nobody else came.
func TestWhatHasPolledForADayIsNotPutBehindWhoeverComes(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.NoPace, c.Limits = true, []governor.Limit{{Limiter: newBucket(t, 1, 1)}}
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		var polls atomic.Int64 // of a bucket of one a second
		for range 4 {
			governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) {
				polls.Add(1)
				return 0, governor.Again(100 * time.Millisecond)
			}))
		}
		time.Sleep(24 * time.Hour)
		for range 2 {
			go func() {
				for ctx.Err() == nil {
					_, _ = governor.Do(ctx, g, "", sleep(0))
				}
			}()
		}
		polls.Store(0)
		time.Sleep(5 * time.Minute)
		if polls.Load() < 30 { // each is put behind those two one time in five
			t.Errorf("%d of 300 calls were polls", polls.Load())
		}
		cancel()
		synctest.Wait()
	})
}

func TestAgainReturnsToItsPlace(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Workers = 1 }, func(t *testing.T, g *governor.Plain) {
		start := time.Now()
		var at []time.Time
		r := governor.Submit(t.Context(), g, "", job(1, 5*time.Second, &at))
		for range 10 {
			governor.Submit(t.Context(), g, "", sleep(2*time.Second))
		}
		<-r.Done()
		if got := offsets(start, at); got != "[0s 6s]" {
			t.Errorf("called at %s, want the first slot after 5 s", got)
		}
	})
}

// hostile panics when it is looked through.
type hostile struct{}

func (hostile) Error() string { return "hostile" }
func (hostile) Unwrap() error { panic("unwrapped") }

func TestPanicInAnErrorsUnwrapIsTheClosures(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 0, hostile{} }))
		if p, ok := errors.AsType[*governor.PanicError](err); !ok || p.Value != "unwrapped" {
			t.Errorf("got %T", err)
		}
	})
}

func TestAgainForEverOrLater(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
		again := func(d time.Duration) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(context.Context) (int, error) { return 0, governor.Again(d) })
		}
		huge := governor.Submit(t.Context(), g, "", again(math.MaxInt64))
		kept := governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: true}), "", again(math.MaxInt64))
		cancelled := governor.Submit(t.Context(), g, "", again(math.MaxInt64))
		late := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Minute)}), "", again(-1))
		past := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(-1)}), "", again(1))
		time.Sleep(time.Hour)
		cancelled.Cancel()
		synctest.Wait()
		if huge.State() != governor.Waiting || kept.State() != governor.Waiting || cancelled.State() != governor.Done {
			t.Error(huge.State(), kept.State(), cancelled.State())
		}
		for _, r := range []*governor.Request[int]{late, past} {
			if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrLate) {
				t.Error(err)
			}
		}
		if s := g.Stats(); s.InFlight != 1 {
			t.Errorf("%d in flight", s.InFlight)
		}
	})
}

// A job that is polled is the eldest there is, each time it comes back.
func TestWhatHasBegunMakesNoRoom(t *testing.T) {
	for _, rule := range []governor.Overflow{governor.Reject, governor.DropOldest, governor.DropLower} {
		t.Run(rule.String(), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) {
				c.NoPace, c.Workers, c.MaxQueue, c.Overflow = true, 1, 3, rule
			}, func(t *testing.T, g *governor.Plain) {
				begun := []*governor.Request[int]{
					governor.Submit(t.Context(), g, "", governortest.NewScript(governor.Again(time.Second)).Call),
					governor.Submit(t.Context(), g, "", governortest.NewScript(governortest.Limited(time.Second, throttle.Scope{Level: throttle.Request})).Call),
				}
				synctest.Wait()
				governor.Submit(t.Context(), g, "", sleep(time.Minute)) // keeps them in their lane
				time.Sleep(2 * time.Second)
				urgent := g.With(governor.Ask{Priority: 1})
				for range 4 {
					governor.Submit(t.Context(), urgent, "", sleep(0))
					synctest.Wait()
				}
				for _, r := range begun {
					if s := r.State(); s != governor.Queued {
						_, err := r.Result(t.Context())
						t.Errorf("one that was begun is %v: %v", s, err)
					}
				}
				if s := g.Stats(); s.Queued != 3 || s.Overflow != 3 {
					t.Errorf("%d wait, and %d were dropped; want 3 each", s.Queued, s.Overflow)
				}
				if err := g.SetMaxQueue(1); err != nil {
					t.Error(err)
				}
				if s := g.Stats(); s.Queued != 2 || s.Overflow != 4 {
					t.Errorf("%d wait, and %d were dropped; want 2 and 4", s.Queued, s.Overflow)
				}
				for _, r := range begun {
					if _, err := r.Result(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
