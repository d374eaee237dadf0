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

// callers are tenants of a governor with a limit of each, whose Syncer knows four of them.
func callers(t *testing.T, cfg store.SyncerConfig, quota limiter.QuotaConfig) (call func(tenant string, patience time.Duration) error, end func()) {
	t.Helper()
	cfg.MaxKeys = 4
	s := syncer(t, cfg)
	g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, Limits: []governor.Limit{{Per: throttle.Tenant, Quota: quota}}})
	if err != nil {
		t.Fatal(err)
	}
	return func(tenant string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := governor.Do(ctx, g.With(governor.Ask{Tenant: tenant}), "", governor.Func(func(context.Context) (int, error) { return 0, nil }))
		return err
	}, func() { g.Close(); s.Close() }
}

// Tenants who have used up their quota of a day, and gave up, leave their room to one who has
// some; those who still wait have theirs when it comes.
func TestWhoHasGivenUpTakesNobodysRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, end := callers(t, store.SyncerConfig{Store: &faulty{Store: memory(t), delay: func() time.Duration { return time.Millisecond }}}, limiter.QuotaConfig{Limit: 1, Per: 24 * time.Hour})
		defer end()
		for i := range 4 {
			if err := call(fmt.Sprint(i), time.Second); err != nil {
				t.Error(err)
			}
		}
		waits := make(chan error, 1)
		go func() { waits <- call("0", 25*time.Hour) }()
		for i := range 3 {
			if err := call(fmt.Sprint(i+1), time.Second); err == nil {
				t.Error("no limit")
			}
		}
		time.Sleep(10 * time.Minute)
		for i := range 8 {
			if err := call(fmt.Sprint("new", i), time.Minute); err != nil {
				t.Errorf("new tenant %d: %v", i, err)
			}
			if err := call(fmt.Sprint("new", i), time.Second); err == nil {
				t.Error("no limit")
			}
			time.Sleep(10 * time.Second)
		}
		if err := <-waits; err != nil {
			t.Errorf("who waits for the next day: %v", err)
		}
	})
}

// As long as the store is away, a tenant who went long ago takes nobody's room.
func TestWhoWentInAnOutageTakesNobodysRoom(t *testing.T) {
	for _, outage := range []store.Outage{store.Open, store.SafeShare} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away := &faulty{Store: memory(t), fate: func() fate { return lost }}
				call, end := callers(t, store.SyncerConfig{Store: away, Outage: outage, Nodes: 2}, limiter.QuotaConfig{Limit: 100, Per: time.Second})
				defer end()
				for i := range 8 {
					if err := call(fmt.Sprint(i), 10*time.Second); err != nil {
						t.Errorf("tenant %d: %v", i, err)
					}
					time.Sleep(10 * time.Minute)
				}
			})
		})
	}
}

// Nor does one for whom the engine had none.
func TestWhoHadNoRoomTakesNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: small(t, 1, 0), MaxKeys: 4})
		defer s.Close()
		sh := perTenant(t, s, store.Limit{Kind: store.Window, Quota: 1000, Per: 24 * time.Hour})
		call := func(key string) bool {
			for range 200 {
				if now := time.Now(); sh.Claim(now, key, 1) == 0 {
					sh.SettleAt(now, now, key, 1, 1)
					return true
				}
				time.Sleep(10 * time.Millisecond)
			}
			return false
		}
		if !call("a") {
			t.Error("there is no room for one")
		}
		time.Sleep(20 * time.Second)
		for i := range 4 {
			if call(fmt.Sprint(i)) {
				t.Error("the engine had room")
			}
		}
		if time.Sleep(time.Minute); sh.Keys() > 0 {
			t.Errorf("%d keys are left of who has gone", sh.Keys())
		}
		if !call("a") {
			t.Error("who has room in the engine has none here")
		}
	})
}

// Of a part of the store that does not answer, who has gone takes nobody's room, and who waits
// has his when it does.
func TestWhoWentWhileAPartIsAwayTakesNobodysRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		dead := make(map[string]bool)
		for i := range 4 {
			dead[store.KeyFor("acme", throttle.Scope{Level: throttle.Tenant, Key: fmt.Sprint("away", i)}.String())] = true
		}
		call, end := callers(t, store.SyncerConfig{Store: perKey{memory(t), func(key string) error {
			if dead[key] && !back.Load() {
				return errNetwork
			}
			return nil
		}}}, limiter.QuotaConfig{Limit: 10, Per: time.Second})
		defer end()
		waits := make(chan error, 1)
		go func() { waits <- call("away0", 25*time.Hour) }()
		for i := range 3 {
			if err := call(fmt.Sprint("away", i+1), time.Second); err == nil {
				t.Error("a part that is away answers")
			}
		}
		time.Sleep(10 * time.Minute)
		for i := range 8 {
			if err := call(fmt.Sprint("new", i), 10*time.Second); err != nil {
				t.Errorf("new tenant %d: %v", i, err)
			}
		}
		back.Store(true)
		start := time.Now()
		if err := <-waits; err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("who waited for the part, %v after it is back: %v", time.Since(start), err)
		}
	})
}

// Nor do keys of Slots, as long as the store is away.
func TestWhoUsesNoSlotInAnOutageTakesNobodysRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{
			Store: &faulty{Store: memory(t), fate: func() fate { return lost }}, Outage: store.Open, MaxKeys: 4,
		})
		defer s.Close()
		l, err := s.Slots(store.SlotsConfig{Name: "acme", Per: throttle.Tenant, Max: 2})
		if err != nil {
			t.Fatal(err)
		}
		claim := func(key string) bool {
			for range 100 {
				if l.Claim(time.Now(), key, 1) == 0 {
					return true
				}
				time.Sleep(100 * time.Millisecond)
			}
			return false
		}
		if !claim("runs") {
			t.Fatal("nothing passes")
		}
		for i := range 12 {
			if key := fmt.Sprint(i); !claim(key) {
				t.Errorf("there is no room for key %d", i)
			} else {
				l.Release(time.Now(), key, 1)
			}
			time.Sleep(time.Minute)
		}
		if !claim("runs") || claim("runs") {
			t.Error("of what runs it is not known any more that it does")
		}
	})
}

// Who waits for long, too, as for the next hour's quota, makes room for who comes: he was told
// when to ask again, and his key is made anew then.
func TestWhoWaitsForLongTakesNobodysRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := syncer(t, store.SyncerConfig{Store: memory(t), MaxKeys: 4})
		defer s.Close()
		g, err := governor.New(governor.PlainConfig{Name: "acme", Store: s, MaxWait: -1, Limits: []governor.Limit{
			{Per: throttle.Tenant, Quota: limiter.QuotaConfig{Limit: 2, Per: time.Hour}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		call := governor.Func(func(context.Context) (int, error) { return 0, nil })
		for i := range 4 {
			for range 3 { // the third waits for an hour
				governor.Submit(t.Context(), g.With(governor.Ask{Tenant: fmt.Sprint(i)}), "", call)
			}
			time.Sleep(time.Second)
		}
		start := time.Now()
		if _, err = governor.Do(t.Context(), g.With(governor.Ask{Tenant: "new"}), "", call); err != nil || time.Since(start) > time.Minute {
			t.Errorf("a call of another tenant after %v: %v", time.Since(start), err)
		}
	})
}
