package governor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// words writes an event down: what it is about, then its fields that are set, Until
// as the time from when it was told.
func words(e event.Event) string {
	s := e.Kind.String()
	add := func(set bool, format string, args ...any) {
		if set {
			s += " " + fmt.Sprintf(format, args...)
		}
	}
	add(e.Request != 0, "#%d", e.Request)
	add(e.Attempt != 0, ".%d", e.Attempt)
	add(e.Scope != "", "%s", e.Scope)
	add(e.Delay != 0, "%v", e.Delay)
	add(!e.Until.IsZero(), "until +%v", e.Until.Sub(e.Time))
	add(e.Source != "", "%q", e.Source)
	add(e.Err != nil, "err")
	return s
}

// hears runs do with a governor, and expects it to tell exactly of these events in
// this order.
func hears[S comparable, C any](t *testing.T, cfg governor.Config[S, C], do func(t *testing.T, g *governor.Governor[S, C]), want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Name, cfg.Vendor = "test", governortest.Vendor{}
		g, err := governor.New(cfg)
		require.NoError(t, err)
		rec := governortest.Record(g, ordered()...)
		do(t, g)
		synctest.Wait()
		var got []string
		for _, e := range rec.Events() {
			require.Equal(t, "test", e.Name)
			require.False(t, e.Time.IsZero())
			got = append(got, words(e))
		}
		rec.Stop()
		require.NoError(t, g.Close())
		if !slices.Equal(got, want) {
			t.Errorf("heard\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	})
}

// ordered are all kinds but those that are told of by another goroutine than what
// they are about, in no order.
func ordered() (kinds []event.Kind) {
	for k := event.Submitted; k.String() != "invalid"; k++ {
		if k != event.Depleted && k != event.PoolDiscarded && k != event.PoolCreated {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// answers is a closure that takes a second each time and returns one error after
// the other, then none.
func answers(errs ...error) func(context.Context, struct{}) (int, error) {
	return governor.Func(func(context.Context) (int, error) {
		time.Sleep(time.Second)
		if len(errs) == 0 {
			return 1, nil
		}
		err := errs[0]
		errs = errs[1:]
		return 0, err
	})
}

func TestEventsOfACallThatSucceeds(t *testing.T) {
	hears(t, governor.PlainConfig{Workers: 2}, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", answers())
		require.NoError(t, err)
	}, "submitted #1", "started #1 .1", "attempt ended #1 .1 1s", "completed #1 .1", "idle")
}

func TestEventsOfCallsThatWaitForASlot(t *testing.T) {
	hears(t, governor.PlainConfig{Workers: 1}, func(t *testing.T, g *governor.Plain) {
		first := governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		left := governor.Submit(ctx, g, "", answers())
		synctest.Wait()
		second := governor.Submit(t.Context(), g, "", answers(errDown))
		synctest.Wait()
		cancel()
		left.Result(t.Context())
		first.Result(t.Context())
		second.Result(t.Context())
	},
		"submitted #1", "started #1 .1", "submitted #2", "queued #2", "submitted #3", "queued #3", "cancelled #2 err", "completed #2 err",
		"attempt ended #1 .1 1s", "completed #1 .1", "started #3 .1 1s",
		"attempt ended #3 .1 1s err", "completed #3 .1 err", "idle")
}

func TestEventsOfARefusalByTheVendor(t *testing.T) {
	hears(t, governor.PlainConfig{}, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", answers(governortest.Limited(15*time.Second)))
		require.NoError(t, err)
		time.Sleep(time.Minute)
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s err",
		`learned #1 .1 host 15s "governortest" err`, `cooling host 15s until +15s "governortest"`,
		"requeued #1 .1 host until +15s", "queued #1", "cooled host",
		"started #1 .2 15s", "probe #1 .2", "attempt ended #1 .2 1s", "completed #1 .2", "ramp host", "idle")
}

func TestEventsOfCooldownsFromElsewhere(t *testing.T) {
	hears(t, governor.PlainConfig{MaxCooldown: time.Minute}, func(t *testing.T, g *governor.Plain) {
		g.Learn(throttle.Signal{Scope: tenant("ann"), Delay: time.Second, Source: "a"})
		g.Learn(throttle.Signal{Scope: tenant("ann"), Delay: time.Hour, Source: "b"})
		g.Clear(tenant("ann"))
		g.Pause()
		g.Resume()
	},
		`learned tenant:ann 1s "a"`, `cooling tenant:ann 1s until +1s "a"`,
		`learned tenant:ann 1m0s "b"`, `clamped tenant:ann 1m0s "b"`, `extended tenant:ann 1m0s until +1m0s "b"`,
		"cleared tenant:ann", "paused", "unpaused")
}

func TestEventsOfRetries(t *testing.T) {
	cfg := governor.PlainConfig{Retry: &retry.Config{Attempts: 2, Backoff: backoff.Constant(10 * time.Second)}}
	hears(t, cfg, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", answers(errDown))
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s err", "retry #1 .1 10s err", "queued #1",
		"started #1 .2 10s", "attempt ended #1 .2 1s", "recovered #1 .2", "completed #1 .2", "idle")
	hears(t, cfg, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", answers(errDown, errDown))
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s err", "retry #1 .1 10s err", "queued #1",
		"started #1 .2 10s", "attempt ended #1 .2 1s err", "gave up #1 .2 err", "completed #1 .2 err", "idle")
	hears(t, cfg, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", answers(retry.Permanent(errDown)))
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s err", "ignored #1 .1 err", "completed #1 .1 err", "idle")
}

func TestEventsOfAFullQueue(t *testing.T) {
	hears(t, governor.PlainConfig{Workers: 1, MaxQueue: 1, Overflow: governor.DropOldest}, func(t *testing.T, g *governor.Plain) {
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
	},
		"submitted #1", "started #1 .1", "submitted #2", "queued #2",
		"submitted #3", "overflow #2 err", "completed #2 err", "queued #3")
	hears(t, governor.PlainConfig{Workers: 1, MaxQueue: 1, Overflow: governor.Reject}, func(t *testing.T, g *governor.Plain) {
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
	},
		"submitted #1", "started #1 .1", "submitted #2", "queued #2", "overflow err")
}

func TestEventsOfALimit(t *testing.T) {
	one, err := limiter.NewSlidingLog(limiter.SlidingLogConfig{Limit: 1, Window: time.Minute})
	require.NoError(t, err)
	hears(t, governor.PlainConfig{Limits: []governor.Limit{{Per: throttle.Host, Limiter: one}}}, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", answers())
		synctest.Wait()
		governor.Submit(t.Context(), g, "", answers())
		synctest.Wait()
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s", "completed #1 .1", "idle",
		"submitted #2", "limit refused host 59s", "queued #2") // once, however often the actor looks
}

func TestEventsOfABreaker(t *testing.T) {
	b, err := breaker.New(breaker.Config{Window: 1, HalfOpenCalls: 1, MinCalls: 1, OpenFor: backoff.Constant(time.Minute)})
	require.NoError(t, err)
	hears(t, governor.PlainConfig{Breaker: b}, func(t *testing.T, g *governor.Plain) {
		governor.Do(t.Context(), g, "", answers(errDown))
		synctest.Wait()
		_, err = governor.Do(t.Context(), g, "", answers())
		require.True(t, governor.IsRefused(err))
		time.Sleep(time.Minute)
		p, err := b.Acquire(time.Now()) // somebody else, for a breaker may be shared
		require.NoError(t, err)
		b.Report(p, time.Now(), breaker.Success, 0)
	},
		"submitted #1", "started #1 .1", "attempt ended #1 .1 1s err",
		`breaker rate "failure rate: 1"`, `breaker state until +1m0s "open" err`, "completed #1 .1 err", "idle",
		"submitted #2", "breaker refused #2 until +1m0s", "completed #2 err", `breaker state "half-open"`, `breaker state "closed"`)
}

func TestEventsOfConnections(t *testing.T) {
	cfg := governor.Config[string, int]{Pool: &pool.Config[string, int]{
		Max: 1,
		Open: func(_ context.Context, sel string) (int, error) {
			time.Sleep(time.Second)
			if sel == "down" {
				return 0, errDown
			}
			return 1, nil
		},
		IsBad: func(err error) bool { return err != nil },
	}}
	hears(t, cfg, func(t *testing.T, g *governor.Governor[string, int]) {
		fn := func(err error) func(context.Context, int) (int, error) {
			return func(context.Context, int) (int, error) { return 0, err }
		}
		rec := governortest.Record(g, event.PoolCreated, event.PoolDiscarded)
		defer rec.Stop()
		governor.Do(t.Context(), g, "a", fn(nil))
		synctest.Wait()
		governor.Do(t.Context(), g, "b", fn(errDown))
		synctest.Wait()
		var got []string
		for _, e := range rec.Events() {
			got = append(got, words(e))
		}
		require.ElementsMatch(t, []string{`pool created 1s "a"`, `pool created 1s "b"`, `pool discarded "b" err`}, got)
	},
		"submitted #1", "started #1 .1 1s", "attempt ended #1 .1", "completed #1 .1", "idle",
		"submitted #2", `pool stolen "a"`, "started #2 .1 1s", "attempt ended #2 .1 err", "completed #2 .1 err", "idle")
}

func TestEventsOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.PlainConfig{Name: "test", CloseGrace: time.Second, StuckAfter: time.Minute})
		require.NoError(t, err)
		rec := governortest.Record(g)
		free := make(chan struct{})
		governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { <-free; return 0, nil }))
		time.Sleep(2 * time.Minute)
		require.Error(t, g.Close())
		close(free)
		synctest.Wait()
		var got []string
		for _, e := range rec.Events() {
			got = append(got, words(e))
		}
		require.Equal(t, []string{"submitted #1", "started #1 .1", "stuck #1 .1 1m0s", "closing", "completed #1 .1 err", "abandoned #1 .1", "attempt ended #1 .1 2m1s", "idle", "closed"}, got)
	})
}

