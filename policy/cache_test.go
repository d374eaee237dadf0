package policy

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/event"
	"github.com/flyball-go/flyball/internal/effort"
)

// counter is a function that says how often it was called.
type counter struct {
	n    atomic.Int32
	fail atomic.Pointer[error]
	time time.Duration
}

func (c *counter) run(ctx context.Context) (int, error) {
	n := int(c.n.Add(1))
	if err := sleep(c.time)(ctx); err != nil {
		return 0, err
	}
	if err := c.fail.Load(); err != nil {
		return -n, *err
	}
	return n, nil
}

func TestCacheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{}))
		p, c := Chain(x), new(counter)
		get := func(key string) (int, error) { return Do(WithKey(t.Context(), key), p, c.run) }
		for range 3 {
			r, err := get("a")
			want(t, "hit", r, 1)
			wantErr(t, "hit", err)
		}
		r, _ := get("b")
		want(t, "another key", r, 2)
		time.Sleep(time.Minute - 1)
		r, _ = get("a")
		want(t, "before TTL", r, 1)
		time.Sleep(time.Nanosecond)
		r, _ = get("a")
		want(t, "after TTL", r, 3)
		time.Sleep(time.Minute)
		c.fail.Store(&errBoom)
		r, err := get("a")
		want(t, "StaleIfError", r, -4)
		if err != errBoom {
			t.Error(err)
		}
		c.fail.Store(nil)
		for i := range 1001 {
			_, _ = Do(WithKey(t.Context(), strings.Repeat("x", i)), p, c.run)
		}
		want(t, "MaxEntries", x.cfg.Storage.(*LRU[string, int]).Len(), 1000)
	})
}

func TestCacheLetsPass(t *testing.T) {
	type key struct{}
	x := must(NewCache(CacheConfig[float64, int]{Key: func(ctx context.Context) (float64, bool) {
		k, ok := ctx.Value(key{}).(float64)
		return k, ok
	}}))
	p := Chain(x)
	c := new(counter)
	for name, ctx := range map[string]context.Context{
		"no key":  t.Context(),
		"NaN":     context.WithValue(t.Context(), key{}, math.NaN()),
		"WithKey": WithKey(t.Context(), 1.0), // not what Key looks for
	} {
		before := c.n.Load()
		for range 2 {
			if _, err := Do(ctx, p, c.run); err != nil {
				t.Error(name, err)
			}
		}
		want(t, name, c.n.Load(), before+2)
	}
	ctx := context.WithValue(t.Context(), key{}, 1.0)
	for range 2 {
		if s, err := Do(ctx, p, func(context.Context) (string, error) { return "s", nil }); s != "s" || err != nil {
			t.Error("another type", s, err)
		}
	}
	want(t, "stored", x.cfg.Storage.(*LRU[float64, int]).Len(), 0)
	r, _ := Do(ctx, p, func(context.Context) (int, error) { return 9, nil })
	want(t, "of its type", r, 9)
	x.Invalidate(math.NaN())
	_, err := x.Do(t.Context(), math.NaN(), five)
	wantErr(t, "Do", err, ErrInvalid)
	// A key that cannot be compared panics before anything is taken.
	any := must(NewCache(CacheConfig[any, int]{}))
	h := see(func() error { _, err := any.Do(t.Context(), []int{1}, five); return err })
	want(t, "panics", h.panics != nil, true)
	_, err = any.Do(t.Context(), 1, five)
	wantErr(t, "healthy", err)
}

func TestCacheStaleIfError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		x := must(NewCache(CacheConfig[string, int]{Name: "x", TTL: time.Second, StaleIfError: 10 * time.Second, OnEvent: l.hear}))
		c := new(counter)
		p := Chain(x)
		ctx := WithKey(t.Context(), "a")
		get := func() (int, error) { return Do(ctx, p, c.run) }
		_, _ = get()
		l.take()
		c.fail.Store(&errBoom)
		time.Sleep(5 * time.Second)
		for range 2 { // the error is not stored
			r, err := get()
			want(t, "stale", r, 1)
			wantErr(t, "stale", err)
			want(t, "events", l.take(), "[cache stale x 5s boom][cache miss x boom]")
		}
		want(t, "calls", c.n.Load(), 3)
		time.Sleep(6*time.Second - 1)
		r, err := get()
		want(t, "at the end", r, 1)
		wantErr(t, "at the end", err)
		time.Sleep(time.Nanosecond)
		_, err = get()
		if err != errBoom {
			t.Error("too old", err)
		}
		c.fail.Store(nil)
		r, _ = get()
		want(t, "success", r, 6)
	})
}

