package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/internal/errtree"
	"github.com/flyball-go/flyball/policy"
)

func newRateLayer(t testing.TB, r *Rate, cfg RateLayerConfig) *RateLayer {
	t.Helper()
	l, err := NewRateLayer(r, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fullError is the answer of an inner layer that did not make the call.
type fullError struct{}

func (fullError) Error() string { return "full" }
func (fullError) Refused() bool { return true }

var errVendor = errors.New("vendor's error")

// endings are the ways in which a call may end. The last one is refused by a layer
// further in.
var endings = []func(context.Context) (int, error){
	func(context.Context) (int, error) { return 1, nil },
	func(context.Context) (int, error) { return 0, errVendor },
	func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
	func(context.Context) (int, error) { time.Sleep(time.Hour); return 0, nil }, // heeds nothing
	func(context.Context) (int, error) { panic("oops") },
	func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	func(context.Context) (int, error) { return 0, fmt.Errorf("inside: %w", fullError{}) },
}

// anyhow makes calls that end in all these ways, many at a time, and waits until
// they have. Each is given up after half a second.
func anyhow(t *testing.T, r *rand.Rand, do func(ctx context.Context, key string, fn func(context.Context) (int, error)) error) {
	var wg sync.WaitGroup
	for range 30 {
		fn, key := endings[r.IntN(len(endings))], fmt.Sprint(r.IntN(3))
		after := time.Duration(r.IntN(500)) * time.Millisecond
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			defer func() { _ = recover() }()
			_ = do(ctx, key, fn)
		})
	}
	wg.Wait()
}

// TestSharedLosesNoPermit lets calls through a chain, and through Do, end in any
// way: afterwards nothing is held, and as much can be taken as if only those had
// been that were made.
func TestSharedLosesNoPermit(t *testing.T) {
	type ctxKey struct{}
	for seed := range uint64(effort.Times(6)) {
		bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 50))
			conc, err := NewConcurrency(ConcurrencyConfig{Limit: 4})
			if err != nil {
				t.Fatal(err)
			}
			day := newCalendar(t, CalendarConfig{Limit: 1000, Cycle: Monthly})
			s := newShared(t, SharedConfig{
				Limiters: []Limiter{conc, newQuota(t, QuotaConfig{Limit: 20, Per: time.Second})}, Whole: []Limiter{day},
				MaxQueue: r.IntN(20), Newest: r.IntN(2) == 0, MaxWait: time.Duration(r.IntN(400)-1) * time.Millisecond,
				Key: func(ctx context.Context) string { return ctx.Value(ctxKey{}).(string) },
			})
			chain := policy.Chain(s)
			var mu sync.Mutex
			made := 0
			inChain := r.IntN(2) == 0
			anyhow(t, r, func(ctx context.Context, key string, fn func(context.Context) (int, error)) error {
				counted := func(ctx context.Context) (v int, err error) {
					called := true
					defer func() {
						mu.Lock()
						defer mu.Unlock()
						if called {
							made++
						}
					}()
					v, err = fn(ctx)
					called = !errtree.Refused(err)
					return v, err
				}
				if inChain {
					_, err := policy.Do(context.WithValue(ctx, ctxKey{}, key), chain, counted)
					return err
				}
				_, err := Do(ctx, s, key, 1, counted)
				return err
			})
			synctest.Wait()
			if len(conc.held) != 0 {
				t.Errorf("seed %d: %v are held", seed, conc.held)
			}
			if got := day.Available(time.Now(), ""); got != 1000-made {
				t.Errorf("seed %d: %d of the month's 1000 are left after %d calls", seed, got, made)
			}
			time.Sleep(1005 * time.Millisecond)
			for range 3 {
				if err := s.Allow("0", 1); err != nil {
					t.Errorf("seed %d: a healthy call: %v", seed, err)
				}
			}
		})
	}
}

