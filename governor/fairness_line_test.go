package governor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/throttle"
)

// inLine runs fn with a governor whose buckets have a permit a second each, while calls of
// so many other buckets end once a second, upon each of which the limits are asked again.
func inLine(t *testing.T, ageing time.Duration, others int, fn func(t *testing.T, g *governor.Plain, loop func(ask governor.Ask, takes, pause time.Duration) *atomic.Int64)) {
	t.Helper()
	bubble(t, func(c *governor.PlainConfig) {
		c.Workers, c.NoPace, c.Ageing = 32, true, ageing
		c.Limits = []governor.Limit{{Per: throttle.Bucket, Limiter: newBucket(t, 1, 1)}}
	}, func(t *testing.T, g *governor.Plain) {
		ctx, cancel := context.WithCancel(t.Context())
		loop := func(ask governor.Ask, takes, pause time.Duration) *atomic.Int64 {
			n := new(atomic.Int64)
			go func() {
				for ctx.Err() == nil {
					if _, err := governor.Do(ctx, g.With(ask), "", sleep(takes)); err == nil {
						n.Add(1)
					}
					time.Sleep(pause)
				}
			}()
			return n
		}
		for i := range others {
			time.Sleep(150 * time.Millisecond)
			loop(governor.Ask{Bucket: fmt.Sprint("other", i)}, 300*time.Millisecond, 700*time.Millisecond)
		}
		fn(t, g, loop)
		cancel()
		time.Sleep(time.Minute) // they end
	})
}

// A turn that the limit refuses is none.
func TestWhatHasAgedStartsHoweverOftenALimitIsAskedInVain(t *testing.T) {
	for others := range 4 {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			inLine(t, 10*time.Second, others, func(t *testing.T, g *governor.Plain, loop func(governor.Ask, time.Duration, time.Duration) *atomic.Int64) {
				for range 2 {
					loop(governor.Ask{Bucket: "b", Priority: 1}, 300*time.Millisecond, 0)
				}
				time.Sleep(5*time.Second + time.Millisecond)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var at time.Time
				_, err := governor.Submit(ctx, g.With(governor.Ask{Bucket: "b"}), "", stamp(&at)).Result(t.Context())
				if err != nil || at.Sub(start) > 15*time.Second {
					t.Errorf("it started after %v: %v; want no more than the 10 s of a priority, and some starts", at.Sub(start), err)
				}
			})
		})
	}
}

func TestWhatIsUrgentSharesALineWithWhatHasAged(t *testing.T) {
	for others := range 4 {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			inLine(t, time.Second, others, func(t *testing.T, g *governor.Plain, loop func(governor.Ask, time.Duration, time.Duration) *atomic.Int64) {
				started := func(loops []*atomic.Int64) (n int64) {
					for _, l := range loops {
						n += l.Load()
					}
					return n
				}
				var low, high []*atomic.Int64
				for range 300 {
					low = append(low, loop(governor.Ask{Bucket: "b"}, 0, 10*time.Second))
				}
				time.Sleep(10 * time.Second)
				for range 20 {
					high = append(high, loop(governor.Ask{Bucket: "b", Priority: 1}, 0, time.Second))
				}
				before := started(low)
				time.Sleep(200 * time.Second)
				if h, l := started(high), started(low)-before; h < 90 || l < 90 {
					t.Errorf("of 200 starts %d were urgent and %d old, want half each", h, l)
				}
			})
		})
	}
}
