package governor

import (
	"context"
	"testing"
	"time"

	"github.com/flyball-go/flyball/limiter"
)

// slow is a limiter whose first answer takes until it is let go.
type slow struct {
	limiter.Limiter
	asked, leave chan struct{}
	twice        bool
}

func (l *slow) Wait(now time.Time, key string, n int) time.Duration {
	if !l.twice {
		l.twice = true
		close(l.asked)
		<-l.leave
	}
	return l.Limiter.Wait(now, key, n)
}

// Whoever comes while another has the turn leaves what it has, and goes; nobody else
// comes after it. There is no bubble, for it would wait for who waits for a mutex.
func TestWhatIsLeftDuringAnothersTurnIsTakenUp(t *testing.T) {
	for name, begin := range map[string]func(c *core, submit func()){
		"a helper's": func(_ *core, submit func()) { go submit() },
		"the actor's": func(c *core, submit func()) {
			c.Pause()
			submit()
			c.Stats()
			time.Sleep(time.Millisecond)
			go c.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := limiter.NewBucket(limiter.BucketConfig{Rate: 1, Burst: 10})
			if err != nil {
				t.Fatal(err)
			}
			l := &slow{Limiter: b, asked: make(chan struct{}), leave: make(chan struct{})}
			g, err := New(Config[string, int]{Name: "test", Workers: 4, StuckAfter: -1, NoPace: true, Limits: []Limit{{Limiter: l}}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			g.actorOnly = true
			for range 10 {
				g.Stats() // the actor has begun
			}
			time.Sleep(time.Millisecond) // and waits, or the test shows nothing
			end, started := make(chan struct{}), make(chan struct{})
			defer close(end)
			submit := func() {
				Submit(context.Background(), g, "", func(context.Context, int) (int, error) {
					started <- struct{}{}
					<-end
					return 0, nil
				})
			}
			begin(g.core, submit)
			<-l.asked
			submit()
			close(l.leave)
			for i := range 2 {
				select {
				case <-started:
				case <-time.After(time.Minute): // only of a failure
					t.Fatalf("%d of 2 started", i)
				}
			}
		})
	}
}