// TestRateLayerLosesNoPermit does the same with a Rate.
func TestRateLayerLosesNoPermit(t *testing.T) {
	for seed := range uint64(effort.Times(6)) {
		bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 51))
			rate := newRate(t, 20, 1+r.IntN(5))
			wait := []time.Duration{0, -1, time.Duration(r.IntN(300)) * time.Millisecond}[r.IntN(3)]
			chain := policy.Chain(newRateLayer(t, rate, RateLayerConfig{MaxWait: wait}))
			anyhow(t, r, func(ctx context.Context, _ string, fn func(context.Context) (int, error)) error {
				_, err := policy.Do(ctx, chain, fn)
				return err
			})
			time.Sleep(50 * time.Millisecond)
			begin := time.Now()
			if err := rate.Wait(t.Context()); err != nil || time.Since(begin) != 0 {
				t.Errorf("seed %d: the next call waits %v after one interval: %v", seed, time.Since(begin), err)
			}
			_, burst := rate.Limits()
			time.Sleep(time.Minute)
			if got := rate.Tokens(); got != float64(burst) {
				t.Errorf("seed %d: %v of %d permits in the end", seed, got, burst)
			}
		})
	}
}

// TestLayersGiveBackWhatWasRefusedFurtherIn makes no call at all.
func TestLayersGiveBackWhatWasRefusedFurtherIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rate := newRate(t, 1, 3)
		log := newQuota(t, QuotaConfig{Limit: 3, Per: time.Minute})
		shared := newShared(t, SharedConfig{Limiters: []Limiter{log}})
		none := func(context.Context) (int, error) { return 0, fullError{} }
		chain := policy.Chain(newRateLayer(t, rate, RateLayerConfig{}), shared)
		for range 100 {
			if _, err := policy.Do(t.Context(), chain, none); err != (fullError{}) {
				t.Fatal(err)
			}
			if _, err := Do(t.Context(), shared, "", 2, none); err != (fullError{}) {
				t.Fatal(err)
			}
		}
		if rate.Tokens() != 3 || log.Available(time.Now(), "") != 3 {
			t.Errorf("%v and %d left of 3", rate.Tokens(), log.Available(time.Now(), ""))
		}
		if _, err := policy.Do(t.Context(), chain, endings[1]); err != errVendor {
			t.Error(err)
		}
		if rate.Tokens() != 2 || log.Available(time.Now(), "") != 2 {
			t.Errorf("%v and %d left of 3 after a call that failed", rate.Tokens(), log.Available(time.Now(), ""))
		}
	})
}

// clocked is a layer that checks that the call knows what time it is, also when it
// comes back from a wait.
type clocked struct{ t *testing.T }

func (l clocked) Layer() policy.Layer { return policy.ChaosLayer }
func (l clocked) String() string      { return "clocked" }
func (l clocked) Wrap(next policy.Handler) policy.Handler {
	return func(c *policy.Call) error {
		if !c.Now().Equal(time.Now()) {
			l.t.Errorf("further in it is %v, %v ago", c.Now(), time.Since(c.Now()))
		}
		err := next(c)
		if err != nil && !c.Now().Equal(time.Now()) {
			l.t.Errorf("back from the wait it is %v, %v ago", c.Now(), time.Since(c.Now()))
		}
		return err
	}
}

