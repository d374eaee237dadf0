package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// perKey is a Store that does not execute some items, each by itself.
type perKey struct {
	store.Store
	fails func(key string) error
}

func (p perKey) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	as := make([]store.Answer, len(items))
	for i, it := range items {
		if err := p.fails(it.Key); err != nil {
			as[i] = store.Answer{Node: node, Key: it.Key, Seq: it.Seq, Err: err}
			continue
		}
		one, err := p.Store.Exchange(ctx, node, items[i:i+1])
		if err != nil {
			return nil, err
		}
		as[i] = one[0]
	}
	return as, nil
}

// patient returns what claims n permits of key as a governor does: it asks again when it is
// woken, or when it was told to, and not before. It returns how long that took, and whether
// there were.
func patient(sh *store.Share, key string, n int) func(most time.Duration) (time.Duration, bool) {
	woken := make(chan struct{}, 1)
	sh.OnChange(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	return func(most time.Duration) (time.Duration, bool) {
		start := time.Now()
		for time.Since(start) < most {
			wait := sh.Claim(time.Now(), key, n)
			if wait == 0 {
				return time.Since(start), true
			}
			select {
			case <-woken:
			case <-time.After(min(wait, most)):
			}
		}
		return time.Since(start), false
	}
}

// Of a key that did not answer, and then was refused for want of room, who waits hears when
// there is room.
func TestWhoWaitsHearsOfRoomThatComesAfterALoss(t *testing.T) {
	for _, first := range []error{errNetwork, store.ErrTooMany} {
		t.Run(first.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				s := syncer(t, store.SyncerConfig{Store: perKey{memory(t), func(string) error {
					switch d := time.Since(start); {
					case d < 3*time.Second:
						return first
					case d < 20*time.Second:
						return store.ErrTooMany
					}
					return nil
				}}})
				defer s.Close()
				claim := patient(perTenant(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}), "x", 1)
				if d, ok := claim(time.Hour); !ok || d > 25*time.Second {
					t.Errorf("%v after %v, with room after 20s", ok, d)
				}
			})
		})
	}
}

// cooled is a Share of a store through which another process has told of a pause.
func cooled(t *testing.T, m *store.Memory, s *store.Syncer, l store.Limit, pause time.Duration) (claim func(time.Duration) (time.Duration, bool)) {
	t.Helper()
	sh := share(t, s, l)
	other := syncer(t, store.SyncerConfig{Store: m})
	t.Cleanup(func() { other.Close() })
	g := quiet(t, "acme")
	t.Cleanup(func() { g.Close() })
	t.Cleanup(other.Join(g))
	claim = patient(sh, "", 1)
	if _, ok := claim(time.Minute); !ok {
		t.Fatal("there is no first permit")
	}
	sh.Settle(time.Now(), "", 1, 1)
	if pause > 0 {
		g.Learn(throttle.Signal{Delay: pause})
		time.Sleep(100 * time.Millisecond)
		if sh.Wait(time.Now(), "", 1) == 0 {
			t.Fatal("nothing is heard of the pause")
		}
	}
	return claim
}

// A key that is refused in a cooldown is asked for again, however long that goes on.
func TestWhoWaitsInACooldownHearsOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 20 * time.Minute // longer than what is not asked for is known
		m := memory(t)
		var full atomic.Bool
		s := syncer(t, store.SyncerConfig{Store: perKey{m, func(string) error {
			if full.Load() {
				return store.ErrTooMany
			}
			return nil
		}}})
		defer s.Close()
		claim := cooled(t, m, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}, 10*time.Second)
		full.Store(true)
		time.AfterFunc(away, func() { full.Store(false) })
		if d, ok := claim(3 * time.Hour); !ok || d > away+10*time.Second {
			t.Errorf("%v after %v, with room after %v", ok, d, away)
		}
	})
}

// hanging refuses a batch of bad alone, and answers nothing else, from some time on.
type hanging struct {
	store.Store
	now atomic.Bool
	bad string
}

