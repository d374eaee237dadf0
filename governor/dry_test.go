package governor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/pool"
	"github.com/stretchr/testify/require"
)

// narrow is a governor of several workers of which each selector may have one connection.
func narrow(t *testing.T, set func(*pool.Config[string, int]), f func(t *testing.T, g *Governor[string, int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := pool.Config[string, int]{MaxPerSelector: 1, Max: 4, Open: func(context.Context, string) (int, error) { return 0, nil }}
		if set != nil {
			set(&cfg)
		}
		g, err := New(Config[string, int]{Name: "test", Workers: 4, NoPace: true, Pool: &cfg})
		require.NoError(t, err)
		defer g.Close()
		f(t, g)
	})
}

// Whenever a connection came back, all who waited for one were asked.
func TestConnectionThatComesBackIsOfferedToOneLane(t *testing.T) {
	t.Run("string", func(t *testing.T) { offersToOneLane(t, "narrow") })
	t.Run("a string of its own type", func(t *testing.T) { offersToOneLane(t, account("narrow")) })
	t.Run("number", func(t *testing.T) { offersToOneLane(t, uint16(7)) })
}

// account is a selector with a method that does not count.
type account string

func (account) String() string { return "an account" }

func offersToOneLane[S comparable](t *testing.T, sel S) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pool.Config[S, int]{MaxPerSelector: 1, Max: 4, Open: func(context.Context, S) (int, error) { return 0, nil }}
		g, err := New(Config[S, int]{Name: "test", Workers: 4, NoPace: true, Pool: &cfg})
		require.NoError(t, err)
		defer g.Close()
		const lanes = 1000
		var reqs []*Request[int]
		for i := range lanes {
			reqs = append(reqs, Submit(t.Context(), g.With(Ask{Tenant: fmt.Sprint(i)}), sel, func(context.Context, int) (int, error) {
				time.Sleep(time.Second)
				return 0, nil
			}))
		}
		for _, r := range reqs {
			_, err := r.Result(t.Context())
			require.NoError(t, err)
		}
		require.Less(t, g.core.queue.Steps(), uint64(6*lanes))
	})
}

// Texts are those of selectors of which no two have the same.
func TestLinesAreNamedByTextsThatTellSelectorsApart(t *testing.T) {
	for _, c := range []struct {
		of   reflect.Type
		want bool
	}{
		{reflect.TypeFor[string](), true}, {reflect.TypeFor[account](), true}, {reflect.TypeFor[int](), true},
		{reflect.TypeFor[time.Month](), false}, {reflect.TypeFor[service](), false}, {reflect.TypeFor[any](), false},
		{reflect.TypeFor[float64](), false}, {reflect.TypeFor[*int](), false},
	} {
		require.Equal(t, c.want, exact(c.of), c.of)
	}
}

// Who waits for a connection does so by priority and age, and keeps nobody of another
// selector back.
func TestConnectionsAreWaitedForInTurnAndBySelector(t *testing.T) {
	narrow(t, nil, func(t *testing.T, g *Governor[string, int]) {
		began := time.Now()
		var mu sync.Mutex
		var order []string // guarded by mu
		submit := func(sel, tenant string, priority int) {
			Submit(t.Context(), g.With(Ask{Tenant: tenant, Priority: priority}), sel, func(context.Context, int) (int, error) {
				mu.Lock()
				order = append(order, fmt.Sprint(tenant, time.Since(began)))
				mu.Unlock()
				time.Sleep(10 * time.Second)
				return 0, nil
			})
		}
		for _, tenant := range []string{"a", "b", "c", "b"} {
			submit("narrow", tenant, 0)
			time.Sleep(time.Second)
		}
		submit("narrow", "urgent", 1)
		submit("other", "free", 0)
		time.Sleep(time.Minute)
		want := []string{"a0s", "free4s", "urgent10s", "b20s", "c30s", "b40s"}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, want, order)
	})
}

// What is noted of selectors whose lanes waited for connections is not kept.
func TestSelectorsThatWaitedForConnectionsAreForgotten(t *testing.T) {
	var closing chan struct{}
	narrow(t, func(cfg *pool.Config[string, int]) {
		cfg.Max, closing = 1, make(chan struct{})
		cfg.IsBad = func(error) bool { return true }
		cfg.Close = func(string, int) { <-closing } // so that there is a slot but no connection
	}, func(t *testing.T, g *Governor[string, int]) {
		defer close(closing)
		_, err := Do(t.Context(), g, "first", func(context.Context, int) (int, error) { return 0, errors.New("broken") })
		require.Error(t, err)
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := Do(ctx, g, fmt.Sprint(i), func(context.Context, int) (int, error) { return 0, nil })
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.LessOrEqual(t, len(g.core.dry.lines), 64)
		}
	})
}

// Connections that come back at the same time are all offered, though only one of those
// that wait is tried at first.
func TestConnectionsThatComeBackTogetherAreAllUsed(t *testing.T) {
	narrow(t, func(cfg *pool.Config[string, int]) { cfg.MaxPerSelector = 3 }, func(t *testing.T, g *Governor[string, int]) {
		began := time.Now()
		var mu sync.Mutex
		starts := make(map[time.Duration]int) // guarded by mu
		for i := range 12 {
			Submit(t.Context(), g.With(Ask{Tenant: fmt.Sprint(i)}), "narrow", func(context.Context, int) (int, error) {
				mu.Lock()
				starts[time.Since(began)]++
				mu.Unlock()
				time.Sleep(time.Second)
				return 0, nil
			})
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[time.Duration]int{0: 3, time.Second: 3, 2 * time.Second: 3, 3 * time.Second: 3}, starts)
	})
}

// Who only observes has those wait in line, too, that wait for a connection.
func TestConnectionsAreWaitedForInTurnWhereNothingIsKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pool.Config[string, int]{MaxPerSelector: 1, Max: 4, Open: func(context.Context, string) (int, error) { return 0, nil }}
		g, err := New(Config[string, int]{Name: "test", Workers: 4, NoPace: true, Pool: &cfg, Observe: true})
		require.NoError(t, err)
		defer g.Close()
		var mu sync.Mutex
		var order []string
		for _, tenant := range []string{"a", "b", "c", "d", "e"} {
			Submit(t.Context(), g.With(Ask{Tenant: tenant}), "narrow", func(context.Context, int) (int, error) {
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				time.Sleep(10 * time.Second)
				return 0, nil
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, order)
	})
}

// service is a selector that does not say all of itself.
type service struct{ account int }

func (service) String() string { return "service" }

func TestSelectorsOfTheSameTextDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pool.Config[service, int]{MaxPerSelector: 1, Max: 4, Open: func(context.Context, service) (int, error) { return 0, nil }}
		g, err := New(Config[service, int]{Name: "test", Workers: 4, NoPace: true, Pool: &cfg})
		require.NoError(t, err)
		defer g.Close()
		began := time.Now()
		slow := func(context.Context, int) (int, error) { time.Sleep(10 * time.Second); return 0, nil }
		Submit(t.Context(), g, service{1}, slow)
		Submit(t.Context(), g, service{1}, slow)
		time.Sleep(time.Second)
		r := Submit(t.Context(), g, service{2}, func(context.Context, int) (int, error) { return 0, nil })
		_, err = r.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
	})
}
