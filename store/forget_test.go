package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/governor"
	"github.com/flyball-go/flyball/governor/governortest"
	"github.com/flyball-go/flyball/internal/effort"
	"github.com/flyball-go/flyball/limiter"
	"github.com/flyball-go/flyball/store"
	"github.com/flyball-go/flyball/throttle"
)

// What is evicted, or made again, goes on with the same shares.
func TestGovernorsWithAStoreAreEvicted(t *testing.T) {
	for name, limits := range map[string][]governor.Limit{
		"slots":   {},
		"a gate":  nil,
		"a limit": {{Quota: limiter.QuotaConfig{Limit: 5, Per: time.Hour}}, {Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 100, Per: time.Hour}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := syncer(t, store.SyncerConfig{Store: memory(t), Interval: 3 * time.Second}) // there are hours to come
				defer s.Close()
				group, err := governor.NewGroup(governor.GroupConfig[string, struct{}]{
					MaxHosts: 3,
					Config: func(host string) (governor.PlainConfig, error) {
						if name == "slots" {
							slots, err := s.Slots(store.SlotsConfig{Name: host, Max: 3})
							return governor.PlainConfig{Vendor: governortest.Vendor{}, Store: s, Limits: []governor.Limit{{Limiter: slots}}}, err
						}
						return governor.PlainConfig{Vendor: governortest.Vendor{}, Store: s, NoPace: true, Limits: limits}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer group.Close()
				calls := 0
				call := func(host string) {
					t.Helper()
					g, err := group.Get(host)
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					if _, err := governor.Do(ctx, g.With(governor.Ask{Tenant: "a"}), "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err == nil {
						calls++
					}
				}
				for i := range 8 { // more than MaxHosts
					call(fmt.Sprint("host", i))
					time.Sleep(time.Minute)
				}
				if calls != 8 {
					t.Errorf("%d of 8 calls", calls)
				}
				calls = 0
				for range 15 { // evicted in between
					call("acme")
					time.Sleep(7 * time.Minute / 2)
					for host := range group.All() {
						if host == "acme" {
							time.Sleep(3 * time.Minute)
						}
					}
					for host := range group.All() {
						t.Errorf("%s is still there", host)
					}
				}
				if limited := len(limits) > 0; limited && (calls < 8 || calls > 10) || !limited && calls != 15 {
					t.Errorf("%d calls of 15 in %v, with a quota of 5 an hour", calls, 15*13*time.Minute/2)
				}
				g, err := group.Get("acme")
				if err != nil {
					t.Fatal(err)
				}
				g.Learn(throttle.Signal{Delay: 20 * time.Minute})
				time.Sleep(15 * time.Minute)
				if cools := g.Stats().Cooldowns; len(cools) != 1 {
					t.Errorf("a governor that cools was evicted: %+v", cools)
				}
				time.Sleep(time.Hour)
				for host := range group.All() {
					t.Errorf("%s is still there an hour after its cooldown", host)
				}
				time.Sleep(time.Hour)
				if n := s.Cells(); n != 0 {
					t.Errorf("the Syncer still knows of %d keys", n)
				}
			})
		})
	}
}

// A store that has lost its state hears of all cooldowns that it can keep.
func TestALostStoreHearsOfAllCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*process
		all, m := processes(t, 1, nil)
		for i := range 40 {
			all[0].Learn(throttle.Signal{Scope: throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint(i)}, Delay: time.Hour})
		}
		time.Sleep(5 * time.Second)
		m.Lose()
		time.Sleep(5 * time.Second)
		late := &process{sync: syncer(t, store.SyncerConfig{Store: m})}
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: late.sync})
		if err != nil {
			t.Fatal(err)
		}
		late.Plain = g
		all = append(all, late)
		time.Sleep(5 * time.Second)
		if cools := g.Stats().Cooldowns; len(cools) != 40 {
			t.Errorf("who has come since knows of %d cooldowns, want 40", len(cools))
		}
		end(t, all)
	})
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{w: &l.log, mu: &l.mu}, nil))
}

func (l *lines) with(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.log.String(), text)
}