// An event has what its comment says.
func TestEventsOfTheEndSayWhatTheyPromise(t *testing.T) {
	find := func(t *testing.T, rec *governortest.Recorder, k event.Kind) event.Event {
		t.Helper()
		synctest.Wait()
		for _, e := range rec.Events() {
			if e.Kind == k {
				return e
			}
		}
		t.Fatalf("there is no %v", k)
		return event.Event{}
	}
	for name, pause := range map[string]throttle.Scope{"host": {}, "alone": {Level: throttle.Request}} {
		t.Run("requeued, "+name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				rec, start := governortest.Record(g), time.Now()
				governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(10*time.Second, pause)).Call)
				if e := find(t, rec, event.Requeued); !e.Until.Equal(start.Add(10 * time.Second)) {
					t.Errorf("it is requeued until %v", e.Until)
				}
			})
		})
	}
	t.Run("clamped", func(t *testing.T) {
		bubble(t, func(c *governor.PlainConfig) {
			c.Retry = &retry.Config{MaxRetryAfter: 10 * time.Minute}
		}, func(t *testing.T, g *governor.Plain) {
			rec := governortest.Record(g)
			governor.Do(t.Context(), g, "", governortest.NewScript(retry.After(time.Hour, errors.New("503"))).Call)
			if e := find(t, rec, event.Clamped); e.Delay != 10*time.Minute {
				t.Errorf("it is clamped to %v", e.Delay)
			}
		})
	})
	t.Run("last attempt", func(t *testing.T) {
		bubble(t, func(c *governor.PlainConfig) {
			c.Retry = &retry.Config{Attempts: 9, Backoff: backoff.Constant(3 * time.Second)}
		}, func(t *testing.T, g *governor.Plain) {
			rec := governortest.Record(g)
			governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(5 * time.Second)}), "", governor.Func(func(context.Context) (int, error) {
				return 0, errors.New("503")
			}))
			for _, k := range []event.Kind{event.Refused, event.Completed} {
				if e := find(t, rec, k); e.Attempt != 2 {
					t.Errorf("%v after attempt %d, of 2", k, e.Attempt)
				}
			}
			if s := g.Stats(); s.Dropped != 1 || s.Failed != 0 {
				t.Errorf("%d dropped, %d failed, of one that ended in the queue", s.Dropped, s.Failed)
			}
		})
	})
}

// Also where the last attempt was a poll.
func TestTheEndAfterAPollSaysWhichAttemptThatWas(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.Refused, event.Completed)
		governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(5 * time.Second)}), "", governor.Func(func(context.Context) (int, error) {
			return 0, governor.Again(3 * time.Second)
		}))
		synctest.Wait()
		for _, e := range rec.Events() {
			if e.Attempt != 1 {
				t.Errorf("%v: attempt %d", e.Kind, e.Attempt)
			}
		}
	})
}

// An error does not say twice how the last attempt ended.
func TestAnErrorSaysOnceHowTheLastAttemptEnded(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) {
		c.Retry = &retry.Config{Attempts: 9, Backoff: backoff.Constant(3 * time.Second)}
	}, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Second)}), "", governor.Func(func(context.Context) (int, error) {
			return 0, errors.New("the vendor is down")
		}))
		if n := strings.Count(fmt.Sprint(err), "the vendor is down"); n != 1 {
			t.Errorf("%d times: %v", n, err)
		}
	})
}