func TestLayersTellThatTimeHasPassed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1, Burst: 1})}, MaxQueue: 9})
		for _, layer := range []policy.Policy{newRateLayer(t, newRate(t, 1, 1), RateLayerConfig{MaxWait: -1}), shared} {
			chain := policy.Chain(clocked{t}, layer, clocked{t}) // the first one reads the clock
			begin := time.Now()
			for range 3 {
				if _, err := policy.Do(t.Context(), chain, endings[0]); err != nil {
					t.Error(err)
				}
			}
			if d := time.Since(begin); d != 2*time.Second {
				t.Errorf("%v: 3 calls in %v", layer, d)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second/2, cancel)
			if _, err := policy.Do(ctx, chain, endings[0]); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

func TestRateLayerWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rate := newRate(t, 1, 2)
		call := func(timeout, maxWait time.Duration, n int) (time.Duration, error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			begin := time.Now()
			_, err := policy.Do(ctx, policy.Chain(newRateLayer(t, rate, RateLayerConfig{
				MaxWait: maxWait, Permits: func(context.Context) int { return n },
			})), endings[0])
			return time.Since(begin), err
		}
		limited := func(took time.Duration, err error, why Reason, after time.Duration, late bool) {
			t.Helper()
			wantLimited(t, err, why, after)
			if took != 0 || errors.Is(err, context.DeadlineExceeded) != late {
				t.Errorf("after %v: %v; a deadline's: %v", took, err, !late)
			}
		}
		if _, err := call(time.Hour, 0, 2); err != nil {
			t.Error(err)
		}
		if _, err := call(time.Hour, 0, 0); err != nil {
			t.Errorf("no permits: %v", err)
		}
		took, err := call(time.Hour, 0, 1)
		limited(took, err, NoPermits, time.Second, false)
		for _, maxWait := range []time.Duration{0, time.Hour, -1} {
			took, err = call(time.Hour, maxWait, 3)
			limited(took, err, Impossible, Never, false)
		}
		took, err = call(time.Hour, time.Second-1, 1)
		limited(took, err, TooLate, time.Second, false)
		took, err = call(time.Second/2, time.Second-1, 1)
		limited(took, err, TooLate, time.Second, true)
		took, err = call(time.Second, -1, 1)
		limited(took, err, TooLate, time.Second, true)
		if took, err = call(time.Hour, time.Second, 1); err != nil || took != time.Second {
			t.Errorf("MaxWait to the nanosecond: %v, %v", took, err)
		}
		if took, err = call(time.Hour, -1, 2); err != nil || took != 2*time.Second {
			t.Errorf("no MaxWait: %v, %v", took, err)
		}

		// In a line of others.
		var wg sync.WaitGroup
		begin := time.Now()
		wg.Go(func() { _ = rate.WaitN(t.Context(), 2) })
		synctest.Wait()
		took, err = call(time.Hour, 2*time.Second, 1)
		limited(took, err, TooLate, 3*time.Second, false)
		wg.Go(func() {
			if took, err := call(time.Hour, 3*time.Second, 1); err != nil || took != 3*time.Second {
				t.Errorf("in line: %v, %v", took, err)
			}
		})
		synctest.Wait()
		took, err = call(time.Hour, 0, 1) // does not stand in line
		limited(took, err, NoPermits, 3*time.Second, false)
		wg.Go(func() { // what a slower rate does to one that was to be in time
			took, err := call(time.Hour, 5*time.Second, 1)
			wantLimited(t, err, TooLate, 10*time.Second)
			if errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		if err := rate.SetRate(0.1); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("the last one was told after %v, want 3s, when its turn came", d)
		}

		// Its turn does not come, since those in front take longer than they were to.
		for _, err := range []error{rate.SetRate(1), rate.SetBurst(1)} {
			if err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour)
		rate.Drain()
		for range 2 {
			wg.Go(func() { _ = rate.Wait(t.Context()) })
			synctest.Wait()
		}
		time.AfterFunc(time.Second/2, func() { _ = rate.SetRate(0.1) })
		took, err = call(time.Hour, 5*time.Second, 1)
		wantLimited(t, err, TooLate, 16*time.Second-1)
		if errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second+1 {
			t.Errorf("after %v: %v", took, err)
		}
		wg.Wait()

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errVendor) })
		_, err = policy.Do(ctx, policy.Chain(newRateLayer(t, rate, RateLayerConfig{MaxWait: time.Minute})), endings[0])
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errVendor) || errors.Is(err, ErrLimited) || !errtree.Refused(err) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		left := rate.Tokens()
		for _, maxWait := range []time.Duration{0, -1} {
			_, err = policy.Do(ctx, policy.Chain(newRateLayer(t, rate, RateLayerConfig{MaxWait: maxWait, Permits: func(context.Context) int { return 0 }})), endings[0])
			if !errors.Is(err, context.Canceled) || rate.Tokens() != left {
				t.Errorf("a context that has ended: %v", err)
			}
		}
	})
}

