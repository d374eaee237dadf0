package governor_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/backoff"
	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/policy"
	"github.com/flyball-go/flyball/retry"
)

func newBudget(t *testing.T, ratio float64, least int) *policy.Budget {
	t.Helper()
	b, err := policy.NewBudget(policy.BudgetConfig{Ratio: ratio, Min: least})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func repeating(b *policy.Budget) func(*governor.PlainConfig) {
	return func(c *governor.PlainConfig) {
		c.NoPace = true
		c.Retry = &retry.Config{Budget: b, Backoff: backoff.Constant(time.Second)}
	}
}

// Of three calls that fail at once one may be repeated at a time; rate limits are
// repeated whatever the budget is.
func TestBudgetBoundsRepetitionsOfFailures(t *testing.T) {
	b := newBudget(t, -1, 1)
	bubble(t, repeating(b), func(t *testing.T, g *governor.Plain) {
		rec := governortest.Record(g)
		boom := errors.New("500")
		var rs []*governor.Request[int]
		for range 3 {
			rs = append(rs, governor.Submit(t.Context(), g, "", governortest.NewScript(boom).Call))
		}
		synctest.Wait()
		if s := b.State(); s.Repetitions != 1 || s.Calls != 0 {
			t.Errorf("in the backoff of one: %+v", s)
		}
		ok := 0
		for _, r := range rs {
			_, err := r.Result(t.Context())
			if err == nil {
				ok++
			} else if e, gaveUp := errors.AsType[*governor.GaveUpError](err); !gaveUp || e.Attempts != 1 || !errors.Is(err, boom) {
				t.Errorf("%v, want that it gave up after an attempt", err)
			}
		}
		if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(governortest.Limited(time.Second), governortest.Limited(time.Second)).Call); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if ok != 1 || rec.Count(event.BudgetSpent) != 2 || b.State().Repetitions != 0 {
			t.Errorf("%d were repeated, the budget was spent %d times, %+v", ok, rec.Count(event.BudgetSpent), b.State())
		}
	})
}

// Whatever becomes of the calls, the budget is whole again when they are over.
func TestBudgetGetsBackWhatItGave(t *testing.T) {
	b := newBudget(t, 1, 100)
	bubble(t, repeating(b), func(t *testing.T, g *governor.Plain) {
		for i := range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(4000))*time.Millisecond)
			defer cancel()
			r := governor.Submit(ctx, g, "", governor.Func(func(ctx context.Context) (int, error) {
				time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
				if rand.IntN(20) == 0 {
					panic("boom")
				}
				if rand.IntN(20) == 0 {
					release := governor.Hold(ctx)
					time.AfterFunc(time.Second, func() { release(errors.New("late")) })
					return 0, nil
				}
				return 0, errors.New("500")
			}))
			if i%10 == 0 {
				time.AfterFunc(time.Duration(rand.IntN(3000))*time.Millisecond, r.Cancel)
			}
		}
		time.Sleep(2 * time.Second)
		if s := b.State(); s.Calls == 0 || s.Repetitions == 0 {
			t.Errorf("%+v: the test tests nothing", s)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if s := b.State(); s.Calls != 0 || s.Repetitions != 0 {
			t.Errorf("after all is over: %+v", s)
		}
	})
}

// What an error asks for beyond Retry.MaxRetryAfter is not waited for, and said.
func TestClampedRetryHintIsToldOf(t *testing.T) {
	for _, tt := range []struct {
		hint, wait time.Duration
		clamped    uint64
	}{{time.Minute, time.Minute, 0}, {time.Hour, 10 * time.Minute, 1}} {
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace = true
			c.Retry = &retry.Config{MaxRetryAfter: 10 * time.Minute}
		}, func(t *testing.T, g *governor.Plain) {
			rec := governortest.Record(g)
			start := time.Now()
			if _, err := governor.Do(t.Context(), g, "", governortest.NewScript(retry.After(tt.hint, errors.New("503"))).Call); err != nil {
				t.Error(err)
			}
			since(t, "it was repeated", start, time.Now(), tt.wait)
			synctest.Wait()
			if n := uint64(rec.Count(event.Clamped)); n != tt.clamped || g.Stats().Clamped != n {
				t.Errorf("%v: %d events, %d counted, want %d", tt.hint, n, g.Stats().Clamped, tt.clamped)
			}
		})
	}
}
