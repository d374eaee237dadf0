package governor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/throttle"
)

// common is a limit that several governors have: each its own, with the same core.
type common struct {
	*commonCore
	changed func()
}

// commonCore has so many permits in a window, or that may be held at once.
type commonCore struct {
	mu    sync.Mutex
	core  limiter.Limiter
	all   []*common
	broke atomic.Bool // Take was called
}

func (c *commonCore) owner() *common {
	o := &common{commonCore: c}
	c.all = append(c.all, o)
	return o
}

func (c *common) OnChange(fn func()) { c.changed = fn }

func (c *common) Wait(now time.Time, key string, n int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Wait(now, key, n)
}

func (c *common) Claim(now time.Time, key string, n int) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait = c.core.Wait(now, key, n); wait == 0 {
		c.core.Take(now, key, n)
	}
	return wait
}

func (c *common) Take(now time.Time, key string, n int) { c.broke.Store(true) }

func (c *common) Settle(now time.Time, key string, n, used int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Settle(now, key, n, used)
	if used < n {
		c.tell()
	}
}

// tell has all owners ask again, under none of their locks.
func (c *common) tell() {
	for _, o := range c.all {
		go o.changed()
	}
}

func (c *common) Accepted(now, sent time.Time, key string) {}
func (c *common) Refused(now, sent time.Time, key string)  {}

// commonSlots is a common whose permits are held.
type commonSlots struct{ *common }

func (c commonSlots) Release(now time.Time, key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.(limiter.Releaser).Release(now, key, n)
	c.tell()
}

func quotaOf(t *testing.T, n int) limiter.Limiter {
	t.Helper()
	l, err := limiter.NewFixedWindow(limiter.FixedWindowConfig{Limit: n, Period: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What a limit has offered one governor another may take. No more starts than the limit
// has, and nothing is lost of it.
func TestGovernorsOfOneLimitTogetherKeepToIt(t *testing.T) {
	for _, path := range []string{"queued", "inline"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := &commonCore{core: quotaOf(t, 20)}, &commonCore{core: quotaOf(t, 10)}
				held, err := limiter.NewConcurrency(limiter.ConcurrencyConfig{Limit: 3})
				if err != nil {
					t.Fatal(err)
				}
				slots := &commonCore{core: held}
				var wg sync.WaitGroup
				var running, most atomic.Int64
				var each [10]atomic.Int64
				begin := time.Now()
				call := governor.Func(func(context.Context) (int, error) {
					each[time.Since(begin)/time.Second].Add(1)
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(10 * time.Millisecond)
					running.Add(-1)
					return 1, nil
				})
				for i := range 4 {
					limits := []governor.Limit{{Limiter: first.owner()}, {Limiter: commonSlots{slots.owner()}}, {Per: throttle.Tenant, Limiter: quotaOf(t, 1000)}, {Limiter: second.owner()}}
					if i%2 == 1 { // the others claim in the other order
						limits[0], limits[3] = limits[3], limits[0]
					}
					g, err := governor.New(governor.PlainConfig{Name: "acme", Vendor: governortest.Vendor{}, Limits: limits, NoPace: true})
					if err != nil {
						t.Fatal(err)
					}
					defer g.Close()
					for range 25 {
						if path == "queued" {
							governor.Submit(t.Context(), g, "", call)
							continue
						}
						wg.Go(func() {
							if _, err := governor.Do(t.Context(), g, "", call); err != nil {
								t.Error(err)
							}
						})
					}
				}
				time.Sleep(9*time.Second + 500*time.Millisecond)
				synctest.Wait()
				wg.Wait()
				for second := range each {
					if n := each[second].Load(); n != 10 {
						t.Errorf("%d calls began in second %d, want 10", n, second)
					}
				}
				for i, c := range []*commonCore{first, second, slots} {
					if c.broke.Load() {
						t.Errorf("limit %d: Take was called, which another owner's Claim may precede", i)
					}
				}
				if most.Load() > 3 {
					t.Errorf("%d calls at once, want 3", most.Load())
				}
				if d := held.Wait(time.Now(), "", 3); d != 0 {
					t.Error("of three permits that are held while a call runs, some never came back")
				}
			})
		})
	}
}

// A call whose connection was opened takes its permit when that is done; if another owner
// takes it at that moment, the call waits.
func TestCallThatOpenedAConnectionWaitsForAPermitThatAnotherOwnerTook(t *testing.T) {
	core := &commonCore{core: quotaOf(t, 1)}
	mine, other := core.owner(), core.owner()
	other.OnChange(func() {})
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Limits = []governor.Limit{{Limiter: quick{mine, other, new(atomic.Int64)}}}
	}, func(t *testing.T, g *connected, _, _ *atomic.Int64) {
		start := time.Now()
		for i, want := range []time.Duration{time.Second, 3 * time.Second} {
			at, err := governor.Do(t.Context(), g, "a", func(context.Context, *conn) (time.Duration, error) { return time.Since(start), nil })
			if err != nil || at != want {
				t.Errorf("call %d began after %v (%v), want %v", i, at, err, want)
			}
		}
	})
}

// quick is an owner in whose way another one gets every second time.
type quick struct {
	*common
	other *common
	times *atomic.Int64
}

func (q quick) Claim(now time.Time, key string, n int) time.Duration {
	if q.times.Add(1)%2 == 1 {
		q.other.Claim(now, key, n)
	}
	return q.common.Claim(now, key, n)
}

// early is a limit that says of permits that are there since when they are: less than 0.
type early struct{ *common }

func (e early) Wait(now time.Time, key string, n int) time.Duration {
	return ago(e.common.Wait(now, key, n))
}

func (e early) Claim(now time.Time, key string, n int) time.Duration {
	return ago(e.common.Claim(now, key, n))
}

func ago(wait time.Duration) time.Duration {
	if wait == 0 {
		return -time.Second
	}
	return wait
}

func TestAWaitBelowZeroIsNone(t *testing.T) {
	core := &commonCore{core: quotaOf(t, 1)}
	withPool(t, func(c *governor.Config[string, *conn]) {
		c.NoPace = true
		c.Limits = []governor.Limit{{Limiter: early{core.owner()}}}
	}, func(t *testing.T, g *connected, opened, _ *atomic.Int64) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		fn := func(context.Context, *conn) (time.Duration, error) { return time.Since(start), nil }
		var rs []*governor.Request[time.Duration]
		for range 3 {
			rs = append(rs, governor.Submit(ctx, g, "a", fn))
		}
		for i, r := range rs {
			if at, err := r.Result(ctx); err != nil || at != time.Duration(i)*time.Second {
				t.Errorf("call %d began after %v (%v), want %ds", i, at, err, i)
			}
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("%d connections were opened, want one, since one call may start at a time", n)
		}
	})
}
