package governor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// A signal that says not to repeat the call is obeyed beside an Again, too.
func TestAgainBesideASignalOfNoRetryIsTheLast(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		n := 0
		ban := &governortest.Refusal{Signals: []throttle.Signal{{Kind: throttle.KindBan, Delay: time.Second, NoRetry: true}}}
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			if n++; n > 5 {
				return 0, errors.New("called on and on")
			}
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), ban)
		}))
		if n != 1 {
			t.Errorf("the vendor said not to repeat it; %d calls: %v", n, err)
		}
	})
}

// By Observe a poll comes back when it asked to, whatever the vendor said beside.
func TestAgainBesideARefusalIsNotDelayedUnderObserve(t *testing.T) {
	for name, sc := range map[string]throttle.Scope{"request": {Level: throttle.Request}, "other tenant": tenant("other")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Observe = true }, func(t *testing.T, g *governor.Plain) {
				n, start := 0, time.Now()
				governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					if n++; n > 1 {
						return 0, nil
					}
					return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(time.Hour, sc))
				}))
				if d := time.Since(start); d != time.Second {
					t.Errorf("delayed for %v", d)
				}
			})
		})
	}
}

// A Keeper is told what becomes of the request.
func TestAKeeperIsToldOfTheEndOfWhatWouldWaitTooLong(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := governor.New(governor.PlainConfig{Name: "kept", Vendor: slowVendor{}, Retry: &retry.Config{}})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				var told []bool
				fail := &unread{settled: func(again bool) bool { told = append(told, again); return true }}
				l := governor.Lease{Ask: governor.Ask{KeepConn: keep}}
				start := time.Now()
				_, err = governor.Held(t.Context(), g, "", &l, func(context.Context) (int, error) {
					g.Learn(throttle.Signal{Delay: 2 * time.Hour})
					return 0, fail
				})
				if time.Since(start) != 0 || len(told) != 1 || told[0] {
					t.Errorf("ended after %v, told that it goes on: %v: %v", time.Since(start), told, err)
				}
				l.Release(nil)
			})
		})
	}
}

// Of refusals without a time each guess is longer, also where polls are refused.
func TestGuessesGrowOverPollsThatAreRefused(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		n, start := 0, time.Now()
		var at []time.Duration
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			at = append(at, time.Since(start))
			if n++; n > 4 {
				return 0, nil
			}
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(throttle.Unknown, throttle.Scope{Level: throttle.Request}))
		}))
		if at[2]-at[1] <= at[1]-at[0] {
			t.Errorf("calls at %v", at)
		}
	})
}

func TestAPollThatIsRefusedAsTheProbeLetsOthersTry(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.NoPace = true }, func(t *testing.T, g *governor.Plain) {
				ctx, cancel := context.WithCancel(t.Context())
				bad := governor.Submit(ctx, g.With(governor.Ask{KeepConn: keep}), "", governor.Func(func(context.Context) (int, error) {
					return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(10*time.Second))
				}))
				synctest.Wait()
				start := time.Now()
				good := governor.Submit(t.Context(), g, "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
				<-good.Done()
				if d := time.Since(start); d > 2*time.Minute {
					t.Errorf("the other after %v", d)
				}
				cancel()
				<-bad.Done()
			})
		})
	}
}

type anyVendor struct{}

func (anyVendor) DelayError(err error) (time.Duration, bool) { return time.Minute, err != nil }

// An Again with words around it is not shown to the adapter.
func TestAnAgainWithWordsAroundItIsNoneOfTheAdapters(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.Vendor = anyVendor{} }, func(t *testing.T, g *governor.Plain) {
		n := 0
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			if n++; n > 1 {
				return 0, nil
			}
			return 0, fmt.Errorf("job 7: %w", governor.Again(time.Second))
		}))
		if s := g.Stats(); s.Limited != 0 {
			t.Errorf("limited %d", s.Limited)
		}
	})
}

// Pool.IsBad is asked about what a poll has failed with.
func TestAConnectionMayBeBadAfterAPollThatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, opened := errors.New("connection is broken"), 0
		g, err := governor.New(governor.Config[string, int]{Name: "x", Vendor: governortest.Vendor{}, Pool: &pool.Config[string, int]{
			Open:  func(context.Context, string) (int, error) { opened++; return opened, nil },
			IsBad: func(err error) bool { return errors.Is(err, bad) }, Max: 1,
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		v, err := governor.Do(t.Context(), g, "", func(_ context.Context, c int) (int, error) {
			if c == 1 && time.Now().Second() == 0 {
				return 0, fmt.Errorf("%w: %w: %w", governor.Again(time.Second), bad, governortest.Limited(time.Second))
			}
			return c, nil
		})
		if v != 2 {
			t.Errorf("%d %v", v, err)
		}
	})
}

// AttemptEnded says that a poll was refused.
func TestTheEndOfAPollThatWasRefusedHasItsError(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g, event.AttemptEnded)
		n := 0
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			if n++; n > 1 {
				return 0, nil
			}
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(time.Second))
		}))
		synctest.Wait()
		if rec.Events()[0].Err == nil {
			t.Error("no error")
		}
	})
}

// banned is how a vendor says that it wants no repetition.
func banned() error {
	return &governortest.Refusal{Signals: []throttle.Signal{{Kind: throttle.KindBan, Delay: time.Second, NoRetry: true}}}
}

