package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// Which calls end first does not tell which lease they are of; when they took does.
func TestPermitsOfAnEarlierLeaseDoNotComeBackInAnyOrder(t *testing.T) {
	for _, kind := range []store.Kind{store.Window, store.Sliding} {
		for _, dated := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := syncer(t, store.SyncerConfig{Store: memory(t)})
				defer s.Close()
				sh := share(t, s, store.Limit{Kind: kind, Quota: 100, Per: time.Minute, Transit: -1})
				take := func(most int) (taken []time.Time) {
					for range 1000 {
						if now := time.Now(); len(taken) < most && sh.Wait(now, "", 1) == 0 {
							sh.Take(now, "", 1)
							taken = append(taken, now)
						}
						time.Sleep(100 * time.Microsecond)
					}
					return taken
				}
				settle := func(taken []time.Time, used int) {
					for _, at := range taken {
						if dated {
							sh.SettleAt(time.Now(), at, "", 1, used)
						} else {
							sh.Settle(time.Now(), "", 1, used)
						}
					}
				}
				first := take(10)
				time.Sleep(3 * time.Minute)
				second := take(1000)
				if len(first) != 10 || len(second) < 50 {
					t.Fatalf("%v: %d and %d taken", kind, len(first), len(second))
				}
				settle(second, 1)
				settle(first, 0)
				if more := take(1000); len(second)+len(more) > 100 {
					t.Errorf("%v, dated %t: %d permits in a period, and %d more for calls of one that is over", kind, dated, len(second), len(more))
				}
			})
		}
	}
}

// takes takes what sh has within d, one by one, and says when it took the last.
func takes(sh *store.Share, d time.Duration) (n int, last time.Time) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if now := time.Now(); sh.Claim(now, "", 1) == 0 {
			n, last = n+1, now
		}
	}
	return n, last
}

// A call that cost nothing gives its permit back while others of before are under way, if
// it is known when it took it.
func TestPermitsOfTheLastLeaseComeBackBesideEarlierCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour, Transit: -1})
		if n, _ := takes(sh, time.Second); n != 10 {
			t.Fatalf("%d of 10 taken", n)
		}
		time.Sleep(time.Hour) // they are all under way
		n, last := takes(sh, time.Second)
		if n != 10 {
			t.Fatalf("%d of 10 taken in the next hour", n)
		}
		sh.SettleAt(time.Now(), last, "", 1, 0)
		if n, _ := takes(sh, time.Second); n != 1 {
			t.Errorf("%d permits for one that came back", n)
		}
	})
}

// What was taken beyond any lease, as who only observes does, gives nothing back to one.
func TestPermitsOfNoLeaseDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour, Transit: -1})
		for range 10000 {
			if now := time.Now(); sh.Wait(now, "", 1) == 0 {
				sh.Take(now, "", 1)
				sh.Settle(now, "", 1, 1)
			}
			time.Sleep(100 * time.Microsecond)
		}
		now := time.Now()
		if sh.Wait(now, "", 1) == 0 {
			t.Fatal("there are more than 10")
		}
		sh.Take(now, "", 5)
		time.Sleep(time.Millisecond)
		for _, used := range []int{0, 0, 0, 0, 0} {
			sh.SettleAt(time.Now(), now, "", 1, used)
		}
		if sh.Wait(time.Now(), "", 1) == 0 {
			t.Error("a permit came back that there was not")
		}
	})
}

// Nor does what was taken so long ago that it is forgotten, beside what is under way.
func TestPermitsThatAreForgottenDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{
			Name: "acme", Store: s, NoPace: true, MaxWait: -1,
			Limits: []governor.Limit{{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 10, Per: 10 * time.Minute}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		time.Sleep(30 * time.Minute)
		all := g.With(governor.Ask{Tenant: "a", Cost: 10})
		begin := func(d time.Duration, cost int) (*governor.Request[int], time.Time) {
			began := make(chan time.Time, 1)
			r := governor.Submit(t.Context(), all, "", governor.Func(func(ctx context.Context) (int, error) {
				began <- time.Now()
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 0, governor.Settle(ctx, cost)
			}))
			return r, <-began
		}
		stream, began := begin(45*time.Minute, 0)
		time.Sleep(time.Until(began.Add(45*time.Minute - 3*time.Second)))
		_, second := begin(30*time.Minute, 10)
		if _, err := stream.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, third := begin(0, 10); third.Sub(second) < 10*time.Minute {
			t.Errorf("20 permits of 10 in ten minutes were used within %v", third.Sub(second))
		}
	})
}