func TestLayersMapErrorsAndTell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mine := errors.New("mine")
		onError := func(err error) error { return errors.Join(mine, err) }
		var heard []event.Event
		rate := newRate(t, 0.5, 1)
		layer := newRateLayer(t, rate, RateLayerConfig{Name: "r", OnError: onError, OnEvent: func(e event.Event) { heard = append(heard, e); panic("it may") }})
		shared := newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 0.5, Burst: 2})}, OnError: onError})
		for _, c := range []policy.Policy{layer, shared} {
			chain := policy.Chain(c)
			if _, err := policy.Do(t.Context(), chain, endings[1]); !errors.Is(err, mine) || !errors.Is(err, errVendor) {
				t.Errorf("%v: the call's error: %v", c, err)
			}
			if c == shared {
				if _, err := Do(t.Context(), shared, "", 1, endings[1]); !errors.Is(err, mine) || !errors.Is(err, errVendor) {
					t.Errorf("Do: %v", err)
				}
				if _, err := Do(t.Context(), shared, "", 1, endings[0]); !errors.Is(err, mine) || !errors.Is(err, ErrLimited) {
					t.Errorf("Do without a permit: %v", err)
				}
			}
			if _, err := policy.Do(t.Context(), chain, endings[0]); !errors.Is(err, mine) || !errors.Is(err, ErrLimited) {
				t.Errorf("%v: without a permit: %v", c, err)
			}
		}
		if len(heard) != 1 || heard[0].Kind != event.LimitRefused || heard[0].Name != "r" || heard[0].Delay != 2*time.Second || !errors.Is(heard[0].Err, ErrLimited) || heard[0].Time.IsZero() {
			t.Errorf("heard of %+v", heard)
		}
		time.Sleep(time.Hour)
		if _, err := policy.Do(t.Context(), policy.Chain(layer, shared), endings[0]); err != nil {
			t.Error(err)
		}
	})
}

// TestEventsHaveNoDelayThatNeverEnds: whoever adds delays up should not have to know
// of Never.
func TestEventsHaveNoDelayThatNeverEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		heard := make(chan event.Event, 2)
		two := func(context.Context) int { return 2 }
		onEvent := func(e event.Event) { heard <- e }
		for _, layer := range []policy.Policy{
			newRateLayer(t, newRate(t, 1, 1), RateLayerConfig{Permits: two, OnEvent: onEvent}),
			newShared(t, SharedConfig{Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1})}, Permits: two, OnEvent: onEvent}),
		} {
			_, err := policy.Do(t.Context(), policy.Chain(layer), endings[0])
			wantLimited(t, err, Impossible, Never)
			if e := <-heard; e.Kind != event.LimitRefused || e.Delay != 0 {
				t.Errorf("%v: heard of %v with a delay of %v", layer, e.Kind, e.Delay)
			}
		}
	})
}