// Its end is that of a call that was refused without an Again, but without a value; by Observe it
// is none.
func TestTheEndOfAPollThatIsNotToBeRepeatedIsThatOfACall(t *testing.T) {
	for _, observe := range []bool{false, true} {
		t.Run(fmt.Sprintf("observe %t", observe), func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Observe, c.Retry = observe, &retry.Config{Attempts: 3} }, func(t *testing.T, g *governor.Plain) {
				n := 0
				v, err := governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
					return governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) {
						if n++; n > 1 {
							return 7, nil
						}
						return 5, fmt.Errorf("%w: %w", governor.Again(time.Second), banned())
					}))
				}))
				if observe {
					if v != 7 || err != nil {
						t.Errorf("%v, %v", v, err)
					}
					return
				}
				_, said := errors.AsType[*governortest.Refusal](err)
				if n != 1 || v != 0 || !said || errors.Is(err, governor.ErrGaveUp) || governor.IsRefused(err) {
					t.Errorf("%d calls, %v, %v", n, v, err)
				}
			})
		})
	}
}

// What the vendor gives a time for is no guess, and no refusal begins guessing anew.
func TestOnlyGuessesMakeTheNextOneLonger(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		var at []time.Duration
		start := time.Now()
		governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			at = append(at, time.Since(start))
			delay := throttle.Unknown
			if len(at) <= 6 {
				delay = time.Second
			}
			err := governortest.Limited(delay, throttle.Scope{Level: throttle.Request})
			switch n := len(at); {
			case n > 11:
				return 0, nil
			case n > 9:
				return 0, err
			}
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), err)
		}))
		guess := 15 * time.Second
		for i := 7; i < len(at); i++ {
			if d := at[i] - at[i-1]; d != guess {
				t.Errorf("guess %d is %v, want %v", i-6, d, guess)
			}
			guess *= 2
		}
	})
}

// A poll that was refused is learned from, and is a poll.
func TestAgainBesideARefusalWaitsForTheLonger(t *testing.T) {
	for _, observe := range []bool{false, true} {
		for _, wait := range []time.Duration{time.Second, 2 * time.Minute} {
			t.Run(fmt.Sprintf("%v, observe %t", wait, observe), func(t *testing.T) {
				b := tripsAtOnce(t)
				bubble(t, func(c *governor.PlainConfig) { c.Observe, c.Breaker, c.LimitedAttempts = observe, b, 2 }, func(t *testing.T, g *governor.Plain) {
					rec := governortest.Record(g, event.Learned, event.Again, event.Requeued)
					start, n := time.Now(), 0
					v, err := governor.Do(t.Context(), g.With(governor.Ask{NoRetry: true}), "", governor.Func(func(context.Context) (int, error) {
						if n++; n <= 4 { // more than LimitedAttempts
							return 7, fmt.Errorf("%w: %w", governor.Again(wait), governortest.Limited(time.Minute))
						}
						return n, nil
					}))
					each := max(wait, time.Minute)
					if observe {
						each = wait
					}
					if d := time.Since(start); v != 5 || err != nil || d != 4*each {
						t.Errorf("%v, %v after %v", v, err, d)
					}
					synctest.Wait()
					if rec.Count(event.Learned) != 4 || rec.Count(event.Requeued) != 0 || rec.Count(event.Again) != 4 || g.Stats().Limited != 4 {
						t.Errorf("events: %v", rec.Kinds())
					}
				})
			})
		}
	}
}

// One that is refused for too long was begun all the same.
func TestAgainBesideARefusalIsSent(t *testing.T) {
	bubble(t, nil, func(t *testing.T, g *governor.Plain) {
		_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
			return 0, fmt.Errorf("%w: %w", governor.Again(time.Second), governortest.Limited(time.Hour))
		}))
		if !errors.Is(err, governor.ErrAgain) || !errors.Is(err, governor.ErrCooling) || governor.IsRefused(err) {
			t.Errorf("%T %v", err, err)
		}
	})
}

// What waits out a pause of its own fails at once where it would wait too long after that.
func TestAPauseOfItsOwnHidesNoLongerOne(t *testing.T) {
	for name, say := range map[string]error{
		"again": governor.Again(14 * time.Minute),
		"alone": governortest.Limited(14*time.Minute, throttle.Scope{Level: throttle.Request}),
		"retry": retry.After(14*time.Minute, errors.New("503")),
		"both":  fmt.Errorf("%w: %w", governor.Again(14*time.Minute), governortest.Limited(2*time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *governor.PlainConfig) { c.Retry = &retry.Config{MaxRetryAfter: 15 * time.Minute} }, func(t *testing.T, g *governor.Plain) {
				start := time.Now()
				_, err := governor.Do(t.Context(), g, "", governor.Func(func(context.Context) (int, error) {
					g.Learn(throttle.Signal{Delay: 2 * time.Hour})
					time.Sleep(time.Second)
					return 0, say
				}))
				if d := time.Since(start); d > time.Second || !errors.Is(err, governor.ErrCooling) {
					t.Errorf("failed after %v: %v", d, err)
				}
			})
		})
	}
}

// A request that its vendor pauses alone for too long says by which word.
func TestTooLongAPauseOfARequestSaysTheSignal(t *testing.T) {
	for _, scope := range []throttle.Scope{{Level: throttle.Request}, tenant("other")} {
		t.Run(scope.String(), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, g *governor.Plain) {
				sig := throttle.Signal{Kind: throttle.KindQuota, Scope: scope, Delay: time.Hour, Source: "daily"}
				_, err := governor.Do(t.Context(), forTenant(g, "me"), "", governor.Func(func(context.Context) (int, error) {
					return 0, &governortest.Refusal{Signals: []throttle.Signal{sig}}
				}))
				e, ok := errors.AsType[*governor.CooldownError](err)
				if !ok || e.Signal.Kind != throttle.KindQuota || e.Signal.Source != "daily" || e.RetryAfter() != time.Hour {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}