func (h *hanging) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if !h.now.Load() {
		return h.Store.Exchange(ctx, node, items)
	}
	if len(items) == 1 && items[0].Key == h.bad {
		return nil, errNetwork
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Of a store that is lost, as another key's exchange has said, nobody waits for more than an
// Interval where calls go on without it: also after a cooldown.
func TestALostStoreHoldsNobodyUpForItsTimeouts(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in quiet": 0, "after a cooldown": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				h := &hanging{Store: m, bad: store.KeyFor("bad", throttle.Scope{}.String())}
				s := syncer(t, store.SyncerConfig{Store: h, Outage: store.Open})
				defer s.Close()
				bad, err := s.Share(store.ShareConfig{Name: "bad", Limits: []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Second}}})
				if err != nil {
					t.Fatal(err)
				}
				claim := cooled(t, m, s, store.Limit{Kind: store.Window, Quota: 1, Per: 100 * time.Second}, pause)
				time.Sleep(pause)
				h.now.Store(true)
				bad.Wait(time.Now(), "", 1)
				time.Sleep(60 * time.Millisecond)
				if d, ok := claim(time.Minute); !ok || d > time.Second { // an Interval
					t.Errorf("%v after %v", ok, d)
				}
			})
		})
	}
}

// garbled answers nonsense while it is bad.
type garbled struct {
	store.Store
	bad atomic.Bool
}

func (g *garbled) Exchange(ctx context.Context, node store.Node, items []store.Item) ([]store.Answer, error) {
	if !g.bad.Load() {
		return g.Store.Exchange(ctx, node, items)
	}
	as := make([]store.Answer, len(items))
	for i, it := range items {
		as[i] = store.Answer{Node: node, Key: it.Key, Seq: it.Seq}
	}
	return as, nil
}

// Whoever waits for another process's probe is not forgotten, however long the store talks
// nonsense meanwhile.
func TestWhoWaitsForAnothersProbeHearsWhenTheStoreIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 20 * time.Minute
		m := memory(t)
		g := &garbled{Store: m}
		s := syncer(t, store.SyncerConfig{Store: g})
		defer s.Close()
		l := store.Limit{Kind: store.Window, Quota: 10, Per: time.Second}
		claim := cooled(t, m, s, l, time.Second)
		prober := syncer(t, store.SyncerConfig{Store: m})
		defer prober.Close()
		if _, ok := patient(share(t, prober, l), "", 1)(time.Minute); !ok {
			t.Fatal("nobody has the probe")
		}
		claim(time.Second) // hears of that
		g.bad.Store(true)
		time.AfterFunc(away, func() { g.bad.Store(false) })
		if d, ok := claim(3 * time.Hour); !ok || d > away+10*time.Second {
			t.Errorf("%v after %v, with a store that is well after %v", ok, d, away)
		}
	})
}

// Nor does a Syncer that is closed meanwhile let anything pass, or have anybody ask without
// a pause.
func TestAClosedSyncerOfALostStoreLetsNothingPass(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in quiet": 0, "after a cooldown": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				h := &hanging{Store: m}
				s := syncer(t, store.SyncerConfig{Store: h})
				l := store.Limit{Kind: store.Window, Quota: 1, Per: time.Hour}
				claim := cooled(t, m, s, l, pause)
				sh := share(t, s, l)
				h.now.Store(true)
				claim(20 * time.Second) // which is lost by then
				s.Close()
				for range 3 {
					if wait := sh.Claim(time.Now(), "", 1); wait < time.Second {
						t.Errorf("closed, it says %v of what is used up", wait)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A large need, too, that was refused for long, while it is asked for a smaller one.
func TestALargeNeedHearsOfALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory(t)
		h := &hanging{Store: m, bad: store.KeyFor("bad", throttle.Scope{}.String())}
		s := syncer(t, store.SyncerConfig{Store: h, Outage: store.Open})
		defer s.Close()
		l := store.Limit{Kind: store.Window, Quota: 10, Per: 10 * time.Minute}
		bad, err := s.Share(store.ShareConfig{Name: "bad", Limits: []store.Limit{l}})
		if err != nil {
			t.Fatal(err)
		}
		large, small := share(t, s, l), share(t, s, l)
		other := syncer(t, store.SyncerConfig{Store: m})
		defer other.Close()
		use := patient(share(t, other, l), "", 1)
		for range 10 {
			use(time.Minute)
		}
		large.Wait(time.Now(), "", 8)
		time.Sleep(100 * time.Millisecond)
		if wait := large.Wait(time.Now(), "", 8); wait < time.Minute || wait == limiter.Unsure {
			t.Fatalf("it is refused for %v", wait)
		}
		claim := patient(large, "", 8)
		h.now.Store(true)
		bad.Wait(time.Now(), "", 1)
		time.Sleep(time.Millisecond)
		small.Wait(time.Now(), "", 1)
		if d, ok := claim(time.Minute); !ok || d > 1100*time.Millisecond { // an Interval after it was lost
			t.Errorf("%v after %v", ok, d)
		}
	})
}

