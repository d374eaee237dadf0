package governor_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// A lane that was used before, and is empty, has nothing of that left.
func TestWhatComesBackHasTheWeightThatWasSaidOfIt(t *testing.T) {
	for _, before := range []string{"a", "another"} {
		var weight atomic.Int64
		weight.Store(1)
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Workers = true, 16
			c.Limits = []governor.Limit{{Limiter: newBucket(t, 10, 1000)}}
			c.Weight = func(tenant string) int {
				if tenant == "a" {
					return int(weight.Load())
				}
				return 1
			}
		}, func(t *testing.T, g *governor.Plain) {
			g.Pause() // so that it goes through the queue
			r := governor.Submit(t.Context(), forTenant(g, before), "", sleep(0))
			synctest.Wait()
			g.Resume()
			<-r.Done()
			weight.Store(8)

			var mu sync.Mutex
			var order []string
			var all []*governor.Request[int]
			for _, tenant := range slices.Concat(slices.Repeat([]string{"a"}, 8), slices.Repeat([]string{"b"}, 8)) {
				began := false
				all = append(all, governor.Submit(t.Context(), forTenant(g, tenant), "", governor.Func(func(context.Context) (int, error) {
					if !began {
						began = true
						time.Sleep(time.Second)
						return 0, governortest.Limited(10 * time.Second)
					}
					mu.Lock()
					defer mu.Unlock()
					order = append(order, tenant)
					return 0, nil
				})))
			}
			for _, r := range all {
				<-r.Done()
			}
			others := slices.DeleteFunc(slices.Clone(order[:9]), func(tenant string) bool { return tenant == "a" })
			if len(others) > 2 {
				t.Errorf("after %s: %v: of the first 9 %d are not of the tenant of weight 8", before, order, len(others))
			}
		})
	}
}

// It opened a connection, and had to go back before it began; what comes before it in its
// lane since then does not make it younger.
func TestWhatCameBackUnbegunKeepsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := governor.New(governor.Config[string, int]{
			Name: "x", Workers: 2, NoPace: true, Ageing: 10 * time.Second,
			Pool: &pool.Config[string, int]{Max: 8, MaxUses: 1, Open: func(context.Context, string) (int, error) { time.Sleep(time.Second); return 1, nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		low, high := g.With(governor.Ask{Tenant: "low"}), g.With(governor.Ask{Tenant: "high", Priority: 1})
		nothing := func(context.Context, int) (int, error) { return 0, nil }
		began := false
		first := governor.Submit(t.Context(), low, "", func(context.Context, int) (int, error) {
			if !began {
				began = true
				time.Sleep(10 * time.Second)
				return 0, governor.Again(100 * time.Millisecond)
			}
			return 0, nil
		})
		time.Sleep(1100 * time.Millisecond) // it has begun
		var at time.Time
		second := governor.Submit(t.Context(), low, "", func(context.Context, int) (int, error) { at = time.Now(); return 0, nil })
		synctest.Wait() // it opens a connection
		time.Sleep(200 * time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		for range 3 {
			go func() {
				for ctx.Err() == nil {
					governor.Do(ctx, high, "", nothing)
				}
			}()
		}
		third := governor.Submit(t.Context(), low, "", nothing) // so that its lane goes on without it
		time.Sleep(300 * time.Millisecond)
		g.Learn(throttle.Signal{Scope: tenant("low")}) // it has to come back
		time.Sleep(time.Second)
		third.Cancel()
		<-second.Done()
		<-first.Done()
		if d := at.Sub(start); d > 18*time.Second {
			t.Errorf("it started after %v, want soon after the 10 s that a priority is worth", d)
		}
		stop()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}
