package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// A request that was executed, and whose answers are all lost, is the same one when it
// is sent again: what it was granted is charged once, and used.
func TestARequestKeepsItsNumberUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		var mu sync.Mutex
		left, seqs := 7, map[uint64]int{} // two times three tries, and one
		net := &faulty{Store: m, fate: func() fate {
			mu.Lock()
			defer mu.Unlock()
			if left--; left >= 0 {
				return swallowed
			}
			return arrives
		}}
		s := syncer(t, store.SyncerConfig{Store: watching{net, func(it store.Item) {
			mu.Lock()
			defer mu.Unlock()
			seqs[it.Seq]++
		}}, Timeout: 100 * time.Millisecond})
		l := store.Limit{Kind: store.Window, Quota: 5, Per: time.Hour}
		sh := share(t, s, l)
		used := 0
		for range 500 {
			if sh.Wait(time.Now(), "", 5) == 0 {
				sh.Take(time.Now(), "", 5)
				used += 5
			}
			time.Sleep(10 * time.Millisecond)
		}
		if used != 5 {
			t.Errorf("%d of 5 permits are there after seven lost answers: they were charged to nobody", used)
		}
		mu.Lock()
		if seqs[1] != 8 {
			t.Errorf("the first request was sent %d times of its number, want 8: %v", seqs[1], seqs)
		}
		mu.Unlock()
		s.Close()
	})
}

// watching shows each item that is sent.
type watching struct {
	store.Store
	see func(store.Item)
}

func (w watching) Exchange(ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
	for _, it := range items {
		w.see(it)
	}
	return w.Store.Exchange(ctx, n, items)
}

// Who comes after the store has lost its state hears of a cooldown from before, by
// those who know.
func TestACooldownOutlivesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := processes(t, 2, nil)
		defer func() { end(t, all) }()
		time.Sleep(2 * time.Second)
		all[0].refuse(time.Hour)
		time.Sleep(2 * time.Second)
		m.Lose()
		time.Sleep(2 * time.Second)
		s := syncer(t, store.SyncerConfig{Store: m})
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if cools := g.Stats().Cooldowns; len(cools) != 1 || time.Until(cools[0].Until) < 59*time.Minute {
			t.Errorf("a process that comes after the loss knows of %+v, want most of an hour", cools)
		}
		g.Close()
		s.Close()
	})
}

// What is told again after a loss is what is left, and extends nothing.
func TestALossExtendsNoCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, m := processes(t, 3, func(_ *governor.PlainConfig, s *store.SyncerConfig) {
			s.Store.(*faulty).delay = func() time.Duration { return 4 * time.Millisecond }
		})
		defer func() { end(t, all) }()
		all[0].refuse(time.Minute)
		time.Sleep(5 * time.Second)
		ends := all[1].Stats().Cooldowns[0].Until
		for range 5 {
			m.Lose()
			time.Sleep(5 * time.Second)
		}
		for i, p := range all {
			cools := p.Stats().Cooldowns
			if len(cools) != 1 || cools[0].Until.Sub(ends).Abs() > 30*time.Millisecond {
				t.Errorf("process %d has %+v after five losses, want one until %v", i, cools, ends)
			}
		}
	})
}

// A call that cost less than it took gives nothing back to a later lease: its own has
// ended.
func TestPermitsOfAnEarlierLeaseDoNotComeBack(t *testing.T) {
	for _, kind := range []store.Kind{store.Window, store.Sliding, store.Bucket} {
		synctest.Test(t, func(t *testing.T) {
			s := syncer(t, store.SyncerConfig{Store: memory(t)})
			defer s.Close()
			l := store.Limit{Kind: kind, Quota: 10, Per: time.Second, Transit: -1}
			sh := share(t, s, l)
			take := func() (n int) {
				for range 1000 {
					if now := time.Now(); sh.Wait(now, "", 1) == 0 {
						sh.Take(now, "", 1)
						n++
					}
					time.Sleep(100 * time.Microsecond)
				}
				return n
			}
			first := take() // within 100 ms
			if first < 1 {
				t.Fatalf("%v: %d of 10 taken, want some", kind, first)
			}
			time.Sleep(3 * time.Second)
			if sh.Wait(time.Now(), "", 1); take() < 1 {
				t.Fatalf("%v: nothing is granted in the next period", kind)
			}
			for range first {
				sh.Settle(time.Now(), "", 1, 0)
			}
			if more := take(); more > 3 { // a Bucket's come back one by one
				t.Errorf("%v: %d permits for calls of which the lease ended three periods ago", kind, more)
			}
		})
	}
}

// Who is refused does not ask again until there may be something, and in a cooldown
// nobody asks but for news.
func TestWhoIsRefusedSeldomAsks(t *testing.T) {
	for _, tc := range []struct {
		name string
		cool bool
	}{{"denied", false}, {"cooling", true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				asked := map[string]int{} // by node and key
				process := 0
				all, _ := processes(t, 4, func(c *governor.PlainConfig, s *store.SyncerConfig) {
					process++
					s.Store.(*faulty).delay = func() time.Duration { return time.Millisecond }
					s.Store = byKey{s.Store, process, &mu, asked}
					c.Limits = []governor.Limit{
						{Quota: limiter.QuotaConfig{Limit: 40, Per: 10 * time.Minute}},
						{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 5, Per: 10 * time.Minute}},
					}
				})
				if tc.cool {
					all[0].Learn(throttle.Signal{Delay: 20 * time.Minute})
				}
				ctx, cancel := context.WithCancel(t.Context())
				for _, p := range all {
					for i := range 30 {
						governor.Submit(ctx, p.With(governor.Ask{Tenant: string(rune('a' + i%3))}), "", governor.Func(func(context.Context) (int, error) { return 1, nil }))
					}
				}
				time.Sleep(10 * time.Second) // what there is has been used
				mu.Lock()
				clear(asked)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				for k, n := range asked {
					if n > 2*60 {
						t.Errorf("%s: %d exchanges in a minute, want two a second at most", k, n)
					}
				}
				mu.Unlock()
				cancel()
				end(t, all)
			})
		})
	}
}

// byKey counts exchanges.
type byKey struct {
	store.Store
	id    int
	mu    *sync.Mutex
	asked map[string]int
}

func (b byKey) Exchange(ctx context.Context, n store.Node, items []store.Item) ([]store.Answer, error) {
	b.mu.Lock()
	for _, it := range items {
		b.asked[fmt.Sprint(b.id, " ", it.Key)]++
	}
	b.mu.Unlock()
	return b.Store.Exchange(ctx, n, items)
}