// What a call cost more is charged however long it has run, though its key is forgotten.
func TestWhatALongCallCostsMoreIsCharged(t *testing.T) {
	for _, d := range []time.Duration{14 * time.Minute, 16 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			l := store.Limit{Kind: store.Window, Quota: 100, Per: 24 * time.Hour}
			mk := func() (*store.Syncer, *store.Share) {
				s := syncer(t, store.SyncerConfig{Store: m})
				sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{l}})
				if err != nil {
					t.Fatal(err)
				}
				return s, sh
			}
			s1, a := mk()
			defer s1.Close()
			s2, b := mk()
			defer s2.Close()
			used := 0
			for a.Claim(time.Now(), "x", 1) != 0 {
				time.Sleep(time.Millisecond)
			}
			taken := time.Now()
			time.Sleep(d) // a stream
			a.SettleAt(time.Now(), taken, "x", 1, 60)
			used += 60
			time.Sleep(5 * time.Second)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if b.Claim(time.Now(), "x", 1) == 0 {
					b.Settle(time.Now(), "x", 1, 1)
					used++
				}
			}
			if used > 100 {
				t.Errorf("call of %v: %d of 100 permits used in one window", d, used)
			}
		})
	}
}

// A store that keeps no quota need not hear of what calls cost.
func TestWhatCallsCostWithoutALimitCostsNoExchange(t *testing.T) {
	for _, cost := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			var count counting
			s := syncer(t, store.SyncerConfig{Store: count.wrap(memory(t))})
			defer s.Close()
			g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, NoPace: true})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			time.Sleep(10 * time.Second)
			before := count.n.Load()
			for range 1000 {
				governor.Do(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) { return 0, governor.Settle(ctx, cost) }))
				time.Sleep(10 * time.Millisecond)
			}
			if n := count.n.Load() - before; n > 1 {
				t.Errorf("cost %d: %d exchanges in 10 s", cost, n)
			}
		})
	}
}

// Nor does what has passed in an outage.
func TestPermitsOfAnOutageDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := syncer(t, store.SyncerConfig{Outage: store.Open, Store: &faulty{Store: memory(t), fate: func() fate {
			if down.Load() {
				return lost
			}
			return arrives
		}}})
		defer s.Close()
		sh := share(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Hour, Transit: -1})
		if n, _ := takes(sh, time.Second); n != 10 {
			t.Fatalf("%d of 10 taken", n)
		}
		down.Store(true)
		time.Sleep(time.Minute)
		n, last := takes(sh, time.Second)
		if n < 100 {
			t.Fatalf("%d passed in the outage", n)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		sh.SettleAt(time.Now(), last, "", 1, 0)
		if sh.Wait(time.Now(), "", 1) == 0 {
			t.Error("a permit came back that there was not")
		}
	})
}

// The same through a governor, whose calls take by the limit of a Store.
func TestWhatAnEarlierHourGivesBackIsNotUsedInALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{
			Name: "acme", NoPace: true, Workers: 64, Store: s, StuckAfter: -1, MaxWait: -1,
			Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 100, Per: time.Hour}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Second)))
		free := make(chan struct{})
		for range 5 {
			governor.Submit(t.Context(), g, "", governor.Func(func(ctx context.Context) (int, error) {
				<-free
				return 0, governor.Settle(ctx, 0)
			}))
		}
		time.Sleep(2 * time.Hour)
		if n := g.Stats().InFlight; n != 5 {
			t.Fatalf("%d run", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		for range 200 {
			governor.Submit(ctx, g, "", governor.Func(func(context.Context) (int, error) { calls.Add(1); return 0, nil }))
		}
		time.Sleep(10 * time.Second)
		close(free)
		time.Sleep(10 * time.Second)
		if n := calls.Load(); n < 90 || n > 100 {
			t.Errorf("%d calls in an hour, of 100", n)
		}
		cancel()
		time.Sleep(time.Second)
	})
}
