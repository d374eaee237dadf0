package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/policy"
)

// A chain says what it is made of, for a test that pins it down.
func ExampleDescribe() {
	guarded := policy.Chain(must(policy.NewTimeout(policy.TimeoutConfig{})), must(policy.NewBulkhead(policy.BulkheadConfig{})))
	fmt.Println(len(policy.Describe(guarded)), guarded)
	// Output: 2 timeout(1s) > bulkhead(25 at once)
}

// A predicate on errors or results.
func ExampleAny() {
	fallback := must(policy.NewFallback(policy.FallbackConfig{
		With: policy.Value(-1),
		If: policy.Any(
			policy.OnError(func(err error) bool { return errors.Is(err, errDown) }),
			policy.OnResult(func(n int) bool { return n == 0 }),
		),
	}))
	count := policy.Wrap1(policy.Chain(fallback), func(ctx context.Context, n int) (int, error) {
		if n > 9 {
			return n, errDown
		}
		return n, nil
	})
	for _, n := range []int{0, 5, 10} {
		fmt.Println(count(context.Background(), n))
	}
	// Output:
	// -1 <nil>
	// 5 <nil>
	// -1 <nil>
}

// Only so many substitutes run at once: a fallback that is slow does not become
// the next thing to fall over.
func ExampleFallbackError() {
	fallback := must(policy.NewFallback(policy.FallbackConfig{
		Name: "prices", Max: 1,
		With:    policy.Func(func(context.Context, error) (int, error) { return 0, errors.New("no copy") }),
		OnEvent: func(e event.Event) { fmt.Println(e.Name, e.Kind, e.Err) },
	}))
	fmt.Println(policy.Do(context.Background(), policy.Chain(fallback), func(context.Context) (int, error) { return 0, errDown }))
	// Output:
	// prices fallback failed no copy
	// 0 no copy
}

func ExampleBulkhead_SetMaxWait() {
	bulkhead := must(policy.NewBulkhead(policy.BulkheadConfig{Max: 1}))
	bulkhead.TryAcquire()
	bulkhead.SetMaxWait(10 * time.Millisecond)
	fmt.Println(bulkhead, bulkhead.Acquire(context.Background()))
	// Output: bulkhead(1 at once, waits 10ms) policy: full (1 at once) after waiting 10ms
}

// Each further attempt has a delay of its own: the second soon, the third only
// when one has failed.
func ExampleHedgeConfig_delayOf() {
	hedge := must(policy.NewHedge(policy.HedgeConfig{
		Max: 2,
		DelayOf: func(ctx context.Context, attempt int) time.Duration {
			if attempt == 2 {
				return 10 * time.Millisecond
			}
			return -1
		},
	}))
	winner, err := policy.Do(context.Background(), policy.Chain(hedge), func(ctx context.Context) (int, error) {
		n := policy.HedgeAttempt(ctx)
		switch n {
		case 1:
			<-ctx.Done() // slow
		case 2:
			return 0, errDown
		}
		return n, nil
	})
	fmt.Println(winner, err)
	// Output: 3 <nil>
}

// A result that is too old to be used first is still better than an error.
func ExampleCacheConfig_staleIfError() {
	cache := must(policy.NewCache(policy.CacheConfig[string, int]{
		TTL:          time.Nanosecond,
		StaleIfError: time.Hour,
		OnEvent:      func(e event.Event) { fmt.Println(e.Kind, e.Err) },
	}))
	ctx := context.Background()
	_, _ = cache.Do(ctx, "EUR", func(context.Context) (int, error) { return 107, nil })
	time.Sleep(time.Millisecond)
	fmt.Println(cache.Do(ctx, "EUR", func(context.Context) (int, error) { return 0, errDown }))
	// Output:
	// cache miss <nil>
	// cache stale down
	// cache miss down
	// 107 <nil>
}

