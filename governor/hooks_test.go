package governor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/retry"
	"github.com/flyball-go/flyball/throttle"
)

// What is recovered is not forgotten: an operator sees that a function of the
// user's panics, once for each time.
func TestStatsCountPanicsOfHooks(t *testing.T) {
	boom := errors.New("500")
	for name, tt := range map[string]struct {
		set  func(*governor.PlainConfig)
		hear func(event.Event)
		err  error
	}{
		"listener": {hear: func(event.Event) { panic("listener") }},
		"RetryIf": {err: boom, set: func(c *governor.PlainConfig) {
			c.Retry = &retry.Config{RetryIf: func(error) bool { panic("RetryIf") }}
		}},
		"Backoff": {err: boom, set: func(c *governor.PlainConfig) {
			c.Retry = &retry.Config{Backoff: guess(func(backoff.Step) (time.Duration, bool) { panic("Backoff") })}
		}},
		"Guess": {err: governortest.Limited(throttle.Unknown), set: func(c *governor.PlainConfig) {
			c.Guess = guess(func(backoff.Step) (time.Duration, bool) { panic("Guess") })
		}},
		"Guess for the request alone": {err: governortest.Limited(throttle.Unknown, throttle.Scope{Level: throttle.Request}), set: func(c *governor.PlainConfig) {
			c.Guess = guess(func(backoff.Step) (time.Duration, bool) { panic("Guess") })
		}},
		"none": {err: boom},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.set, func(t *testing.T, g *governor.Plain) {
				if tt.hear != nil {
					g.Listen(tt.hear, event.Completed)
				}
				for range 2 {
					_, _ = governor.Do(t.Context(), g, "", governortest.NewScript(tt.err).Call)
				}
				synctest.Wait()
				want := uint64(2)
				if name == "none" {
					want = 0
				}
				if s := g.Stats(); s.HookPanics != want || s.Panics != 0 {
					t.Errorf("%d panics of hooks, %d of closures; want %d and 0", s.HookPanics, s.Panics, want)
				}
			})
		})
	}
}

func TestStatsCountPanicsOfThePoolsHooks(t *testing.T) {
	var asked atomic.Uint64
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.Pool.IsBad = func(error) bool { asked.Add(1); panic("IsBad") }
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		for range 2 {
			_, _ = governor.Do(t.Context(), g, "a", use(0, errors.New("500")))
		}
		if s := g.Stats(); s.HookPanics < 2 || s.HookPanics != asked.Load() || s.Panics != 0 {
			t.Errorf("%d panics of hooks, %d of closures; want %d and 0", s.HookPanics, s.Panics, asked.Load())
		}
	})
}
