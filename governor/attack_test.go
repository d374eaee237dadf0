package governor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/pool"
	"github.com/flyball-go/flyball/throttle"
)

// Evicted governors whose connections take long to close still are there: they
// count, too.
func TestGroupIsBoundedWhenConnectionsAreSlowToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		g, err := governor.NewGroup(governor.GroupConfig[string, int]{
			MaxHosts: 20,
			Config: func(host string) (governor.Config[string, int], error) {
				return governor.Config[string, int]{Pool: &pool.Config[string, int]{
					Open:  func(context.Context, string) (int, error) { return 0, nil },
					Close: func(string, int) { <-hang },
				}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		refused := 0
		for i := range 500 {
			h, err := g.Get(fmt.Sprint(i))
			if err != nil {
				if refused++; err != governor.ErrTooManyHosts {
					t.Fatal(err)
				}
				continue
			}
			governor.Do(t.Context(), h, "", func(context.Context, int) (int, error) { return 0, nil })
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 1000 || refused < 300 {
			t.Errorf("%d goroutines, %d hosts refused", n, refused)
		}
		close(hang)
		synctest.Wait()
		if _, err := g.Get("again"); err != nil {
			t.Error(err)
		}
		g.Close()
	})
}

func TestAgainForEverOrLater(t *testing.T) {
	bubble(t, func(c *governor.PlainConfig) { c.MaxWait = -1 }, func(t *testing.T, g *governor.Plain) {
		again := func(d time.Duration) func(context.Context, struct{}) (int, error) {
			return governor.Func(func(context.Context) (int, error) { return 0, governor.Again(d) })
		}
		huge := governor.Submit(t.Context(), g, "", again(math.MaxInt64))
		kept := governor.Submit(t.Context(), g.With(governor.Ask{KeepConn: true}), "", again(math.MaxInt64))
		cancelled := governor.Submit(t.Context(), g, "", again(math.MaxInt64))
		late := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(time.Minute)}), "", again(-1))
		past := governor.Submit(t.Context(), g.With(governor.Ask{StartBy: time.Now().Add(-1)}), "", again(1))
		time.Sleep(time.Hour)
		cancelled.Cancel()
		synctest.Wait()
		if huge.State() != governor.Waiting || kept.State() != governor.Waiting || cancelled.State() != governor.Done {
			t.Error(huge.State(), kept.State(), cancelled.State())
		}
		for _, r := range []*governor.Request[int]{late, past} {
			if _, err := r.Result(t.Context()); !errors.Is(err, governor.ErrLate) {
				t.Error(err)
			}
		}
		if s := g.Stats(); s.InFlight != 1 {
			t.Errorf("%d in flight", s.InFlight)
		}
	})
}

// Tenants that come and go leave nothing behind.
func TestTenantsThatComeAndGoLeaveNothing(t *testing.T) {
	g, err := governor.New(governor.PlainConfig{Name: "test", MaxKeys: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	round := func(k int) {
		for i := range 20_000 {
			a := governor.Ask{Tenant: fmt.Sprint("t", k, i), Bucket: fmt.Sprint("b", k, i), Priority: i % 7}
			if _, err := governor.Do(t.Context(), g.With(a), fmt.Sprint("s", k, i%500), sleep(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	before := heap()
	for k := range 3 {
		round(k + 1)
	}
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	if s := g.Stats(); s.LaneCount != 0 {
		t.Errorf("%d lanes", s.LaneCount)
	}
}

// Who cancels what waits gets no more and no less of a limit than who does not, and who
// returns after having nothing to do gets the part of its weight at once.
func TestCancellingAndReturningNeitherGainNorLose(t *testing.T) {
	for _, per := range []throttle.Level{throttle.Host, throttle.Bucket} {
		b := newBucket(t, 100, 1)
		bubble(t, func(c *governor.PlainConfig) {
			c.NoPace, c.Limits = true, []governor.Limit{{Per: per, Limiter: b}}
			c.Weight = func(tenant string) int { return map[string]int{"returns": 4}[tenant] }
		}, func(t *testing.T, g *governor.Plain) {
			var cancels, stays, returns int
			feed := func(tenant string, n *int, cancel bool) {
				view := g.With(governor.Ask{Tenant: tenant, Bucket: "b"})
				var waiting []*governor.Request[int]
				for i := range 20_000 {
					for len(waiting) < 20 {
						waiting = append(waiting, governor.Submit(t.Context(), view, fmt.Sprint(len(waiting)%3), counting(n)))
					}
					time.Sleep(7 * time.Millisecond)
					waiting = slices.DeleteFunc(waiting, func(r *governor.Request[int]) bool {
						if i++; cancel && i%5 == 0 {
							r.Cancel()
						}
						return cancel && i%5 == 0 || r.State() == governor.Done
					})
				}
			}
			go feed("cancels", &cancels, true)
			go feed("stays", &stays, false)
			read := func() int {
				countingMu.Lock()
				defer countingMu.Unlock()
				return returns
			}
			for range 130 {
				before, start := read(), time.Now()
				for range 40 {
					governor.Submit(t.Context(), g.With(governor.Ask{Tenant: "returns", Bucket: "b"}), "", counting(&returns))
				}
				for read() < before+40 {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				if d := time.Since(start); d > 650*time.Millisecond {
					t.Fatalf("40 of weight 4 beside 2 of weight 1 took %v at the limit of the %v, want 600 ms", d, per)
				}
				time.Sleep(time.Second - time.Since(start))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			countingMu.Lock()
			defer countingMu.Unlock()
			if cancels < stays-stays/50 || cancels > stays+stays/50 {
				t.Errorf("who cancels started %d, who does not %d", cancels, stays)
			}
		})
	}
}
