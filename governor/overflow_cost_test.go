package governor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

func TestOnlyARuleThatDropsWhatWaitsCostsAnything(t *testing.T) {
	for rule := Block; rule <= DropLower; rule++ {
		g, err := New(PlainConfig{Name: "test", Overflow: rule})
		if err != nil {
			t.Fatal(err)
		}
		if used := g.core.queue.Elders != nil; used != (rule >= DropOldest) {
			t.Errorf("rule %d: %v", rule, used)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// overheard counts how often it is asked.
type overheard struct {
	limiter.Limiter
	times *int
}

func (a overheard) Wait(now time.Time, key string, n int) time.Duration {
	*a.times++
	return a.Limiter.Wait(now, key, n)
}

// All who come at once to a full queue cost one look at what waits, and none where no limit
// is narrower than the host.
func TestAFullQueueIsLookedAtOnceForAllWhoCome(t *testing.T) {
	const n, callers = 200, 100
	block := Func(func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, nil
	})
	for _, per := range []throttle.Level{throttle.Host, throttle.Tenant} {
		for _, rule := range []Overflow{Reject, DropLower, DropOldest} {
			synctest.Test(t, func(t *testing.T) {
				l, err := limiter.NewQuota(limiter.QuotaConfig{Limit: 10 * n, Per: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				times := 0
				g, err := New(PlainConfig{
					Name: "test", NoPace: true, Workers: n, MaxQueue: n, MaxWait: -1, Overflow: rule,
					Limits: []Limit{{Per: per, Limiter: overheard{l, &times}}},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				for i := range 2 * n { // half of them begin
					Submit(t.Context(), g.With(Ask{Tenant: fmt.Sprint(i)}), "", block)
				}
				synctest.Wait()
				busy := make(chan struct{})
				go g.core.ask(func() { <-busy })
				synctest.Wait()
				times = 0
				for range callers {
					go Submit(t.Context(), g.With(Ask{Tenant: "late"}), "", block)
				}
				synctest.Wait()
				close(busy)
				synctest.Wait()
				most := 10 * callers
				if per != throttle.Host {
					most += 5 * n
				}
				if times > most {
					t.Errorf("%v, %v: asked %d times, want at most %d", per, rule, times, most)
				}
			})
		}
	}
}
