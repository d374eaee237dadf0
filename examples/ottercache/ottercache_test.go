package ottercache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/flyball-go/flyball/examples/ottercache"
	"github.com/flyball-go/flyball/policy"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	cache := must(policy.NewCache(policy.CacheConfig[int, string]{
		TTL:     time.Minute,
		Storage: must(ottercache.New[int, string](100_000)),
	}))
	calls := 0
	user := policy.Wrap1(policy.Chain(cache), func(_ context.Context, id int) (string, error) {
		calls++
		return fmt.Sprint("user ", id), nil
	})
	for _, id := range []int{7, 8, 7} {
		fmt.Println(user(policy.WithKey(context.Background(), id), id))
	}
	fmt.Println(calls, "calls")
	// Output:
	// user 7 <nil>
	// user 8 <nil>
	// user 7 <nil>
	// 2 calls
}

func TestNoRoomIsRefused(t *testing.T) {
	for _, most := range []int{0, -1} {
		if s, err := ottercache.New[int, int](most); err == nil {
			t.Errorf("room for %d: %v", most, s)
		}
	}
}

var errDown = errors.New("down")

func down(context.Context) (int, error) { return 0, errDown }

func one(context.Context) (int, error) { return 1, nil }

func TestAnOldResultServesInPlaceOfAnErrorUntilItIsInvalidated(t *testing.T) {
	cache := must(policy.NewCache(policy.CacheConfig[string, int]{
		TTL: time.Nanosecond, StaleIfError: time.Hour, Storage: must(ottercache.New[string, int](10)),
	}))
	must(cache.Do(t.Context(), "a", one))
	if r, err := cache.Do(t.Context(), "a", down); r != 1 || err != nil {
		t.Errorf("stale: %v, %v", r, err)
	}
	cache.Invalidate("a")
	if _, err := cache.Do(t.Context(), "a", down); !errors.Is(err, errDown) {
		t.Errorf("invalidated: %v", err)
	}
}

func TestNothingIsKeptBeyondItsTime(t *testing.T) {
	s := must(ottercache.New[string, int](10))
	s.Set("a", policy.Entry[int]{Value: 1, Keep: time.Now().Add(time.Hour)})
	if e, ok := s.Get("a"); !ok || e.Value != 1 {
		t.Errorf("before: %v, %v", e, ok)
	}
	s.Set("a", policy.Entry[int]{Value: 2, Keep: time.Now().Add(-time.Second)})
	if e, ok := s.Get("a"); ok {
		t.Errorf("after: %v", e)
	}
}

func TestOneCallForAllThatComeAtOnce(t *testing.T) {
	cache := must(policy.NewCache(policy.CacheConfig[string, int]{Storage: must(ottercache.New[string, int](10))}))
	var wg sync.WaitGroup
	calls := 0 // by one at a time, or the race detector tells
	for range 100 {
		wg.Go(func() {
			if r, err := cache.Do(t.Context(), "a", func(ctx context.Context) (int, error) { calls++; return one(ctx) }); r != 1 || err != nil {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