// What could not be undone is told with what went wrong.
func ExampleUndoError() {
	saga := must(policy.NewSaga(policy.SagaConfig{Name: "campaign"}))
	err := saga.Run(context.Background(), func(ctx context.Context, steps *policy.Steps) error {
		_, err := policy.Step(ctx, steps,
			func(context.Context) (int, error) { return 7, nil },
			func(_ context.Context, id int) error { return fmt.Errorf("campaign %d is locked", id) })
		if err != nil {
			return err
		}
		return errDown
	})
	if e, ok := errors.AsType[*policy.UndoError](err); ok {
		fmt.Println(e.Err, e.Undo)
	}
	fmt.Println(errors.Is(err, errDown))
	// Output:
	// down [step 1: campaign 7 is locked]
	// true
}

// A function with layers around it, or without any.
func ExampleDo() {
	bare := policy.Chain()
	n, err := policy.Do(context.Background(), bare, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	_, err = policy.Do[int](context.Background(), bare, nil)
	fmt.Println(errors.Is(err, policy.ErrInvalid))
	// Output:
	// 42 <nil>
	// true
}

// language is a layer of one's own that changes the context of what is further in.
type language string

type languageKey struct{}

func (language) Layer() policy.Layer { return policy.CacheLayer }
func (l language) String() string    { return string(l) }

func (l language) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		return c.WithContext(context.WithValue(c.Context(), languageKey{}, l), next)
	}
}

func ExampleCall_WithContext() {
	in := policy.Wrap(policy.Chain(language("fi")), func(ctx context.Context) (language, error) {
		l, _ := ctx.Value(languageKey{}).(language)
		return l, nil
	})
	fmt.Println(in(context.Background()))
	// Output: fi <nil>
}

// shelf is a Storage of one's own. It may forget what it likes, when it likes: this
// one keeps what can still be of use.
type shelf struct{ entries sync.Map }

func (s *shelf) Get(key string) (e policy.Entry[int], ok bool) {
	v, ok := s.entries.Load(key)
	if ok {
		e = v.(policy.Entry[int])
	}
	return e, ok && time.Now().Before(e.Keep)
}

func (s *shelf) Set(key string, e policy.Entry[int]) { s.entries.Store(key, e) }
func (s *shelf) Delete(key string)                   { s.entries.Delete(key) }

func ExampleStorage() {
	cache := must(policy.NewCache(policy.CacheConfig[string, int]{Storage: new(shelf)}))
	ctx, calls := context.Background(), 0
	count := func(context.Context) (int, error) { calls++; return calls, nil }
	fmt.Println(cache.Do(ctx, "a", count))
	fmt.Println(cache.Do(ctx, "a", count))
	// Output:
	// 1 <nil>
	// 1 <nil>
}

// A panic in a call that others wait for is an error to them.
func ExamplePanicError() {
	users := must(policy.NewCollapse(policy.CollapseConfig[int, string]{
		Batch: func(context.Context, []int) (map[int]string, error) { panic("no users") },
	}))
	defer users.Close()
	_, err := users.Do(context.Background(), 7)
	if e, ok := errors.AsType[*policy.PanicError](err); ok {
		fmt.Println("panicked with", e.Value)
	}
	// Output: panicked with no users
}

// What a vendor says in a good answer's body becomes an error, and one kind of error
// an empty result: of every call, whatever came of it.
func ExampleMap() {
	tidy := must(policy.NewFallback(policy.FallbackConfig{
		Max: -1, // a mapper is quick: any number at once
		If:  func(*policy.Call, error) bool { return true },
		With: policy.Map(func(_ context.Context, body string, err error) (string, error) {
			switch {
			case errors.Is(err, errDown):
				return "nobody", nil
			case strings.HasPrefix(body, "error: "):
				return "", errors.New(strings.TrimPrefix(body, "error: "))
			}
			return body, err
		}),
	}))
	for _, answer := range []string{"ann", "error: no such user", ""} {
		fmt.Println(policy.Do(context.Background(), policy.Chain(tidy), func(context.Context) (string, error) {
			if answer == "" {
				return "", errDown
			}
			return answer, nil
		}))
	}
	// Output:
	// ann <nil>
	//  no such user
	// nobody <nil>
}
