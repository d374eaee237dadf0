package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/wall"
)

// stepped is a chain as if the wall clock had been set by d after it was made: what
// its calls read of the clock differs by that from all other readings.
func stepped(t *testing.T, d time.Duration, policies ...Policy) *Pipeline {
	t.Helper()
	p := Chain(policies...)
	p.base = wall.Set(t, p.base, -d)
	return p
}

// Not in a bubble, whose times have no monotonic reading.
func TestSteppingTheWallClockDoesNotChangeWhatIsFresh(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		lru, c := must(NewLRU[string, int](0)), new(counter)
		x := must(NewCache(CacheConfig[string, int]{TTL: 30 * time.Minute, StaleIfError: 30 * time.Minute, Storage: lru}))
		p := stepped(t, step, x)
		get := func() (int, error) { return Do(WithKey(t.Context(), "a"), p, c.run) }
		for range 2 {
			r, err := get()
			want(t, "before TTL", r, 1)
			wantErr(t, "before TTL", err)
		}
		age := func(d time.Duration) { // and as if it had been stored before the step
			e, _ := lru.Get("a")
			before := func(at time.Time) time.Time { return wall.Set(t, at.Add(-d), step) }
			lru.Set("a", Entry[int]{Value: e.Value, Stored: before(e.Stored), Fresh: before(e.Fresh), Keep: before(e.Keep)})
		}
		age(20 * time.Minute)
		r, _ := get()
		want(t, "stored before the step", r, 1)
		r, _ = x.Do(t.Context(), "a", c.run)
		want(t, "without a chain", r, 1)
		age(20 * time.Minute)
		c.fail.Store(&errBoom)
		r, err := get()
		want(t, "stale", r, 1)
		wantErr(t, "stale", err)
		age(30 * time.Minute)
		if _, err = get(); err != errBoom {
			t.Errorf("set by %v, too old to be used in place of an error: %v", step, err)
		}
		c.fail.Store(nil)
		r, _ = get()
		want(t, "after TTL", r, 4)
	}
}

func TestSteppingTheWallClockDoesNotChangeATimeout(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		p := stepped(t, step, must(NewTimeout(TimeoutConfig{After: 30 * time.Minute})))
		_, err := Do(t.Context(), p, func(ctx context.Context) (int, error) {
			looked := ctx.Err()
			ctx.Done() // from here on there is a timer
			return 0, errors.Join(looked, ctx.Err())
		})
		wantErr(t, "in time", err)
		p = stepped(t, step, must(NewTimeout(TimeoutConfig{After: 1})))
		for _, wait := range []func(context.Context){
			func(ctx context.Context) { <-ctx.Done() },
			func(ctx context.Context) {
				for ctx.Err() == nil {
				}
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of a test that would not end
			_, err = Do(ctx, p, func(ctx context.Context) (int, error) { wait(ctx); return 0, ctx.Err() })
			cancel()
			wantErr(t, "out of time", err, ErrTimeout)
		}
	}
}

// The deadline of a caller's context may be of the wall clock alone, as one that came in a
// header: it is compared with what that shows now.
func TestATimeoutIsComparedWithADeadlineOfTheWallClockOfNow(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, short := range []bool{true, false} {
			after, by, want := 10*time.Second, 20*time.Millisecond, context.DeadlineExceeded
			if short {
				after, by, want = 20*time.Millisecond, 10*time.Second, ErrTimeout
			}
			p := stepped(t, step, must(NewTimeout(TimeoutConfig{After: after})))
			for how, wait := range map[string]func(context.Context){
				"waits": func(ctx context.Context) { <-ctx.Done() },
				"asks": func(ctx context.Context) {
					for ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				},
			} {
				ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(by).Round(0))
				var at time.Time
				_, err := Do(ctx, p, func(ctx context.Context) (int, error) {
					at, _ = ctx.Deadline()
					wait(ctx)
					return 0, ctx.Err()
				})
				cancel()
				if what := fmt.Sprintf("set by %v, timeout %v, deadline in %v, one that %s", step, after, by, how); !errors.Is(err, want) || errors.Is(err, ErrTimeout) != short {
					t.Errorf("%s: %v", what, err)
				} else if short == (at == at.Round(0)) {
					t.Errorf("%s: its context's deadline is said to be %v", what, at)
				}
			}
		}
	}
}