// TestSharedAsALayer checks what a chain's calls take, and of whom.
func TestSharedAsALayer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type tenant struct{}
		log := newQuota(t, QuotaConfig{Limit: 10, Per: time.Minute})
		gone := errors.New("no quota left")
		s := newShared(t, SharedConfig{
			Name: "api", Limiters: []Limiter{log},
			Key:     func(ctx context.Context) string { return ctx.Value(tenant{}).(string) },
			Permits: func(ctx context.Context) int { return len(ctx.Value(tenant{}).(string)) },
			DrainOn: policy.OnError(func(err error) bool { return errors.Is(err, gone) }),
		})
		chain := policy.Stack(clocked{t}, s)
		for _, name := range []string{"al", "bob", "bob"} {
			if v, err := policy.Do(context.WithValue(t.Context(), tenant{}, name), chain, endings[0]); v != 1 || err != nil {
				t.Error(v, err)
			}
		}
		for name, want := range map[string]int{"al": 8, "bob": 4, "carol": 10} {
			if got := log.Available(time.Now(), name); got != want {
				t.Errorf("%s has %d, want %d", name, got, want)
			}
		}
		_, err := policy.Do(context.WithValue(t.Context(), tenant{}, "bob"), chain, func(context.Context) (string, error) { return "", gone })
		if err != gone || log.Available(time.Now(), "bob") != 0 || log.Available(time.Now(), "al") != 8 {
			t.Errorf("%v; bob has %d, al %d", err, log.Available(time.Now(), "bob"), log.Available(time.Now(), "al"))
		}
		if _, err := policy.Do(t.Context(), policy.Chain(newShared(t, SharedConfig{Limiters: []Limiter{log}})), endings[0]); err != nil || log.Available(time.Now(), "") != 9 {
			t.Errorf("without Key and Permits: %v, %d left", err, log.Available(time.Now(), ""))
		}
		want := []string{"limiter api(1 limit)", "clocked"}
		if got := policy.Describe(chain); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestLayersDescribeThemselves(t *testing.T) {
	b := newBucket(t, BucketConfig{Rate: 1})
	for want, l := range map[string]policy.Policy{
		"limiter(1 limit)":                        newShared(t, SharedConfig{}),
		"limiter a(2 limits, queue 5, waits 10s)": newShared(t, SharedConfig{Name: "a", Limiters: []Limiter{b}, Whole: []Limiter{b}, MaxQueue: 5}),
		"limiter(1 limit, queue 1, waits)":        newShared(t, SharedConfig{MaxQueue: 1, MaxWait: -1}),
		"limiter(10/s, 10 at once)":               newRateLayer(t, newRate(t, 10, 0), RateLayerConfig{}),
		"limiter b(0.5/s, 3 at once, waits 2s)":   newRateLayer(t, newRate(t, 0.5, 3), RateLayerConfig{Name: "b", MaxWait: 2 * time.Second}),
		"limiter(1/s, 1 at once, waits)":          newRateLayer(t, newRate(t, 1, 0), RateLayerConfig{MaxWait: -1}),
	} {
		if got := l.String(); got != want || l.Layer() != policy.LimiterLayer {
			t.Errorf("%q, want %q, layer %v", got, want, l.Layer())
		}
	}
	if l, err := NewRateLayer(nil, RateLayerConfig{}); l != nil || err == nil {
		t.Errorf("of no Rate: %v, %v", l, err)
	}
}

func TestLayersAllocateNothing(t *testing.T) {
	shared := newShared(t, SharedConfig{
		Limiters: []Limiter{newBucket(t, BucketConfig{Rate: 1e9, Burst: 1e9})},
		Key:      func(context.Context) string { return "k" }, Permits: func(context.Context) int { return 2 },
	})
	rate := newRateLayer(t, newRate(t, 1e9, 1e9), RateLayerConfig{MaxWait: time.Second, Permits: func(context.Context) int { return 2 }})
	for _, l := range []policy.Policy{shared, rate, newRateLayer(t, newRate(t, 1e9, 1e9), RateLayerConfig{})} {
		chain, ctx, fn := policy.Chain(l), t.Context(), endings[0]
		if n := testing.AllocsPerRun(1000, func() { _, _ = policy.Do(ctx, chain, fn) }); n != 0 {
			t.Errorf("%v: %v allocations", l, n)
		}
	}
}

// The longest MaxWait there is does not overflow.
func TestRateLayerWaitsWithTheLongestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := NewRate(RateConfig{Rate: 1, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		chain, began := policy.Chain(newRateLayer(t, r, RateLayerConfig{MaxWait: math.MaxInt64})), time.Now()
		for range 2 {
			if err := policy.Run(t.Context(), chain, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("two calls took %v, want 1s", d)
		}
	})
}
