package governor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/breaker"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// A closure that ends its goroutine ends that of Do's caller, whichever path it took. A
// deferred call there finds everything given back and counted, as one after a panic does.
func TestCallThatEndsItsCallersGoroutineIsAccountedForFirst(t *testing.T) {
	for _, actor := range []bool{false, true} {
		for name, end := range map[string]func(){"Goexit": runtime.Goexit, "panic": func() { panic("oops") }} {
			t.Run(fmt.Sprintf("%s, actor %t", name, actor), func(t *testing.T) {
				one, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				b := &trap{}
				direct(t, Config[string, int]{Workers: 1, Breaker: b, Limits: limits(throttle.Host, one), Pool: ints(nil)}, func(t *testing.T, g *Governor[string, int]) {
					g.actorOnly = actor
					for n := uint64(1); n <= 3; n++ { // the second would wait for ever for what the first had kept
						if _, err := Do(t.Context(), g, "", answer); err != nil { // opens a connection
							t.Fatal(err)
						}
						var s Stats
						var got error
						returned, left := false, time.Time{}
						var wg sync.WaitGroup
						wg.Go(func() {
							defer func() { s, left = g.Stats(), time.Now() }()
							_, got = Do(t.Context(), g, "", func(context.Context, int) (int, error) { end(); return 0, nil })
							returned = true
						})
						start := time.Now()
						wg.Wait()
						if returned != (name == "panic") || !left.Equal(start) {
							t.Fatalf("it returned: %t, after %v", returned, left.Sub(start))
						}
						if pe, ok := errors.AsType[*PanicError](got); ok != returned || ok && pe.Value != "oops" {
							t.Errorf("got %v", got)
						}
						if s.InFlight != 0 || s.Pool.InUse != 0 || s.Pool.Idle != 0 || s.Pool.Discarded != n {
							t.Errorf("%d in flight, connections %+v; want that %d were discarded", s.InFlight, s.Pool, n)
						}
						if s.Started != 2*n || s.Succeeded != n || s.Failed != n || s.Panics != n || s.Call.Count != 2*n || s.Submitted != 2*n {
							t.Errorf("statistics %+v, want %d calls that went well and as many that failed", s, n)
						}
						b.mu.Lock()
						if b.out != 0 || b.heard[2*n-1] != breaker.Failure {
							t.Errorf("%d permits of the breaker are out, it heard %v", b.out, b.heard)
						}
						b.mu.Unlock()
					}
				})
			})
		}
	}
}
