package store_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyball-go/flyball/store"
)

// A process that has just begun may be the next life of one that used its part.
func TestAPartOfItsOwnBeginsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &faulty{Store: memory(t), fate: func() fate { return lost }}
		s := syncer(t, store.SyncerConfig{Store: m, Outage: store.SafeShare, Nodes: 2})
		defer s.Close()
		sh := share(t, s, store.Limit{Quota: 100, Per: time.Second, Transit: -1})
		if sh.Wait(time.Now(), "", 1) == 0 {
			t.Error("a part that another life may have used")
		}
		time.Sleep(1100 * time.Millisecond)
		if sh.Wait(time.Now(), "", 1) != 0 {
			t.Error("no part when a Per is over")
		}
	})
}

// parted is a Syncer with a part of its own, for two processes, whose store answers until
// it is down.
func parted(t *testing.T, m store.Store, outage store.Outage, down *atomic.Bool) *store.Syncer {
	s := syncer(t, store.SyncerConfig{
		Store: &faulty{Store: m, fate: func() fate {
			if down.Load() {
				return lost
			}
			return arrives
		}},
		Outage: outage, Nodes: 2, Timeout: 100 * time.Millisecond,
	})
	t.Cleanup(func() { s.Close() })
	return s
}

// version is a Share of a Version.
func version(t *testing.T, s *store.Syncer, v uint64, limits ...store.Limit) *store.Share {
	t.Helper()
	sh, err := s.Share(store.ShareConfig{Name: "acme", Limits: limits, Version: v})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// passes is how many permits there are just now.
func passes(sh *store.Share) (n int) {
	for ; n < 1000 && sh.Wait(time.Now(), "", 1) == 0; n++ {
		sh.Take(time.Now(), "", 1)
		sh.Settle(time.Now(), "", 1, 1)
	}
	return n
}

// exchanges has each of them ask the store, and hear of what is in force.
func exchanges(all ...*store.Share) {
	for range 3 {
		for _, sh := range all {
			passes(sh)
		}
		time.Sleep(time.Second)
	}
}

func perSecond(quota int64) store.Limit {
	return store.Limit{Quota: quota, Per: time.Second, Transit: -1}
}

// Who has another limit than is in force has no part of it: the store keeps nothing back
// for him.
func TestAPartIsOneOfTheLimitsInForce(t *testing.T) {
	for _, tc := range []struct {
		name      string
		others    store.Outage // the other process, who changes the limits
		quota     int64
		version   uint64
		mine, his int // passes after a long time without the store
	}{
		{"the same", store.SafeShare, 100, 1, 10, 10},
		{"lowered by a later version", store.SafeShare, 20, 2, 0, 2},
		{"raised by a later version", store.SafeShare, 1000, 2, 0, 100},
		{"all of it is granted to others of the same version", store.Closed, 100, 1, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memory(t)
				var down atomic.Bool
				his := version(t, parted(t, m, tc.others, &down), tc.version, perSecond(tc.quota))
				exchanges(his)
				mine := version(t, parted(t, m, store.SafeShare, &down), 1, perSecond(100))
				exchanges(his, mine)
				down.Store(true)
				time.Sleep(10 * time.Second)
				if a, b := passes(mine), passes(his); a != tc.mine || b != tc.his {
					t.Errorf("without the store %d and %d pass at once, want %d and %d", a, b, tc.mine, tc.his)
				}
			})
		})
	}
}

// A Share of a later Version changes the part of keys that are in use.
func TestAPartIsLoweredWithTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := parted(t, memory(t), store.SafeShare, &down)
		sh := version(t, s, 1, perSecond(100))
		exchanges(sh)
		down.Store(true)
		time.Sleep(10 * time.Second)
		if n := passes(sh); n != 10 {
			t.Errorf("%d pass without the store, want a tenth", n)
		}
		version(t, s, 2, perSecond(20))
		time.Sleep(10 * time.Second)
		if n := passes(sh); n != 0 {
			t.Errorf("%d pass before the store has heard of the new limit, want none", n)
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		exchanges(sh)
		down.Store(true)
		time.Sleep(10 * time.Second)
		if n := passes(sh); n != 2 {
			t.Errorf("%d pass without the store, want a tenth of the new limit", n)
		}
	})
}

// What others were granted before a part came into force may have been all of the quota.
func TestAPartComesIntoForceUsed(t *testing.T) {
	for _, l := range []store.Limit{perSecond(100), {Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: 40, Transit: -1}} {
		synctest.Test(t, func(t *testing.T) {
			m := memory(t)
			var down atomic.Bool
			his := version(t, parted(t, m, store.Closed, &down), 1, l)
			exchanges(his)
			s := parted(t, m, store.SafeShare, &down)
			mine := version(t, s, 1, l)
			exchanges(his, mine)
			version(t, s, 2, l)
			start := time.Now()
			for mine.Wait(time.Now(), "", 30) > 0 { // it asks, and is answered
				time.Sleep(time.Millisecond)
			}
			down.Store(true)
			granted := passes(mine)
			for time.Since(start) < 10*time.Second && passes(mine) == 0 {
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(start); granted < 30 || d < time.Second || d > 2*time.Second {
				t.Errorf("%s: %d were granted, and of its part the first passes %v after its limit came into force; want 30, and a window and little more", l.Kind, granted, d)
			}
		})
	}
}

// What a Bucket spreads its parts do, too.
func TestAPartOfABucketIsSpread(t *testing.T) {
	for _, tc := range []struct {
		burst          int64
		once, inSecond int
	}{
		{100, 10, 10}, // of which it spreads nothing
		{40, 4, 9},
		{8, 1, 9},
		{4, 1, 9},
		{2, 0, 0}, // too little to part
	} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			s := parted(t, memory(t), store.SafeShare, &down)
			sh := version(t, s, 1, store.Limit{Kind: store.Bucket, Quota: 100, Per: time.Second, Burst: tc.burst, Transit: -1})
			exchanges(sh)
			down.Store(true)
			time.Sleep(10 * time.Second)
			once := passes(sh)
			all := once
			for end := time.Now().Add(time.Second - time.Microsecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
				all += passes(sh)
			}
			if once != tc.once || all < tc.inSecond || all > 10 {
				t.Errorf("of a burst of %d %d pass at once and %d in a second, want %d and %d to 10", tc.burst, once, all, tc.once, tc.inSecond)
			}
		})
	}
}