func TestCacheIf(t *testing.T) {
	x := must(NewCache(CacheConfig[string, int]{If: func(r int) bool { return r%2 == 0 }}))
	c := new(counter)
	got := ""
	for range 4 {
		r, _ := x.Do(t.Context(), "a", c.run)
		got += string(rune('0' + r))
	}
	want(t, "results", got, "1222")
}

func TestCacheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		x := must(NewCache(CacheConfig[string, int]{Name: "x", OnEvent: l.hear}))
		c := &counter{time: time.Second}
		for range 3 {
			go func() { _, _ = x.Do(t.Context(), "a", c.run) }()
		}
		time.Sleep(2 * time.Second)
		want(t, "three at once", l.take(), "[cache miss x 1s][collapsed x #3]")
		_, _ = x.Do(t.Context(), "a", c.run)
		want(t, "later", l.take(), "[cache hit x]")
		c.fail.Store(&errBoom)
		_, _ = x.Do(t.Context(), "b", c.run)
		want(t, "failed", l.take(), "[cache miss x 1s boom]")
	})
}

func TestCacheMakesOneCallForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, failure := range []*error{nil, &errBoom} {
			x := must(NewCache(CacheConfig[string, int]{}))
			c := &counter{time: time.Second}
			c.fail.Store(failure)
			p := Chain(x)
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					want(t, "time", took(func() {
						r, err := Do(WithKey(t.Context(), "a"), p, c.run)
						if failure == nil && (r != 1 || err != nil) || failure != nil && (r != -1 || err != errBoom) {
							t.Error(r, err)
						}
					}), time.Second-time.Duration(i)*time.Millisecond)
				})
			}
			wg.Wait()
			want(t, "calls", c.n.Load(), 1)
		}
	})
}

// Nobody inherits the end of another's context, and the call is made anew by one
// that waits, with what is left of its own time.
func TestCacheLeaderHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{StaleIfError: time.Hour}))
		c := &counter{time: 10 * time.Second}
		results := make(map[string]string)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for name, d := range map[string]time.Duration{"leader": 2 * time.Second, "first": 5 * time.Second, "second": time.Hour, "third": time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			wg.Go(func() {
				if name != "leader" {
					time.Sleep(time.Second)
				}
				begin := time.Now()
				r, err := x.Do(ctx, "a", c.run)
				mu.Lock()
				defer mu.Unlock()
				s := time.Since(begin).String()
				if err == nil {
					s += " " + string(rune('0'+r))
				} else if errors.Is(err, context.DeadlineExceeded) {
					s += " out of time"
				}
				results[name] = s
			})
		}
		wg.Wait()
		want(t, "leader", results["leader"], "2s out of time")
		want(t, "first", results["first"], "4s out of time")
		// The next call began at 2 s, with first as its leader, or second or third.
		for _, name := range []string{"second", "third"} {
			if s := results[name]; s != "11s 2" && s != "14s 3" {
				t.Error(name, s)
			}
		}
		want(t, "calls", c.n.Load() <= 3, true)
	})
}

// A call that does not heed the end of its context does not stand in the way of
// others with its key, and what it returns at last is not stored.
func TestCacheDeafLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{TTL: 24 * time.Hour}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var first, second, third int
		go func() { first, _ = x.Do(ctx, "a", deaf(time.Hour, 1)) }()
		time.Sleep(time.Second)
		want(t, "joined", took(func() { second, _ = x.Do(t.Context(), "a", deaf(time.Minute, 2)) }), time.Second+time.Minute)
		x.Invalidate("a")
		want(t, "later", took(func() { third, _ = x.Do(t.Context(), "a", deaf(time.Second, 3)) }), time.Second)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		e, ok := x.cfg.Storage.Get("a")
		if first != 1 || second != 2 || third != 3 || !ok || e.Value != 3 {
			t.Error(first, second, third, e, ok)
		}
		want(t, "flights", len(x.flights), 0)

		// Nor does one that nobody waited for when its context ended.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _, _ = x.Do(ctx, "b", deaf(time.Hour, 1)) }()
		time.Sleep(time.Minute)
		want(t, "after its end", took(func() { second, _ = x.Do(t.Context(), "b", deaf(0, 2)) }), 0)
		want(t, "result", second, 2)
		time.Sleep(2 * time.Hour)
	})
}

