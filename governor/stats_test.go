package governor_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/flyball-go/flyball/governor"
)

// Calls go on while Stats counts. None has ended that has not begun, none has begun
// that was not submitted, and nothing counts back.
func TestStatsAgreeAtAnyMoment(t *testing.T) {
	for _, workers := range []int{1, 4} {
		g, err := governor.New(governor.PlainConfig{Name: "x", Workers: workers, NoPace: true})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for n := i; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					fails := governor.Func(func(context.Context) (int, error) {
						if n%2 == 0 {
							return 0, errors.New("no")
						}
						return 0, nil
					})
					if n%4 < 2 {
						governor.Do(t.Context(), g, "", fails)
						continue
					}
					r := governor.Submit(t.Context(), g, "", fails)
					if n%3 == 0 {
						r.Cancel()
					}
					<-r.Done()
				}
			})
		}
		var last governor.Stats
		for range 3000 {
			s := g.Stats()
			for what, ok := range map[string]bool{
				"more done or queued than submitted": s.Succeeded+s.Failed+s.Dropped+uint64(s.Queued) <= s.Submitted,
				"more done than started":             s.Succeeded+s.Failed <= s.Started,
				"more ended than started":            s.Call.Count <= s.Started,
				"more have waited than started":      s.Wait.Count <= s.Started,
				"more started than submitted":        s.Started <= s.Submitted,
				"counted back": s.Submitted >= last.Submitted && s.Started >= last.Started && s.Succeeded >= last.Succeeded &&
					s.Failed >= last.Failed && s.Wait.Count >= last.Wait.Count && s.Call.Count >= last.Call.Count,
			} {
				if !ok {
					t.Errorf("%d workers: %s: %+v", workers, what, s)
				}
			}
			if last = s; t.Failed() {
				break
			}
		}
		close(stop)
		wg.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