// A key that was refused, and passes by Outage Open, is asked for each Interval: no more pass
// when there is room.
func TestARefusedKeyThatPassesIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		s := syncer(t, store.SyncerConfig{Outage: store.Open, Store: perKey{memory(t), func(string) error {
			if full.Load() {
				return store.ErrTooMany
			}
			return nil
		}}})
		defer s.Close()
		sh := perTenant(t, s, store.Limit{Kind: store.Window, Quota: 5, Per: time.Hour})
		calls := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if now := time.Now(); sh.Claim(now, "x", 1) == 0 {
					sh.SettleAt(now, now, "x", 1, 1)
					n++
				}
			}
			return n
		}
		if n := calls(2 * time.Second); n == 0 {
			t.Fatal("nothing passes")
		}
		full.Store(false)
		calls(1100 * time.Millisecond) // an Interval
		if n := calls(time.Minute); n > 5 {
			t.Errorf("%d calls of 5 an hour, when there is room", n)
		}
	})
}

// The first limit of a name holds from the moment at which it is told.
func TestLimitsHoldAtOnceWhereThereWereNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh, err := s.Share(store.ShareConfig{Name: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := patient(sh, "", 1)(time.Minute); !ok {
			t.Fatal("nothing passes without limits")
		}
		time.Sleep(5 * time.Second)
		if _, err := s.Share(store.ShareConfig{Name: "acme", Version: 2, Limits: []store.Limit{{Kind: store.Window, Quota: 5, Per: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range 6000 {
			if now := time.Now(); sh.Claim(now, "", 1) == 0 {
				n++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n != 5 {
			t.Errorf("%d calls in a minute, of 5 an hour", n)
		}
	})
}

// By SafeShare, too, a call that has a latest start waits for what the store says: when it
// may have its own part is no earliest time.
func TestACallWithADeadlineWaitsForTheStoreBySafeShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t), Outage: store.SafeShare, Nodes: 2})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{
			Name: "acme", Store: s, Limits: []governor.Limit{{Quota: limiter.QuotaConfig{Limit: 100, Per: time.Minute}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		time.Sleep(3 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if _, err := governor.Do(ctx, g, "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err != nil {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// asked counts how often an owner of a limit is woken, and asks it.
type asked struct {
	limiter.Limiter
	woken, asks *atomic.Int64
}

func (a asked) OnChange(fn func()) {
	a.Limiter.(limiter.Notifier).OnChange(func() { a.woken.Add(1); fn() })
}

func (a asked) Wait(now time.Time, key string, n int) time.Duration {
	a.asks.Add(1)
	return a.Limiter.Wait(now, key, n)
}

func (a asked) Claim(now time.Time, key string, n int) time.Duration {
	a.asks.Add(1)
	return a.Limiter.(limiter.Claimer).Claim(now, key, n)
}

// Many keys that are refused, each by itself, are asked for together, and who waits for them is
// woken a few times in an Interval, not for each.
func TestManyRefusedKeysCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, owners, secs = 300, 2, 5
		var woken, asks, exchanges atomic.Int64
		s := syncer(t, store.SyncerConfig{Store: &faulty{count: &exchanges, Store: perKey{memory(t), func(string) error { return store.ErrTooMany }}}})
		defer s.Close()
		for range owners {
			sh := perTenant(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Second})
			g, err := governor.New(governor.PlainConfig{Name: "acme", MaxWait: -1, Limits: []governor.Limit{{Per: throttle.Tenant, Limiter: asked{sh, &woken, &asks}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			for i := range keys {
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
			}
		}
		time.Sleep(5 * time.Second)
		w, a, e := woken.Load(), asks.Load(), exchanges.Load()
		time.Sleep(secs * time.Second)
		w, a, e = (woken.Load()-w)/secs, (asks.Load()-a)/secs, (exchanges.Load()-e)/secs
		if w < 1 || w > 5*owners || a > 5*keys*owners || e > 40 {
			t.Errorf("in a second: woken %d times, %d asks of %d keys and %d owners, %d exchanges", w, a, keys, owners, e)
		}
	})
}