// outOfTime is a context that ends without telling: one that waits for its Done
// does not hear of it.
type outOfTime struct {
	context.Context
	over atomic.Bool
}

func (c *outOfTime) Done() <-chan struct{} { return nil }
func (c *outOfTime) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// Who hears of the outcome before it hears of the end of the leader's context makes
// the call anew all the same.
func TestCacheOutcomeOfALeaderWhoseContextEndedIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		x := must(NewCache(CacheConfig[string, int]{Name: "x", OnEvent: l.hear}))
		ctx := &outOfTime{Context: t.Context()}
		go func() {
			_, err := x.Do(ctx, "a", func(context.Context) (int, error) {
				time.Sleep(time.Second)
				ctx.over.Store(true)
				return 0, ctx.Err()
			})
			wantErr(t, "leader", err, context.DeadlineExceeded)
		}()
		synctest.Wait()
		r, err := x.Do(t.Context(), "a", five)
		want(t, "follower", r, 5)
		wantErr(t, "follower", err)
		want(t, "events", strings.Contains(l.take(), "collapsed"), false)
	})
}

// late is a Storage in which something happens right after the first look.
type late struct {
	Storage[string, int]
	then func()
}

func (s *late) Get(key string) (Entry[int], bool) {
	e, ok := s.Storage.Get(key)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return e, ok
}

// One that finds nothing stored, and nobody to wait for, since the one that made the
// call has stored its result in between, does not make it again.
func TestCacheLooksAgainBeforeItMakesACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		c, s := new(counter), &late{Storage: must(NewLRU[string, int](0))}
		x := must(NewCache(CacheConfig[string, int]{Name: "x", Storage: s, OnEvent: l.hear}))
		for i, get := range []func() (int, error){
			func() (int, error) { return x.Do(t.Context(), "a", c.run) },
			func() (int, error) { return Do(WithKey(t.Context(), "a"), Chain(x), c.run) },
		} {
			x.Invalidate("a")
			s.then = func() { _, _ = x.Do(t.Context(), "a", c.run) }
			r, err := get()
			want(t, "result", r, i+1)
			wantErr(t, "result", err)
			want(t, "calls", c.n.Load(), int32(i+1))
			want(t, "events", l.take(), "[cache miss x][cache hit x]")
		}
	})
}

// A result that is being stored when the caller's context ends is still shared.
func TestCacheLeaderGoneWhileStoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{Storage: blocked{must(NewLRU[string, int](0)), func() { time.Sleep(10 * time.Second) }}}))
		c := new(counter)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() { _, _ = x.Do(ctx, "a", c.run) }()
		synctest.Wait()
		var r int
		go func() { r, _ = x.Do(t.Context(), "a", c.run) }()
		short, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		want(t, "leaves", took(func() { _, err := x.Do(short, "a", c.run); wantErr(t, "leaves", err, context.DeadlineExceeded) }), 7*time.Second)
		want(t, "joins", took(func() { v, _ := x.Do(t.Context(), "a", c.run); want(t, "joins", v, 1) }), 3*time.Second)
		synctest.Wait()
		want(t, "shared", r, 1)
		want(t, "calls", c.n.Load(), 1)
	})
}

func TestCacheFollowerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{}))
		c := &counter{time: 10 * time.Second}
		go func() { _, _ = x.Do(t.Context(), "a", c.run) }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errBoom) })
		want(t, "time", took(func() {
			r, err := Do(WithKey(ctx, "a"), Chain(x), c.run)
			want(t, "result", r, 0)
			wantErr(t, "error", err, context.Canceled, errBoom)
			want(t, "refused", refused(err), true)
			want(t, "error", err.Error(), "policy: no result to share: boom")
		}), time.Second)
		time.Sleep(time.Hour)
		want(t, "calls", c.n.Load(), 1)
	})
}

func TestCacheLeaderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{}))
		for _, end := range []func(context.Context) (int, error){panics, goexit} {
			var leader, follower how
			go func() {
				leader = see(func() error {
					_, err := x.Do(t.Context(), "a", func(ctx context.Context) (int, error) { time.Sleep(time.Second); return end(ctx) })
					return err
				})
			}()
			synctest.Wait()
			go func() { follower = see(func() error { _, err := x.Do(t.Context(), "a", five); return err }) }()
			time.Sleep(time.Minute)
			synctest.Wait()
			if leader.goexit {
				want(t, "follower", follower.err, ErrGoexit)
			} else {
				if leader.panics != errBoom { // its own, as it is
					t.Errorf("%+v", leader)
				}
				e, ok := errors.AsType[*PanicError](follower.err)
				if !ok || e.Value != errBoom || refused(e) || e.Error() != "policy: function panicked: boom" {
					t.Errorf("%+v", follower)
				}
			}
			r, err := x.Do(t.Context(), "a", five)
			want(t, "healthy", r, 5)
			wantErr(t, "healthy", err)
			x.Invalidate("a")
		}
	})
}

func TestCacheInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := must(NewCache(CacheConfig[string, int]{StaleIfError: time.Hour}))
		c := new(counter)
		_, _ = x.Do(t.Context(), "a", c.run)
		x.Invalidate("a")
		r, _ := x.Do(t.Context(), "a", c.run)
		want(t, "anew", r, 2)
		x.Invalidate("b")

		// A call under way when its key is invalidated is not stored, and not joined.
		x.Invalidate("a")
		c.time = 10 * time.Second
		var early, late int
		go func() { early, _ = x.Do(t.Context(), "a", c.run) }()
		time.Sleep(time.Second)
		x.Invalidate("a")
		go func() { late, _ = x.Do(t.Context(), "a", c.run) }()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if _, ok := x.cfg.Storage.Get("a"); ok || early != 3 {
			t.Error("a result from before Invalidate is stored", early)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, "late", late, 4)
		want(t, "flights", len(x.flights), 0)

		// Nor is it used in place of an error afterwards.
		time.Sleep(2 * time.Minute)
		c.fail.Store(&errBoom)
		var err error
		go func() { _, err = x.Do(t.Context(), "a", c.run) }()
		time.Sleep(time.Second)
		x.Invalidate("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if err != errBoom {
			t.Error(err)
		}
	})
}

// blocked is a Storage whose Set waits.
type blocked struct {
	Storage[string, int]
	wait func()
}

func (b blocked) Set(key string, e Entry[int]) { b.wait(); b.Storage.Set(key, e) }

// Invalidate that comes while a result is being stored deletes it.
func TestCacheInvalidateWhileStoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lru := must(NewLRU[string, int](0))
		x := must(NewCache(CacheConfig[string, int]{Storage: blocked{lru, func() { time.Sleep(time.Second) }}}))
		go func() { _, _ = x.Do(t.Context(), "a", five) }()
		synctest.Wait()
		want(t, "Invalidate waits", took(func() { x.Invalidate("a") }), time.Second)
		time.Sleep(time.Minute)
		want(t, "stored", lru.Len(), 0)
	})
}

func TestCacheStorageThatPanics(t *testing.T) {
	boom := true
	x := must(NewCache(CacheConfig[string, int]{Storage: blocked{must(NewLRU[string, int](0)), func() {
		if boom {
			panic(errBoom)
		}
	}}}))
	h := see(func() error { _, err := x.Do(t.Context(), "a", five); return err })
	if h.panics != errBoom {
		t.Errorf("%+v", h)
	}
	boom = false
	x.Invalidate("a")
	r, err := x.Do(t.Context(), "a", five)
	want(t, "healthy", r, 5)
	wantErr(t, "healthy", err)
}

func TestCacheWithoutAChain(t *testing.T) {
	mapped := errors.New("mapped")
	x := must(NewCache(CacheConfig[string, int]{OnError: func(error) error { return mapped }}))
	_, err := x.Do(t.Context(), "a", fails)
	want(t, "error", err, mapped)
	r, err := x.Do(t.Context(), "a", five)
	want(t, "result", r, 5)
	wantErr(t, "error", err)
	var none context.Context
	_, err = x.Do(none, "a", five)
	wantErr(t, "nil context", err, ErrInvalid)
	_, err = x.Do(t.Context(), "a", nil)
	wantErr(t, "nil function", err, ErrInvalid)
}

