package limiter

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// common is a limit that several owners have: each its own, with the same core.
type common struct {
	*commonCore
	changed func()
}

type commonCore struct {
	mu    sync.Mutex
	core  Limiter
	all   []*common
	taken atomic.Bool // by Take
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

func (c *common) Claim(now time.Time, key string, n int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return claim(c.core, now, key, n)
}

func (c *common) Take(now time.Time, key string, n int) { c.taken.Store(true) }

func (c *common) Settle(now time.Time, key string, n, used int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.core.Settle(now, key, n, used)
	c.tell()
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
	c.core.(Releaser).Release(now, key, n)
	c.tell()
}

func TestSharedKeepsToALimitThatOthersHaveToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		window := func(n int) Limiter {
			w, err := NewFixedWindow(FixedWindowConfig{Limit: n, Period: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		held, err := NewConcurrency(ConcurrencyConfig{Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		first, second, slots := &commonCore{core: window(20)}, &commonCore{core: window(10)}, &commonCore{core: held}
		var running, most atomic.Int64
		var each [10]atomic.Int64
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 4 {
			cfg := SharedConfig{
				Limiters: []Limiter{newByKey(t, ByKeyConfig{Others: first.owner()}), newBucket(t, BucketConfig{Rate: 1000, Burst: 1000}), commonSlots{slots.owner()}},
				Whole:    []Limiter{second.owner()},
				MaxQueue: 100, MaxWait: -1,
			}
			if i%2 == 1 { // the others claim in the other order
				cfg.Limiters, cfg.Whole = cfg.Limiters[1:], append(cfg.Whole, cfg.Limiters[0])
			}
			s, err := NewShared(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 25 {
				wg.Go(func() {
					if err := s.Wait(t.Context(), "", 1); err != nil {
						t.Error(err)
						return
					}
					each[time.Since(begin)/time.Second].Add(1)
					n := running.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(10 * time.Millisecond)
					running.Add(-1)
					s.Release("", 1)
				})
			}
		}
		wg.Wait()
		for second := range each {
			if n := each[second].Load(); n != 10 {
				t.Errorf("%d calls began in second %d, want 10", n, second)
			}
		}
		if most.Load() > 3 {
			t.Errorf("%d calls at once, want 3", most.Load())
		}
		for i, c := range []*commonCore{first, second, slots} {
			if c.taken.Load() {
				t.Errorf("limit %d: Take was called, which another owner's Claim may precede", i)
			}
		}
		if d := held.Wait(time.Now(), "", 3); d != 0 {
			t.Error("of three permits that are held while a call runs, some never came back")
		}
	})
}

func TestByKeyClaimsFromTheLimiterOfTheKey(t *testing.T) {
	c := &commonCore{core: newBucket(t, BucketConfig{Rate: 1, Burst: 1})}
	b := newByKey(t, ByKeyConfig{Keys: map[string]Limiter{"common": c.owner(), "own": newBucket(t, BucketConfig{Rate: 1, Burst: 1})}})
	for _, key := range []string{"common", "own"} {
		if d := b.Claim(epoch, key, 1); d != 0 {
			t.Errorf("%q: the first claim waits %v", key, d)
		}
		if d := b.Claim(epoch, key, 1); d != time.Second {
			t.Errorf("%q: the second claim waits %v, want 1s", key, d)
		}
	}
	if d := b.Claim(epoch, "free", 1000); d != 0 {
		t.Errorf("a key without a limit waits %v", d)
	}
}

// since is a limit that says of permits that are there since when they are: less than 0.
// Who asks again and again is told that there are none.
type since struct {
	Limiter
	asked *int
}

func (s since) Wait(now time.Time, key string, n int) time.Duration {
	if *s.asked++; *s.asked > 100 {
		return Never
	}
	return ago(s.Limiter.Wait(now, key, n))
}

// sinceClaimer is such a one that may have several owners.
type sinceClaimer struct{ since }

func (s sinceClaimer) Claim(now time.Time, key string, n int) time.Duration {
	return ago(claim(s.Limiter, now, key, n))
}

func ago(wait time.Duration) time.Duration {
	if wait == 0 {
		return -time.Second
	}
	return wait
}

func TestAWaitBelowZeroIsNone(t *testing.T) {
	type made func(l Limiter) Limiter
	plain := func(l Limiter) Limiter { return since{l, new(int)} }
	claimer := func(l Limiter) Limiter { return sinceClaimer{since{l, new(int)}} }
	ofKey := func(of made) made {
		return func(l Limiter) Limiter { return newByKey(t, ByKeyConfig{Others: of(l)}) }
	}
	for name, of := range map[string]made{
		"a Limiter": plain, "a Limiter of a key": ofKey(plain), "a Claimer": claimer, "a Claimer of a key": ofKey(claimer),
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, of all together: %v", name, whole), func(t *testing.T) {
				limits, cfg := []Limiter{of(newBucket(t, BucketConfig{Rate: 1.0 / 3600, Burst: 3}))}, SharedConfig{}
				if cfg.Limiters = limits; whole {
					cfg.Limiters, cfg.Whole = nil, limits
				}
				s := newShared(t, cfg)
				for range 2 {
					if err := s.Allow("", 1); err != nil {
						t.Error(err)
					}
				}
				if s.Drain(""); s.Allow("", 1) == nil {
					t.Error("more was let through than there is")
				}
			})
		}
	}
}
