package governor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A call that comes and goes back into the queue while the eviction is on its way to
// the actor keeps the governor.
func TestEvictionSeesACallThatIsOnItsWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gr, err := NewGroup(GroupConfig[string, struct{}]{
			IdleTimeout: time.Hour,
			Config:      func(string) (PlainConfig, error) { return PlainConfig{NoPace: true}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer gr.Close()
		g, err := gr.Get("a")
		if err != nil {
			t.Fatal(err)
		}
		busy := make(chan struct{})
		go g.core.ask(func() { <-busy })
		synctest.Wait()
		retired := make(chan bool, 1)
		go func() { retired <- g.retire() }()
		synctest.Wait()
		result := make(chan error, 1)
		go func() {
			asked := false
			_, err := Do(t.Context(), g, "", func(context.Context, struct{}) (int, error) {
				if !asked {
					asked = true
					return 0, Again(time.Second)
				}
				return 0, nil
			})
			result <- err
		}()
		synctest.Wait()
		close(busy)
		if err := <-result; err != nil || <-retired {
			t.Errorf("%v, want that it was called again by the same governor", err)
		}
	})
}