func TestKeysAreByType(t *testing.T) {
	type id int
	ctx := WithKey(WithKey(WithKey(t.Context(), 1), id(2)), "three")
	i, ok1 := KeyOf[int](ctx)
	d, ok2 := KeyOf[id](ctx)
	s, ok3 := KeyOf[string](ctx)
	_, ok4 := KeyOf[float64](ctx)
	if i != 1 || d != 2 || s != "three" || !ok1 || !ok2 || !ok3 || ok4 {
		t.Error(i, d, s, ok1, ok2, ok3, ok4)
	}
}

func TestCacheAllocations(t *testing.T) {
	x := must(NewCache(CacheConfig[string, int]{OnEvent: func(event.Event) {}}))
	p := Chain(x)
	ctx := WithKey(t.Context(), "a")
	allocs(t, "hit", 0, func() { _, _ = Do(ctx, p, five) })
	allocs(t, "Do", 0, func() { _, _ = x.Do(ctx, "a", five) })
}

func TestCacheConfig(t *testing.T) {
	for want, cfg := range map[string]CacheConfig[string, int]{
		"policy: invalid: CacheConfig.TTL is -1ns, want 0 or more":            {TTL: -1},
		"policy: invalid: CacheConfig.StaleIfError is -1ns, want 0 or more":   {StaleIfError: -1},
		"policy: invalid: CacheConfig.MaxEntries is -1, want 0 to 2147483647": {MaxEntries: -1},
	} {
		if _, err := NewCache(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	want(t, "String", must(NewCache(CacheConfig[string, int]{Name: "x", TTL: time.Second, StaleIfError: time.Hour})).String(), "cache x(1s, stale 1h0m0s)")
	long := must(NewCache(CacheConfig[string, int]{TTL: math.MaxInt64, StaleIfError: math.MaxInt64}))
	_, _ = long.Do(t.Context(), "a", five)
	r, err := long.Do(t.Context(), "a", fails)
	want(t, "centuries", r, 5)
	wantErr(t, "centuries", err)
}

// Random calls, cancellations, panics and invalidations: every call has an outcome
// of its own kind, and nothing is left.
func TestCacheUnderLoad(t *testing.T) {
	x := must(NewCache(CacheConfig[int, int]{TTL: time.Millisecond, MaxEntries: 3, StaleIfError: time.Millisecond}))
	p := Chain(x)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range effort.Times(286) { // 2 times 11 times 13
				key := (g + i*7) % 5
				ctx, cancel := context.WithCancel(WithKey(t.Context(), key))
				switch i % 11 {
				case 0:
					go cancel()
				case 1:
					x.Invalidate(key)
				}
				h := see(func() error {
					r, err := Do(ctx, p, func(ctx context.Context) (int, error) {
						switch i % 13 {
						case 0:
							panic(errBoom)
						case 1:
							return goexit(ctx)
						case 2:
							return 0, errBoom
						}
						return key, ctx.Err()
					})
					if err == nil && r != key {
						t.Error("the result of another key", r, key)
					}
					if errors.Is(err, context.Canceled) && ctx.Err() == nil {
						t.Error("somebody else's cancellation")
					}
					return err
				})
				if h.panics != nil && (i%13 != 0 || h.panics != errBoom) || h.goexit && i%13 != 1 {
					t.Errorf("somebody else's panic: %+v", h)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	want(t, "flights", len(x.flights), 0)
	r, err := Do(WithKey(t.Context(), 9), p, five)
	want(t, "healthy", r, 5)
	wantErr(t, "healthy", err)
}

// TestCacheFollowerPrefersTheOutcome: a leader's context may end with its call, and
// select takes either.
func TestCacheFollowerPrefersTheOutcome(t *testing.T) {
	x := must(NewCache(CacheConfig[string, int]{}))
	leader, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		f := &flight[int]{leader: leader, done: make(chan struct{}), err: errBoom}
		close(f.done)
		if !x.follow(t.Context(), f) {
			t.Fatal("an outcome that is there is not shared, and the call made once more")
		}
		f.again = true
		if x.follow(t.Context(), f) {
			t.Fatal("an outcome is shared that is the leader's alone")
		}
	}
}