// A limit that is deployed anew comes into force with a larger Version, and who
// forgets that can read it.
func TestAChangedQuotaComesIntoForce(t *testing.T) {
	const other = "other limits are in force"
	for _, tc := range []struct {
		version uint64
		most    int64 // calls in the minute
		told    int
	}{{0, 60, 1}, {2, 30, 0}} {
		t.Run(fmt.Sprint("version ", tc.version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				var log lines
				begin := func(limit int, version uint64) *process {
					p := &process{sync: syncer(t, store.SyncerConfig{Store: m, Logger: log.logger()})}
					g, err := governor.New(governor.PlainConfig{
						Name: "acme", NoPace: true, Store: p.sync,
						Limits: []governor.Limit{{Version: version, Quota: limiter.QuotaConfig{Limit: limit, Per: time.Minute}}},
					})
					if err != nil {
						t.Fatal(err)
					}
					p.Plain = g
					return p
				}
				use := func(p *process, d time.Duration) (n int64) {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					for {
						if _, err := governor.Do(ctx, p.Plain, "", governor.Func(func(context.Context) (int, error) { return 1, nil })); err != nil {
							return n
						}
						n++
					}
				}
				old := begin(60, 0)
				use(old, time.Minute)
				young := begin(30, tc.version)
				time.Sleep(2 * time.Minute)
				if n := use(young, time.Minute); n > tc.most || n < tc.most*9/10 {
					t.Errorf("%d calls in a minute, want %d", n, tc.most)
				}
				old.Learn(throttle.Signal{Delay: time.Second})
				time.Sleep(time.Minute)
				if n := log.with(other); n != tc.told {
					t.Errorf("told %d times that others are in force, want %d: %s", n, tc.told, log.log.String())
				}
				end(t, []*process{old, young})
			})
		})
	}
}

// A key of a tenant who does not come again is forgotten.
func TestNothingIsLeftOfKeysThatAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := min(100_000, effort.Times(10_000))
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{{Quota: 1000, Per: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		sh.OnChange(func() {})
		taken := make([]bool, keys)
		for range 2 {
			for i := range keys {
				key := fmt.Sprint("tenant", i)
				if !taken[i] && sh.Wait(time.Now(), key, 1) == 0 {
					taken[i] = true
					sh.Take(time.Now(), key, 1)
					if i%100 > 0 {
						sh.Settle(time.Now(), key, 1, 1+i%2)
					} // others are still running when the process has forgotten them
				}
			}
			synctest.Wait()
		}
		n := 0
		for _, ok := range taken {
			if ok {
				n++
			}
		}
		if n < keys*9/10 || s.Cells() < keys*9/10 {
			t.Errorf("%d of %d keys were used, %d are known: nothing is tested", n, keys, s.Cells())
		}
		time.Sleep(20 * time.Minute)
		if cells, ofShare, due := s.Cells(), sh.Keys(), s.Due(); cells != 0 || ofShare != 0 || due != 0 {
			t.Errorf("after 20 minutes: %d cells, %d keys of the Share, %d planned", cells, ofShare, due)
		}
	})
}

// Nobody has to guess why the first calls on a new store wait.
func TestAStoreThatGrantsNothingAtFirstIsLogged(t *testing.T) {
	const nothing = "nothing is granted at first"
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				if lost {
					m.Lose()
				}
				var log lines
				s := syncer(t, store.SyncerConfig{Store: m, Logger: log.logger()})
				defer s.Close()
				for i := range 3 {
					sh, err := s.Share(store.ShareConfig{Name: fmt.Sprint("acme", i), Limits: []store.Limit{{Quota: 10, Per: time.Hour}}})
					if err != nil {
						t.Fatal(err)
					}
					for range 12 {
						if sh.Wait(time.Now(), "", 1) == 0 {
							sh.Take(time.Now(), "", 1)
						}
						time.Sleep(time.Second)
					}
				}
				want := 0
				if lost {
					want = 1
				}
				if n := log.with(nothing); n != want {
					t.Errorf("told %d times, want %d: %s", n, want, log.log.String())
				}
			})
		})
	}
}

// What comes late of a key that is forgotten takes no room for ever.
func TestALateCostOfAForgottenKeyTakesNoRoom(t *testing.T) {
	for _, limits := range [][]store.Limit{nil, {{Kind: store.Window, Quota: 100, Per: time.Minute}}} {
		synctest.Test(t, func(t *testing.T) {
			s := syncer(t, store.SyncerConfig{Store: memory(t), MaxKeys: 1})
			defer s.Close()
			sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			claim := func(key string) (at time.Time) {
				start := time.Now()
				for at = start; sh.Claim(at, key, 1) != 0; at = time.Now() {
					time.Sleep(10 * time.Millisecond)
					if time.Since(start) > time.Hour {
						t.Fatalf("%d limits: %s may not begin for an hour", len(limits), key)
					}
				}
				return at
			}
			taken := claim("x")
			time.Sleep(20 * time.Minute)
			sh.SettleAt(time.Now(), claim("y"), "y", 1, 1)
			time.Sleep(20 * time.Minute)
			sh.SettleAt(time.Now(), taken, "x", 1, 5)
			time.Sleep(20 * time.Minute)
			claim("z")
		})
	}
}

// The clock by which a permit is taken may have been read before its key was known.
func TestACallThatHasEndedIsNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		s := syncer(t, store.SyncerConfig{Outage: store.Open, Store: &faulty{Store: memory(t), fate: func() fate {
			if away.Load() {
				return lost
			}
			return arrives
		}}})
		defer s.Close()
		sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: []store.Limit{{Kind: store.Window, Quota: 10, Per: time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		away.Store(true)
		for sh.Claim(time.Now(), "first", 1) != 0 {
			time.Sleep(10 * time.Millisecond)
		}
		sh.Settle(time.Now(), "first", 1, 1)
		if !sh.Idle(time.Now()) {
			t.Fatal("it is not idle")
		}
		now := time.Now()
		time.Sleep(time.Microsecond)
		if wait := sh.Claim(now, "x", 1); wait != 0 {
			t.Fatalf("it waits for %v", wait)
		}
		sh.SettleAt(time.Now(), now, "x", 1, 1)
		if !sh.Idle(time.Now()) {
			t.Error("a call that has ended is open")
		}
	})
}

// Who has read their clocks before the key was known, the later one first.
func TestTwoCallsThatHaveEndedAreNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Outage: store.Open, Store: &faulty{Store: memory(t), fate: func() fate { return lost }}})
		defer s.Close()
		sh := perTenant(t, s, store.Limit{Kind: store.Window, Quota: 10, Per: time.Second})
		sh.Wait(time.Now(), "first", 1)
		time.Sleep(3 * time.Second) // it is known that the store does not answer
		one := time.Now()
		time.Sleep(time.Microsecond)
		two := time.Now()
		time.Sleep(time.Microsecond)
		for _, at := range []time.Time{two, one} {
			if wait := sh.Claim(at, "x", 1); wait != 0 {
				t.Fatalf("it waits for %v", wait)
			}
		}
		for _, at := range []time.Time{two, one} {
			sh.SettleAt(time.Now(), at, "x", 1, 1)
		}
		if !sh.Idle(time.Now()) {
			t.Error("a call that has ended is open")
		}
	})
}

// A key that nobody uses is forgotten, also one that was first asked for in an outage, for more
// than there ever is, or for nothing.
func TestAKeyIsForgottenHoweverItWasFirstAskedFor(t *testing.T) {
	for _, tc := range []struct {
		outage store.Outage
		n      int
	}{{store.Open, 1}, {store.SafeShare, 1}, {store.Closed, 1}, {store.Closed, 1000}, {store.Closed, 0}} {
		t.Run(fmt.Sprint(tc.outage, tc.n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				s := syncer(t, store.SyncerConfig{Outage: tc.outage, Nodes: 2, Store: &faulty{Store: memory(t), fate: func() fate {
					if down.Load() {
						return lost
					}
					return arrives
				}}})
				defer s.Close()
				sh := perTenant(t, s, store.Limit{Kind: store.Window, Quota: 100, Per: time.Second})
				sh.Wait(time.Now(), "first", 1)
				time.Sleep(30 * time.Second)
				for _, key := range []string{"a", "b"} {
					if now := time.Now(); sh.Claim(now, key, tc.n) == 0 {
						sh.SettleAt(now, now, key, tc.n, tc.n)
					}
				}
				time.Sleep(time.Minute)
				down.Store(false)
				time.Sleep(time.Minute)
				if n := sh.Keys(); n > 0 {
					t.Errorf("%d keys are known of which nobody uses any", n)
				}
			})
		})
	}
}

// What ends when its Share is closed takes no key from the Share that comes after it.
func TestALateCostOfAClosedShareIsNotTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t)})
		defer s.Close()
		limit := store.Limit{Kind: store.Window, Quota: 100, Per: time.Minute}
		old := perTenant(t, s, limit)
		taken := time.Now()
		old.Claim(taken, "x", 1)
		time.Sleep(20 * time.Minute)
		old.Close()
		next := perTenant(t, s, limit)
		next.Wait(time.Now(), "x", 1)
		time.Sleep(time.Second)
		old.SettleAt(time.Now(), taken, "x", 1, 5)
		time.Sleep(time.Second)
		now := time.Now()
		for ; next.Claim(now, "x", 1) != 0; now = time.Now() {
			time.Sleep(10 * time.Millisecond)
		}
		next.SettleAt(now, now, "x", 1, 1)
		if time.Sleep(2 * time.Minute); next.Keys() > 0 {
			t.Error("what the next one has used is not forgotten")
		}
	})
}

func perTenant(t *testing.T, s *store.Syncer, limits ...store.Limit) *store.Share {
	t.Helper()
	sh, err := s.Share(store.ShareConfig{Name: "acme", Per: throttle.Tenant, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}
